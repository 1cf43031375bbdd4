/* Work by quest: how far it is, how much of it succeeds, what it cost and what holds it up. */
import { get, query } from "./api.js";
import { badge } from "./causes.js";
import { stack } from "./chart.js";
import { el, empty, put, section, table } from "./dom.js";
import { clean, count, duration, memoryTime, moment, name, NONE, percent, plural } from "./format.js";
import { progress } from "./pipeline.js";

const AGAIN_MS = 1500;
const STEADY_MS = 15000; /* the ledger comes a little after the news */
const BLOCKED_SHOWN = 5;
const SORTS = { last: ["last activity", (q) => -Date.parse(q.last || 0)], blocked: ["what is blocked", (q) => -(q.blocked || []).length], cpu: ["cost", (q) => -(q.cpu_usec || 0)],
	failed: ["failures", (q) => -(q.runs?.failed || 0)], name: ["name", (q) => q.quest || ""] };

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

function card(quest) {
	const fact = (label, value) => el("div", { class: "fact" }, el("dt", null, label), el("dd", null, value));
	return el("article", { class: "card" },
		el("h2", null, quest.quest ? el("a", { href: ofQuest(quest) }, name(quest.quest, 120)) : el("span", { class: "soft" }, "without a quest")),
		bar(quest.runs || { ok: 0, failed: 0, running: 0, queued: 0 }),
		el("dl", { class: "fact-list" }, fact("Succeeds", Number.isFinite(quest.success_rate) ? percent(quest.success_rate) : NONE), fact("Ran for", duration(quest.wall_usec)),
			fact("Processors", duration(quest.cpu_usec)), fact("Memory", memoryTime(quest.memory_gib_hours)),
			fact("Last", moment(quest.last))),
		causes(quest), blocked(quest));
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

export function openQuests(root) {
	const page = new QuestsPage(root);
	return { title: "Quests", news: () => page.news(), reset: () => page.load(), key: (event) => page.key(event), close: () => page.close() };
}
