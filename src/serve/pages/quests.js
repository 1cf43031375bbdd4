/* Work by quest: how far it is, how much of it succeeds, what it cost and what holds it up. */
import { get, query } from "./api.js";
import { badge, word } from "./causes.js";
import { stack, trend } from "./chart.js";
import { el, empty, outside, put, section, table } from "./dom.js";
import { clean, count, duration, memoryTime, moment, name, NONE, percent, plural, when } from "./format.js";
import { progress } from "./pipeline.js";

const AGAIN_MS = 1500;
const STEADY_MS = 15000; /* the ledger comes a little after the news */
const BLOCKED_SHOWN = 5;
const LATEST = 10;
const SORTS = { last: ["last activity", (q) => -Date.parse(q.last || 0)], blocked: ["what is blocked", (q) => -(q.blocked || []).length], cpu: ["cost", (q) => -(q.cpu_usec || 0)],
	failed: ["failures", (q) => -(q.runs?.failed || 0)], priority: ["priority", (q) => -(q.priority ?? -1)],
	layer: ["layer", (q) => q.layer || "\uffff"], name: ["name", (q) => q.title || q.quest || ""] };

function ofQuest(quest, more) {
	return `/${query({ quest: quest.quest || "", ...more })}`;
}

function bar(runs) {
	const label = `${count(runs.ok)} succeeded, ${count(runs.failed)} failed, ${count(runs.running)} running, ${count(runs.queued)} waiting`;
	return [stack([{ amount: runs.ok, tone: "ok", label: `ok: ${runs.ok}` }, { amount: runs.failed, tone: "bad", label: `failed: ${runs.failed}` },
		{ amount: runs.running, tone: "live", label: `running: ${runs.running}` }, { amount: runs.queued, tone: "none", label: `waiting: ${runs.queued}` }], label),
	el("p", { class: "small soft" }, label)];
}

function causes(quest) {
	const list = Object.entries(quest.causes || {}).filter(([cause, n]) => cause !== "ok" && n > 0).sort(([, a], [, b]) => b - a);
	if (!list.length)
		return null;
	return el("p", { class: "chips" }, list.slice(0, 8).map(([cause, n]) => el("a", { class: "cause", href: ofQuest(quest, { cause }) }, badge(cause), ` ${count(n)}`)));
}

function blocked(quest) {
	const list = quest.blocked || [];
	if (!list.length)
		return null;
	return el("div", { class: "blocked" }, el("p", null, el("strong", null, `${plural(list.length, "run")} held up`)),
		el("ul", { class: "plain" }, list.slice(0, BLOCKED_SHOWN).map((one) => el("li", null, el("a", { href: `/runs/${encodeURIComponent(one.id)}` }, clean(one.id, 64)), ": ",
			clean(typeof one.why === "object" ? one.why?.text : one.why, 300)))),
		list.length > BLOCKED_SHOWN ? el("a", { href: ofQuest(quest, { state: "queued" }) }, `All ${count(list.length)}`) : null);
}

