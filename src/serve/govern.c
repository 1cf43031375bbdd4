/* Sums of the ledger, put together for people. */
#include "serve/govern.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "health/protection.h"
#include "keeper/alive.h"
#include "ledger/health_record.h"
#include "ledger/page.h"
#include "ledger/totals.h"
#include "runtime/state.h"
#include "serve/quests.h"
#include "serve/recorded.h"
#include "serve/rows.h"
#include "serve/trend.h"
#include "spec/id.h"

#define SHOWN 50

static const char *text_of(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));
	return text ? text : "";
}

static void count(json_t *o, const char *key, json_int_t n)
{
	json_object_set_new(o, key, json_integer(json_integer_value(json_object_get(o, key)) + n));
}

static json_t *quest_new(const char *name)
{
	return json_pack("{s:o,s:{s:i,s:i,s:i,s:i},s:n,s:i,s:i,s:f,s:n,s:n,s:{},s:[]}", "quest",
			 *name ? json_text(name) : json_null(), "runs", "queued", 0, "running", 0,
			 "ok", 0, "failed", 0, "success_rate", "wall_usec", 0, "cpu_usec", 0,
			 "memory_gib_hours", 0.0, "first", "last", "causes", "blocked");
}

static json_t *quest_of(json_t *by_name, const char *name)
{
	json_t *quest = json_object_get(by_name, name);
	if (quest)
		return quest;
	quest = quest_new(name);
	json_object_set_new(by_name, name, quest);
	return quest;
}

static void stretch(json_t *quest, const char *first, const char *last)
{
	const char *from = text_of(quest, "first"), *to = text_of(quest, "last");
	if (*first && (!*from || strcmp(first, from) < 0))
		json_object_set_new(quest, "first", json_string(first));
	if (*last && strcmp(last, to) > 0)
		json_object_set_new(quest, "last", json_string(last));
}

static void add_ended(json_t *by_name, const json_t *sum)
{
	json_t *quest = quest_of(by_name, text_of(sum, "of"));
	json_int_t runs = json_integer_value(json_object_get(sum, "runs"));
	const char *cause = text_of(sum, "cause");
	count(json_object_get(quest, "runs"), strcmp(cause, "ok") == 0 ? "ok" : "failed", runs);
	count(json_object_get(quest, "causes"), cause, runs);
	count(quest, "wall_usec", json_integer_value(json_object_get(sum, "wall_usec")));
	count(quest, "cpu_usec", json_integer_value(json_object_get(sum, "cpu_usec")));
	double hours = json_real_value(json_object_get(quest, "memory_gib_hours")) +
		       json_real_value(json_object_get(sum, "memory_gib_hours"));
	json_object_set_new(quest, "memory_gib_hours", json_real(hours));
	stretch(quest, text_of(sum, "first"), text_of(sum, "last"));
}

static void add_live(json_t *by_name, const json_t *row)
{
	json_t *quest = quest_of(by_name, text_of(row, "quest"));
	const char *state = text_of(row, "state"), *submitted = text_of(row, "submitted");
	json_t *pending = json_object_get(row, "pending"),
	       *blocked = json_object_get(quest, "blocked");
	count(json_object_get(quest, "runs"), state, 1);
	stretch(quest, submitted, submitted);
	if (json_is_object(pending) && json_array_size(blocked) < SHOWN)
		json_array_append_new(blocked, json_pack("{s:s,s:s}", "id", text_of(row, "id"),
							 "why", text_of(pending, "text")));
}

/* What is said of it beside what its runs tell. A quest that has no runs yet is shown if something is said of it. */
static void add_about(json_t *by_name, const json_t *about)
{
	const char *name;
	json_t *said, *quest;
	json_object_foreach((json_t *)about, name, said)
	{
		json_object_update(quest_of(by_name, name), said);
	}
	json_object_foreach(by_name, name, quest)
	{
		for (int i = 0; i < QUEST_FIELD_COUNT_; i++)
			if (!json_object_get(quest, quest_field_names[i]))
				json_object_set_new(quest, quest_field_names[i], json_null());
	}
}

