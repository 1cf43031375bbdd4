/* The page of one run: how it stands, what it used, what it said, what it left, and what can be done about it. */
import { get, post, query, runPath } from "./api.js";
import { badge, tone, word } from "./causes.js";
import { timeline, usageCharts } from "./chart.js";
import { confirmed } from "./dialog.js";
import { button, el, empty, put, section } from "./dom.js";
import { clean, moment, name, since, who } from "./format.js";
import { Log } from "./log.js";
import { Outputs } from "./outputs.js";
import { asRun, steps } from "./pipeline.js";
import { attempts, events, limits, provenance, receipt, selection } from "./run_parts.js";
import { runtimeName } from "./runs_model.js";
import { save } from "./save.js";

const LOOK_MS = 2500;

/* One that is being prepared, or was cancelled or refused before it was started, has no log, no use, nothing left. */
function hasBegun(run) {
	return Boolean(run.verdict) || (run.events || []).some(({ event }) => event === "started");
}

class RunPage {
	constructor(root, app, id) {
		this.root = root;
		this.app = app;
		this.id = id;
		this.drawn = new Map(); /* of each part, the record it was drawn of */
		this.log = new Log(id, { ended: () => this.load() });
		this.outputs = new Outputs(id);
		this.parts = Object.fromEntries(["head", "notes", "steps", "timeline", "charts", "limits", "selection", "receipt", "provenance", "events"].map((part) => [part, el("div")]));
		this.control = new AbortController();
		put(root, el("p", { class: "soft", role: "status" }, "Loading\u2026"));
		this.load();
		this.timer = setInterval(() => this.look(), LOOK_MS);
	}

	async load() {
		let run;
		try {
			run = await this.ask();
		} catch (error) {
			if (error.name !== "AbortError" && !this.run)
				this.fail(error);
			return;
		}
		if (this.control.signal.aborted)
			return;
		const before = this.run;
		this.run = run;
		if (!before)
			this.layOut();
		this.draw();
		await this.follow(before);
	}

	/* Runs and pipelines share one space of ids. */
	async ask() {
		const found = await get(`${runPath(this.id)}?kind=any`, { signal: this.control.signal });
		return found.kind === "pipeline" ? asRun(found) : found;
	}

	fail(error) {
		const heading = el("h1", null, `Run ${clean(this.id, 64)}`);
		if (error.status === 404)
			put(this.root, heading, empty(`There is no run ${clean(this.id, 64)}.`, "It may have been removed, or its id is another. See all runs:"), el("p", { class: "center" }, el("a", { href: "/" }, "Runs")));
		else
			put(this.root, heading, empty("The run can't be shown.", `${error.message} ${error.remedy || ""}`));
	}

	layOut() {
		const p = this.parts;
		if (this.run.kind === "pipeline")
			return void put(this.root, p.head, p.notes, p.steps);
		const [charts, log, happened, used, chosen, enforced] = this.later = [section("Use over time", null, p.charts), section("Log", null, this.log.node),
			section("Events", null, p.events), section("Limits and use", null, p.limits), section("Runtime", null, p.selection), section("Receipt", null, p.receipt)];
		this.outputSection = section("Outputs", null, this.outputs.node);
		return void put(this.root, p.head, p.notes, p.timeline,
			el("div", { class: "columns" }, el("div", null, charts, log, this.outputSection, happened),
				el("div", null, used, chosen, enforced, section("Provenance", null, p.provenance))));
	}

	/* Draws a part again only if what it shows has changed, so that nothing that somebody reads or holds goes away under him. */
	part(key, value, draw) {
		const now = JSON.stringify(value) ?? "";
		if (this.drawn.get(key) === now)
			return;
		this.drawn.set(key, now);
		put(this.parts[key], draw());
	}

	draw() {
		const { run } = this;
		this.app.setTitle(`${word(run)}: ${run.name || run.id}`);
		this.part("head", [run.state, run.cause, Boolean(run.verdict), run.name, run.quest, run.runtime, run.runtime_why, run.submitter, run.attempts, run.started, run.ended], () => this.head());
		this.part("notes", [run.verdict?.completion_notes, run.pending, run.submission?.note, run.state], () => this.notes());
		if (run.kind === "pipeline")
			return this.part("steps", run, () => steps(run));
		this.part("timeline", [run.timeline, run.state === "ended" ? 0 : Date.now()], () => timeline(run.timeline || [], run.state !== "ended"));
		this.part("limits", run.limits, () => limits(run.limits));
		this.part("selection", [run.analysis?.runtime, run.runtime, run.selection, run.verdict?.executor], () => selection(run));
		this.part("receipt", run.receipt, () => receipt(run.receipt));
		this.part("provenance", [run.analysis, run.provenance, run.verdict?.events], () => provenance(run));
		this.part("events", run.events, () => events(run.events));
		for (const part of this.later)
			part.hidden = !hasBegun(run);
		this.outputSection.hidden = !hasBegun(run) || run.state !== "ended";
		return null;
	}

	notes() {
		const { run } = this;
		if (run.state === "queued" && run.pending)
			return el("p", { class: "verdict idle" }, el("strong", null, `Waits for ${clean(run.pending.reason, 40)}: `), clean(run.pending.text, 600));
		const text = run.verdict?.completion_notes || (run.state === "ended" ? run.submission?.note : null);
		return text && text !== run.cause ? el("p", { class: `verdict ${tone(word(run))}` }, clean(text, 2000)) : null;
	}

