/* A table of any length of which only what is seen is there. Rows have one height, so that where each stands is known; each is made again
 * only when its record is another object. One row is the current one: j, k and the arrows move it, and it alone is a stop of Tab. */
import { el, put, svg } from "./dom.js";
import { bytes, clean, duration, moment, name, NONE, since, who } from "./format.js";
import { badge, word } from "./causes.js";
import { bar, sparkline } from "./chart.js";

const BEYOND = 12; /* rows above and below the window */
const HEADER = 56; /* what the bar at the top covers, and a little */

export function runLink(id) {
	return `/runs/${encodeURIComponent(id)}`;
}

function memory(row) {
	const { memory_peak_bytes: peak, memory_limit_bytes: limit, spark } = row;
	if (row.state === "queued")
		return limit ? el("span", { class: "soft", title: "Asked for" }, bytes(limit)) : NONE;
	const text = `${Number.isFinite(peak) ? bytes(peak) : NONE} of ${bytes(limit)}`;
	const picture = spark && spark.length ? sparkline(spark, `Memory: ${text}`) : Number.isFinite(peak) && limit ? bar(peak / limit, `Memory: ${text}`) : null;
	return [picture, el("span", { class: "small" }, Number.isFinite(peak) ? bytes(peak) : NONE, limit ? el("span", { class: "soft" }, ` / ${bytes(limit)}`) : null)];
}

function pending(row) {
	const why = row.pending;
	if (!why)
		return null;
	return el("span", { class: "pending", title: clean(why.text, 1000) }, `waits: ${clean(why.text || why.reason, 300)}`);
}

function lasted(row) {
	if (row.state === "running")
		return since(row.started || row.submitted);
	return Number.isFinite(row.wall_usec) ? duration(row.wall_usec) : NONE;
}

function identified(row) {
	return [el("a", { class: "run-name", href: runLink(row.id), tabindex: "-1" }, name(row.name || row.id, 160)),
		el("span", { class: "under" }, el("span", { class: "narrow-state" }, badge(word(row)), " "),
			row.state === "queued" ? pending(row) : el("code", null, clean(row.id, 64)),
			row.kind === "pipeline" ? el("span", { class: "chip" }, "pipeline") : null,
			row.attempt > 1 ? el("span", { class: "chip" }, `attempt ${row.attempt}`) : null)];
}

function runtimeCell(row) {
	if (row.runtime)
		return name(row.runtime, 60);
	return row.runtime_why ? el("span", { class: "soft", title: clean(row.runtime_why, 200) }, row.kind === "pipeline" ? "by step" : "at start") : NONE;
}

const COLUMNS = [
	{ label: "State", kind: "c-state", cell: (row) => badge(word(row)) },
	{ label: "Run", kind: "c-run", cell: identified },
	{ label: "Runtime", kind: "c-runtime", cell: runtimeCell },
	{ label: "Quest", kind: "c-quest", cell: (row) => (row.quest ? name(row.quest, 80) : NONE) },
	{ label: "By", kind: "c-by", cell: (row) => who(row.submitter) },
	{ label: "Memory", kind: "c-memory", cell: memory },
	{ label: "Time", kind: "c-time", cell: lasted },
	{ label: "Since", kind: "c-at", cell: (row) => moment(row.started || row.submitted), sorts: true },
];

export class RunsTable {
	/* order: "newest" or "oldest"; on: {more(), order(), moved(row)} */
	constructor(order, on) {
		this.on = on;
		this.rows = [];
		this.nodes = new Map(); /* id -> {row, node}: those in the document */
		this.current = 0;
		this.height = 0;
		/* One cell each: a cell that spans columns which a narrow screen hides would make room for them. */
		this.above = el("tbody", { "aria-hidden": "true" }, this.aboveRow = el("tr", null, el("td")));
		this.body = el("tbody");
		this.below = el("tbody", { "aria-hidden": "true" }, this.belowRow = el("tr", null, el("td")));
		this.node = el("table", { class: "runs", "aria-label": "Runs" }, this.head(order), this.above, this.body, this.below);
		this.body.addEventListener("click", (event) => this.click(event));
		this.body.addEventListener("focusin", (event) => this.focused(event));
		this.draw = this.draw.bind(this);
		this.later = () => { this.frame ||= requestAnimationFrame(this.draw); };
		window.addEventListener("scroll", this.later, { passive: true });
		window.addEventListener("resize", this.later, { passive: true });
	}

	close() {
		window.removeEventListener("scroll", this.later);
		window.removeEventListener("resize", this.later);
		cancelAnimationFrame(this.frame);
	}

	head(order) {
		return el("thead", null, el("tr", null, COLUMNS.map((c) => el("th", { scope: "col", class: c.kind,
			"aria-sort": c.sorts ? (order === "oldest" ? "ascending" : "descending") : null },
			c.sorts ? el("button", { type: "button", class: "sort", on: { click: () => this.on.order() } }, c.label,
				el("span", { "aria-hidden": "true" }, order === "oldest" ? " \u2191" : " \u2193")) : c.label))));
	}

