/* Governance: what runs are allowed, what was refused, what hit its limits, what is left over, what it cost, and whether the records hold. */
import { get, post, query } from "./api.js";
import { badge, health, meaning } from "./causes.js";
import { bar } from "./chart.js";
import { confirmed } from "./dialog.js";
import { button, el, empty, pairs, put, section, table } from "./dom.js";
import { bytes, clean, count, cpus, duration, memoryTime, moment, name, NONE, percent, plain, plural, when, who } from "./format.js";
import { LIMITS } from "./run_parts.js";

const AGAIN_MS = 3000;
const STEADY_MS = 15000; /* not all of it is told of: a runtime that is checked, a ledger that comes after */
const SHOWN = 12;

function runtimes(list, app) {
	if (!list.length)
		return empty("There are no runtimes.", "Put descriptions into runtimes.d, or make one:", "cupel runtime create NAME");
	const isAdmin = (app.identity?.scopes || []).includes("admin");
	return table("Runtimes", [
		{ label: "Runtime", cell: (r) => [el("a", { href: `/${query({ runtime: r.name })}` }, name(r.name, 60)), el("span", { class: "under soft small" }, clean(r.summary || "", 120))] },
		{ label: "Health", cell: (r) => [health(r.health || "unknown"), r.reason ? el("span", { class: "under small" }, clean(r.reason, 200)) : null] },
		{ label: "Drift", cell: (r) => (r.drift && r.drift !== "none" ? el("span", { class: "warn" }, plain(r.drift)) : r.locked ? "none" : el("span", { class: "soft", title: "cupel runtime lock pins what it is" }, "not locked")) },
		{ label: "Checked", cell: (r) => ((r.checked || r.verified) ? moment(r.checked || r.verified) : el("span", { class: "soft" }, "never")) },
		{ label: "Version", kind: "wrap", cell: (r) => clean(r.version || NONE, 80) },
		...(isAdmin ? [{ label: el("span", { class: "unseen" }, "Action"), cell: (r) => checkButton(r, app) }] : [])], list);
}

/* The catalog says what there is; what was found of each is remembered apart from it, also of those that are gone. */
function known(catalog, found) {
	const state = new Map(found.map((one) => [one.name, one]));
	const names = new Set(catalog.map((one) => one.name));
	return [...catalog.map((one) => ({ ...one, ...state.get(one.name) })), ...found.filter((one) => !names.has(one.name))];
}

function checkButton(runtime, app) {
	return button("Check", { class: "quiet", "aria-label": `Check ${clean(runtime.name, 60)}` }, async (pressed) => {
		if (!await confirmed(`Check ${clean(runtime.name, 60)}?`, "Its own checks are run in a box. This can take some minutes.", "Check"))
			return;
		try {
			await post(`/v1/runtimes/${encodeURIComponent(runtime.name)}/check`);
			app.announce("The check has begun");
		} catch (error) {
			pressed.after(el("span", { class: "warn small", role: "alert" }, ` ${clean(error.message, 200)}`));
		}
	});
}

const PARTS = { ceilings: "Most that a run may ask for", aggregate: "All runs together", policy: "What runs may do", service: "The service" };

/* Settings by the word they begin with. */
function policy(given, caps) {
	const shown = { ...given };
	if (caps) /* the same words as on the page of runs */
		Object.assign(shown, { "aggregate.memory": bytes(caps.memory), "aggregate.cpus": cpus(caps.cpus), "aggregate.pids": count(caps.pids) });
	const rows = Object.entries(shown).map(([key, value]) => [...key.split(/\.(.*)/), value]);
	const hasCeilings = rows.some(([part]) => part === "ceilings");
	return [Object.entries(PARTS).map(([part, title]) => {
		const own = rows.filter(([first]) => first === part);
		return own.length ? [el("h3", null, title), pairs(own.map(([, key, , value]) => [clean(key.replaceAll("_", " "), 60), plain(value)]))] : null;
	}), hasCeilings ? null : el("p", { class: "soft" }, "Runs may ask for as much as all together have. To set less: ", el("code", null, "ceilings: {memory: 16G, time: 12h}"), " in cupel.yaml")];
}

function runCell(row) {
	return row.id ? [el("a", { href: `/runs/${encodeURIComponent(row.id)}` }, name(row.name || row.id, 80)), row.quest ? el("span", { class: "under" }, name(row.quest, 60)) : null] : NONE;
}

