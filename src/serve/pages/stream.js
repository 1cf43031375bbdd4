/* Server-sent events read by fetch, since EventSource can send no token. Goes on where it was after a broken connection, waits longer each
 * time, and holds no connection while nobody looks: a browser has six of them for all tabs together. */
import { ApiError, request, tellLink } from "./api.js";

const FIRST_WAIT_MS = 1000;
const LAST_WAIT_MS = 30000;
const SILENCE_MS = 45000; /* three heartbeats */

/* Lines to events: feed() gives those that are whole. */
export class Parser {
	constructor() {
		this.rest = "";
		this.clear();
	}

	clear() {
		this.event = "message";
		this.data = [];
	}

	feed(text) {
		const found = [];
		const lines = (this.rest + text).split(/\r\n|\n|\r(?!$)/);
		this.rest = lines.pop();
		for (const line of lines) {
			if (line === "") {
				if (this.data.length)
					found.push({ event: this.event, data: this.data.join("\n"), id: this.id });
				this.clear();
				continue;
			}
			const colon = line.indexOf(":");
			const field = colon < 0 ? line : line.slice(0, colon);
			const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
			if (field === "event")
				this.event = value;
			else if (field === "data")
				this.data.push(value);
			else if (field === "id")
				this.id = value;
		}
		return found;
	}
}

function sleep(ms, signal) {
	return new Promise((resolve) => {
		const timer = setTimeout(resolve, ms);
		signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
	});
}

function shown() {
	if (!document.hidden)
		return Promise.resolve();
	return new Promise((resolve) => {
		document.addEventListener("visibilitychange", function seen() {
			if (document.hidden)
				return;
			document.removeEventListener("visibilitychange", seen);
			resolve();
		});
	});
}

/* One connection to its end. True if anything came. */
async function read(path, state, on, outer) {
	const inner = new AbortController();
	const stop = () => inner.abort();
	const hide = () => { if (document.hidden) inner.abort(); };
	let timer = setTimeout(stop, SILENCE_MS);
	outer.addEventListener("abort", stop);
	document.addEventListener("visibilitychange", hide);
	try {
		const headers = { Accept: "text/event-stream" };
		if (state.id !== undefined)
			headers["Last-Event-ID"] = state.id;
		const response = await request(path, { headers, signal: inner.signal });
		const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
		const parser = new Parser();
		on({ event: "open", data: null });
		for (;;) {
			const { done, value } = await reader.read();
			if (done)
				return;
			clearTimeout(timer);
			timer = setTimeout(stop, SILENCE_MS);
			state.heard = true;
			for (const { event, data, id } of parser.feed(value)) {
				state.id = id ?? state.id;
				on({ event, data: JSON.parse(data), id });
				if (event === "end")
					state.ended = true;
			}
			if (state.ended) {
				inner.abort();
				return;
			}
		}
	} finally {
		clearTimeout(timer);
		outer.removeEventListener("abort", stop);
		document.removeEventListener("visibilitychange", hide);
	}
}

/* Calls on({event, data, id}) for each, and with the event "open" each time it is connected, until close() or an "end". What the service says
 * no to for good comes as {event: "refused", data: error}. */
export function stream(path, on, id) {
	const control = new AbortController();
	const state = { id, heard: false, ended: false };
	const go = async () => {
		let wait = FIRST_WAIT_MS;
		while (!control.signal.aborted && !state.ended) {
			await shown();
			state.heard = false;
			try {
				await read(path, state, on, control.signal);
			} catch (error) {
				if (error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429) {
					on({ event: "refused", data: error });
					return;
				}
				if (!document.hidden && !control.signal.aborted && !(error instanceof ApiError))
					tellLink(error.name === "AbortError" || error.name === "SyntaxError");
			}
			if (state.ended || control.signal.aborted)
				return;
			wait = state.heard ? FIRST_WAIT_MS : Math.min(wait * 2, LAST_WAIT_MS);
			if (!document.hidden)
				await sleep(wait * (0.75 + Math.random() / 2), control.signal);
		}
	};
	go();
	return () => control.abort();
}
