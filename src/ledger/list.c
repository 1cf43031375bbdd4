/* Pages of runs from the ledger: each goes on behind the last run of the one before, so that any page costs what it shows. */
#include <errno.h>

#include "base/num.h"
#include "ledger/parts.h"

#define FILTERS_MAX 8

struct asking {
	struct str sql;
	const char *values[FILTERS_MAX];
	size_t n;
};

/* A condition with one parameter, "column = ". */
static void add_condition(struct asking *a, const char *condition, const char *value)
{
	if (!value)
		return;
	a->values[a->n++] = value;
	str_addf(&a->sql, " AND %s $%zu", condition, a->n);
}

static void add_number(json_t *object, const char *key, const char *text)
{
	uint64_t number = 0;
	if (text && num_u64(text, INT64_MAX, &number) >= 0)
		json_object_set_new(object, key, json_u64(number));
}

static int take_run(void *data, const char *const *columns, size_t n, struct err *err)
{
	static const char *const texts[] = { "id",      "accepted", "started",
					     "ended",   "name",     "quest",
					     "runtime", "cause",    "completion_notes" };
	const size_t n_texts = sizeof texts / sizeof *texts;
	json_t *run = json_pack("{s:s}", "state", "ended"), *usage = json_object();
	for (size_t i = 0; i < n_texts; i++)
		if (columns[i])
			json_object_set_new(run, texts[i], json_text(columns[i]));
	add_number(run, "exit_status", columns[n_texts]);
	add_number(usage, "wall_usec", columns[n_texts + 1]);
	add_number(usage, "cpu_usec", columns[n_texts + 2]);
	add_number(usage, "memory_peak_bytes", columns[n_texts + 3]);
	json_object_set_new(run, "usage", usage);
	json_array_append_new(data, run);
	return 0;
}

int ledger_runs(struct ledger *l, const struct config *c, const struct ledger_filter *filter,
		json_t **ret, struct err *err)
{
	CLEANUP_JSON json_t *runs = json_array();
	struct asking a = { 0 };
	char home[HOME_ID];
	int r = home_id(c, home, err);
	if (r == -ENOENT) {
		*ret = take_ptr(runs);
		return 0;
	}
	if (r < 0)
		return r;
	a.values[a.n++] = home;
	str_add(&a.sql,
		"SELECT id, accepted, started, ended, name, quest, runtime, cause, notes, exit_status, wall_usec, cpu_usec, "
		"memory_peak_bytes FROM runs WHERE home = $1");
	add_condition(&a, "cause =", filter->cause);
	add_condition(&a, "runtime =", filter->runtime);
	add_condition(&a, "quest =", filter->quest);
	add_condition(&a, "accepted >=", filter->since);
	if (filter->after_accepted && filter->after_id) {
		a.values[a.n++] = filter->after_accepted;
		a.values[a.n++] = filter->after_id;
		str_addf(&a.sql, " AND (accepted, id) < ($%zu, $%zu)", a.n - 1, a.n);
	}
	str_add(&a.sql, " ORDER BY accepted DESC, id DESC");
	if (filter->limit)
		str_addf(&a.sql, " LIMIT %u", filter->limit);
	CLEANUP_FREE char *sql = str_take(&a.sql);
	struct statement s = { STATEMENT_ONCE, sql, a.n };
	r = l->ops->run(l, &s, a.values, take_run, runs, err);
	if (r >= 0)
		*ret = take_ptr(runs);
	return r;
}
