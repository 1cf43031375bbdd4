/* Sums, as they are kept; made by the database where a run was taken out and nobody has added up since. */
#include "ledger/totals.h"

#include <stdlib.h>

#include "base/num.h"
#include "ledger/parts.h"

#define SUMS                                                                                       \
	"count(*), sum(wall_usec), sum(cpu_usec), sum(memory_gib_hours), max(memory_peak_bytes), " \
	"min(accepted), max(accepted)"

static uint64_t number(const char *text)
{
	uint64_t n = 0;
	return text && num_u64(text, INT64_MAX, &n) >= 0 ? n : 0;
}

static int take(void *data, const char *const *columns, size_t n, struct err *err)
{
	json_array_append_new(
		data,
		json_pack("{s:o,s:o,s:o,s:o,s:o,s:f,s:o,s:s?,s:s?}", "of",
			  columns[0] && *columns[0] ? json_text(columns[0]) : json_null(), "cause",
			  json_text(columns[1]), "runs", json_u64(number(columns[2])), "wall_usec",
			  json_u64(number(columns[3])), "cpu_usec", json_u64(number(columns[4])),
			  "memory_gib_hours", columns[5] ? strtod(columns[5], NULL) : 0.0,
			  "memory_peak_bytes", json_u64(number(columns[6])), "first", columns[7],
			  "last", columns[8]));
	return 0;
}

void visible_add(struct str *sql, struct strv *values, const char *column,
		 const struct viewer *viewer)
{
	const char *between = "";
	if (viewer->sees_all)
		return;
	str_add(sql, " AND (");
	for (size_t i = 0; i < VIEWER_NAMES; i++)
		if (viewer->names[i][0]) {
			strv_add(values, viewer->names[i]);
			str_addf(sql, "%s%s = $%zu", between, column, values->n);
			between = " OR ";
		}
	if (viewer->owns_home) {
		str_addf(sql, "%s%s IS NULL", between, column);
		between = " OR ";
	}
	str_add(sql, *between ? ")" : "1 = 0)");
}

/* Sums of a part of the runs are kept nowhere: they are made of its rows. */
static int add_up_visible(struct ledger *l, const char *home, enum totals_by by,
			  const struct viewer *viewer, json_t *rows, struct err *err)
{
	static const char *const columns[TOTALS_BY_COUNT_] = { "quest", "runtime", "submitter" };
	CLEANUP_STR struct str sql = { 0 };
	CLEANUP_STRV struct strv values = { 0 };
	strv_add(&values, home);
	str_addf(
		&sql,
		"SELECT coalesce(%s, ''), cause, count(*), sum(coalesce(wall_usec, 0)), sum(coalesce(cpu_usec, 0)), "
		"sum(CAST(coalesce(memory_peak_bytes, 0) AS DOUBLE PRECISION) / 1073741824.0 * coalesce(wall_usec, 0) / "
		"3600000000.0), max(coalesce(memory_peak_bytes, 0)), min(accepted), max(accepted) FROM runs WHERE home = $1",
		columns[by]);
	visible_add(&sql, &values, "submitter", viewer);
	str_add(&sql, " GROUP BY 1, 2 ORDER BY 1, 2");
	const struct statement made = { STATEMENT_ONCE, str_text(&sql), values.n };
	return l->ops->run(l, &made, (const char *const *)values.v, take, rows, err);
}

int ledger_totals(struct ledger *l, const struct config *c, enum totals_by by,
		  const struct viewer *viewer, json_t **ret, struct err *err)
{
	static const char *const kinds[TOTALS_BY_COUNT_] = { "quest", "runtime", "submitter" };
	static const struct statement kept = {
		STATEMENT_ONCE,
		"SELECT subject, cause, runs, wall_usec, cpu_usec, memory_gib_hours, memory_peak_bytes, first, last FROM run_totals "
		"WHERE home = $1 AND kind = $2 AND runs > 0 ORDER BY subject, cause",
		2
	};
	static const struct statement made = {
		STATEMENT_ONCE,
		"SELECT subject, cause, " SUMS
		" FROM run_shares WHERE home = $1 AND kind = $2 GROUP BY subject, cause ORDER BY subject, cause",
		2
	};
	CLEANUP_JSON json_t *rows = json_array();
	char home[HOME_ID];
	int r = home_id(c, home, err);
	const char *const values[] = { home, kinds[by] };
	if (r >= 0 && !viewer->sees_all) {
		r = add_up_visible(l, home, by, viewer, rows, err);
	} else if (r >= 0) {
		r = totals_are_stale(l, home, err);
		if (r >= 0)
			r = l->ops->run(l, r ? &made : &kept, values, take, rows, err);
	}
	if (r >= 0)
		*ret = take_ptr(rows);
	return r;
}

static int take_run(void *data, const char *const *columns, size_t n, struct err *err)
{
	json_array_append_new(data, json_pack("{s:s?,s:s?,s:o,s:s?,s:s?,s:o}", "accepted",
					      columns[0], "cause", columns[1], "cpu_usec",
					      json_u64(number(columns[2])), "submitted", columns[3],
					      "not_before", columns[4], "attempt",
					      json_u64(number(columns[5]))));
	return 0;
}

int ledger_quest_runs(struct ledger *l, const struct config *c, const struct quest_runs *q,
		      json_t **ret, struct err *err)
{
	CLEANUP_JSON json_t *rows = json_array();
	CLEANUP_STR struct str sql = { 0 };
	CLEANUP_STRV struct strv values = { 0 };
	char home[HOME_ID];
	int r = home_id(c, home, err);
	if (r < 0)
		return r;
	strv_add(&values, home);
	strv_add(&values, q->quest);
	str_add(&sql,
		"SELECT r.accepted, r.cause, r.cpu_usec, s.submitted, s.not_before, m.attempt FROM runs r "
		"LEFT JOIN submission_runs m ON m.home = r.home AND m.run = r.id "
		"LEFT JOIN submissions s ON s.home = m.home AND s.id = m.submission "
		"WHERE r.home = $1 AND r.quest = $2");
	visible_add(&sql, &values, "r.submitter", q->viewer);
	str_addf(&sql, " ORDER BY r.accepted DESC, r.id DESC LIMIT %u", q->limit);
	const struct statement newest = { STATEMENT_ONCE, str_text(&sql), values.n };
	r = l->ops->run(l, &newest, (const char *const *)values.v, take_run, rows, err);
	if (r >= 0)
		*ret = take_ptr(rows);
	return r;
}

static int take_head(void *data, const char *const *columns, size_t n, struct err *err)
{
	json_object_set_new(data, "length", json_u64(number(columns[0])));
	json_object_set_new(data, "head", json_text(columns[1]));
	return 0;
}

int ledger_chain_head(struct ledger *l, const struct config *c, json_t **ret, struct err *err)
{
	static const struct statement last = {
		STATEMENT_ONCE,
		"SELECT n, sha256 FROM chain WHERE home = $1 ORDER BY n DESC LIMIT 1", 1
	};
	CLEANUP_JSON json_t *head = json_pack("{s:i,s:n}", "length", 0, "head");
	char home[HOME_ID];
	int r = home_id(c, home, err);
	const char *const values[] = { home };
	if (r >= 0)
		r = l->ops->run(l, &last, values, take_head, head, err);
	if (r >= 0)
		*ret = take_ptr(head);
	return r;
}