function refusals(list) {
	if (!list.length)
		return el("p", { class: "good" }, "Nothing was refused or denied.");
	return table("Refusals and denials", [
		{ label: "Run", cell: runCell },
		{ label: "Kind", cell: (row) => badge(row.cause || "refused") },
		{ label: "By", cell: (row) => who(row.submitter) },
		{ label: "Why", kind: "wrap", cell: (row) => clean(row.note || row.why || meaning(row.cause) || NONE, 300) },
		{ label: "When", cell: (row) => moment(row.ended || row.submitted || row.accepted) }], list);
}

/* How much each had, of how much it might have. What was collected never passes a cap: its use is not known. */
function reached(row) {
	const { limit, used, of } = row.reached || {};
	if (!LIMITS[limit])
		return NONE;
	const [label, write] = LIMITS[limit];
	return [Number.isFinite(used) ? `${write(used)} of ${write(of)}` : `more than ${write(of)}`, el("span", { class: "under soft small" }, label)];
}

function kills(list) {
	if (!list.length)
		return el("p", { class: "good" }, "No run has hit a limit.");
	const sums = new Map();
	for (const row of list)
		sums.set(row.cause, (sums.get(row.cause) || 0) + 1);
	return [el("p", { class: "chips" }, [...sums].map(([cause, n]) => el("a", { class: "cause", href: `/${query({ cause })}` }, badge(cause), ` ${count(n)}`)),
		el("span", { class: "soft" }, `of the last ${count(list.length)}`)),
	table("Runs that hit a limit", [
		{ label: "Run", cell: runCell },
		{ label: "Limit", cell: (row) => badge(row.cause) },
		{ label: "Reached", cell: reached },
		{ label: "By", cell: (row) => who(row.submitter) },
		{ label: "When", cell: (row) => moment(row.ended) }], list.slice(0, SHOWN))];
}

/* What the last looks at everything found. */
function looks(list) {
	if (!list.length)
		return empty("Nothing has been looked at yet.", "These prove that all is as it was left:", "cupel doctor\ncupel verify");
	return table("Health", [
		{ label: "What", cell: (row) => `${clean(row.kind, 40)} ${clean(row.subject || "", 60)}` },
		{ label: "Found", cell: (row) => health(row.status || "unknown") },
		{ label: "Looked at", cell: (row) => moment(row.time) },
		{ label: "Summary", kind: "wrap", cell: (row) => clean(row.summary || "", 300) }],
	[...list].sort((a, b) => when(b.time) - when(a.time)).slice(0, SHOWN));
}

function cleanup(given) {
	const left = given?.leftovers || [];
	const sweep = given?.last_sweep; /* the last that had something to remove: others leave no record */
	return [left.length ? [el("p", { class: "warn" }, `${plural(left.length, "thing")} left over. To remove them: `, el("code", null, "cupel gc")),
		el("ul", { class: "plain" }, left.slice(0, 50).map((one) => el("li", null, el("code", null, typeof one === "object" ? plain(one.path || one) : clean(one, 300)))))]
		: el("p", { class: "good" }, "No dead run is left over now."),
	el("p", { class: "soft" }, sweep ? ["Last cleanup ", moment(sweep.time || sweep), sweep.summary ? `: ${clean(sweep.summary, 300)}` : ""]
		: [el("code", null, "cupel gc"), " has had nothing to remove so far."]),
	Object.entries(given || {}).filter(([key, value]) => !["leftovers", "last_sweep"].includes(key) && value !== null).map(([key, value]) =>
		el("p", { class: "small soft" }, `${clean(key.replaceAll("_", " "), 40)}: ${plain(value)}`))];
}

function protectedThings(list) {
	if (!list.length)
		return empty("Nothing is watched.", "Name what analyses must never change, in cupel.yaml:", "protect:\n  - /srv/site\n  - /srv/api.py");
	return table("Protected", [
		{ label: "What", cell: (p) => name(p.path || p.name || p.what || plain(p), 200) },
		{ label: "State", cell: (p) => health(p.state || p.status || "unknown") },
		{ label: "Looked at", cell: (p) => moment(p.checked || p.time || p.last) },
		{ label: "Found", kind: "wrap", cell: (p) => clean(p.summary || p.reason || p.found || "", 300) }], list);
}