	head() {
		const { run } = this;
		const may = (scope) => !this.app.identity || (this.app.identity.scopes || []).includes(scope);
		const isOver = run.state === "ended";
		const isRecorded = isOver && (run.verdict || run.kind === "pipeline");
		const act = (label, kind, go) => button(label, { class: kind }, () => this.act(go));
		this.error = el("p", { class: "warn", role: "alert" });
		return el("header", { class: "run-head" },
			el("h1", null, badge(word(run)), " ", name(run.name || run.id, 300)),
			el("p", { class: "facts" }, el("code", null, clean(run.id, 64)),
				el("button", { type: "button", class: "quiet", on: { click: () => navigator.clipboard?.writeText(run.id).then(() => this.app.announce("Copied")) } }, "Copy id"),
				run.quest ? el("span", null, "quest ", el("a", { href: `/${query({ quest: run.quest })}` }, name(run.quest, 80))) : null,
				runtimeName(run) ? el("span", null, "runtime ", el("a", { href: `/${query({ runtime: runtimeName(run) })}` }, name(runtimeName(run), 80))) : run.runtime_why ? el("span", null, `runtime: ${clean(run.runtime_why, 200)}`) : null,
				run.submitter ? el("span", null, "by ", el("a", { href: `/${query({ submitter: run.submitter })}` }, who(run.submitter))) : null,
				el("span", null, "submitted ", moment(run.submitted || run.started)),
				run.state === "running" ? el("span", null, "runs for ", since(run.started)) : null),
			attempts(run, run.id),
			el("div", { class: "buttons" },
				!isOver && may("submit") ? act("Cancel", "danger", () => this.cancel()) : null,
				isOver && may("submit") && run.kind !== "pipeline" ? act("Run again", "primary", () => this.rerun()) : null,
				isOver && may("submit") && run.kind === "pipeline" && run.cause !== "ok" ? act("Resume", "primary", () => this.resume()) : null,
				isRecorded ? act("Report", "quiet", () => save(runPath(this.id, "report"), `${this.id}.html`)) : null,
				isRecorded ? act("RO-Crate", "quiet", () => save(runPath(this.id, "crate"), `${this.id}.zip`)) : null),
			this.error);
	}

	async act(go) {
		put(this.error);
		try {
			await go();
		} catch (error) {
			put(this.error, `${clean(error.message, 500)} ${clean(error.remedy || "", 500)}`);
		}
	}

	async cancel() {
		const isRunning = this.run.state === "running";
		if (!await confirmed("Cancel this run?", isRunning ? "Everything in its box is ended. What it wrote so far is kept as partial, and its record stays." : "It is taken out of the queue.", "Cancel the run", true))
			return;
		await post(runPath(this.id, "cancel"));
		this.app.announce("Asked to end it");
		await this.load();
	}

	async rerun() {
		if (!await confirmed("Run it again?", "A new run of the same analysis is put into the queue, with the same limits and inputs. This one stays as it is.", "Run again"))
			return;
		const { id } = await post(runPath(this.id, "rerun"));
		this.app.go(`/runs/${encodeURIComponent(id)}`);
	}

	async resume() {
		if (!await confirmed("Resume this pipeline?", "Steps whose results are known are not run again; the others are.", "Resume"))
			return;
		const { id } = await post(`/v1/pipelines/${encodeURIComponent(this.id)}/resume`);
		this.app.go(`/runs/${encodeURIComponent(id || this.id)}`);
	}

	/* What belongs to the state it is in now and did not to the one before. */
	async follow(before) {
		const { run } = this;
		const hadBegun = before && hasBegun(before);
		if (before && before.state === run.state && hadBegun === hasBegun(run))
			return;
		if (before && before.state !== run.state)
			this.app.announce(`This run is now: ${word(run)}`);
		if (run.kind === "pipeline")
			return;
		if (!hasBegun(run))
			return;
		if (!hadBegun)
			this.log.open("stdout", run.state === "running");
		if (run.state === "ended")
			this.outputs.load();
		await this.usage();
	}

	/* Two beside each other where there is room. */
	chartWidth() {
		const room = this.parts.charts.clientWidth || 640;
		return Math.max(260, Math.floor(room >= 700 ? (room - 24) / 2 : room));
	}

	async usage() {
		const { run } = this;
		if (!hasBegun(run) || run.kind === "pipeline" || this.parts.charts.matches(":hover, :focus-within"))
			return;
		try {
			const usage = await get(`${runPath(this.id, "usage")}?points=300`, { signal: this.control.signal });
			const cpus = run.limits?.cpus?.limit;
			this.part("charts", [usage, this.run.memory_peak_bytes], () => (usage.rows.length > 1 ? usageCharts(usage, cpus ? cpus / 1000 : null, this.chartWidth(), this.run.memory_peak_bytes)
				: el("p", { class: "soft" }, run.state === "running" ? "The first samples come in a moment." : "It was over before a second sample was taken.")));
		} catch (error) {
			if (error.name !== "AbortError")
				this.part("charts", error.message, () => el("p", { class: "soft" }, "Its use was not recorded."));
		}
	}

	async look() {
		if (document.hidden || !this.run || this.run.state === "ended")
			return;
		await this.load();
		await this.usage();
	}

	key(event) {
		if (event.key === "Escape") {
			history.length > 1 ? history.back() : this.app.go("/");
			return true;
		}
		return this.run && hasBegun(this.run) && this.run.kind !== "pipeline" ? this.log.key(event) : false;
	}

	close() {
		clearInterval(this.timer);
		this.control.abort();
		this.log.close();
		this.outputs.close();
	}
}

export function openRun(root, app, id) {
	const page = new RunPage(root, app, id);
	return { title: `Run ${id}`, news: (change) => { if (change.id === id) page.load(); }, reset: () => page.load(), key: (event) => page.key(event), close: () => page.close() };
}
