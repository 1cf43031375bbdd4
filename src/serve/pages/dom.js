/* Elements out of names, properties and children. Whatever comes from the service is put in as text: nothing in these pages parses HTML,
 * and an address is one of ours or none at all. */

const SVG = "http://www.w3.org/2000/svg";

function setAddress(node, name, value) {
	if (/^(\/(?!\/)|#|blob:|data:image\/(png|jpeg|gif|webp);)/.test(value))
		node.setAttribute(name, value);
}

function set(node, name, value) {
	if (value === undefined || value === null || value === false)
		return;
	if (name === "on") {
		for (const [event, handler] of Object.entries(value))
			node.addEventListener(event, handler);
	} else if (name === "css") {
		for (const [property, text] of Object.entries(value))
			node.style.setProperty(property, text);
	} else if (name === "href" || name === "src") {
		setAddress(node, name, String(value));
	} else if (name === "value" || name === "checked" || name === "disabled") {
		node[name] = value;
	} else {
		node.setAttribute(name, value === true ? "" : String(value));
	}
}

function fill(node, properties, children) {
	for (const [name, value] of Object.entries(properties || {}))
		set(node, name, value);
	node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
	return node;
}

export function el(name, properties, ...children) {
	return fill(document.createElement(name), properties, children);
}

export function svg(name, attributes, ...children) {
	return fill(document.createElementNS(SVG, name), attributes, children);
}

export function put(node, ...children) {
	node.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
	return node;
}

/* Sets the text only if it is another: a screen reader is told of nothing that did not change. */
export function say(node, text) {
	if (node.textContent !== text)
		node.textContent = text;
}

/* A link to another site, in a tab of its own that learns nothing of this page; its text alone if the address is none of the web. */
export function outside(address, ...children) {
	let protocol = "";
	try {
		({ protocol } = new URL(address));
	} catch {
		/* not an address */
	}
	if (protocol !== "https:" && protocol !== "http:")
		return el("span", null, children);
	const node = el("a", { target: "_blank", rel: "noopener noreferrer" }, children);
	node.setAttribute("href", address);
	return node;
}

/* A button that can't be pressed twice while what it began is not done. */
export function button(label, properties, act) {
	const node = el("button", { type: "button", ...properties }, label);
	node.addEventListener("click", async () => {
		if (node.getAttribute("aria-disabled") === "true")
			return;
		node.setAttribute("aria-disabled", "true");
		try {
			await act(node);
		} finally {
			node.removeAttribute("aria-disabled");
		}
	});
	return node;
}

/* A table with named columns: {label, cell(row) -> node or text, number}. */
export function table(caption, columns, rows, properties) {
	const kind = (column) => (column.number ? "n" : column.kind);
	/* A group, not a region: the section around it is the landmark, often of the same name. */
	return el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption },
		el("table", properties,
			el("caption", { class: "unseen" }, caption),
			el("thead", null, el("tr", null, columns.map((c) => el("th", { scope: "col", class: kind(c) }, c.label)))),
			el("tbody", null, rows.map((row) => el("tr", null, columns.map((c, i) =>
				el(i === 0 ? "th" : "td", { scope: i === 0 ? "row" : null, class: kind(c) }, c.cell(row))))))));
}

/* Pairs of a word and what stands beside it; those without a value are left out. */
export function pairs(list) {
	return el("dl", null, list.filter(([, value]) => value !== null && value !== undefined && value !== "" && !(Array.isArray(value) && !value.length))
		.map(([name, value]) => [el("dt", null, name), el("dd", null, value)]));
}

export function section(title, properties, ...children) {
	const id = `s-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
	return el("section", { "aria-labelledby": id, ...properties }, el("h2", { id }, title), ...children);
}

/* What stands where there is nothing yet, and what to do about it. */
export function empty(title, text, command) {
	return el("div", { class: "empty" }, el("p", { class: "empty-title" }, title), text ? el("p", null, text) : null,
		command ? el("pre", null, el("code", null, command)) : null);
}
