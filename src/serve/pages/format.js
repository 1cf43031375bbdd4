/* Numbers, times and foreign words as people read them. */
import { el } from "./dom.js";

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export const NONE = "\u2013";

export function bytes(value) {
	if (!Number.isFinite(value))
		return NONE;
	let unit = 0;
	while (value >= 1024 && unit < UNITS.length - 1) {
		value /= 1024;
		unit++;
	}
	return `${unit === 0 || value >= 100 ? Math.round(value) : String(Math.round(value * 10) / 10)} ${UNITS[unit]}`;
}

/* Of thousandths. */
export function cpus(value) {
	return Number.isFinite(value) ? String(Math.round(value / 10) / 100) : NONE;
}

export function count(value) {
	return Number.isFinite(value) ? value.toLocaleString("en") : NONE;
}

export function percent(part) {
	return Number.isFinite(part) ? `${part > 0.995 && part < 1 ? "99" : Math.round(part * 100)} %` : NONE;
}

export function plural(number, one, many) {
	return `${count(number)} ${number === 1 ? one : many || `${one}s`}`;
}

export function duration(usec) {
	if (!Number.isFinite(usec) || usec < 0)
		return NONE;
	const s = usec / 1e6;
	if (s < 1)
		return `${Math.round(usec / 1e3)} ms`;
	if (s < 60)
		return `${s < 10 ? Math.round(s * 10) / 10 : Math.round(s)} s`;
	const all = Math.round(s);
	const two = (n) => String(n).padStart(2, "0");
	const both = (whole, word, part, lesser) => (part ? `${whole} ${word} ${two(part)} ${lesser}` : `${whole} ${word}`);
	if (all < 3600)
		return both(Math.floor(all / 60), "min", all % 60, "s");
	if (all < 86400)
		return both(Math.floor(all / 3600), "h", Math.floor((all % 3600) / 60), "min");
	return both(Math.floor(all / 86400), "d", Math.floor((all % 86400) / 3600), "h");
}

/* Memory held for a time. */
export function memoryTime(gibHours) {
	if (!Number.isFinite(gibHours))
		return NONE;
	const mib = gibHours * 1024;
	if (mib > 0 && mib < 0.1)
		return `${mib < 0.0001 ? "under 0.1" : (mib * 1024).toFixed(1)} KiB h`;
	return gibHours < 0.1 ? `${gibHours ? mib.toFixed(1) : 0} MiB h` : `${gibHours.toFixed(2)} GiB h`;
}

/* Milliseconds since 1970 of what the service says: text, or a number of seconds, milliseconds, microseconds or nanoseconds. */
export function when(value) {
	if (typeof value === "string" && value)
		return Date.parse(value);
	if (typeof value !== "number" || value <= 0)
		return NaN;
	for (const [least, scale] of [[1e17, 1e-6], [1e14, 1e-3], [1e11, 1]])
		if (value >= least)
			return value * scale;
	return value * 1000;
}

export function age(ms, now = Date.now()) {
	const s = Math.round((now - ms) / 1000);
	if (s < 5)
		return "now";
	if (s < 60)
		return `${s} s ago`;
	if (s < 3600)
		return `${Math.floor(s / 60)} min ago`;
	if (s < 86400)
		return `${Math.floor(s / 3600)} h ago`;
	if (s < 86400 * 30)
		return `${Math.floor(s / 86400)} d ago`;
	return new Date(ms).toISOString().slice(0, 10);
}

export function clock(ms) {
	return Number.isFinite(ms) ? new Date(ms).toISOString().replace("T", " ").replace("Z", " UTC") : NONE;
}

/* A moment; its text is kept true by tick(). */
export function moment(value) {
	const ms = when(value);
	if (!Number.isFinite(ms))
		return el("span", { class: "soft" }, NONE);
	return el("time", { datetime: new Date(ms).toISOString(), title: clock(ms), "data-at": ms }, age(ms));
}

/* How long something that goes on has lasted. */
export function since(value) {
	const ms = when(value);
	return Number.isFinite(ms) ? el("span", { "data-since": ms }, duration((Date.now() - ms) * 1e3)) : NONE;
}

export function tick(root) {
	const now = Date.now();
	for (const node of root.querySelectorAll("[data-at]"))
		put(node, age(Number(node.dataset.at), now));
	for (const node of root.querySelectorAll("[data-since]"))
		put(node, duration(Math.floor((now - Number(node.dataset.since)) / 1000) * 1e6));
}

function put(node, text) {
	if (node.textContent !== text)
		node.textContent = text;
}

const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])/g;

/* A foreign name: what would not be seen or would turn the line around is written out, and it ends somewhere. */
export function clean(text, most = 200) {
	const whole = String(text ?? "");
	const shown = whole.slice(0, most).replace(HIDDEN, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
	return whole.length > most ? `${shown}\u2026` : shown;
}

/* A foreign name as an element: it stays apart from the words around it, whichever way it is written. */
export function name(text, most) {
	const whole = String(text ?? "");
	return el("bdi", { title: whole.length > (most || 200) ? clean(whole, 2000) : null }, clean(whole, most));
}

/* Who submitted something. Most come by a token: its name says more than that it is one. */
export function who(submitter) {
	return submitter ? el("span", { title: clean(submitter) }, name(String(submitter).replace(/^token:/, ""), 60)) : NONE;
}

/* Anything of JSON in one line, for what these pages know no better form for. */
export function plain(value) {
	if (value === null || value === undefined)
		return NONE;
	return clean(typeof value === "object" ? JSON.stringify(value) : String(value), 600);
}