static void add_rate(json_t *quest)
{
	const json_t *runs = json_object_get(quest, "runs");
	json_int_t ok = json_integer_value(json_object_get(runs, "ok"));
	json_int_t all = ok + json_integer_value(json_object_get(runs, "failed"));
	if (all)
		json_object_set_new(quest, "success_rate", json_real((double)ok / (double)all));
}

int govern_quests(const struct config *c, const struct quests_query *q, json_t **ret,
		  struct err *err)
{
	CLEANUP_LEDGER struct ledger *l = NULL;
	CLEANUP_JSON json_t *sums = NULL;
	CLEANUP_JSON json_t *about = NULL;
	CLEANUP_JSON json_t *trend = NULL;
	CLEANUP_JSON json_t *by_name = json_object();
	CLEANUP_JSON json_t *quests = json_array();
	json_t *one, *row;
	const char *name;
	size_t i;
	int r = quests_about(c, &about, err);
	if (r < 0)
		return r;
	if (ledger_open_whole(c, &l, err) >= 0)
		(void)ledger_totals(l, c, TOTALS_BY_QUEST, q->viewer, &sums, err);
	json_array_foreach(sums, i, row)
	{
		add_ended(by_name, row);
	}
	json_array_foreach(q->live, i, row)
	{
		if (viewer_sees(q->viewer, text_of(row, "submitter")))
			add_live(by_name, row);
	}
	add_about(by_name, about);
	if (q->quest && !json_object_get(by_name, q->quest))
		return err_set(err, ERR_CALLER, ENOENT, "there is no quest '%.100s'", q->quest);
	json_object_foreach(by_name, name, one)
	{
		add_rate(one);
		if (!q->quest || str_eq(name, q->quest))
			json_array_append(quests, one);
	}
	const struct quest_runs runs = { .quest = q->quest, .viewer = q->viewer };
	if (q->quest && l)
		r = trend_of_quest(l, c, &runs, &trend, err);
	if (r >= 0)
		*ret = json_pack("{s:O,s:O*}", "quests", quests, "trend", trend);
	return r;
}

json_t *govern_runtimes(const struct config *c)
{
	CLEANUP_STRV struct strv names = { 0 };
	json_t *runtimes = json_array();
	(void)id_list(c->home, "runtimes", &names, NULL);
	for (size_t i = 0; i < names.n; i++) {
		CLEANUP_RUNTIME_STATE struct runtime_state s = { 0 };
		if (state_read(c, names.v[i], &s, NULL) < 0)
			continue;
		json_array_append_new(runtimes,
				      json_pack("{s:s,s:s,s:s?,s:s?,s:O?,s:O?}", "name", names.v[i],
						"health", health_names[s.health], "reason",
						s.reason, "checked", s.verified_time, "drift",
						s.drift, "checks", s.checks));
	}
	return runtimes;
}

/* What all runs together may have is what the service gives out, be it said or made of the host. */
static void set_caps(json_t *policy, const struct service_use *use)
{
	char memory[64], cpus[64];
	CLEANUP_FREE char *pids = xasprintf("%llu", (unsigned long long)use->pids_cap);
	num_print_size(use->memory_cap, memory, sizeof memory);
	num_write_cpus(use->cpus_cap, cpus, sizeof cpus);
	json_object_set_new(policy, "aggregate.memory", json_string(memory));
	json_object_set_new(policy, "aggregate.cpus", json_string(cpus));
	json_object_set_new(policy, "aggregate.pids", json_string(pids));
}

/* The names of other users are not part of it. */
static json_t *policy_json(const struct config *c, const struct viewer *viewer,
			   const struct service_use *use)
{
	json_t *policy = json_object();
	for (size_t i = 0; i < c->n_values; i++) {
		const struct config_value *v = &c->values[i];
		if (!viewer->sees_all && str_eq(v->key, "service.shares"))
			continue;
		if (str_starts(v->key, "ceilings.") || str_starts(v->key, "policy.") ||
		    str_starts(v->key, "aggregate.") || str_starts(v->key, "service.") ||
		    str_eq(v->key, "cpu_weight"))
			json_object_set_new(policy, v->key, json_text(v->text));
	}
	set_caps(policy, use);
	return policy;
}

