/* The page of all runs: counts, filters that stand in the address, and a live list. */
import { get, query } from "./api.js";
import { CAUSES } from "./causes.js";
import { bar } from "./chart.js";
import { el, empty, put, say } from "./dom.js";
import { bytes, clean, count, cpus, plural } from "./format.js";
import { PAGE, Runs } from "./runs_model.js";
import { RunsTable, skeleton } from "./runs_table.js";

const FIELDS = ["state", "cause", "runtime", "quest", "submitter", "q", "order"];
const STATES = [["", "All"], ["queued", "Waiting"], ["running", "Running"], ["ended", "Ended"]];
const TYPING_MS = 250;
const NEWS_MS = 400;
const SAMPLES_MS = 4000;
const NEAR_TOP = 200; /* pixels: who is there sees what comes */

let counted = null; /* the counts as they were last, so that nothing moves when they come again */
let kept = null; /* the list as it was left: {address, rows, next, total, scroll} */

function readFilter(search) {
	const given = new URLSearchParams(search);
	return Object.fromEntries(FIELDS.map((field) => [field, given.get(field) || ""]).filter(([, value]) => value));
}

function choice(label, field, options, value, change) {
	return el("label", { class: "field" }, el("span", null, label),
		el("select", { name: field, on: { change: (event) => change(field, event.target.value) } },
			options.map(([key, text]) => el("option", { value: key, selected: key === value }, text))));
}

function words(label, field, value, change, properties) {
	let timer = 0;
	const input = el("input", { type: "search", name: field, value: value || "", autocomplete: "off", spellcheck: "false", maxlength: "200", ...properties });
	input.addEventListener("input", () => {
		clearTimeout(timer);
		timer = setTimeout(() => change(field, input.value.trim(), true), TYPING_MS);
	});
	return el("label", { class: "field" }, el("span", null, label), input);
}

class RunsPage {
	constructor(root, app, isBack) {
		this.app = app;
		this.isBack = isBack;
		this.filter = readFilter(location.search);
		this.changes = new Set();
		this.known = { runtime: new Set(), quest: new Set(), submitter: new Set() };
		this.counts = el("div", { class: "counts" });
		this.lists = Object.fromEntries(Object.keys(this.known).map((field) => [field, el("datalist", { id: `known-${field}` })]));
		this.place = el("div", { class: "list" });
		this.status = el("p", { class: "list-status soft", role: "status" });
		this.fresh = el("button", { type: "button", class: "fresh", hidden: true, on: { click: () => window.scrollTo({ top: 0 }) } });
		put(root, el("h1", { class: "unseen" }, "Runs"), this.counts, this.filters = el("div"), this.fresh, this.place, this.status, Object.values(this.lists));
		this.drawFilters();
		if (counted)
			this.drawCounts(...counted);
		this.begin();
		this.refreshCounts();
		this.samples = setInterval(() => this.sample(), SAMPLES_MS);
		this.onScroll = () => {
			if (window.scrollY >= NEAR_TOP)
				return;
			this.came = 0;
			this.fresh.hidden = true;
		};
		window.addEventListener("scroll", this.onScroll, { passive: true });
	}

	drawFilters() {
		const f = this.filter;
		const change = (field, value, isTyped) => this.change(field, value, isTyped);
		put(this.filters, el("form", { class: "filters", role: "search", "aria-label": "Filter runs", on: { submit: (event) => event.preventDefault() } },
			el("fieldset", { class: "tabs" }, el("legend", { class: "unseen" }, "State"), STATES.map(([value, text]) =>
				el("label", null, el("input", { type: "radio", name: "state", value, checked: (f.state || "") === value,
					on: { change: () => change("state", value) } }), el("span", null, text)))),
			words("Search", "q", f.q, change, { placeholder: "name, id, quest", "aria-keyshortcuts": "/" }),
			this.fold = el("button", { type: "button", class: "quiet fold", "aria-expanded": String(this.isUnfolded()), on: { click: () => this.unfold() } }, "Filters"),
			this.rest = el("div", { class: this.isUnfolded() ? "rest" : "rest folded" },
				choice("Cause", "cause", [["", "any"], ...CAUSES.map((cause) => [cause, cause])], f.cause || "", change),
				words("Runtime", "runtime", f.runtime, change, { list: "known-runtime" }),
				words("Quest", "quest", f.quest, change, { list: "known-quest" }),
				words("By", "submitter", f.submitter, change, { list: "known-submitter" })),
			this.clear = el("button", { type: "button", class: "quiet", hidden: !this.isFiltered(), on: { click: () => this.reset() } }, "Clear")));
	}

