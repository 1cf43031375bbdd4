/* Drives the ledger from within, for bench/ledger. Prints one line of JSON.
 * usage: ledger_load commits N     that many runs entered, a transaction each: copies of the first run of the home, under new ids
 *        ledger_load synthetic N   N rows of runs in large transactions, spread over causes, runtimes, quests and a year
 *        ledger_load pages         what a page of 50 costs: the first, one with each filter, and one from the middle
 * CUPEL_HOME names the home, and its configuration the database, as for cupel. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "ledger/parts.h"
#include "spec/id.h"

#define BATCH    10000
#define PAGE     50
#define REPEATS  20
#define YEAR_SEC 31536000

static double since(uint64_t began_ns)
{
	return (double)(clock_monotonic_ns() - began_ns) / NS_PER_SEC;
}

static int enter(struct ledger *l, const char *home, const struct posting *p, struct err *err)
{
	CLEANUP_TRANSACTION struct transaction t = { 0 };
	int r = transaction_begin(&t, l, LEDGER_SHARED, err);
	if (r >= 0)
		r = put_posting(l, home, p, PUT_RECORD, err);
	return r < 0 ? r : transaction_commit(&t, err);
}

static int time_commits(struct ledger *l, const struct config *c, const char *home, uint64_t n,
			struct err *err)
{
	CLEANUP_STRV struct strv ids = { 0 };
	CLEANUP_POSTING struct posting p = { 0 };
	int r = id_list(c->home, "runs", &ids, err);
	if (r >= 0 && ids.n == 0)
		r = err_caller(err, "there is no run in %s to take as the pattern", c->home);
	if (r >= 0)
		r = posting_read(c, ids.v[0], &p, err);
	uint64_t began = clock_monotonic_ns();
	for (uint64_t i = 0; r >= 0 && i < n; i++) {
		free(p.id);
		p.id = xasprintf("bench-%llu-%llu", (unsigned long long)began,
				 (unsigned long long)i);
		r = enter(l, home, &p, err);
	}
	if (r >= 0)
		printf("{\"commits\": %llu, \"per_second\": %.1f}\n", (unsigned long long)n,
		       (double)n / since(began));
	return r;
}

static int put_synthetic(struct ledger *l, const char *home, uint64_t i, uint64_t n,
			 struct err *err)
{
	static const char *const causes[] = { "ok", "ok",   "ok",  "ok",       "ok",
					      "ok", "exit", "oom", "deadline", "lost" };
	static const char *const runtimes[] = { "base", "single-cell", "variants", "notebook" };
	static const struct statement insert = {
		30,
		"INSERT INTO runs (home, id, accepted, started, ended, name, quest, runtime, cause, exit_status, notes, evidence, "
		"missing_layers, labels, wall_usec, cpu_usec, memory_peak_bytes, verdict_sha256, chain, record) VALUES ($1, $2, $3, $3, $3, "
		"'synthetic', $4, $5, $6, '0', 'The analysis succeeded in 1 ms, with a peak of 512.0 KiB of memory.', '{}', '', '{}', "
		"1000, 900, 524288, '', '', '')",
		6
	};
	char time[40];
	CLEANUP_FREE char *id = xasprintf("s%09llu", (unsigned long long)i);
	CLEANUP_FREE char *quest = xasprintf("quest-%llu", (unsigned long long)(i % 1000));
	uint64_t at = 1700000000 * NS_PER_SEC + i * (YEAR_SEC * NS_PER_SEC / n);
	const char *const values[] = {
		home,          id, clock_write(at, time, sizeof time), quest, runtimes[i / 7 % 4],
		causes[i % 10]
	};
	return l->ops->run(l, &insert, values, NULL, NULL, err);
}

static int make_synthetic(struct ledger *l, const char *home, uint64_t n, struct err *err)
{
	uint64_t began = clock_monotonic_ns();
	int r = 0;
	for (uint64_t i = 0; r >= 0 && i < n;) {
		CLEANUP_TRANSACTION struct transaction t = { 0 };
		r = transaction_begin(&t, l, LEDGER_SHARED, err);
		for (uint64_t k = 0; r >= 0 && k < BATCH && i < n; k++, i++)
			r = put_synthetic(l, home, i, n, err);
		if (r >= 0)
			r = transaction_commit(&t, err);
	}
	if (r >= 0)
		printf("{\"rows\": %llu, \"per_second\": %.0f}\n", (unsigned long long)n,
		       (double)n / since(began));
	return r;
}

static int time_page(struct ledger *l, const struct config *c, const char *what,
		     const struct ledger_filter *filter, struct err *err)
{
	double best = 1e9;
	size_t shown = 0;
	for (int i = 0; i < REPEATS; i++) {
		CLEANUP_JSON json_t *runs = NULL;
		uint64_t began = clock_monotonic_ns();
		int r = ledger_runs(l, c, filter, &runs, err);
		if (r < 0)
			return r;
		double took = since(began) * 1e3;
		best = took < best ? took : best;
		shown = json_array_size(runs);
	}
	printf("%s\"%s\": {\"ms\": %.3f, \"runs\": %zu}", str_eq(what, "first") ? "{" : ", ", what,
	       best, shown);
	return 0;
}

static int time_pages(struct ledger *l, const struct config *c, struct err *err)
{
	const struct {
		const char *what;
		struct ledger_filter filter;
	} pages[] = {
		{ "first", { .limit = PAGE } },
		{ "cause", { .cause = "oom", .limit = PAGE } },
		{ "runtime", { .runtime = "variants", .limit = PAGE } },
		{ "quest", { .quest = "quest-500", .limit = PAGE } },
		{ "quest and cause", { .quest = "quest-507", .cause = "oom", .limit = PAGE } },
		{ "since", { .since = "2024-10-01T00:00:00.000Z", .limit = PAGE } },
		{ "middle",
		  { .after_accepted = "2024-05-15T00:00:00.000Z",
		    .after_id = "s",
		    .limit = PAGE } },
	};
	int r = 0;
	for (size_t i = 0; r >= 0 && i < sizeof pages / sizeof *pages; i++)
		r = time_page(l, c, pages[i].what, &pages[i].filter, err);
	printf("}\n");
	return r;
}

static int drive(int argc, char **argv, struct err *err)
{
	CLEANUP_CONFIG struct config c = { 0 };
	CLEANUP_LEDGER struct ledger *l = NULL;
	char home[HOME_ID];
	uint64_t n = 0;
	int r = config_read(&(struct config_where){ 0 }, &c, err);
	if (r >= 0)
		r = ledger_open(&c, &l, err);
	if (r >= 0)
		r = home_id_make(&c, home, err);
	if (r >= 0)
		r = put_home(l, &c, home, err);
	if (r >= 0 && argc == 3)
		r = num_count(argv[2], &n, err);
	if (r < 0)
		return r;
	if (argc == 3 && str_eq(argv[1], "commits"))
		return time_commits(l, &c, home, n, err);
	if (argc == 3 && str_eq(argv[1], "synthetic"))
		return make_synthetic(l, home, n, err);
	if (argc == 2 && str_eq(argv[1], "pages"))
		return time_pages(l, &c, err);
	return err_caller(err, "usage: ledger_load (commits N | synthetic N | pages)");
}

int main(int argc, char **argv)
{
	struct err err = { 0 };
	if (drive(argc, argv, &err) >= 0)
		return 0;
	fprintf(stderr, "ledger_load: %s\n", err.text);
	return 1;
}
