#include "health/glance.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "health/verify.h"
#include "ledger/health_record.h"
#include "runtime/catalog.h"
#include "runtime/state.h"
#include "spec/dburl.h"

const char *const glance_level_names[] = { "ok", "unknown", "problem" };

struct glancing {
	const struct config *config;
	const json_t *records; /* borrowed */
	json_t *rows;          /* owned */
	enum glance_level worst;
};

struct row {
	const char *kind, *subject, *status, *time, *summary, *command;
};

static bool is_one_of(const char *word, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(word, words[i]))
			return true;
	return false;
}

/* Each kind has words of its own; a word that is not known here is no good news. */
static enum glance_level level_of(const char *status)
{
	static const char *const good[] = { "ok", "note", "healthy" };
	static const char *const vague[] = { "unknown", "unchecked", "new", "never" };
	if (is_one_of(status, good, sizeof good / sizeof *good))
		return GLANCE_OK;
	return is_one_of(status, vague, sizeof vague / sizeof *vague) ? GLANCE_UNKNOWN
								      : GLANCE_PROBLEM;
}

static void add(struct glancing *g, const struct row *r, bool ages)
{
	uint64_t then = 0, now = clock_real_ns();
	bool has_time = r->time && clock_read(r->time, &then) >= 0;
	uint64_t age_s = has_time && now > then ? (now - then) / NS_PER_SEC : 0;
	bool is_old = ages && age_s > GLANCE_OLD_DAYS * 86400ULL;
	enum glance_level level = level_of(r->status);
	if (level == GLANCE_OK && is_old)
		level = GLANCE_UNKNOWN;
	if (level > g->worst)
		g->worst = level;
	json_array_append_new(g->rows,
			      json_pack("{s:o,s:o,s:s,s:o,s:o,s:o,s:o,s:o}", "kind",
					json_text(r->kind), "subject", json_text(r->subject),
					"level", glance_level_names[level], "status",
					json_text(is_old ? "old" : r->status), "time",
					has_time ? json_text(r->time) : json_null(), "age_s",
					has_time ? json_u64(age_s) : json_null(), "summary",
					json_text(r->summary), "command", json_text(r->command)));
}

static const char *text_of(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));
	return text ? text : "";
}

static const json_t *find(const struct glancing *g, const char *kind, const char *subject)
{
	size_t i;
	const json_t *one;
	json_array_foreach(g->records, i, one)
	{
		if (str_eq(text_of(one, "kind"), kind) && str_eq(text_of(one, "subject"), subject))
			return one;
	}
	return NULL;
}

static void add_record(struct glancing *g, const char *kind, const char *subject,
		       const char *command)
{
	const json_t *record = find(g, kind, subject);
	const char *remedy = text_of(json_object_get(record, "detail"), "remedy");
	const struct row r = { .kind = kind,
			       .subject = subject,
			       .status = record ? text_of(record, "status") : "never",
			       .time = text_of(record, "time"),
			       .summary = record ? text_of(record, "summary") : "never looked at",
			       .command = remedy[0] ? remedy : command };
	add(g, &r, !str_eq(kind, "gc"));
}

static void add_protected(struct glancing *g)
{
	const struct strv *watch = &g->config->watch;
	for (size_t i = 0; i < watch->n; i++) {
		CLEANUP_FREE char *shown = dburl_shown(watch->v[i]);
		CLEANUP_FREE char *command = xasprintf("cupel protect check '%s'", shown);
		add_record(g, "protect", shown, command);
	}
}

/* Those that were ever checked: a catalog may name many that nobody uses here. */
static int add_runtimes(struct glancing *g, struct err *err)
{
	CLEANUP_CATALOG struct catalog catalog = { 0 };
	int r = catalog_read(g->config, &catalog, err);
	for (size_t i = 0; r >= 0 && i < catalog.n; i++) {
		CLEANUP_RUNTIME_STATE struct runtime_state s = { 0 };
		const char *name = catalog.v[i].name;
		CLEANUP_FREE char *command = xasprintf("cupel runtime check %s", name);
		struct err why = { 0 };
		int e = state_read(g->config, name, &s, &why);
		if (e >= 0 && !s.verified_time)
			continue;
		add(g,
		    &(struct row){ .kind = "runtime",
				   .subject = name,
				   .status = e < 0 ? "unreadable" : health_names[s.health],
				   .time = s.verified_time,
				   .summary = e < 0      ? why.text
					      : s.reason ? s.reason
							 : "its checks passed",
				   .command = command },
		    true);
	}
	return r;
}

int glance(const struct config *c, json_t **ret, enum glance_level *ret_worst, struct err *err)
{
	CLEANUP_JSON json_t *records = NULL;
	CLEANUP_JSON json_t *rows = json_array();
	int r = ledger_health_list(c, &records, err);
	struct glancing g = { .config = c, .records = records, .rows = rows };
	if (r < 0)
		return r;
	add_record(&g, "doctor", "", "cupel doctor");
	for (unsigned part = 0; part < VERIFY_PART_COUNT_; part++) {
		CLEANUP_FREE char *command = xasprintf("cupel verify %s", verify_part_names[part]);
		if (part != VERIFY_PROTECT || c->watch.n > 0)
			add_record(&g, "verify", verify_part_names[part], command);
	}
	add_protected(&g);
	r = add_runtimes(&g, err);
	if (r < 0)
		return r;
	if (find(&g, "gc", ""))
		add_record(&g, "gc", "", "cupel gc");
	*ret = take_ptr(rows);
	*ret_worst = g.worst;
	return 0;
}
