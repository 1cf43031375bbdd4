/* Drives the ledger from within, for bench/ledger. Prints one line of JSON.
 * usage: ledger_load commits N: that many runs entered, a transaction each: copies of the first run of the home, under new ids
 * CUPEL_HOME names the home, and its configuration the database, as for cupel. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "ledger/parts.h"
#include "spec/id.h"

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
	return err_caller(err, "usage: ledger_load commits N");
}

int main(int argc, char **argv)
{
	struct err err = { 0 };
	if (drive(argc, argv, &err) >= 0)
		return 0;
	fprintf(stderr, "ledger_load: %s\n", err.text);
	return 1;
}
