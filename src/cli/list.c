/* cupel list: the runs there are, those of a kind, page by page. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "cli/records.h"
#include "keeper/verdict.h"
#include "spec/id.h"
#include "view/pipeline_view.h"
#include "view/runs_query.h"
#include "view/runs_view.h"

struct list_args {
	bool json;
	bool pipelines;
	struct runs_query query;
};

static void args_release(struct list_args *a)
{
	runs_query_release(&a->query);
}

static int set_json(void *target, const struct option_row *row, const char *value, struct err *err)
{
	((struct list_args *)target)->json = true;
	return 0;
}

static int set_pipelines(void *target, const struct option_row *row, const char *value,
			 struct err *err)
{
	((struct list_args *)target)->pipelines = true;
	return 0;
}

static int set_reverse(void *target, const struct option_row *row, const char *value,
		       struct err *err)
{
	((struct list_args *)target)->query.is_reverse = true;
	return 0;
}

static int set_from_runs(void *target, const struct option_row *row, const char *value,
			 struct err *err)
{
	((struct list_args *)target)->query.source = RUNS_DIRECTORIES;
	return 0;
}

static const char *const state_names[] = { "running", "ended", "lost?" };

static int check_word(const char *option, const char *word, const char *const *words, size_t n,
		      struct err *err)
{
	CLEANUP_STR struct str known = { 0 };
	for (size_t i = 0; i < n; i++) {
		if (str_eq(word, words[i]))
			return 0;
		str_addf(&known, "%s%s", i ? ", " : "", words[i]);
	}
	return err_caller(err, "--%s: there is no '%.60s'; known: %s", option, word,
			  str_text(&known));
}

enum { LIST_STATE, LIST_CAUSE, LIST_RUNTIME, LIST_QUEST };

/* One or several, with commas; a quest is a title and may have one. */
static int set_list(void *target, const struct option_row *row, const char *value, struct err *err)
{
	struct runs_query *q = &((struct list_args *)target)->query;
	struct strv *const lists[] = { &q->states, &q->causes, &q->runtimes, &q->quests };
	const char *causes[CAUSE_COUNT_];
	int r = *value ? 0 : err_caller(err, "--%s is empty", row->name);
	for (int i = 0; i < CAUSE_COUNT_; i++)
		causes[i] = cause_name((enum cause)i);
	if (row->number == LIST_QUEST && r >= 0) {
		strv_add(lists[row->number], value);
		return 0;
	}
	while (r >= 0 && *value) {
		size_t n = strcspn(value, ",");
		char *word = xstrndup(value, n);
		strv_take(lists[row->number], word);
		if (row->number == LIST_STATE)
			r = check_word(row->name, word, state_names, 3, err);
		else if (row->number == LIST_CAUSE)
			r = check_word(row->name, word, causes, CAUSE_COUNT_, err);
		value += n + (value[n] == ',');
	}
	return r;
}

/* A time, or how long ago. */
static int set_since(void *target, const struct option_row *row, const char *value, struct err *err)
{
	struct runs_query *q = &((struct list_args *)target)->query;
	uint64_t ago_ns, now = clock_real_ns();
	if (clock_read(value, &q->since_ns) >= 0)
		return 0;
	if (num_duration(value, &ago_ns, NULL) < 0)
		return err_caller(
			err,
			"--since takes a time in UTC (2026-01-31, 2026-01-31T12:00) or how long ago (2h, 7d), not '%.60s'",
			value);
	q->since_ns = ago_ns < now ? now - ago_ns : 1;
	return 0;
}

static int set_limit(void *target, const struct option_row *row, const char *value, struct err *err)
{
	return num_count(value, &((struct list_args *)target)->query.limit, err);
}

static int set_after(void *target, const struct option_row *row, const char *value, struct err *err)
{
	struct runs_query *q = &((struct list_args *)target)->query;
	free(q->after);
	q->after = xstrdup(value);
	return id_check(value, err);
}