	/* On a phone the lesser filters are folded away, unless they are used. */
	isUnfolded() {
		return ["cause", "runtime", "quest", "submitter"].some((field) => this.filter[field]);
	}

	unfold() {
		const isFolded = this.rest.classList.toggle("folded");
		this.fold.setAttribute("aria-expanded", String(!isFolded));
	}

	isFiltered() {
		return FIELDS.some((field) => field !== "order" && this.filter[field]);
	}

	change(field, value, isTyped) {
		if ((this.filter[field] || "") === value)
			return;
		const filter = { ...this.filter, [field]: value };
		this.filter = Object.fromEntries(Object.entries(filter).filter(([, text]) => text));
		const address = `/${query(this.filter)}`;
		if (isTyped)
			history.replaceState(null, "", address);
		else
			history.pushState(null, "", address);
		this.clear.hidden = !this.isFiltered();
		this.begin();
	}

	reset() {
		this.filter = this.filter.order ? { order: this.filter.order } : {};
		history.pushState(null, "", `/${query(this.filter)}`);
		this.drawFilters();
		this.begin();
	}

	/* A new list, or the one that was left if we come back to it. */
	begin() {
		this.runs?.close();
		this.table?.close();
		this.table = null;
		this.head = null;
		this.came = 0;
		this.address = query(this.filter);
		this.runs = new Runs(this.filter, () => this.draw());
		const old = kept && kept.address === this.address ? kept : null;
		kept = null;
		put(this.place, skeleton());
		say(this.status, "Loading\u2026");
		if (!old)
			return this.runs.more();
		Object.assign(this.runs, { rows: old.rows, next: old.next, total: old.total });
		this.draw();
		if (this.isBack && this.table) {
			window.scrollTo({ top: old.scroll, behavior: "instant" });
			this.table.move(old.current);
		}
		this.isBack = false;
		return this.runs.refresh();
	}

	draw() {
		const { rows, total, error, next } = this.runs;
		if (error && !rows.length)
			return this.drawError(error);
		if (!rows.length)
			return this.drawEmpty();
		if (!this.table) {
			this.table = new RunsTable(this.filter.order || "newest", {
				more: () => { if (this.runs.next !== null && !this.runs.error) this.runs.more(); },
				order: () => this.change("order", this.filter.order === "oldest" ? "" : "oldest"),
			});
			put(this.place, this.table.node);
		}
		this.tellNew(rows);
		this.table.show(rows, total);
		this.learn(rows);
		const all = Number.isFinite(total) ? total : next === null ? rows.length : null;
		say(this.status, error ? `${error.message} What is shown may be old.` : all === null ? `${count(rows.length)} shown, more below` : plural(all, "run"));
	}

	tellNew(rows) {
		const head = rows.slice(0, PAGE).map((row) => row.id);
		const came = this.head ? head.filter((id) => !this.head.has(id) && !this.table.rows.some((row) => row.id === id)).length : 0;
		this.head = new Set(head);
		if (window.scrollY < NEAR_TOP)
			this.came = 0;
		else
			this.came += came;
		this.fresh.hidden = !this.came;
		say(this.fresh, `\u2191 ${plural(this.came, "new run")}`);
	}

	drawError(error) {
		this.table?.close();
		this.table = null;
		put(this.place, empty("The runs can't be shown.", `${error.message} ${error.remedy || ""}`));
		say(this.status, "");
	}

	drawEmpty() {
		this.table?.close();
		this.table = null;
		if (this.isFiltered())
			put(this.place, empty("No run is like that.", "Take a filter away, or clear them all."),
				el("p", { class: "center" }, el("button", { type: "button", class: "primary", on: { click: () => this.reset() } }, "Clear the filters")));
		else
			put(this.place, empty("Nothing has been run yet.", "Submit something, and it shows up here by itself:",
				"cupel submit --quest first -- python3 -c 'print(6 * 7)'"));
		say(this.status, "");
	}

