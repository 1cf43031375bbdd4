/* One question, made of what was asked for. A list of one value is an equation, so that the index of its column gives the order too. */
#include "ledger/page.h"

#include <errno.h>

#include "base/num.h"
#include "ledger/parts.h"

#define CAUSES_MAX 64
#define BY_ID      "COLLATE \"binary\""

struct asking {
	const struct ledger_page *q;
	const struct strv *causes; /* borrowed or NULL; of q, or one of them */
	struct str sql;
	struct strv values;
};

static void asking_release(struct asking *a)
{
	str_release(&a->sql);
	strv_release(&a->values);
}

static void add_value(struct asking *a, const char *before, const char *value)
{
	strv_add(&a->values, value);
	str_addf(&a->sql, "%s$%zu", before, a->values.n);
}

static void add_any_of(struct asking *a, const char *column, const struct strv *list)
{
	if (!list || !list->n)
		return;
	str_addf(&a->sql, " AND %s", column);
	if (list->n == 1) {
		add_value(a, " = ", list->v[0]);
		return;
	}
	for (size_t i = 0; i < list->n; i++)
		add_value(a, i ? ", " : " IN (", list->v[i]);
	str_add(&a->sql, ")");
}

/* A part of a text, whatever signs it has. */
static void add_like(struct asking *a, const char *expression, const char *part)
{
	CLEANUP_STR struct str pattern = { 0 };
	str_add(&pattern, "%");
	for (const char *c = part; *c; c++) {
		if (*c == '%' || *c == '_' || *c == '!')
			str_add(&pattern, "!");
		str_add_n(&pattern, c, 1);
	}
	str_add(&pattern, "%");
	str_addf(&a->sql, "lower(%s) LIKE lower(", expression);
	add_value(a, "", str_text(&pattern));
	str_add(&a->sql, ") ESCAPE '!'");
}

/* The names of the columns of one of the two kinds of rows. */
struct source {
	const char *columns, *tables, *id, *time, *name, *quest, *runtime, *cause, *submitter;
	const char *owner; /* the column that says who may see it; it has an index */
};

static const struct source of_runs = {
	"r.id, r.accepted, r.cause, r.started, r.ended, r.name, r.quest, r.runtime, r.exit_status, r.wall_usec, r.cpu_usec, "
	"r.memory_peak_bytes, r.evidence, coalesce(r.submitter, s.submitter), s.priority, s.submitted, m.attempt, NULL, NULL",
	"runs r LEFT JOIN submission_runs m ON m.home = r.home AND m.run = r.id "
	"LEFT JOIN submissions s ON s.home = m.home AND s.id = m.submission WHERE r.home = ",
	"r.id",
	"r.accepted",
	"r.name",
	"r.quest",
	"r.runtime",
	"r.cause",
	"coalesce(r.submitter, s.submitter)",
	"r.submitter",
};
static const struct source of_never = {
	"s.id, s.submitted, s.cause, NULL, s.ended, s.name, s.quest, s.runtime, NULL, NULL, NULL, "
	"NULL, NULL, s.submitter, s.priority, s.submitted, s.attempt, s.note, s.state",
	"submissions s WHERE s.state IN ('cancelled', 'refused') AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.home = s.home AND "
	"r.id = s.run) AND s.home = ",
	"s.id",
	"s.submitted",
	"s.name",
	"s.quest",
	"s.runtime",
	"s.cause",
	"s.submitter",
	"s.submitter",
};

/* Whatever became of it. */
static const struct source of_asked = {
	"s.id, s.submitted, s.cause, NULL, s.ended, s.name, s.quest, s.runtime, NULL, NULL, NULL, "
	"NULL, NULL, s.submitter, s.priority, s.submitted, s.attempt, s.note, s.state",
	"submissions s WHERE s.home = ",
	"s.id",
	"s.submitted",
	"s.name",
	"s.quest",
	"s.runtime",
	"s.cause",
	"s.submitter",
	"s.submitter",
};

