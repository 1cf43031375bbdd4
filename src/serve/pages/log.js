/* The log of a run: its end at once, what was before on demand, what comes as it comes; search, follow, wrap, download. */
import { request, runPath } from "./api.js";
import { button, el, empty, put, say } from "./dom.js";
import { bytes, count } from "./format.js";
import { LogText } from "./log_text.js";
import { save } from "./save.js";
import { stream } from "./stream.js";

const TAIL = 256 << 10;
const EARLIER = 1 << 20;
const KEPT = 16 << 20;
const FOUND_MOST = 5000;
const LOOK_MS = 150;
const NAMES = ["stdout", "stderr"];

/* The bytes from `from` to before `to`; less if there is less by now. */
async function range(path, from, to, signal) {
	if (to <= from)
		return new Uint8Array();
	const response = await request(path, { headers: { Range: `bytes=${from}-${to - 1}` }, signal });
	const data = new Uint8Array(await response.arrayBuffer());
	return response.status === 206 ? data : data.subarray(from, to);
}

function decode(data) {
	return new TextDecoder("utf-8", { ignoreBOM: true }).decode(data);
}

export class Log {
	constructor(id, on) {
		this.id = id;
		this.on = on; /* {ended()} */
		this.name = "stdout";
		this.isLive = false;
		this.places = [];
		this.at = -1;
		this.follow = el("input", { type: "checkbox", on: { change: () => this.toEnd() } });
		this.wrap = el("input", { type: "checkbox", checked: true, on: { change: () => this.box.classList.toggle("nowrap", !this.wrap.checked) } });
		this.search = el("input", { type: "search", autocomplete: "off", spellcheck: "false", maxlength: "200", "aria-label": "Search the log", placeholder: "search the log",
			on: { input: () => this.lookSoon(), keydown: (event) => this.searchKey(event) } });
		this.told = el("span", { class: "small soft found", role: "status" });
		this.early = button("Show what was before", { class: "quiet earlier", hidden: true }, () => this.earlier());
		this.box = el("div", { class: "log", tabindex: "0", role: "log", "aria-live": "off", on: { scroll: () => this.scrolled() } });
		this.sizes = {};
		this.node = el("div", null, this.tools(), this.box);
	}

	tools() {
		return el("div", { class: "tools" },
			el("fieldset", { class: "tabs" }, el("legend", { class: "unseen" }, "Which log"), NAMES.map((name) =>
				el("label", null, el("input", { type: "radio", name: "log", value: name, checked: name === this.name, on: { change: () => this.open(name, this.isLive) } }),
					el("span", null, name, this.sizes[name] = el("small"))))),
			this.search,
			button("\u2191", { class: "quiet", "aria-label": "Previous place" }, () => this.step(-1)),
			button("\u2193", { class: "quiet", "aria-label": "Next place" }, () => this.step(1)),
			this.told,
			el("span", { class: "grow" }),
			el("label", { class: "check" }, this.follow, "Follow"), el("label", { class: "check" }, this.wrap, "Wrap"),
			button("Download", { class: "quiet" }, () => save(runPath(this.id, "log", this.name), `${this.id}.${this.name}.log`)));
	}

	async open(name, isLive) {
		this.close();
		this.name = name;
		this.isLive = isLive;
		this.control = new AbortController();
		this.text = new LogText(KEPT);
		this.places = [];
		this.at = -1;
		this.start = this.end = 0;
		this.box.setAttribute("aria-label", name);
		put(this.box, this.early, this.text.node);
		this.early.hidden = true;
		this.follow.checked = isLive;
		const { signal } = this.control;
		try {
			await this.tail(signal);
		} catch (error) {
			if (error.status === 404)
				this.over();
			else if (error.name !== "AbortError")
				put(this.box, empty("The log can't be shown.", error.message));
			return;
		}
		if (signal.aborted)
			return;
		this.tellOthers(signal);
		if (isLive)
			this.stop = stream(`${runPath(this.id, "log", name)}?offset=${this.end}`, (event) => this.come(event));
		else
			this.over();
	}

	/* The end of it, from a whole line to a whole line while more comes: what follows is then never half a character. */
	async tail(signal) {
		const total = await this.length(this.name, signal);
		const first = Math.max(0, total - TAIL);
		const data = await range(runPath(this.id, "log", this.name), first, total, signal);
		const from = first > 0 ? data.indexOf(10) + 1 : 0;
		const to = Math.max(from, this.isLive ? data.lastIndexOf(10) + 1 : data.length);
		this.start = first + from;
		this.end = first + to;
		this.early.hidden = this.start === 0;
		this.add(decode(data.subarray(from, to)));
	}