	/* What there is to choose from is what has been seen. */
	learn(rows) {
		for (const [field, seen] of Object.entries(this.known)) {
			const before = seen.size;
			for (const row of rows)
				if (row[field] && seen.size < 200)
					seen.add(String(row[field]).slice(0, 200));
			if (seen.size !== before)
				put(this.lists[field], [...seen].sort().map((value) => el("option", { value })));
		}
	}

	async refreshCounts() {
		try {
			const total = async (state) => (await get(`/v1/runs${query({ state, limit: 1 })}`)).total;
			const [queue, waiting, ended] = await Promise.all([get("/v1/queue?limit=1"), total("queued"), total("ended")]);
			counted = [queue, waiting, ended];
			this.drawCounts(...counted);
		} catch {
			/* the banner tells of a service that is away; counts are not worth more words */
		}
	}

	drawCounts(queue, waiting, ended) {
		const tile = (label, value, more) => el("div", { class: "count" }, el("span", { class: "count-label" }, label), el("strong", null, value), more);
		const use = queue.use || {};
		const share = (label, part, write) => (part && part.cap ? tile(label, el("span", null, write(part.used), el("small", null, ` of ${write(part.cap)}`)),
			bar(part.used / part.cap, `${label}: ${write(part.used)} of ${write(part.cap)}`, true)) : null);
		put(this.counts,
			tile("Running", count(queue.running)),
			tile("Waiting", count(waiting ?? (queue.waiting || []).length)),
			Number.isFinite(ended) ? tile("Ended", count(ended)) : null,
			share("Memory given", use.memory, bytes),
			share("Processors given", use.cpus, cpus),
			share("Processes given", use.pids, count));
		if (queue.draining)
			this.counts.prepend(el("p", { class: "notice" }, "The service is about to stop: what runs goes on, what waits is started by the next one."));
		if (queue.database)
			this.counts.prepend(el("p", { class: "notice" }, `The ledger: ${clean(queue.database, 400)}`));
	}

	/* What has changed is asked for once a moment, however much it is. */
	news({ id }) {
		this.changes.add(id);
		this.pending ||= setTimeout(async () => {
			const ids = [...this.changes];
			this.changes.clear();
			this.pending = 0;
			await this.runs.refresh();
			this.runs.again(ids);
			this.refreshCounts();
		}, NEWS_MS);
	}

	again() {
		this.runs.refresh();
		this.refreshCounts();
	}

	/* Memory is no change of state: it is asked for as long as something runs and somebody looks. */
	async sample() {
		if (document.hidden)
			return;
		if (this.runs.error)
			return this.runs.refresh();
		if (!this.runs.rows.some((row) => row.state !== "ended"))
			return;
		try {
			const { runs } = await get(`/v1/runs${query({ ...this.filter, state: "running", limit: 100 })}`, { signal: this.runs.control.signal });
			if (!this.filter.state || this.filter.state === "running")
				this.runs.take(runs);
		} catch {
			/* the next one comes soon */
		}
	}

	key(event) {
		if (event.key === "/") {
			this.filters.querySelector("[name=q]").focus();
			return true;
		}
		if (event.key === "Escape" && this.isFiltered() && !this.place.contains(document.activeElement)) {
			this.reset();
			return true;
		}
		return this.table ? this.table.key(event) : false;
	}

	close() {
		kept = { address: this.address, rows: this.runs.rows, next: this.runs.next, total: this.runs.total, scroll: window.scrollY, current: this.table?.current ?? 0 };
		clearInterval(this.samples);
		clearTimeout(this.pending);
		window.removeEventListener("scroll", this.onScroll);
		this.runs.close();
		this.table?.close();
	}
}

/* Who comes back finds the list where he left it. */
export function openRuns(root, app, isBack) {
	const page = new RunsPage(root, app, isBack);
	return { title: "Runs", news: (change) => page.news(change), reset: () => page.again(), key: (event) => page.key(event), close: () => page.close() };
}
