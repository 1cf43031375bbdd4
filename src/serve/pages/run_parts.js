/* The parts of a run's page that are drawn out of its record and nothing else. */
import { badge } from "./causes.js";
import { bar } from "./chart.js";
import { el, pairs, table } from "./dom.js";
import { bytes, clean, clock, count, duration, name, NONE, plain, plural, when } from "./format.js";

/* How each limit is written: [name for people, writer]. Times are nanoseconds there, cpus thousandths. */
export const LIMITS = {
	memory: ["Memory", bytes], cpus: ["Processors", (n) => String(Math.round(n / 10) / 100)], pids: ["Processes", count],
	time: ["Time", (n) => duration(n / 1e3)], cpu_time: ["Time of processors", (n) => duration(n / 1e3)], disk: ["Disk", bytes], inodes: ["Files on disk", count],
	log: ["Log", bytes], open_files: ["Open files", count], output_size: ["Outputs", bytes], output_count: ["Output files", count], grace: ["Grace", (n) => duration(n / 1e3)],
};

export function limits(given) {
	const rows = Object.entries(given || {}).filter(([, value]) => value && Number.isFinite(value.limit) && value.limit > 0);
	const used = rows.filter(([, value]) => Number.isFinite(value.used));
	const others = rows.filter(([, value]) => !Number.isFinite(value.used));
	const write = (key) => (LIMITS[key] ? LIMITS[key][1] : count);
	const label = (key) => (LIMITS[key] ? LIMITS[key][0] : clean(key, 40));
	return [el("ul", { class: "limits" }, used.map(([key, value]) => {
		const words = `${write(key)(value.used)} of ${write(key)(value.limit)}`;
		return el("li", null, el("span", null, label(key)), el("span", { class: "n" }, write(key)(value.used), el("span", { class: "soft" }, ` / ${write(key)(value.limit)}`)),
			bar(value.used / value.limit, `${label(key)}: ${words}`));
	})), others.length ? el("p", { class: "soft small" }, `Also limited: ${others.map(([key, value]) => `${label(key).toLowerCase()} ${write(key)(value.limit)}`).join(", ")}`) : null];
}

export function selection(run) {
	const runtime = run.analysis?.runtime || (typeof run.runtime === "object" ? run.runtime : null) || {};
	const chosen = run.selection || runtime.selection || {};
	const executor = run.verdict?.executor || { name: run.analysis?.executor };
	const considered = chosen.considered || [];
	return [pairs([
		["Runtime", name(runtime.name || run.runtime || run.runtime_why || NONE, 80)], ["Kind", clean(runtime.kind || "", 40)], ["Version", clean(runtime.version || "", 120)],
		["Chosen by", chosen.rule ? clean(chosen.rule, 80) : null], ["Why", chosen.why ? clean(chosen.why, 400) : null],
		["Carried out by", executor.name ? clean([executor.name, executor.kind, executor.engine].filter(Boolean).join(", "), 200) : null],
		["Needs", (chosen.requires || []).length ? plain(chosen.requires.join(", ")) : null],
		["Fingerprint", runtime.fingerprint ? el("code", null, plain(Object.values(runtime.fingerprint).join(" "))) : null]]),
		considered.length ? el("details", null, el("summary", null, plural(considered.length, "runtime"), " considered"),
			el("ul", { class: "plain" }, considered.map((one) => el("li", null, typeof one === "object" ? [name(one.name, 80), ": ", clean(one.why || one.reason || plain(one), 300)] : name(one))))) : null];
}

function check(isGood, title, text) {
	return el("li", { class: isGood ? "good" : "warn" }, el("span", { class: "sign", "aria-hidden": "true" }, isGood ? "\u2713" : "!"),
		el("span", null, el("strong", null, title), isGood ? "" : " (not enforced)", text ? el("span", { class: "soft" }, ` ${text}`) : null));
}

/* What the kernel said was in force, after it was set up. */
export function receipt(r) {
	if (!r)
		return el("p", { class: "soft" }, "There is none: it is read back from the kernel once the box stands.");
	const spaces = Object.entries(r.namespaces || {});
	const own = spaces.filter(([, space]) => space.own).map(([key]) => key);
	const caps = Object.values(r.capabilities || {});
	const values = r.budget?.values || [];
	return [el("ul", { class: "checks" },
		spaces.length ? check(own.length === spaces.length, "Namespaces of its own", own.join(", ")) : null,
		r.user ? check(r.user.uid_host !== 0, "A user without rights", `uid ${r.user.uid_inside} inside is ${r.user.uid_host} on the host`) : null,
		caps.length ? check(caps.every((set) => /^0+$/.test(set)), "No capabilities") : null,
		"no_new_privs" in r ? check(r.no_new_privs, "No new privileges") : null,
		r.seccomp ? check(r.seccomp.mode === 2, "System calls filtered", plural(r.seccomp.instructions, "instruction")) : null,
		r.landlock ? check(r.landlock.proven_by_refused_write, "Landlock", `ABI ${r.landlock.abi}, proven by a refused write`) : null,
		r.mounts ? check(true, "Mounts", `${count(r.mounts.all)}, ${count(r.mounts.writable)} of them writable`) : null,
		r.disk ? check(true, "Disk", `${bytes(r.disk.limit_bytes)} by ${clean(r.disk.mechanism, 40)}`) : null),
	r.missing_layers ? el("p", { class: "warn" }, `Missing here, and allowed to be: ${clean(r.missing_layers, 300)}`) : null,
	values.length ? el("details", null, el("summary", null, `Limits as the kernel has them (${clean(r.budget.mechanism, 20)})`),
		table("Limits as the kernel has them", [{ label: "File", cell: (v) => el("code", null, clean(v.file, 80)) }, { label: "Asked", cell: (v) => clean(v.asked, 40), number: true },
			{ label: "Kernel", cell: (v) => clean(v.kernel, 40), number: true }], values)) : null,
	raw("All of the receipt", r)];
}

