/* The steps of a pipeline: how far each is, and the runs behind it. */
import { badge } from "./causes.js";
import { stack } from "./chart.js";
import { el, pairs, section, table } from "./dom.js";
import { clean, count, duration, name, NONE, when } from "./format.js";

const TASKS_SHOWN = 12;

export const STEP_STATES = [["ok", "ok"], ["reused", "reused"], ["running", "live"], ["failed", "bad"], ["cancelled", "idle"], ["skipped", "idle"], ["waiting", "none"]];

function state(step) {
	const order = ["failed", "running", "cancelled", "skipped", "waiting", "ok", "reused"];
	return order.find((word) => step.counts[word] > 0) || "waiting";
}

export function progress(counts, label) {
	return stack(STEP_STATES.map(([key, tone]) => ({ amount: counts[key] || 0, tone, label: `${key}: ${counts[key] || 0}` })), label);
}

function runs(step) {
	const tasks = (step.tasks || []).filter((task) => task.run);
	return [tasks.slice(0, TASKS_SHOWN).map((task, i) => [i ? ", " : "", el("a", { href: `/runs/${encodeURIComponent(task.run)}`, title: clean(task.why || "", 300) || null },
		task.shard ? clean(task.shard, 40) : clean(task.run, 64))]), tasks.length > TASKS_SHOWN ? ` and ${count(tasks.length - TASKS_SHOWN)} more` : ""];
}

/* The record of a pipeline with the words that a run's record has: a pipeline that ended has a cause. */
export function asRun(pipeline) {
	const isOver = !["queued", "running"].includes(pipeline.state);
	return { ...pipeline, state: isOver ? "ended" : pipeline.state, cause: isOver ? pipeline.cause || pipeline.state : null, submitted: pipeline.submitted || pipeline.created };
}

function facts(pipeline) {
	const took = when(pipeline.ended) - when(pipeline.started);
	return pairs([["File", name(pipeline.file || "", 300)], ["Took", Number.isFinite(took) ? duration(took * 1e3) : null],
		["Parameters", Object.entries(pipeline.parameters || {}).map(([key, value]) => el("span", { class: "chip" }, `${clean(key, 60)}=${clean(JSON.stringify(value), 120)}`))]]);
}

export function steps(pipeline) {
	return section("Steps", null, facts(pipeline), table("Steps", [
		{ label: "Step", cell: (step) => name(step.name, 60) },
		{ label: "State", cell: (step) => badge(state(step)) },
		{ label: "Done", cell: (step) => progress(step.counts, `${clean(step.name, 40)}: ${(step.counts.ok || 0) + (step.counts.reused || 0)} of ${step.shards} done`), kind: "meter" },
		{ label: "Time", cell: (step) => duration((step.tasks || []).reduce((sum, task) => sum + (task.wall_ms || 0), 0) * 1e3), number: true },
		{ label: "Runs", kind: "wrap", cell: runs },
		{ label: "Why", kind: "wrap", cell: (step) => clean((step.tasks || [])[0]?.why || NONE, 200) }], pipeline.steps || []),
	(pipeline.failed || []).map((one) => el("p", { class: "verdict bad" }, el("strong", null, clean(one.step, 60), ": "), clean(one.notes, 600),
		one.run ? [" ", el("a", { href: `/runs/${encodeURIComponent(one.run)}` }, "Its log")] : null)));
}
