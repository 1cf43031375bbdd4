/* States and causes: a sign, a word and a tone. The word always stands beside the colour. */
import { el } from "./dom.js";
import { clean } from "./format.js";

/* tone, sign, what it means */
const KNOWN = {
	queued: ["idle", "\u2026", "It waits to be started."],
	running: ["live", "\u25b6", "It is going on."],
	ended: ["idle", "\u25a0", "It is over."],
	ok: ["ok", "\u2713", "It succeeded."],
	exit: ["bad", "\u2717", "It ended with an error of its own."],
	signal: ["bad", "\u2717", "It was ended by a signal."],
	oom: ["limit", "M", "It needed more memory than it may use."],
	deadline: ["limit", "T", "It took longer than it may."],
	cpu: ["limit", "C", "It used more time of the processor than it may."],
	disk: ["limit", "D", "It filled its disk."],
	pids: ["limit", "P", "It had more processes than it may."],
	"output-cap": ["limit", "O", "It left more than may be kept."],
	"output-missing": ["bad", "O", "Something that it was to leave is not there."],
	"output-invalid": ["bad", "O", "Something that it left is not what it should be."],
	denied: ["bad", "\u2298", "It did what it may not."],
	refused: ["bad", "\u2298", "It was not started."],
	cancelled: ["idle", "\u2012", "Somebody ended it."],
	lost: ["bad", "?", "Nobody saw how it ended: the machine or its keeper went away."],
	setup: ["bad", "!", "Its box could not be made."],
	"runtime-broken": ["bad", "R", "Its runtime does not work."],
	"input-changed": ["bad", "I", "What it read was changed meanwhile."],
	"post-process": ["bad", "!", "What came after it failed."],
	failed: ["bad", "\u2717", "Something of it failed."],
	waiting: ["idle", "\u2026", "It waits for what comes before it."],
	reused: ["ok", "\u21ba", "Its result was known."],
	skipped: ["idle", "\u2012", "What it needs failed."],
	checkpointed: ["idle", "\u21bb", "It saved what it had, and is to be run again."],
};

const NO_CAUSES = ["queued", "running", "ended", "failed", "waiting", "reused", "skipped"];
export const CAUSES = Object.keys(KNOWN).filter((word) => !NO_CAUSES.includes(word));

export function meaning(word) {
	return KNOWN[word] ? KNOWN[word][2] : "";
}

export function tone(word) {
	return KNOWN[word] ? KNOWN[word][0] : "bad";
}

/* What is to be said of a row in one word. */
export function word(row) {
	return row.state === "ended" && row.cause ? row.cause : row.state;
}

export function badge(text, title) {
	const [colour, sign] = KNOWN[text] || ["idle", "\u2022"];
	return el("span", { class: `badge ${colour}`, title: title || meaning(text) || null },
		el("span", { class: "sign", "aria-hidden": "true" }, sign), clean(text, 40));
}

/* The same for words of health: of runtimes, protected things and chains. */
const HEALTH = {
	ok: ["ok", "\u2713"], healthy: ["ok", "\u2713"], good: ["ok", "\u2713"], whole: ["ok", "\u2713"],
	unknown: ["idle", "?"], unchecked: ["idle", "?"], stale: ["idle", "?"], never: ["idle", "?"],
	degraded: ["limit", "!"], drifted: ["limit", "!"], weak: ["limit", "!"], changed: ["limit", "!"],
};

export function health(text) {
	const [colour, sign] = HEALTH[text] || ["bad", "\u2717"];
	return el("span", { class: `badge ${colour}` }, el("span", { class: "sign", "aria-hidden": "true" }, sign), clean(text, 40));
}