/* A record as it is, for who wants to see it. Made when it is opened. */
export function raw(title, value) {
	const node = el("details", null, el("summary", null, title));
	node.addEventListener("toggle", () => {
		if (node.open && node.childElementCount === 1)
			node.append(el("pre", { tabindex: "0" }, JSON.stringify(value, null, 2).slice(0, 200000)));
	});
	return node;
}

function summary(data) {
	return Object.entries(data || {}).filter(([, value]) => value !== null && typeof value !== "object").map(([key, value]) => `${clean(key, 40)} ${clean(value, 120)}`).join(", ");
}

export function events(list) {
	if (!list || !list.length)
		return el("p", { class: "soft" }, "Nothing has happened yet.");
	const first = when(list[0].time);
	return table("Events", [
		{ label: "Event", cell: (e) => clean(e.event, 40) },
		{ label: "After", cell: (e) => el("span", { title: clock(when(e.time)) }, duration(Math.max(0, when(e.time) - first) * 1e3)), number: true },
		{ label: "What", kind: "wrap", cell: (e) => summary(e.data) }], list);
}

/* What it was made of and what vouches for it. */
/* Words of a command line, of which a line of a program is one too. */
function words(list) {
	return el("pre", { class: "command", tabindex: "0" }, list.map((part) => clean(part, 4000).replaceAll("\\u000a", "\n").replaceAll("\\u0009", "\t")).join(" "));
}

function runLink(id) {
	return el("a", { href: `/runs/${encodeURIComponent(id)}` }, clean(id, 64));
}

export function provenance(run) {
	const a = run.analysis || {};
	const given = run.provenance || {};
	const code = a.code_contents || (a.code || []).map((path) => ({ path }));
	const digest = { label: "SHA-256", cell: (i) => el("code", null, clean(i.sha256 || NONE, 64)) };
	const known = Object.entries(given).filter(([key, value]) => value !== null && typeof value !== "object" && !["head", "rerun_of"].includes(key));
	return [pairs([
		["Command", a.command ? words(Array.isArray(a.command) ? a.command : [a.command]) : null],
		["Arguments", (a.args || []).length ? words(a.args) : null],
		["Pipeline", a.pipeline ? [runLink(a.pipeline.id), `, step ${clean(a.pipeline.step, 80)}`] : null],
		["Again of", a.rerun_of ? runLink(a.rerun_of) : null],
		["Network", clean(a.network || "", 40)],
		["Labels", Object.entries(a.labels || {}).map(([key, value]) => el("span", { class: "chip" }, `${clean(key, 60)}=${clean(value, 120)}`))],
		...known.map(([key, value]) => [clean(key.replaceAll("_", " "), 40), el("code", null, clean(value, 200))]),
		["Chain", run.verdict?.events ? el("code", null, `${run.verdict.events.count} events, head ${clean(run.verdict.events.head, 64)}`) : null]]),
	code.length ? table("Code", [{ label: "Code", cell: (i) => name(i.path, 200) }, digest], code) : null,
	(a.inputs || []).length ? table("Inputs", [{ label: "Input", cell: (i) => name(i.name || i.path || plain(i), 120) }, { label: "From", cell: (i) => name(i.path || i.source || "", 200) },
		digest], a.inputs) : null,
	raw(run.state === "queued" ? "The analysis as it was asked for" : "The analysis as it was resolved", a), Object.keys(given).length ? raw("All of the provenance", given) : null];
}

export function attempts(run, current) {
	const list = run.attempts || [];
	if (list.length < 2)
		return null;
	return el("p", { class: "small" }, "Attempts: ", list.map((one, i) => {
		const id = typeof one === "object" ? one.id : one;
		return [i ? " \u00b7 " : "", id === current ? el("strong", null, String(i + 1)) : el("a", { href: `/runs/${encodeURIComponent(id)}` }, String(i + 1)),
			one.cause ? [" ", badge(one.cause)] : null];
	}));
}
