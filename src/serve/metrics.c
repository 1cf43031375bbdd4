/* One family after the other, each with its type and unit. Names and labels: no ids in labels, base units, _total for what only grows. */
#include "serve/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "ledger/totals.h"
#include "serve/govern.h"

static const char *text_of(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));
	return text ? text : "";
}

static double number_of(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

/* The page while it is written. The older text has no units, and a counter's own name has its ending. */
struct sheet {
	struct str *text;
	bool is_older;
};

static void family(const struct sheet *to, const char *name, const char *type, const char *unit,
		   const char *help)
{
	const char *ending = to->is_older && str_eq(type, "counter") ? "_total" : "";
	str_addf(to->text, "# TYPE %s%s %s\n", name, ending, type);
	if (unit && !to->is_older)
		str_addf(to->text, "# UNIT %s %s\n", name, unit);
	str_addf(to->text, "# HELP %s%s %s\n", name, ending, help);
}

/* Names are others': quotes, backslashes and line ends are escaped. */
static void add_label(struct str *to, const char *name, const char *value)
{
	str_addf(to, "%s=\"", name);
	for (const char *c = value; *c; c++) {
		if (*c == '"' || *c == '\\')
			str_add(to, "\\");
		if (*c == '\n')
			str_add(to, "\\n");
		else
			str_add_n(to, c, 1);
	}
	str_add(to, "\"");
}

static void sample(const struct sheet *to, const char *name, const char *label, const char *value,
		   double number)
{
	str_add(to->text, name);
	if (label) {
		str_add(to->text, "{");
		add_label(to->text, label, value);
		str_add(to->text, "}");
	}
	str_addf(to->text, " %.15g\n", number);
}

static void add_queue(const struct metrics_now *now, const struct sheet *to)
{
	const struct service_use *u = &now->use;
	family(to, "cupel_runs_active", "gauge", NULL, "Runs of the service that wait or run.");
	sample(to, "cupel_runs_active", "state", "queued", (double)u->waiting);
	sample(to, "cupel_runs_active", "state", "running", (double)u->running);
	const struct {
		const char *name, *help;
		uint64_t value;
	} counts[] = {
		{ "cupel_submissions", "Submissions that were taken.", u->submitted },
		{ "cupel_starts", "Runs that were started.", u->started },
		{ "cupel_ends", "Runs of the service that ended.", u->ended },
		{ "cupel_retries", "Attempts after the first.", u->retried },
		{ "cupel_refusals", "Submissions that were refused after they were taken.",
		  u->refused },
	};
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		family(to, counts[i].name, "counter", NULL, counts[i].help);
		str_addf(to->text, "%s_total %llu\n", counts[i].name,
			 (unsigned long long)counts[i].value);
	}
	family(to, "cupel_memory_bytes", "gauge", "bytes",
	       "Memory promised to running boxes, and the most.");
	sample(to, "cupel_memory_bytes", "kind", "used", (double)u->memory_used);
	sample(to, "cupel_memory_bytes", "kind", "cap", (double)u->memory_cap);
	family(to, "cupel_cpus", "gauge", NULL, "Cpus promised to running boxes, and the most.");
	sample(to, "cupel_cpus", "kind", "used", (double)u->cpus_used / 1000);
	sample(to, "cupel_cpus", "kind", "cap", (double)u->cpus_cap / 1000);
	family(to, "cupel_pids", "gauge", NULL,
	       "Processes promised to running boxes, and the most.");
	sample(to, "cupel_pids", "kind", "used", (double)u->pids_used);
	sample(to, "cupel_pids", "kind", "cap", (double)u->pids_cap);
	family(to, "cupel_draining", "gauge", NULL, "1: the service is about to end.");
	sample(to, "cupel_draining", NULL, NULL, now->is_draining);
}

/* A histogram's numbers go up: each has all that were shorter. */
static void add_waits(const struct waits *w, const struct sheet *to)
{
	uint64_t n = 0;
	family(to, "cupel_run_queue_seconds", "histogram", "seconds",
	       "From when a submission might have started to its first start.");
	for (int i = 0; i <= WAITS_BOUNDS; i++) {
		n += w->n[i];
		sample(to, "cupel_run_queue_seconds_bucket", "le",
		       i < WAITS_BOUNDS ? waits_bounds[i] : "+Inf", (double)n);
	}
	sample(to, "cupel_run_queue_seconds_sum", NULL, NULL, w->seconds);
	sample(to, "cupel_run_queue_seconds_count", NULL, NULL, (double)n);
}