/* Who submitted a row, or whose it is: an expression, owned by the caller. A value is bound only where it is asked for. */
static char *submitter_sql(struct asking *a, const struct source *s)
{
	const struct ledger_page *q = a->q;
	if (!q->owner || (!q->text && !(q->submitters && q->submitters->n)))
		return xstrdup(s->submitter);
	strv_add(&a->values, q->owner);
	return xasprintf("coalesce(%s, $%zu)", s->submitter, a->values.n);
}

static void add_conditions(struct asking *a, const struct source *s)
{
	const struct ledger_page *q = a->q;
	visible_add(&a->sql, &a->values, s->owner, q->viewer);
	add_any_of(a, s->quest, q->quests);
	add_any_of(a, s->runtime, q->runtimes);
	add_any_of(a, s->cause, a->causes);
	if (q->name) {
		str_add(&a->sql, " AND ");
		add_like(a, s->name, q->name);
	}
	/* What it binds comes next in the text, with or without submitters: parameters have rising numbers. */
	CLEANUP_FREE char *submitter = submitter_sql(a, s);
	add_any_of(a, submitter, q->submitters);
	if (q->text) {
		CLEANUP_FREE char *all = xasprintf(
			"(%s || ' ' || coalesce(%s, '') || ' ' || coalesce(%s, '') || ' ' || coalesce(%s, '') || ' ' || coalesce(%s, ''))",
			s->id, s->name, s->quest, s->runtime, submitter);
		str_add(&a->sql, " AND ");
		add_like(a, all, q->text);
	}
	if (q->since) {
		str_addf(&a->sql, " AND %s", s->time);
		add_value(a, " >= ", q->since);
	}
}

static void add_after(struct asking *a, const struct source *s)
{
	const struct ledger_page *q = a->q;
	const char *beyond = q->is_oldest_first ? " > " : " < ";
	if (!q->after_time)
		return;
	str_addf(&a->sql, " AND %s", s->time);
	add_value(a, q->is_oldest_first ? " >= " : " <= ", q->after_time);
	str_addf(&a->sql, " AND (%s", s->time);
	add_value(a, beyond, q->after_time);
	str_addf(&a->sql, " OR %s " BY_ID, s->id);
	add_value(a, beyond, q->after_id);
	str_add(&a->sql, ")");
}

static void add_select(struct asking *a, const char *columns, const struct source *s,
		       const char *home)
{
	str_addf(&a->sql, "SELECT %s FROM %s", columns, s->tables);
	add_value(a, "", home);
}

static void add_number(json_t *o, const char *key, const char *text)
{
	uint64_t number = 0;
	if (text && text[0] == '-' && num_u64(text + 1, INT64_MAX, &number) >= 0)
		json_object_set_new(o, key, json_integer(-(json_int_t)number));
	else if (text && num_u64(text, INT64_MAX, &number) >= 0)
		json_object_set_new(o, key, json_u64(number));
}

static int take_row(void *data, const char *const *columns, size_t n, struct err *err)
{
	static const struct {
		const char *key;
		bool is_number;
	} keys[] = { { "id", false },        { "accepted", false },  { "cause", false },
		     { "started", false },   { "ended", false },     { "name", false },
		     { "quest", false },     { "runtime", false },   { "exit_status", true },
		     { "wall_usec", true },  { "cpu_usec", true },   { "memory_peak_bytes", true },
		     { "", false },          { "submitter", false }, { "priority", true },
		     { "submitted", false }, { "attempt", true },    { "note", false },
		     { "state", false } };
	const size_t evidence_at = 12;
	json_t *row = json_object();
	for (size_t i = 0; i < n && i < sizeof keys / sizeof *keys; i++)
		if (keys[i].is_number)
			add_number(row, keys[i].key, columns[i]);
		else if (columns[i] && i != evidence_at)
			json_object_set_new(row, keys[i].key, json_text(columns[i]));
	CLEANUP_JSON json_t *evidence =
		columns[evidence_at] ? json_loads(columns[evidence_at], 0, NULL) : NULL;
	json_t *limit = json_object_get(evidence, "memory_limit_bytes");
	if (limit)
		json_object_set(row, "memory_limit_bytes", limit);
	if (!columns[evidence_at])
		json_object_set_new(row, "never", json_true());
	json_array_append_new(data, row);
	return 0;
}