	/* New rows. What is on the screen stays where it is, though others came above it. */
	show(rows, total) {
		const top = this.topIndex();
		const anchor = top > 0 ? this.rows[top] : null;
		const currentId = this.rows[this.current]?.id;
		this.rows = rows;
		this.node.setAttribute("aria-rowcount", String((Number.isFinite(total) ? total : rows.length) + 1));
		const moved = currentId ? rows.findIndex((row) => row.id === currentId) : -1;
		this.current = moved >= 0 ? moved : Math.min(this.current, Math.max(0, rows.length - 1));
		this.draw();
		const now = anchor ? rows.findIndex((row) => row.id === anchor.id) : -1;
		if (now >= 0 && now !== top) {
			window.scrollBy({ top: (now - top) * this.height, behavior: "instant" });
			this.draw();
		}
	}

	/* Where the first of all rows is or would be, from the top of the window. */
	top() {
		return this.node.getBoundingClientRect().top + this.node.tHead.offsetHeight;
	}

	topIndex() {
		return this.height ? Math.max(0, Math.floor(-this.top() / this.height)) : 0;
	}

	/* The element of a row, which takes the place of the one it had if its record is another. */
	make(row, index) {
		const known = this.nodes.get(row.id);
		let node = known && known.row === row ? known.node : null;
		if (!node) {
			const hadFocus = known && known.node.contains(document.activeElement);
			node = el("tr", { "data-id": row.id }, COLUMNS.map((c) => el(c.kind === "c-run" ? "th" : "td",
				{ class: c.kind, scope: c.kind === "c-run" ? "row" : null }, c.cell(row))));
			known?.node.replaceWith(node);
			this.nodes.set(row.id, { row, node });
			if (hadFocus)
				node.querySelector("a").focus({ preventScroll: true });
		}
		node.setAttribute("aria-rowindex", String(index + 2));
		node.classList.toggle("current", index === this.current);
		node.querySelector("a").tabIndex = index === this.current ? 0 : -1;
		return node;
	}

	measure() {
		const first = this.body.firstElementChild;
		const height = first ? first.getBoundingClientRect().height : 0;
		const changed = height && height !== this.height;
		this.height = height || this.height || 44;
		return changed;
	}

	draw() {
		this.frame = 0;
		if (!this.node.isConnected)
			return;
		const height = this.height || 44;
		const seen = Math.ceil(window.innerHeight / height);
		const from = Math.max(0, Math.min(this.topIndex(), this.rows.length - seen) - BEYOND);
		const to = Math.min(this.rows.length, from + seen + 2 * BEYOND);
		const wanted = new Set(this.rows.slice(from, to).map((row) => row.id));
		const focus = this.body.contains(document.activeElement) ? document.activeElement.closest("tr").dataset.id : null;
		for (const [id, { node }] of this.nodes) {
			if (wanted.has(id))
				continue;
			node.remove();
			this.nodes.delete(id);
		}
		const nodes = this.rows.slice(from, to).map((row, i) => this.make(row, from + i));
		let at = this.body.firstElementChild;
		for (const node of nodes) {
			if (at !== node)
				this.body.insertBefore(node, at);
			else
				at = at.nextElementSibling;
		}
		this.aboveRow.style.height = `${from * height}px`;
		this.belowRow.style.height = `${(this.rows.length - to) * height}px`;
		this.above.hidden = from === 0;
		this.below.hidden = to === this.rows.length;
		if (focus && !wanted.has(focus))
			this.node.focus({ preventScroll: true });
		if (this.measure())
			this.later();
		if (to >= this.rows.length - BEYOND)
			this.on.more();
	}

	/* Moves the current row and brings it into sight. */
	move(to) {
		if (!this.rows.length)
			return;
		this.current = Math.max(0, Math.min(this.rows.length - 1, to));
		const y = this.top() + this.current * this.height;
		const first = this.node.tHead.getBoundingClientRect().height + HEADER;
		if (y < first)
			window.scrollBy({ top: y - first, behavior: "instant" });
		else if (y + this.height > window.innerHeight - 8)
			window.scrollBy({ top: y + this.height - window.innerHeight + 8, behavior: "instant" });
		this.draw();
		this.nodes.get(this.rows[this.current].id)?.node.querySelector("a").focus({ preventScroll: true });
	}

	key(event) {
		const page = Math.max(1, Math.floor(window.innerHeight / (this.height || 44)) - 4);
		const isIn = this.body.contains(document.activeElement);
		const steps = { j: 1, k: -1, ...(isIn ? { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity } : {}) };
		if (!(event.key in steps))
			return false;
		const step = steps[event.key];
		this.move(isIn ? (Number.isFinite(step) ? this.current + step : step < 0 ? 0 : this.rows.length - 1) : this.current);
		return true;
	}

	/* The whole row is its link. */
	click(event) {
		const row = event.target.closest("tr");
		if (!row || event.target.closest("a, button") || String(getSelection()))
			return;
		row.querySelector("a").dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, ctrlKey: event.ctrlKey, metaKey: event.metaKey }));
	}

	focused(event) {
		const row = event.target.closest("tr");
		const index = this.rows.findIndex(({ id }) => id === row.dataset.id);
		if (index < 0 || index === this.current)
			return;
		this.current = index;
		this.later();
	}
}

/* While the first page is on its way. */
export function skeleton() {
	return el("div", { class: "skeleton", "aria-hidden": "true" }, Array.from({ length: 8 }, () => el("div")));
}

export function emptyMark() {
	return put(svg("svg", { class: "empty-mark", viewBox: "0 0 24 24", "aria-hidden": "true" }),
		svg("path", { d: "M3 8h18l-2.6 10.2a3 3 0 0 1-2.9 2.3h-7a3 3 0 0 1-2.9-2.3z" }));
}