static void add_lookups(const struct service_use *u, const struct sheet *to)
{
	family(to, "cupel_cache_lookups", "counter", NULL,
	       "Results that pipelines of the service looked for before they ran a step.");
	sample(to, "cupel_cache_lookups_total", "result", "hit", (double)u->lookups.hit);
	sample(to, "cupel_cache_lookups_total", "result", "miss", (double)u->lookups.miss);
	sample(to, "cupel_cache_lookups_total", "result", "unusable", (double)u->lookups.unusable);
}

static void add_runs(const json_t *sums, const struct sheet *to)
{
	size_t i;
	const json_t *sum;
	family(to, "cupel_runs", "counter", NULL, "Runs that ended, by runtime and cause.");
	json_array_foreach(sums, i, sum)
	{
		str_add(to->text, "cupel_runs_total{");
		add_label(to->text, "runtime", text_of(sum, "of"));
		str_add(to->text, ",");
		add_label(to->text, "result", text_of(sum, "cause"));
		str_addf(to->text, "} %.15g\n", number_of(sum, "runs"));
	}
}

/* What is added up of each runtime, whatever the cause. */
static void add_sums(const json_t *sums, const struct sheet *to)
{
	CLEANUP_JSON json_t *by_name = json_object();
	size_t i;
	const json_t *sum;
	const char *name;
	json_t *all;
	json_array_foreach(sums, i, sum)
	{
		json_t *old = json_object_get(by_name, text_of(sum, "of"));
		double peak = number_of(sum, "memory_peak_bytes");
		json_object_set_new(
			by_name, text_of(sum, "of"),
			json_pack("{s:f,s:f,s:f,s:f}", "runs",
				  number_of(old, "runs") + number_of(sum, "runs"), "wall",
				  number_of(old, "wall") + number_of(sum, "wall_usec") / 1e6, "cpu",
				  number_of(old, "cpu") + number_of(sum, "cpu_usec") / 1e6, "peak",
				  number_of(old, "peak") > peak ? number_of(old, "peak") : peak));
	}
	family(to, "cupel_run_duration_seconds", "summary", "seconds", "Wall time of runs.");
	json_object_foreach(by_name, name, all)
	{
		sample(to, "cupel_run_duration_seconds_sum", "runtime", name,
		       number_of(all, "wall"));
		sample(to, "cupel_run_duration_seconds_count", "runtime", name,
		       number_of(all, "runs"));
	}
	family(to, "cupel_run_cpu_seconds", "counter", "seconds", "Cpu time of runs.");
	json_object_foreach(by_name, name, all)
	{
		sample(to, "cupel_run_cpu_seconds_total", "runtime", name, number_of(all, "cpu"));
	}
	family(to, "cupel_run_memory_peak_bytes", "gauge", "bytes",
	       "The most memory that a run used.");
	json_object_foreach(by_name, name, all)
	{
		sample(to, "cupel_run_memory_peak_bytes", "runtime", name, number_of(all, "peak"));
	}
}

#define QUESTS_SHOWN 50
#define OTHER_QUESTS "other"

static int by_runs(const void *a, const void *b)
{
	const json_t *one = *(json_t *const *)a, *other = *(json_t *const *)b;
	double left = number_of(one, "runs"), right = number_of(other, "runs");
	return left > right   ? -1
	       : left < right ? 1
			      : strcmp(text_of(one, "name"), text_of(other, "name"));
}

static void add_quest(json_t *by_name, const char *name, const json_t *sum)
{
	json_t *old = json_object_get(by_name, name);
	double runs = number_of(sum, "runs");
	bool is_ok = str_eq(text_of(sum, "cause"), "ok");
	json_object_set_new(by_name, name,
			    json_pack("{s:s,s:f,s:f,s:f}", "name", name, "runs",
				      number_of(old, "runs") + runs, "ok",
				      number_of(old, "ok") + (is_ok ? runs : 0), "cpu_usec",
				      number_of(old, "cpu_usec") + number_of(sum, "cpu_usec")));
}

/* The largest quests by name, the rest together: anybody can make up names, and each would be a series for ever. */
static json_t *largest_quests(const json_t *sums)
{
	CLEANUP_JSON json_t *all = json_object();
	json_t *shown = json_array(), *other = NULL, *quest;
	const char *name;
	const json_t *sum;
	size_t i, n = 0;
	json_array_foreach(sums, i, sum)
	{
		add_quest(all, text_of(sum, "of"), sum);
	}
	CLEANUP_FREE json_t **sorted = xcalloc(json_object_size(all) + 1, sizeof(json_t *));
	json_object_foreach(all, name, quest)
	{
		if (str_eq(name, OTHER_QUESTS))
			other = json_copy(quest);
		else
			sorted[n++] = quest;
	}
	qsort(sorted, n, sizeof(json_t *), by_runs);
	for (i = 0; i < n && i < QUESTS_SHOWN; i++)
		json_array_append(shown, sorted[i]);
	for (; i < n; i++) {
		if (!other)
			other = json_pack("{s:s}", "name", OTHER_QUESTS);
		static const char *const keys[] = { "runs", "ok", "cpu_usec" };
		for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
			json_object_set_new(other, keys[k],
					    json_real(number_of(other, keys[k]) +
						      number_of(sorted[i], keys[k])));
	}
	if (other)
		json_array_append_new(shown, other);
	return shown;
}

