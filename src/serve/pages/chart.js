/* Pictures of numbers: a sparkline, bars, a chart of use over time and a timeline. Each says in words what it shows. */
import { el, svg } from "./dom.js";
import { bytes, clock, duration, percent, when } from "./format.js";

/* Memory against its limit, 0 to 1. */
export function sparkline(values, label) {
	const width = 84, height = 22;
	const step = values.length > 1 ? width / (values.length - 1) : width;
	const y = (value) => height - 1 - Math.max(0, Math.min(1, value)) * (height - 2);
	const points = values.length > 1 ? values : [values[0], values[0]];
	const line = points.map((value, i) => `${i ? "L" : "M"}${(i * step).toFixed(1)} ${y(value).toFixed(1)}`).join("");
	const near = Math.max(...values) > 0.9;
	return svg("svg", { class: near ? "spark near" : "spark", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label,
		preserveAspectRatio: "none" },
		svg("line", { class: "spark-limit", x1: 0, x2: width, y1: 1, y2: 1 }),
		svg("path", { class: "spark-area", d: `${line}L${width} ${height}L0 ${height}Z` }),
		svg("path", { class: "spark-line", d: line }));
}

/* `isPlain`: to be full is nothing bad. */
export function bar(part, label, isPlain) {
	const share = Math.max(0, Math.min(1, Number.isFinite(part) ? part : 0));
	const grade = isPlain ? "" : share >= 0.995 ? "full" : share > 0.9 ? "near" : "";
	return svg("svg", { class: `bar ${grade}`, viewBox: "0 0 100 8", preserveAspectRatio: "none", role: "img", "aria-label": label || percent(part) },
		svg("rect", { class: "track", width: 100, height: 8, rx: 2 }),
		svg("rect", { class: "used", width: Math.max(share * 100, share > 0 ? 0.8 : 0), height: 8, rx: 2 }));
}

/* Parts of a whole, side by side: [{amount, tone, label}]. */
export function stack(parts, label) {
	const all = parts.reduce((sum, part) => sum + part.amount, 0) || 1;
	let x = 0;
	return svg("svg", { class: "bar stack", viewBox: "0 0 100 8", preserveAspectRatio: "none", role: "img", "aria-label": label },
		svg("rect", { class: "track", width: 100, height: 8 }),
		parts.filter((part) => part.amount > 0).map((part) => {
			const width = part.amount * 100 / all;
			const rect = svg("rect", { class: `part ${part.tone}`, x, width, height: 8 }, svg("title", null, part.label));
			x += width;
			return rect;
		}));
}

const TREND = { width: 320, height: 96, left: 46, right: 6, top: 8, bottom: 20 };

/* Values over time as bars: [{label, value}], in stretches of one width; null where there is nothing to show. What it shows is said in words. */
export function trend(title, points, { write, top }) {
	const { width, height, left, right, top: above, bottom } = TREND;
	const known = points.filter(({ value }) => Number.isFinite(value));
	const most = top || Math.max(...known.map(({ value }) => value), 0) || 1;
	const step = (width - left - right) / Math.max(points.length, 1);
	const wide = Math.min(step * 0.76, 24);
	const y = (value) => height - bottom - value / most * (height - above - bottom);
	const last = known[known.length - 1];
	const told = known.length ? `${title}: ${write(known[0].value)} at ${known[0].label}, ${write(last.value)} at ${last.label}; least ${write(Math.min(...known.map((one) => one.value)))}, most ${write(Math.max(...known.map((one) => one.value)))}` : `${title}: nothing to show`;
	return el("figure", { class: "trend" }, el("figcaption", null, el("span", null, title), el("span", { class: "soft" }, known.length ? `last ${write(last.value)}` : "nothing to show")),
		svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": told },
			[0, 1].map((part) => [svg("line", { class: "grid", x1: left, x2: width - right, y1: y(part * most), y2: y(part * most) }),
				svg("text", { class: "tick", x: left - 5, y: y(part * most) + 4, "text-anchor": "end" }, write(part * most))]),
			points.map(({ label, value }, i) => (Number.isFinite(value)
				? svg("rect", { class: "bar-of", x: (left + i * step + step * 0.12).toFixed(1), width: wide.toFixed(1), y: Math.min(y(value), height - bottom - 1).toFixed(1), height: Math.max(1, height - bottom - y(value)).toFixed(1) },
					svg("title", null, `${label}: ${write(value)}`)) : null)),
			points.length ? [svg("text", { class: "tick", x: left, y: height - 5 }, points[0].label),
				points.length > 1 ? svg("text", { class: "tick", x: width - right, y: height - 5, "text-anchor": "end" }, points[points.length - 1].label) : null] : null));
}

const PHASES = { queue: "waited", prepare: "prepared", run: "ran", collect: "collected" };

/* queue, prepare, run, collect: as long as they took, but none so small that it can't be seen. */
export function timeline(phases, isLive) {
	const now = Date.now();
	const known = phases.map((p) => ({ ...p, from: when(p.from), to: p.to ? when(p.to) : isLive ? now : NaN }))
		.filter((p) => Number.isFinite(p.from))
		.map((p) => ({ ...p, usec: Number.isFinite(p.to) ? Math.max(0, p.to - p.from) * 1e3 : NaN }));
	const all = known.reduce((sum, p) => sum + (p.usec || 0), 0) || 1;
	return el("ol", { class: "timeline", "aria-label": "Timeline" }, known.map((p) =>
		el("li", { class: `phase ${p.phase}`, css: { "flex-grow": String(Math.max(0.08, (p.usec || 0) / all)) },
			title: `${clock(p.from)} to ${p.to ? clock(p.to) : "now"}` },
			el("span", { class: "phase-name" }, PHASES[p.phase] || String(p.phase)), " ",
			el("span", { class: "phase-time" }, duration(p.usec)))));
}