static int newest_first(const void *a, const void *b)
{
	const json_t *one = *(json_t *const *)a, *other = *(json_t *const *)b;
	int by = strcmp(text_of(other, "accepted"), text_of(one, "accepted"));
	return by ? by : strcmp(text_of(other, "id"), text_of(one, "id"));
}

static json_t *page_of(struct ledger *l, const struct config *c, const struct viewer *viewer,
		       const char *const *causes)
{
	CLEANUP_STRV struct strv list = { 0 };
	CLEANUP_JSON json_t *rows = NULL;
	json_t *shown = json_array();
	for (; *causes; causes++)
		strv_add(&list, *causes);
	const struct ledger_page q = { .viewer = viewer, .causes = &list, .limit = SHOWN };
	if (l)
		(void)ledger_page(l, c, &q, &rows, NULL);
	size_t n = json_array_size(rows);
	CLEANUP_FREE json_t **sorted = xcalloc(n ? n : 1, sizeof(json_t *));
	for (size_t i = 0; i < n; i++)
		sorted[i] = json_array_get(rows, i);
	qsort(sorted, n, sizeof(json_t *), newest_first);
	CLEANUP_FREE char *owner = rows_owner(c);
	for (size_t i = 0; i < n && i < SHOWN; i++) {
		rows_set_owner(sorted[i], owner);
		json_array_append(shown, sorted[i]);
	}
	return shown;
}

/* How far each run came with the limit that it reached. */
static json_t *with_reached(const struct config *c, json_t *kills)
{
	size_t i;
	json_t *row;
	json_array_foreach(kills, i, row)
	{
		json_t *reached = recorded_reached(c, text_of(row, "id"), text_of(row, "cause"));
		json_object_set_new(row, "reached", reached ? reached : json_null());
	}
	return kills;
}

/* Sums of each, whatever the cause. What nobody submitted is the owner's of the home. */
static json_t *spend_json(struct ledger *l, const struct config *c, const struct viewer *viewer,
			  enum totals_by by, const char *key)
{
	CLEANUP_JSON json_t *sums = NULL;
	CLEANUP_JSON json_t *by_name = json_object();
	json_t *list = json_array(), *sum, *row;
	const char *name;
	size_t i;
	if (l)
		(void)ledger_totals(l, c, by, viewer, &sums, NULL);
	CLEANUP_FREE char *owner = by == TOTALS_BY_SUBMITTER ? rows_owner(c) : NULL;
	json_array_foreach(sums, i, sum)
	{
		const char *of = text_of(sum, "of");
		of = *of || !owner ? of : owner;
		row = json_object_get(by_name, of);
		if (!row) {
			row = json_pack("{s:o,s:i,s:i,s:i,s:i,s:f}", key,
					*of ? json_text(of) : json_null(), "runs", 0, "ok", 0,
					"wall_usec", 0, "cpu_usec", 0, "memory_gib_hours", 0.0);
			json_object_set_new(by_name, of, row);
		}
		json_int_t runs = json_integer_value(json_object_get(sum, "runs"));
		count(row, "runs", runs);
		if (strcmp(text_of(sum, "cause"), "ok") == 0)
			count(row, "ok", runs);
		count(row, "wall_usec", json_integer_value(json_object_get(sum, "wall_usec")));
		count(row, "cpu_usec", json_integer_value(json_object_get(sum, "cpu_usec")));
		json_object_set_new(
			row, "memory_gib_hours",
			json_real(json_real_value(json_object_get(row, "memory_gib_hours")) +
				  json_real_value(json_object_get(sum, "memory_gib_hours"))));
	}
	json_object_foreach(by_name, name, row)
	{
		json_array_append(list, row);
	}
	return list;
}