static int ask(struct ledger *l, struct asking *a, ledger_row row, void *data, struct err *err)
{
	struct statement s = { STATEMENT_ONCE, str_text(&a->sql), a->values.n };
	return l->ops->run(l, &s, (const char *const *)a->values.v, row, data, err);
}

static int ask_page(struct ledger *l, const struct ledger_page *q, const struct source *from,
		    const struct strv *causes, const char *home, json_t *rows, struct err *err)
{
	CLEANUP(asking_release) struct asking a = { .q = q, .causes = causes };
	const char *down = q->is_oldest_first ? "" : " DESC";
	add_select(&a, from->columns, from, home);
	add_conditions(&a, from);
	add_after(&a, from);
	str_addf(&a.sql, " ORDER BY %s%s, %s " BY_ID "%s LIMIT %u", from->time, down, from->id,
		 down, q->limit);
	return ask(l, &a, take_row, rows, err);
}

/* An index that has the order for one cause has it not for several: each is asked for by itself. */
static int ask_causes(struct ledger *l, const struct ledger_page *q, const struct source *from,
		      const char *home, json_t *rows, struct err *err)
{
	int r = 0;
	if (!q->causes || q->causes->n < 2 || q->causes->n > CAUSES_MAX)
		return ask_page(l, q, from, q->causes, home, rows, err);
	for (size_t i = 0; r >= 0 && i < q->causes->n; i++) {
		const struct strv before = { q->causes->v, i };
		const struct strv one = { &q->causes->v[i], 1 };
		if (!strv_has(&before, q->causes->v[i]))
			r = ask_page(l, q, from, &one, home, rows, err);
	}
	return r;
}

int ledger_page(struct ledger *l, const struct config *c, const struct ledger_page *q, json_t **ret,
		struct err *err)
{
	CLEANUP_JSON json_t *rows = json_array();
	char home[HOME_ID];
	int r = home_id(c, home, err);
	if (r >= 0)
		r = ask_causes(l, q, &of_runs, home, rows, err);
	if (r >= 0)
		r = ask_causes(l, q, &of_never, home, rows, err);
	if (r >= 0)
		*ret = take_ptr(rows);
	return r;
}

int ledger_page_count(struct ledger *l, const struct config *c, const struct ledger_page *q,
		      unsigned max, uint64_t *ret, struct err *err)
{
	static const struct source *const sources[] = { &of_runs, &of_never };
	uint64_t total = 0;
	char home[HOME_ID];
	int r = home_id(c, home, err);
	for (size_t i = 0; r >= 0 && i < sizeof sources / sizeof *sources; i++) {
		CLEANUP(asking_release) struct asking a = { .q = q, .causes = q->causes };
		uint64_t some = 0;
		str_add(&a.sql, "SELECT count(*) FROM (");
		add_select(&a, "1 AS one", sources[i], home);
		add_conditions(&a, sources[i]);
		str_addf(&a.sql, " LIMIT %u) AS few", max + 1);
		r = ask(l, &a, put_take_count, &some, err);
		total += some;
	}
	*ret = total > max ? max + 1 : total;
	return r;
}

int ledger_page_row(struct ledger *l, const struct config *c, const char *id, json_t **ret,
		    struct err *err)
{
	static const struct source *const sources[] = { &of_runs, &of_asked };
	const struct ledger_page q = { .viewer = &viewer_all, .limit = 1 };
	CLEANUP_JSON json_t *rows = json_array();
	char home[HOME_ID];
	int r = home_id(c, home, err);
	for (size_t i = 0; r >= 0 && i < 2 && json_array_size(rows) == 0; i++) {
		CLEANUP(asking_release) struct asking a = { .q = &q };
		add_select(&a, sources[i]->columns, sources[i], home);
		str_addf(&a.sql, " AND %s", sources[i]->id);
		add_value(&a, " = ", id);
		r = ask(l, &a, take_row, rows, err);
	}
	if (r < 0)
		return r;
	if (json_array_size(rows) == 0)
		return err_set(err, ERR_CALLER, ENOENT, "the ledger has no run '%.64s'", id);
	*ret = json_incref(json_array_get(rows, 0));
	return 0;
}
