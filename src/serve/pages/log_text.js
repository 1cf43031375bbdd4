/* The words of a program as lines that can be shown: no colours of terminals, no line that was overwritten, nothing that is not seen. Kept in
 * blocks which the browser need not lay out before they are in sight. */
import { el } from "./dom.js";

const BLOCK_LINES = 200;
const LINE_MOST = 1 << 16;
const ESCAPES = /\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]/g;
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

function visible(c) {
	const code = c.charCodeAt(0);
	return code < 0x20 ? String.fromCharCode(0x2400 + code) : `\\u${code.toString(16).padStart(4, "0")}`;
}

/* What a terminal would show of the line in the end. */
export function line(raw) {
	let text = raw.replace(ESCAPES, "");
	if (text.includes("\r"))
		text = text.replace(/\r+$/, "").split("\r").pop();
	return text.replace(UNSEEN, visible);
}

export class LogText {
	constructor(most) {
		this.most = most;  /* characters that are kept */
		this.size = 0;
		this.blocks = [];  /* {node, text, lines, found} in their order */
		this.raw = "";     /* of the line that is not ended */
		this.last = el("div", { class: "block" });
		this.node = el("div", { class: "log-text" }, this.last);
	}

	block(lines) {
		const text = lines.map((one) => `${one}\n`).join("");
		const node = el("div", { class: "block" }, text);
		this.size += text.length;
		return { node, text, lines: lines.length, found: null };
	}

	append(text) {
		const lines = (this.raw + text).split("\n");
		this.raw = lines.pop();
		if (this.raw.length > LINE_MOST) {
			lines.push(this.raw);
			this.raw = "";
		}
		this.add(lines.map(line));
		this.last.textContent = line(this.raw);
	}

	add(lines) {
		let at = 0;
		const open = this.blocks[this.blocks.length - 1];
		if (open && open.lines < BLOCK_LINES && lines.length) {
			at = Math.min(lines.length, BLOCK_LINES - open.lines);
			const more = lines.slice(0, at).map((one) => `${one}\n`).join("");
			open.node.firstChild.appendData(more);
			open.text += more;
			open.lines += at;
			open.found = null;
			this.size += more.length;
		}
		for (; at < lines.length; at += BLOCK_LINES) {
			const made = this.block(lines.slice(at, at + BLOCK_LINES));
			this.blocks.push(made);
			this.last.before(made.node);
		}
	}

	/* The oldest go when there is more than anybody scrolls through. True if some went. */
	trim() {
		let went = false;
		while (this.size > this.most && this.blocks.length > 1) {
			const gone = this.blocks.shift();
			this.size -= gone.text.length;
			gone.node.remove();
			went = true;
		}
		return went;
	}

	/* Whole lines that stand before all others. */
	prepend(text) {
		const lines = text.replace(/\n$/, "").split("\n").map(line);
		const made = [];
		for (let at = 0; at < lines.length; at += BLOCK_LINES)
			made.push(this.block(lines.slice(at, at + BLOCK_LINES)));
		this.node.prepend(...made.map((block) => block.node));
		this.blocks = made.concat(this.blocks);
	}

	/* Nothing comes any more: the last line is one, though it has no end. */
	finish() {
		if (this.raw)
			this.add([line(this.raw)]);
		this.raw = "";
		this.last.textContent = "";
	}

	/* Places [{block, start, end}] of the words, in any case; at most `most`. */
	find(words, most) {
		if (!words)
			return [];
		const wanted = new RegExp(words.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "gi");
		const places = [];
		for (const block of this.blocks) {
			if (block.words !== words || !block.found) {
				block.words = words;
				block.found = [...block.text.matchAll(wanted)].map((match) => [match.index, match.index + match[0].length]);
			}
			for (const [start, end] of block.found) {
				if (places.length >= most)
					return places;
				places.push({ block, start, end });
			}
		}
		return places;
	}
}