static const struct option_row rows[] = {
	{ 0, "state", "STATE", "only these: running, ended, lost?", set_list, LIST_STATE },
	{ 0, "cause", "CAUSE", "only those that ended so: ok, oom,deadline", set_list, LIST_CAUSE },
	{ 'r', "runtime", "NAME", "only those in these runtimes", set_list, LIST_RUNTIME },
	{ 0, "quest", "QUEST", "only those of this quest; may be repeated", set_list, LIST_QUEST },
	{ 0, "since", "TIME", "only those accepted then or later: 2h, 7d, 2026-01-31", set_since,
	  0 },
	{ 'n', "limit", "N", "at most so many", set_limit, 0 },
	{ 0, "after", "ID", "the next page: those behind this id", set_after, 0 },
	{ 0, "reverse", NULL, "the last first", set_reverse, 0 },
	{ 0, "pipelines", NULL, "the pipelines, not the runs", set_pipelines, 0 },
	{ 0, "from-runs", NULL, "read the run directories, not the ledger", set_from_runs, 0 },
	{ 0, "json", NULL, "print JSON", set_json, 0 },
};
static const struct options list_options = { rows, sizeof rows / sizeof *rows };

static void print_json(const json_t *page, bool is_first)
{
	size_t i;
	json_t *run;
	json_array_foreach(page, i, run)
	{
		CLEANUP_FREE char *text = json_dumps(run, JSON_COMPACT);
		printf("%s%s", is_first && i == 0 ? "" : ",", text);
	}
}

/* A page at a time, however many there are. */
static int print_all(struct runs *runs, bool json, struct err *err)
{
	CLEANUP_TABLE struct table t = { 0 };
	size_t n = 0;
	bool is_first = true;
	printf("%s", json ? "[" : "");
	do {
		CLEANUP_JSON json_t *page = NULL;
		int r = runs_next(runs, &page, err);
		const char *note = runs_note(runs);
		if (note)
			log_warning("the run directories are read, not the ledger: %s", note);
		n = json_array_size(page);
		if (r >= 0 && json)
			print_json(page, is_first);
		else if (r >= 0 && (n || is_first))
			r = runs_print(page, &t, err);
		if (r < 0)
			return r;
		is_first = false;
	} while (n);
	printf("%s", json ? "]\n" : "");
	return fflush(stdout) < 0 ? err_errno(err, "write") : 0;
}

/* Pipelines have steps where runs have a cause and a runtime. */
static int print_pipelines(const struct config *c, const struct list_args *args, struct err *err)
{
	const struct runs_query *q = &args->query;
	const struct pipelines_query wanted = { q->after, q->limit, q->is_reverse };
	CLEANUP_JSON json_t *list = NULL;
	if (q->states.n || q->causes.n || q->runtimes.n || q->quests.n || q->since_ns ||
	    q->source == RUNS_DIRECTORIES)
		return err_caller(
			err,
			"--pipelines goes with --limit, --after, --reverse and --json; the others are about runs");
	int r = pipelines_json(c, &wanted, &list, err);
	if (r >= 0 && args->json)
		json_print(list);
	else if (r >= 0)
		r = pipelines_print(list, err);
	return r;
}

static int main_list(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config c = { 0 };
	CLEANUP(args_release) struct list_args args = { 0 };
	CLEANUP_RUNS struct runs *runs = NULL;
	struct records_begin begin = { self, argc, argv, 0, &args };
	struct operands rest;
	struct err err = { 0 };
	int r = records_begin(&begin, &c, &rest, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	if (args.pipelines)
		return print_pipelines(&c, &args, &err) < 0 ? cli_fail(&err) : 0;
	args.query.detail = args.json ? RUNS_ALL : RUNS_GLANCE;
	if (runs_open(&c, &args.query, &runs, &err) < 0 || print_all(runs, args.json, &err) < 0)
		return cli_fail(&err);
	if (runs_left_after(runs) && !args.json)
		fprintf(stderr, "cupel: there are more: --after %s\n", runs_left_after(runs));
	return 0;
}

const struct command command_list = {
	.name = "list",
	.usage = "[OPTION]...",
	.summary = "the runs or pipelines there are, in the order of their ids",
	.options = &list_options,
	.main = main_list,
};