static void add_quests(const json_t *sums, const struct sheet *to)
{
	CLEANUP_JSON json_t *quests = largest_quests(sums);
	const json_t *quest;
	size_t i;
	family(to, "cupel_quest_runs", "counter", NULL,
	       "Runs that ended, by quest: those with the most runs, the rest as other.");
	json_array_foreach(quests, i, quest)
	{
		const struct {
			const char *result;
			double n;
		} parts[] = { { "ok", number_of(quest, "ok") },
			      { "failed", number_of(quest, "runs") - number_of(quest, "ok") } };
		for (size_t k = 0; k < 2; k++) {
			str_add(to->text, "cupel_quest_runs_total{");
			add_label(to->text, "quest", text_of(quest, "name"));
			str_addf(to->text, ",result=\"%s\"} %.15g\n", parts[k].result, parts[k].n);
		}
	}
	family(to, "cupel_quest_cpu_seconds", "counter", "seconds", "Cpu time of runs, by quest.");
	json_array_foreach(quests, i, quest)
	{
		sample(to, "cupel_quest_cpu_seconds_total", "quest", text_of(quest, "name"),
		       number_of(quest, "cpu_usec") / 1e6);
	}
}

static void add_runtimes(const struct config *c, const struct sheet *to)
{
	CLEANUP_JSON json_t *runtimes = govern_runtimes(c);
	size_t i;
	const json_t *runtime;
	family(to, "cupel_runtime_healthy", "gauge", NULL, "1: its last check passed.");
	json_array_foreach(runtimes, i, runtime)
	{
		sample(to, "cupel_runtime_healthy", "runtime", text_of(runtime, "name"),
		       strcmp(text_of(runtime, "health"), "healthy") == 0);
	}
	family(to, "cupel_runtime_last_verified_timestamp_seconds", "gauge", "seconds",
	       "When it was checked last.");
	json_array_foreach(runtimes, i, runtime)
	{
		uint64_t ns = 0;
		if (clock_read(text_of(runtime, "checked"), &ns) >= 0)
			sample(to, "cupel_runtime_last_verified_timestamp_seconds", "runtime",
			       text_of(runtime, "name"), (double)ns / NS_PER_SEC);
	}
}

static void add_up(const struct config *c, struct metrics_now *now)
{
	CLEANUP_LEDGER struct ledger *l = NULL;
	CLEANUP_JSON json_t *runtimes = NULL;
	CLEANUP_JSON json_t *quests = NULL;
	uint64_t began = clock_monotonic_ns();
	if (ledger_open_whole(c, &l, NULL) < 0 ||
	    ledger_totals(l, c, TOTALS_BY_RUNTIME, &now->viewer, &runtimes, NULL) < 0 ||
	    ledger_totals(l, c, TOTALS_BY_QUEST, &now->viewer, &quests, NULL) < 0)
		return;
	now->sums = json_pack("{s:O,s:O}", "runtimes", runtimes, "quests", quests);
	now->cost_ns = clock_monotonic_ns() - began;
}

void metrics_write(const struct config *c, struct metrics_now *now, struct str *ret)
{
	const struct sheet sheet = { ret, now->is_older }, *to = &sheet;
	/* A gauge, as Prometheus's own go_info: its tools know no type `info`. */
	family(to, "cupel_build_info", "gauge", NULL, "The version of the program; always 1.");
	sample(to, "cupel_build_info", "version", CUPEL_VERSION, 1);
	add_queue(now, to);
	add_waits(&now->use.waits, to);
	add_lookups(&now->use, to);
	if (!now->sums)
		add_up(c, now);
	family(to, "cupel_ledger_up", "gauge", NULL, "1: the ledger has all runs and answers.");
	sample(to, "cupel_ledger_up", NULL, NULL, now->sums != NULL);
	if (now->sums) {
		const json_t *runtimes = json_object_get(now->sums, "runtimes");
		add_runs(runtimes, to);
		add_sums(runtimes, to);
		add_quests(json_object_get(now->sums, "quests"), to);
	}
	add_runtimes(c, to);
	if (!now->is_older)
		str_add(ret, "# EOF\n");
}