const CHART = { height: 150, left: 62, right: 10, top: 16, bottom: 22 };
const STEPS = [1, 2, 2.5, 5, 10];

/* The next number that people like to read, in powers of `base`. */
function round(value, base) {
	const power = base ** Math.floor(Math.log(value) / Math.log(base));
	const step = base === 1024 ? 2 ** Math.ceil(Math.log2(value / power)) : STEPS.find((one) => one * power >= value * 0.999);
	return step * power;
}

function axis(scale, top, width, write) {
	const { left, right } = CHART;
	return [0, 0.5, 1].map((part) => [
		svg("line", { class: "grid", x1: left, x2: width - right, y1: scale(part * top), y2: scale(part * top) }),
		svg("text", { class: "tick", x: left - 6, y: scale(part * top) + 4, "text-anchor": "end" }, write(part * top))]);
}

/* One series [[ms, value]] with its limit, and a reading that follows the pointer or the arrow keys. */
export function chart(title, series, { limit, known, write, base, width }) {
	const { height, left, right, top, bottom } = CHART;
	const last = series.length ? series[series.length - 1][0] : 0;
	const seen = series.reduce((most, [, value]) => Math.max(most, value), 0);
	const peak = Math.max(seen, known || 0); /* samples miss what was between them */
	/* A limit far above all use would press the curve flat: then it is said, not drawn. */
	const drawn = limit && limit <= peak * 8 ? limit : null;
	const most = drawn && drawn >= peak ? drawn : peak > 0 ? round(peak, base) : 1;
	const x = (ms) => left + (last ? ms / last : 0) * (width - left - right);
	const y = (value) => height - bottom - value / most * (height - top - bottom);
	const line = series.map(([ms, value], i) => `${i ? "L" : "M"}${x(ms).toFixed(1)} ${y(value).toFixed(1)}`).join("");
	const told = `${title}: peak ${write(peak)}${limit ? ` of ${write(limit)}` : ""}, over ${duration(last * 1e3)}`;
	const cursor = svg("line", { class: "cursor", y1: top, y2: height - bottom, visibility: "hidden" });
	const reading = el("output", { class: "reading", "aria-live": "off" });
	const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": told, tabindex: "0" },
		axis(y, most, width, write),
		svg("text", { class: "tick", x: left, y: height - 6 }, "0"),
		svg("text", { class: "tick", x: width - right, y: height - 6, "text-anchor": "end" }, duration(last * 1e3)),
		series.length > 1 ? svg("path", { class: "area", d: `${line}L${x(last)} ${y(0)}L${x(series[0][0])} ${y(0)}Z` }) : null,
		svg("path", { class: "curve", d: line }),
		drawn ? [svg("line", { class: "limit", x1: left, x2: width - right, y1: y(drawn), y2: y(drawn) }),
			svg("text", { class: "limit-text", x: width - right, y: y(drawn) - 4, "text-anchor": "end" }, `limit ${write(drawn)}`)] : null,
		cursor);
	let at = -1;
	const point = (index) => {
		at = Math.max(0, Math.min(series.length - 1, index));
		const [ms, value] = series[at];
		cursor.setAttribute("x1", x(ms));
		cursor.setAttribute("x2", x(ms));
		cursor.setAttribute("visibility", "visible");
		reading.textContent = `${write(value)} after ${duration(ms * 1e3)}`;
	};
	if (series.length) {
		picture.addEventListener("pointermove", (event) => {
			const box = picture.getBoundingClientRect();
			const ms = ((event.clientX - box.left) / box.width * width - left) / (width - left - right) * last;
			let near = series.findIndex(([t]) => t >= ms);
			point(near < 0 ? series.length - 1 : near);
		});
		picture.addEventListener("keydown", (event) => {
			const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
			if (!step)
				return;
			event.preventDefault();
			reading.setAttribute("aria-live", "polite");
			point(at < 0 ? series.length - 1 : at + step);
		});
	}
	return el("figure", null, el("figcaption", null, el("span", null, title), " ",
		el("span", { class: "soft" }, `peak ${write(peak)}${limit ? ` of ${write(limit)}` : ""}`), reading), picture);
}

/* Two digits that say something, of the smallest too. */
function share(n) {
	return String(Number(n >= 0.1 || n < 1e-6 ? n.toFixed(2) : n.toPrecision(2)));
}

/* Of what /usage gives: memory, and the processors in use between two samples. Each `width` wide, so that words have their size. */
export function usageCharts(usage, cpus, width, peak) {
	const column = Object.fromEntries(usage.columns.map((word, i) => [word, i]));
	const rows = usage.rows.filter((row) => Number.isFinite(row[column.t_ms]));
	const memory = rows.map((row) => [row[column.t_ms], row[column.mem]]);
	const load = rows.slice(1).map((row, i) => {
		const ms = row[column.t_ms] - rows[i][column.t_ms];
		return [row[column.t_ms], ms > 0 ? Math.max(0, (row[column.cpu_usec] - rows[i][column.cpu_usec]) / ms / 1e3) : 0];
	});
	return el("div", { class: "charts" }, chart("Memory", memory, { limit: usage.memory_limit_bytes, known: peak, write: bytes, base: 1024, width }),
		chart("Processors in use", load, { limit: cpus, write: share, base: 10, width }));
}
