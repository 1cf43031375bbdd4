/* Questions that want an answer before anything else. The element of HTML keeps the focus inside and gives it back. */
import { el } from "./dom.js";

function open(properties, ...children) {
	const dialog = el("dialog", properties, ...children);
	document.body.append(dialog);
	dialog.addEventListener("click", (event) => {
		if (event.target === dialog)
			dialog.close("");
	});
	const closed = new Promise((resolve) => {
		dialog.addEventListener("close", () => {
			dialog.remove();
			resolve(dialog.returnValue);
		});
	});
	dialog.showModal();
	return closed;
}

/* No button that submits: Enter in a field is to press the one that does something. */
function no(label) {
	return el("button", { type: "button", class: "quiet", on: { click: (event) => event.target.closest("dialog").close("") } }, label);
}

/* method=dialog needs no form-action. */
function form(...children) {
	return el("form", { method: "dialog" }, ...children);
}

/* True if it was said yes to. `danger` marks what can't be undone. */
export async function confirmed(title, text, yes, danger) {
	const answer = await open({ "aria-labelledby": "dialog-title" }, form(
		el("h2", { id: "dialog-title" }, title), el("p", null, text),
		el("p", { class: "buttons" },
			no("Leave it"),
			el("button", { value: "yes", class: danger ? "danger" : "primary", autofocus: true }, yes))));
	return answer === "yes";
}

export async function askToken(wasRefused) {
	const field = el("input", { type: "password", id: "token", autocomplete: "off", spellcheck: "false", required: true, autofocus: true,
		placeholder: "cupel_\u2026" });
	const answer = await open({ "aria-labelledby": "dialog-title" }, form(
		el("h2", { id: "dialog-title" }, wasRefused ? "This token is not good any more" : "Who are you?"),
		el("p", null, "This service wants a token. Make one on its host:"),
		el("pre", null, el("code", null, "cupel token create NAME --scope read,submit")),
		el("p", null, el("label", { for: "token" }, "Token"), field),
		el("p", { class: "soft" }, "It is kept for this tab only, until the tab is closed."),
		el("p", { class: "buttons" },
			no("Not now"),
			el("button", { value: "yes", class: "primary" }, "Use it"))));
	return answer === "yes" ? field.value.trim() : null;
}

export function showKeys(keys) {
	return open({ "aria-labelledby": "dialog-title" }, form(
		el("h2", { id: "dialog-title" }, "Keys"),
		el("table", { class: "keys" }, el("tbody", null, keys.map(([key, text]) =>
			el("tr", null, el("th", { scope: "row" }, el("kbd", null, key)), el("td", null, text))))),
		el("p", { class: "buttons" }, el("button", { value: "", class: "primary", autofocus: true }, "Close"))));
}
