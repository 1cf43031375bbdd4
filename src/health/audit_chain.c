/* Follows the chain of all runs: is each run that it has still there and the one that was chained, does it have each that is complete, and
 * does the ledger have the same chain? */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "health/audit.h"
#include "ledger/chain.h"

/* What a line says of a run. */
struct said {
	uint64_t line;
	bool is_removal;
	char run[ID_MAX + 1];
	char last[HASH_HEX];
};

struct following {
	struct said *said; /* owned; sorted by run, then line */
	size_t n, room;
};

static void following_release(struct following *f)
{
	cleanup_free(&f->said);
}

static int note_link(void *data, const struct chain_link *link, struct err *err)
{
	struct following *f = data;
	if (f->n == f->room) {
		f->room = f->room ? 2 * f->room : 256;
		f->said = xreallocarray(f->said, f->room, sizeof *f->said);
	}
	struct said *s = &f->said[f->n++];
	*s = (struct said){ .line = link->n, .is_removal = link->is_removal };
	memcpy(s->run, link->run, sizeof s->run);
	memcpy(s->last, link->last, sizeof s->last);
	return 0;
}

static int by_run(const void *a, const void *b)
{
	const struct said *x = a, *y = b;
	int order = strcmp(x->run, y->run);
	return order ? order : x->line < y->line ? -1 : x->line > y->line;
}

static const struct said *find(const struct following *f, const char *run)
{
	size_t from = 0, to = f->n;
	while (from < to) {
		size_t middle = from + (to - from) / 2;
		if (strcmp(f->said[middle].run, run) < 0)
			from = middle + 1;
		else
			to = middle;
	}
	return from < f->n && str_eq(f->said[from].run, run) ? &f->said[from] : NULL;
}

static int by_line(const void *a, const void *b)
{
	const struct said *x = *(const struct said *const *)a, *y = *(const struct said *const *)b;
	return x->line < y->line ? -1 : x->line > y->line;
}

/* Why the line does not hold, or NULL. `next` is the next line about the same run, or NULL. */
static const char *judge(const struct config *c, const struct said *s, const struct said *next)
{
	char last[HASH_HEX];
	if (s->is_removal)
		return next && next->is_removal ? "the run was removed twice" : NULL;
	if (next)
		return next->is_removal ? NULL : "another run of this id was chained since";
	int r = chain_last_event(c, s->run, last, NULL);
	if (r == -ENOENT)
		return "the run is not there any more";
	if (r < 0)
		return "the events of the run cannot be read";
	CLEANUP_FREE char *verdict = xasprintf("%s/runs/%s/verdict.json", c->home, s->run);
	if (access(verdict, F_OK) < 0 && errno == ENOENT) /* it had one when it was chained */
		return "its verdict.json is not there any more";
	return str_eq(last, s->last) ? NULL : "the run is not the one that was chained";
}

/* Each line against the run it names; the first line that does not hold comes first. */
static void check_links(const struct config *c, struct following *f, struct audit_report *report)
{
	const struct said **bad = xcalloc(f->n + 1, sizeof *bad);
	size_t n_bad = 0;
	for (size_t i = 0; i < f->n; i++) {
		const struct said *s = &f->said[i];
		const struct said *next = i + 1 < f->n && str_eq(f->said[i + 1].run, s->run) ? s + 1
											     : NULL;
		/* A run that was changed in itself is named already, and more exactly. */
		if (judge(c, s, next) && (next || !strv_has(&report->runs_broken, s->run)))
			bad[n_bad++] = s;
	}
	qsort(bad, n_bad, sizeof *bad, by_line);
	for (size_t i = 0; i < n_bad; i++) {
		const struct said *s = bad[i], *end = f->said + f->n;
		const struct said *next = s + 1 < end && str_eq(s[1].run, s->run) ? s + 1 : NULL;
		const char *why = judge(c, s, next);
		CLEANUP_FREE char *reason =
			xasprintf("%s: %s", s->run, why ? why : "it has changed meanwhile");
		audit_broken(report, s->run, CHAIN_FILE, s->line, reason);
	}
	free(bad);
}

/* Complete, and owed to nobody: it must have been chained. */
static bool is_settled(const struct config *c, const char *id)
{
	static const char *const owing[] = { "active", "undelivered" };
	for (size_t i = 0; i < 2; i++) {
		CLEANUP_FREE char *mark = xasprintf("%s/%s/%s", c->home, owing[i], id);
		if (access(mark, F_OK) == 0)
			return false;
	}
	CLEANUP_FREE char *verdict = xasprintf("%s/runs/%s/verdict.json", c->home, id);
	return access(verdict, F_OK) == 0;
}

static bool is_chained(const struct following *f, const char *id)
{
	const struct said *s = f->n ? find(f, id) : NULL;
	while (s && s + 1 < f->said + f->n && str_eq(s[1].run, id))
		s++;
	return s && !s->is_removal;
}

/* Runs that the chain does not have. One whose mark is gone may have been chained since we read: so those are looked for again. */
static int check_runs(const struct config *c, struct following *f, struct chain_at *at,
		      struct audit_report *report, struct err *err)
{
	CLEANUP_STRV struct strv ids = { 0 };
	CLEANUP_STRV struct strv lacking = { 0 };
	int r = id_list(c->home, "runs", &ids, err);
	for (size_t i = 0; r >= 0 && i < ids.n; i++)
		if (!is_chained(f, ids.v[i]) && is_settled(c, ids.v[i]))
			strv_add(&lacking, ids.v[i]);
	if (r >= 0 && lacking.n)
		r = chain_read(c, at, note_link, f, err);
	if (r < 0)
		return r;
	if (f->n)
		qsort(f->said, f->n, sizeof *f->said, by_run);
	for (size_t i = 0; i < lacking.n; i++)
		if (!is_chained(f, lacking.v[i])) {
			CLEANUP_FREE char *reason =
				xasprintf("%s: the chain does not have this run", lacking.v[i]);
			audit_broken(report, lacking.v[i], CHAIN_FILE, 0, reason);
		}
	return 0;
}

static void check_copy(const struct config *c, struct audit_report *report)
{
	struct err why = { 0 };
	uint64_t line = 0;
	int r = chain_compare(c, &line, &why);
	if (r > 0)
		audit_broken(report, NULL, CHAIN_FILE, line, why.text);
	else if (r < 0)
		report->uncompared = xstrdup(r == -ENODATA ? "it has no copy of it yet" : why.text);
}

int audit_chain(const struct config *c, struct audit_report *report, struct err *err)
{
	CLEANUP(following_release) struct following f = { 0 };
	struct chain_at at;
	struct err why = { 0 };
	chain_begin(&at);
	int r = chain_read(c, &at, note_link, &f, &why);
	if (r < 0) {
		*err = why;
		return r;
	}
	report->chained = at.n;
	if (r > 0)
		audit_broken(report, NULL, CHAIN_FILE, at.n + 1, why.text);
	check_copy(c, report);
	if (r > 0)
		return 0; /* what comes behind that line proves nothing */
	if (f.n)
		qsort(f.said, f.n, sizeof *f.said, by_run);
	check_links(c, &f, report);
	return check_runs(c, &f, &at, report, err);
}