/* What is said of a quest beside its name. */
function about(quest) {
	const chips = [["layer", quest.layer], ["priority", quest.priority], ["status", quest.status]].filter(([, value]) => value !== null && value !== undefined);
	if (!chips.length && !quest.title && !quest.link)
		return null;
	return el("p", { class: "about small" }, quest.title ? el("code", null, name(quest.quest, 120)) : null,
		chips.map(([label, value]) => el("span", { class: "chip" }, el("span", { class: "soft" }, `${label} `), name(value, 80))),
		quest.link ? outside(quest.link, clean(quest.link.replace(/^https?:\/\//, ""), 60)) : null);
}

function facts(quest) {
	const fact = (label, value) => el("div", { class: "fact" }, el("dt", null, label), el("dd", null, value));
	return [bar(quest.runs || { ok: 0, failed: 0, running: 0, queued: 0 }),
		el("dl", { class: "fact-list" }, fact("Succeeds", Number.isFinite(quest.success_rate) ? percent(quest.success_rate) : NONE), fact("Ran for", duration(quest.wall_usec)),
			fact("Processors", duration(quest.cpu_usec)), fact("Memory", memoryTime(quest.memory_gib_hours)),
			fact("Last", moment(quest.last))),
		causes(quest), blocked(quest)];
}

function card(quest) {
	return el("article", { class: "card" },
		el("h2", null, quest.quest ? el("a", { href: `/quests${query({ quest: quest.quest })}` }, name(quest.title || quest.quest, 120)) : el("span", { class: "soft" }, "without a quest")),
		about(quest), facts(quest));
}

/* A moment as short as the stretches are wide. */
function stretch(from, width) {
	const text = new Date(when(from)).toISOString();
	return width >= 86400 ? text.slice(0, 10) : `${text.slice(5, 10)} ${text.slice(11, 16)}`;
}

/* How it went over time, drawn and as a table. */
function trends(given) {
	if (!given || !given.points.length)
		return el("p", { class: "soft" }, "No run has ended yet.");
	const points = given.points.map((point) => ({ ...point, label: stretch(point.from, given.width_s) }));
	const of = (key) => points.map((point) => ({ label: point.label, value: point[key] }));
	const cpu = points.map((point) => ({ label: point.label, value: point.runs ? point.cpu_usec : null }));
	const write = (value) => (Number.isFinite(value) ? duration(value) : NONE);
	return [el("p", { class: "soft small" }, `${plural(given.runs, "run")} in stretches of ${duration(given.width_s * 1e6)}${given.is_cut ? "; there are older ones" : ""}. Times are UTC.`),
		el("div", { class: "trends" }, trend("Success rate", of("success_rate"), { write: percent, top: 1 }), trend("Processor time", cpu, { write }), trend("Mean time in the queue", of("waited_usec"), { write })),
		el("details", null, el("summary", null, "As a table"), table("Trends", [
			{ label: "From", cell: (point) => point.label }, { label: "Runs", cell: (point) => count(point.runs), number: true },
			{ label: "Success rate", cell: (point) => percent(point.success_rate ?? NaN), number: true }, { label: "Processor time", cell: (point) => write(point.cpu_usec), number: true },
			{ label: "Mean time in the queue", cell: (point) => write(point.waited_usec ?? NaN), number: true }], points.filter((point) => point.runs)))];
}

function latest(runs) {
	return runs.length ? table("Latest runs", [
		{ label: "Run", cell: (run) => el("a", { href: `/runs/${encodeURIComponent(run.id)}` }, name(run.name || run.id, 80)) },
		{ label: "State", cell: (run) => badge(word(run)) },
		{ label: "Time", cell: (run) => (Number.isFinite(run.wall_usec) ? duration(run.wall_usec) : NONE), number: true },
		{ label: "Since", cell: (run) => moment(run.started || run.submitted) }], runs) : el("p", { class: "soft" }, "It has no runs yet.");
}

function pipelineTable(list) {
	return section("Pipelines", null, table("Pipelines", [
		{ label: "Pipeline", cell: (p) => el("a", { href: `/runs/${encodeURIComponent(p.id)}` }, name(p.name || p.id, 80)) },
		{ label: "State", cell: (p) => badge(p.state) },
		{ label: "Steps", kind: "meter", cell: (p) => [progress({ ok: p.done, waiting: p.total - p.done }, `${p.done} of ${p.total} steps done`), el("span", { class: "small soft" }, `${p.done} of ${p.total}`)] },
		{ label: "Quest", cell: (p) => (p.quest ? name(p.quest, 80) : NONE) },
		{ label: "Begun", cell: (p) => moment(p.started || p.created) }], list));
}

class QuestsPage {
	constructor(root) {
		this.sort = "last";
		this.place = el("div");
		this.pipelines = el("div");
		put(root, el("div", { class: "page-head" }, el("h1", null, "Quests"), el("label", { class: "field row" }, el("span", null, "Sort by"),
			el("select", { on: { change: (event) => { this.sort = event.target.value; this.draw(); } } }, Object.entries(SORTS).map(([key, [text]]) => el("option", { value: key }, text))))),
		this.place, this.pipelines);
		put(this.place, el("p", { class: "soft", role: "status" }, "Loading\u2026"));
		this.load();
		this.steady = setInterval(() => { if (!document.hidden) this.load(); }, STEADY_MS);
	}

	async load() {
		try {
			const [{ quests }, pipelines] = await Promise.all([get("/v1/quests"), get("/v1/pipelines?limit=20").catch(() => ({ pipelines: [] }))]);
			this.quests = quests;
			this.draw();
			const list = pipelines.pipelines || [];
			put(this.pipelines, list.length ? pipelineTable(list) : null);
		} catch (error) {
			if (!this.quests)
				put(this.place, empty("The quests can't be shown.", `${error.message} ${error.remedy || ""}`));
		}
	}

	draw() {
		const now = JSON.stringify([this.quests, this.sort]);
		if (now === this.drawn)
			return;
		this.drawn = now;
		if (!this.quests.length) {
			put(this.place, empty("There are no quests yet.", "A quest is a name that groups what serves one goal. Give runs one, and their work is added up here:",
				"cupel submit --quest my-question -- python3 analysis.py"));
			return;
		}
		const by = SORTS[this.sort][1];
		const compare = (a, b) => (by(a) < by(b) ? -1 : by(a) > by(b) ? 1 : 0);
		put(this.place, el("div", { class: "cards" }, [...this.quests].sort(compare).map(card)));
	}

	/* Once a moment, however much happens. */
	news() {
		this.timer ||= setTimeout(() => { this.timer = 0; this.load(); }, AGAIN_MS);
	}

	key(event) {
		const step = { j: 1, k: -1 }[event.key];
		if (!step)
			return false;
		const links = [...this.place.querySelectorAll("h2 a")];
		const at = links.indexOf(document.activeElement);
		links[Math.max(0, Math.min(links.length - 1, at < 0 ? 0 : at + step))]?.focus();
		return true;
	}

	close() {
		clearInterval(this.steady);
		clearTimeout(this.timer);
	}
}

/* One quest: what is said of it, how it stands, how it went over time. */
class QuestPage {
	constructor(root, app, quest) {
		Object.assign(this, { root, app, quest });
		put(root, el("h1", null, name(quest, 200)), el("p", { class: "soft", role: "status" }, "Loading\u2026"));
		this.load();
		this.steady = setInterval(() => { if (!document.hidden) this.load(); }, STEADY_MS);
	}

	async load() {
		let got, runs;
		try {
			[got, { runs }] = await Promise.all([get(`/v1/quests${query({ quest: this.quest })}`), get(`/v1/runs${query({ quest: this.quest, limit: LATEST })}`)]);
		} catch (error) {
			if (!this.drawn)
				put(this.root, el("h1", null, name(this.quest, 200)), empty("The quest can't be shown.", `${clean(error.message, 300)} ${clean(error.remedy || "", 300)}`),
					el("p", { class: "center" }, el("a", { href: "/quests" }, "All quests")));
			return;
		}
		const now = JSON.stringify([got, runs]);
		if (now === this.drawn || this.root.matches(":focus-within"))
			return;
		this.drawn = now;
		const [quest] = got.quests;
		const isOpen = this.root.querySelector("details")?.open;
		this.app.setTitle(quest.title || quest.quest);
		put(this.root, el("header", { class: "run-head" }, el("h1", null, name(quest.title || quest.quest, 200)), about(quest)),
			section("Work", null, facts(quest)), section("Over time", null, trends(got.trend)),
			section("Latest runs", null, latest(runs), el("p", null, el("a", { href: ofQuest(quest) }, "All runs of this quest"))));
		if (isOpen)
			this.root.querySelector("details").open = true;
	}

	news() {
		this.timer ||= setTimeout(() => { this.timer = 0; this.load(); }, AGAIN_MS);
	}

	key(event) {
		if (event.key !== "Escape")
			return false;
		history.length > 1 ? history.back() : this.app.go("/quests");
		return true;
	}

	close() {
		clearInterval(this.steady);
		clearTimeout(this.timer);
	}
}

export function openQuests(root, app) {
	const quest = new URLSearchParams(location.search).get("quest");
	const page = quest ? new QuestPage(root, app, quest) : new QuestsPage(root);
	return { title: quest || "Quests", news: () => page.news(), reset: () => page.load(), key: (event) => page.key(event), close: () => page.close() };
}