static json_t *chain_json(struct ledger *l, const struct config *c, const json_t *health)
{
	json_t *chain = NULL, *record;
	size_t i;
	if (!l || ledger_chain_head(l, c, &chain, NULL) < 0)
		chain = json_pack("{s:n,s:n}", "length", "head");
	json_object_set_new(chain, "ok", json_null());
	json_object_set_new(chain, "checked", json_null());
	json_array_foreach(health, i, record)
	{
		if (strcmp(text_of(record, "kind"), "verify") == 0 &&
		    strcmp(text_of(record, "subject"), "chain") == 0) {
			bool is_ok = strcmp(text_of(record, "status"), "ok") == 0;
			json_object_set_new(chain, "ok", json_boolean(is_ok));
			json_object_set(chain, "checked", json_object_get(record, "time"));
		}
	}
	return chain;
}

/* Runs that nobody keeps, and what the last looks for leftovers found. */
static json_t *cleanup_json(const struct config *c, const struct viewer *viewer,
			    const json_t *health)
{
	CLEANUP_STRV struct strv active = { 0 };
	json_t *leftovers = json_array(), *sweep = json_null(), *record;
	size_t at;
	(void)id_list(c->home, "active", &active, NULL);
	for (size_t i = 0; i < active.n && json_array_size(leftovers) < SHOWN; i++) {
		CLEANUP_FREE char *submitter = NULL;
		if (!run_is_alive(c, active.v[i], NULL) &&
		    (viewer->sees_all ||
		     (viewer_submitter_of_run(c, active.v[i], &submitter) >= 0 &&
		      viewer_sees(viewer, submitter))))
			json_array_append_new(leftovers, json_string(active.v[i]));
	}
	json_array_foreach(health, at, record)
	{
		if (strcmp(text_of(record, "kind"), "gc") == 0)
			sweep = json_incref(record);
	}
	return json_pack("{s:o,s:o}", "leftovers", leftovers, "last_sweep", sweep);
}

static json_t *protected_json(const struct config *c)
{
	json_t *list = json_array();
	for (size_t i = 0; i < c->watch.n; i++) {
		json_t *one = NULL;
		if (protection_status(c, c->watch.v[i], &one, NULL) >= 0)
			json_array_append_new(list, one);
	}
	return list;
}

int govern_senate(const struct config *c, const struct viewer *viewer,
		  const struct service_use *use, json_t **ret, struct err *err)
{
	static const char *const refused[] = { "refused",        "denied",        "setup",
					       "runtime-broken", "input-changed", NULL };
	static const char *const killed[] = { "oom",  "deadline",   "cpu", "disk",
					      "pids", "output-cap", NULL };
	CLEANUP_LEDGER struct ledger *l = NULL;
	CLEANUP_JSON json_t *health = NULL;
	if (ledger_open_whole(c, &l, NULL) < 0)
		l = NULL;
	if (!viewer->sees_all || ledger_health_list(c, &health, NULL) < 0)
		health = json_array();
	json_t *spend = json_pack("{s:o,s:o}", "by_submitter",
				  spend_json(l, c, viewer, TOTALS_BY_SUBMITTER, "submitter"),
				  "by_runtime",
				  spend_json(l, c, viewer, TOTALS_BY_RUNTIME, "runtime"));
	*ret = json_pack(
		"{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:O}", "runtimes", govern_runtimes(c), "policy",
		policy_json(c, viewer, use), "refusals", page_of(l, c, viewer, refused),
		"limit_kills", with_reached(c, page_of(l, c, viewer, killed)), "cleanup",
		cleanup_json(c, viewer, health), "protected",
		viewer->sees_all ? protected_json(c) : json_array(), "spend", spend, "chain",
		chain_json(viewer->sees_all ? l : NULL, c, health), "health", health);
	json_object_set_new(*ret, "caps",
			    json_pack("{s:o,s:o,s:o}", "memory", json_u64(use->memory_cap), "cpus",
				      json_u64(use->cpus_cap), "pids", json_u64(use->pids_cap)));
	return 0;
}