	tellSize(name, size) {
		say(this.sizes[name], size ? ` ${bytes(size)}` : "");
	}

	/* That there is something in the other one is worth knowing. */
	async tellOthers(signal) {
		for (const name of NAMES)
			if (name !== this.name)
				this.tellSize(name, await this.length(name, signal).catch(() => 0));
	}

	async length(name, signal) {
		const response = await request(runPath(this.id, "log", name), { method: "HEAD", signal });
		return Number(response.headers.get("Content-Length")) || 0;
	}

	async earlier() {
		const first = Math.max(0, this.start - EARLIER);
		const data = await range(runPath(this.id, "log", this.name), first, this.start, this.control.signal);
		const from = first > 0 ? data.indexOf(10) + 1 : 0;
		const before = this.box.scrollHeight;
		this.text.prepend(decode(data.subarray(from)));
		this.start = first + from;
		this.early.hidden = this.start === 0;
		this.box.scrollTop += this.box.scrollHeight - before;
		this.look();
	}

	come({ event, data, id }) {
		if (event === "log") {
			this.end = Number(id) || this.end;
			this.add(data.text);
		} else if (event === "end") {
			this.over();
			this.on.ended();
		} else if (event === "refused") {
			this.add(`[${data.message}]\n`);
		}
	}

	add(text) {
		this.text.append(text);
		if (this.follow.checked && this.text.trim())
			this.early.hidden = true; /* where it begins now is not known */
		this.tellSize(this.name, this.end);
		this.toEnd();
		if (this.search.value)
			this.lookSoon();
	}

	over() {
		this.isLive = false;
		this.text.finish();
		if (!this.text.size)
			put(this.box, el("p", { class: "soft none" }, `Nothing was written to ${this.name}.`));
		this.look();
	}

	toEnd() {
		if (!this.follow.checked)
			return;
		this.isMoving = true;
		this.box.scrollTop = this.box.scrollHeight;
	}

	/* Who scrolls up wants to read; who scrolls to the end wants to follow. */
	scrolled() {
		if (this.isMoving) {
			this.isMoving = false;
			return;
		}
		if (this.isLive)
			this.follow.checked = this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < 24;
	}

	/* Soon, however fast it is written or typed. */
	lookSoon() {
		this.timer ||= setTimeout(() => { this.timer = 0; this.look(); }, LOOK_MS);
	}

	look() {
		const words = this.search.value;
		if (words !== this.words)
			this.at = -1;
		this.words = words;
		this.places = this.text.find(words, FOUND_MOST);
		this.mark();
		if (words && this.at < 0 && this.places.length && !this.follow.checked)
			this.step(1);
	}

	range({ block, start, end }) {
		const found = new Range();
		found.setStart(block.node.firstChild, start);
		found.setEnd(block.node.firstChild, end);
		return found;
	}

	mark() {
		const all = this.places.length;
		const most = all >= FOUND_MOST ? "+" : "";
		const part = this.start > 0 ? ", in what is loaded" : "";
		say(this.told, !this.words ? "" : all ? `${this.at >= 0 ? `${count(this.at + 1)} of ` : ""}${count(all)}${most} found${part}` : `not found${part}`);
		if (!globalThis.CSS?.highlights)
			return;
		CSS.highlights.set("found", new Highlight(...this.places.map((place) => this.range(place))));
		CSS.highlights.set("found-here", new Highlight(...(this.at >= 0 && this.places[this.at] ? [this.range(this.places[this.at])] : [])));
	}

	step(by) {
		if (!this.places.length)
			return;
		this.at = (Math.max(this.at, by < 0 ? 0 : -1) + by + this.places.length) % this.places.length;
		this.follow.checked = false;
		const place = this.places[this.at];
		this.isMoving = true;
		place.block.node.scrollIntoView({ block: "nearest", behavior: "instant" });
		const box = this.box.getBoundingClientRect();
		const at = this.range(place).getBoundingClientRect();
		this.box.scrollTop += at.top - box.top - box.height / 3;
		this.mark();
	}

	searchKey(event) {
		if (event.key !== "Enter")
			return;
		event.preventDefault();
		this.step(event.shiftKey ? -1 : 1);
	}

	key(event) {
		if (event.key === "/")
			this.search.focus();
		else if (event.key === "f")
			this.follow.click();
		else if (event.key === "n" || event.key === "N")
			this.step(event.key === "n" ? 1 : -1);
		else
			return false;
		return true;
	}

	close() {
		clearTimeout(this.timer);
		this.timer = 0;
		this.control?.abort();
		this.stop?.();
		this.stop = null;
		globalThis.CSS?.highlights?.clear();
	}
}
