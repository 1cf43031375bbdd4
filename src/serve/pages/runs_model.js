/* The rows of a list that is longer than anybody reads: pages come when they are asked for, the head is asked for again when something has
 * changed, and rows that did not change stay the same objects. Knows nothing of elements. */
import { get, query, runPath } from "./api.js";

export const PAGE = 100;
const SINGLE_MOST = 16; /* rows asked for one by one after one batch of changes */

function same(a, b) {
	return JSON.stringify(a) === JSON.stringify(b);
}

/* The first rows as they are now, before those that were known below them. */
export function merged(known, head, headIsAll) {
	const place = new Map(known.map((row, i) => [row.id, i]));
	const rows = head.map((row) => {
		const old = known[place.get(row.id)];
		return old && same(old, row) ? old : row;
	});
	if (headIsAll)
		return { rows, joined: true };
	for (let i = head.length - 1; i >= 0; i--) {
		if (!place.has(head[i].id))
			continue;
		const fresh = new Set(head.map((row) => row.id));
		return { rows: rows.concat(known.slice(place.get(head[i].id) + 1).filter((row) => !fresh.has(row.id))), joined: true };
	}
	return { rows, joined: known.length === 0 }; /* so much is new that nothing of the old is near */
}

export class Runs {
	/* `changed` is called after each change. */
	constructor(filter, changed) {
		this.filter = filter;
		this.changed = changed;
		this.rows = [];
		this.next = undefined; /* undefined: never asked; null: this is all */
		this.total = null;
		this.loading = null;
		this.error = null;
		this.control = new AbortController();
	}

	close() {
		this.control.abort();
	}

	ask(more) {
		return get(`/v1/runs${query({ ...this.filter, limit: PAGE, ...more })}`, { signal: this.control.signal });
	}

	/* One request at a time; an error stays to be shown and the next call tries again. */
	async once(act) {
		if (this.loading)
			return this.loading;
		this.loading = (async () => {
			try {
				await act();
				this.error = null;
			} catch (error) {
				if (error.name === "AbortError")
					return;
				this.error = error;
			} finally {
				this.loading = null;
			}
			this.changed();
		})();
		return this.loading;
	}

	more() {
		if (this.next === null)
			return Promise.resolve();
		return this.once(async () => {
			const page = await this.ask(this.next ? { after: this.next } : {});
			const known = new Set(this.rows.map((row) => row.id));
			this.rows = this.rows.concat(page.runs.filter((row) => !known.has(row.id)));
			this.next = page.next ?? null;
			this.total = page.total ?? this.total;
		});
	}

	/* What is told while a request is under way may not be in its answer: another one follows. */
	refresh() {
		if (this.loading) {
			this.following ??= this.loading.then(() => {
				this.following = null;
				return this.refresh();
			});
			return this.following;
		}
		return this.once(async () => {
			const page = await this.ask({});
			const wasAll = this.next === undefined;
			const { rows, joined } = merged(this.rows, page.runs, !page.next);
			this.rows = rows;
			this.total = page.total ?? null;
			if (!joined || wasAll || !page.next)
				this.next = page.next ?? null;
		});
	}

	fits(row) {
		const { state, cause, runtime, quest, submitter } = this.filter;
		return (!state || row.state === state) && (!cause || row.cause === cause) && (!runtime || row.runtime === runtime)
			&& (!quest || row.quest === quest) && (!submitter || row.submitter === submitter);
	}

	/* Rows that were told to have changed and are below the head. */
	async again(ids) {
		const head = new Set(this.rows.slice(0, PAGE).map((row) => row.id));
		const known = new Set(this.rows.map((row) => row.id));
		const wanted = ids.filter((id) => known.has(id) && !head.has(id)).slice(0, SINGLE_MOST);
		const got = await Promise.all(wanted.map((id) => get(runPath(id), { signal: this.control.signal }).catch(() => null)));
		this.take(got.filter(Boolean).map((run) => ({ ...this.rows.find((row) => row.id === run.id), ...rowOf(run) })));
	}

	/* Rows as they are now; those that do not fit the filter any more go. */
	take(list) {
		const fresh = new Map(list.map((row) => [row.id, row]));
		if (!fresh.size)
			return;
		this.rows = this.rows.flatMap((row) => {
			const now = fresh.get(row.id);
			return !now || same(now, row) ? [row] : this.fits(now) ? [now] : [];
		});
		this.changed();
	}
}

const ROW = ["id", "state", "cause", "name", "quest", "submitter", "priority", "submitted", "started", "ended", "wall_usec", "cpu_usec",
	"memory_peak_bytes", "memory_limit_bytes", "exit_status", "attempt", "pending", "spark", "kind", "runtime_why"];

/* The row within a whole run. There, "runtime" may be the runtime's own record. */
export function rowOf(run) {
	const row = Object.fromEntries(ROW.filter((key) => key in run).map((key) => [key, run[key]]));
	row.runtime = runtimeName(run);
	return row;
}

export function runtimeName(run) {
	return run.runtime && typeof run.runtime === "object" ? run.runtime.name : run.runtime;
}