function spend(title, key, list) {
	if (!list || !list.length)
		return null;
	const all = list.reduce((sum, row) => sum + (row.cpu_usec || 0), 0);
	const share = (row) => (all ? (row.cpu_usec || 0) / all : 0);
	return el("div", null, el("h3", null, title), table(title, [
		{ label: "Who", cell: (row) => el("a", { href: `/${query({ [key]: row[key] })}` }, who(row[key])) },
		{ label: "Runs", cell: (row) => count(row.runs), number: true },
		{ label: "Processors", cell: (row) => duration(row.cpu_usec), number: true },
		{ label: "Memory", cell: (row) => memoryTime(row.memory_gib_hours), number: true },
		{ label: "Share of processors", kind: "meter", cell: (row) => [el("span", { class: "small" }, percent(share(row))), bar(share(row), `${percent(share(row))} of the processor time of all`, true)] }], list));
}

function chain(given) {
	if (!given)
		return el("p", { class: "soft" }, "Not known.");
	return [el("p", null, given.ok === true ? health("ok") : given.ok === false ? health("broken") : health("unknown"), " ",
		given.ok === true ? "Each record is linked to the one before it." : given.ok === false ? "A record is not what was recorded." : "It has not been checked."),
	pairs([["Links", Number.isFinite(given.length) ? count(given.length) : null], ["Head", given.head ? el("code", null, clean(given.head, 64)) : null],
		["Checked", given.checked ? moment(given.checked) : "never"], ["Found", given.summary ? clean(given.summary, 300) : null]]),
	given.ok === true ? null : el("pre", null, el("code", null, "cupel audit verify"))];
}

class SenatePage {
	constructor(root, app) {
		this.app = app;
		this.root = root;
		put(root, el("h1", null, "Senate"), el("p", { class: "soft", role: "status" }, "Loading\u2026"));
		this.load();
		this.steady = setInterval(() => { if (!document.hidden) this.load(); }, STEADY_MS);
	}

	async load() {
		let got;
		try {
			const [senate, catalog] = await Promise.all([get("/v1/senate"), get("/v1/runtimes").catch(() => ({ runtimes: [] }))]);
			got = { ...senate, runtimes: known(catalog.runtimes || [], senate.runtimes || []) };
		} catch (error) {
			if (!this.drawn)
				put(this.root, el("h1", null, "Senate"), empty("It can't be shown.", `${error.message} ${error.remedy || ""}`));
			return;
		}
		const now = JSON.stringify(got);
		if (now !== this.drawn && !this.root.querySelector("[aria-disabled]"))
			this.draw(got);
		this.drawn = now;
	}

	draw(got) {
		const focus = document.activeElement?.getAttribute("href");
		put(this.root, el("h1", null, "Senate"), el("div", { class: "senate" },
			section("Runtimes", { class: "wide" }, runtimes(got.runtimes || [], this.app)),
			section("Refused and denied", { class: "wide" }, refusals(got.refusals || [])),
			section("Hit a limit", { class: "wide" }, kills(got.limit_kills || [])),
			section("Policy and ceilings", null, policy(got.policy, got.caps)),
			el("div", { class: "stacked" },
				section("Left over", null, cleanup(got.cleanup)),
				section("Protected", null, protectedThings(got.protected || [])),
				section("Chain of records", null, chain(got.chain))),
			section("Spend", { class: "wide" }, el("div", { class: "halves" }, spend("By submitter", "submitter", got.spend?.by_submitter), spend("By runtime", "runtime", got.spend?.by_runtime)),
				(got.spend?.by_submitter || []).length ? null : el("p", { class: "soft" }, "Nothing has been used yet.")),
			section("Health", { class: "wide" }, looks(got.health || []))));
		if (focus)
			[...this.root.querySelectorAll("a")].find((a) => a.getAttribute("href") === focus)?.focus({ preventScroll: true });
	}

	news() {
		this.timer ||= setTimeout(() => { this.timer = 0; this.load(); }, AGAIN_MS);
	}

	close() {
		clearInterval(this.steady);
		clearTimeout(this.timer);
	}
}

export function openSenate(root, app) {
	const page = new SenatePage(root, app);
	return { title: "Senate", news: () => page.news(), reset: () => page.load(), close: () => page.close() };
}
