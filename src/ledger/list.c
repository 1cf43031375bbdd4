/* Pages of runs from the ledger: each goes on behind the last run of the one before, so that any page costs what it shows.
 *
 * The order is that of time, and an index that has it for one value of a column has it not for several. So each value is asked for by itself,
 * and the answers are put together. What is not to choose an index is hidden from the planner in an expression: with a second list it
 * would else sort all that is left, again for each page. */
#include <errno.h>

#include "base/num.h"
#include "ledger/parts.h"

#define BRANCHES_MAX 64
#define BY_ID        "COLLATE \"binary\""

struct asking {
	const struct ledger_filter *filter;
	struct str sql;
	struct strv values;
};

static void asking_release(struct asking *a)
{
	str_release(&a->sql);
	strv_release(&a->values);
}

static void add_value(struct asking *a, const char *value)
{
	strv_add(&a->values, value);
	str_addf(&a->sql, "$%zu", a->values.n);
}

static void add_any_of(struct asking *a, const char *column, const struct strv *list)
{
	if (!list->n)
		return;
	str_addf(&a->sql, " AND (%s || '') IN (", column);
	for (size_t i = 0; i < list->n; i++) {
		str_add(&a->sql, i ? ", " : "");
		add_value(a, list->v[i]);
	}
	str_add(&a->sql, ")");
}

static void add_order(struct asking *a)
{
	const char *down = a->filter->is_oldest_first ? "" : " DESC";
	str_addf(&a->sql, " ORDER BY accepted%s, id " BY_ID "%s LIMIT %u", down, down,
		 a->filter->limit);
}

/* Two conditions on the time: the first one is what an index is searched by. */
static void add_after(struct asking *a)
{
	const struct ledger_filter *f = a->filter;
	const char *beyond = f->is_oldest_first ? ">" : "<";
	str_addf(&a->sql, " AND accepted %s= ", beyond);
	add_value(a, f->after_time);
	str_addf(&a->sql, " AND (accepted %s ", beyond);
	add_value(a, f->after_time);
	str_addf(&a->sql, " OR id " BY_ID " %s ", beyond);
	add_value(a, f->after);
	str_add(&a->sql, ")");
}

struct column {
	const char *name;
	const struct strv *wanted; /* borrowed */
};
#define N_COLUMNS 3

/* All conditions, with one value for the column that chooses the index, if one does. */
static void add_branch(struct asking *a, const struct column *columns, const struct column *chosen,
		       const char *value)
{
	const struct ledger_filter *f = a->filter;
	str_add(&a->sql,
		"SELECT id, accepted, cause, started, name, wall_usec, memory_peak_bytes FROM runs WHERE home = $1");
	if (chosen) {
		str_addf(&a->sql, " AND %s = ", chosen->name);
		add_value(a, value);
	}
	for (size_t i = 0; i < N_COLUMNS; i++)
		if (&columns[i] != chosen)
			add_any_of(a, columns[i].name, columns[i].wanted);
	if (f->since) {
		str_add(&a->sql, " AND accepted >= ");
		add_value(a, f->since);
	}
	if (f->after)
		add_after(a);
	add_order(a);
}

static void add_branches(struct asking *a, const struct column *columns,
			 const struct column *chosen)
{
	CLEANUP_STRV struct strv values = { 0 };
	for (size_t i = 0; i < chosen->wanted->n; i++)
		if (!strv_has(&values, chosen->wanted->v[i]))
			strv_add(&values, chosen->wanted->v[i]);
	if (values.n == 1) {
		add_branch(a, columns, chosen, values.v[0]);
		return;
	}
	str_add(&a->sql, "SELECT * FROM (");
	for (size_t i = 0; i < values.n; i++) {
		str_addf(&a->sql, "%sSELECT * FROM (", i ? " UNION ALL " : "");
		add_branch(a, columns, chosen, values.v[i]);
		str_addf(&a->sql, ") AS of%zu", i);
	}
	str_add(&a->sql, ") AS together");
	add_order(a);
}

static void write_question(struct asking *a)
{
	const struct ledger_filter *f = a->filter;
	/* Quests are many and small, causes few and large. */
	const struct column columns[N_COLUMNS] = { { "quest", f->quests },
						   { "runtime", f->runtimes },
						   { "cause", f->causes } };
	const struct column *chosen = NULL;
	for (size_t i = 0; i < N_COLUMNS && !chosen; i++)
		if (columns[i].wanted->n && columns[i].wanted->n <= BRANCHES_MAX)
			chosen = &columns[i];
	if (chosen)
		add_branches(a, columns, chosen);
	else
		add_branch(a, columns, NULL, NULL);
}

static void add_number(json_t *object, const char *key, const char *text)
{
	uint64_t number = 0;
	if (text && num_u64(text, INT64_MAX, &number) >= 0)
		json_object_set_new(object, key, json_u64(number));
}

static int take_run(void *data, const char *const *columns, size_t n, struct err *err)
{
	static const char *const texts[] = { "id", "accepted", "cause", "started", "name" };
	const size_t n_texts = sizeof texts / sizeof *texts;
	json_t *run = json_pack("{s:s}", "state", "ended");
	for (size_t i = 0; i < n_texts; i++)
		if (columns[i])
			json_object_set_new(run, texts[i], json_text(columns[i]));
	if (columns[n_texts] || columns[n_texts + 1]) {
		json_t *usage = json_object();
		add_number(usage, "wall_usec", columns[n_texts]);
		add_number(usage, "memory_peak_bytes", columns[n_texts + 1]);
		json_object_set_new(run, "usage", usage);
	}
	json_array_append_new(data, run);
	return 0;
}

int ledger_runs(struct ledger *l, const struct config *c, const struct ledger_filter *filter,
		json_t **ret, struct err *err)
{
	CLEANUP_JSON json_t *runs = json_array();
	CLEANUP(asking_release) struct asking a = { .filter = filter };
	char home[HOME_ID];
	int r = home_id(c, home, err);
	if (r < 0)
		return r;
	strv_add(&a.values, home);
	write_question(&a);
	struct statement s = { STATEMENT_ONCE, str_text(&a.sql), a.values.n };
	r = l->ops->run(l, &s, (const char *const *)a.values.v, take_run, runs, err);
	if (r >= 0)
		*ret = take_ptr(runs);
	return r;
}
