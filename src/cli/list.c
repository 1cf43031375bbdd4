/* cupel list: the runs there are, those of a kind, page by page. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "cli/records.h"
#include "cli/remote.h"
#include "keeper/verdict.h"
#include "spec/id.h"
#include "view/pipeline_view.h"
#include "view/runs_query.h"
#include "view/runs_view.h"

#define PART 500 /* rows printed at a time */

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
	((struct list_args *)target)->query.is_oldest_first = true;
	return 0;
}

static int set_from_runs(void *target, const struct option_row *row, const char *value,
			 struct err *err)
{
	((struct list_args *)target)->query.source = RUNS_DIRECTORIES;
	return 0;
}

static const char *const state_names[] = { "queued", "running", "ended", "lost?" };

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
			r = check_word(row->name, word, state_names, 4, err);
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
	{ 0, "state", "STATE", "only these: queued, running, ended, lost?", set_list, LIST_STATE },
	{ 0, "cause", "CAUSE", "only those that ended so: ok, oom,deadline", set_list, LIST_CAUSE },
	{ 'r', "runtime", "NAME", "only those in these runtimes", set_list, LIST_RUNTIME },
	{ 0, "quest", "QUEST", "only those of this quest; may be repeated", set_list, LIST_QUEST },
	{ 0, "since", "TIME", "only those accepted then or later: 2h, 7d, 2026-01-31", set_since,
	  0 },
	{ 'n', "limit", "N", "at most so many", set_limit, 0 },
	{ 0, "after", "ID", "the next page: what comes after this run", set_after, 0 },
	{ 0, "reverse", NULL, "oldest first", set_reverse, 0 },
	{ 0, "pipelines", NULL, "the pipelines, not the runs", set_pipelines, 0 },
	{ 0, "from-runs", NULL, "read the run directories, not the ledger", set_from_runs, 0 },
	{ 0, "json", NULL, "print JSON", set_json, 0 },
};
static const struct options list_options = { rows, sizeof rows / sizeof *rows };

/* Where the rows come from: the records, a service, or both. Each source is in the order of time. */
struct listing {
	const struct list_args *args;
	struct runs *runs;         /* owned or NULL */
	struct remote_rows remote; /* none: is_over */
	json_t *pages[2];          /* owned; what came last: of the records, of the service */
	size_t at[2];
	uint64_t n; /* printed */
	char last[ID_MAX + 1];
	struct table table;
};

static void listing_release(struct listing *l)
{
	runs_freep(&l->runs);
	remote_rows_release(&l->remote);
	json_decref(l->pages[0]);
	json_decref(l->pages[1]);
	table_release(&l->table);
}

/* The next row of a source, without taking it; NULL: there is none. */
static int peek(struct listing *l, int source, json_t **ret, struct err *err)
{
	*ret = NULL;
	if (l->pages[source] && l->at[source] == json_array_size(l->pages[source])) {
		json_decref(l->pages[source]);
		l->pages[source] = NULL;
		l->at[source] = 0;
	}
	if (!l->pages[source] && source == 0 && l->runs) {
		int r = runs_next(l->runs, &l->pages[0], err);
		const char *note = runs_note(l->runs);
		if (note)
			log_warning("the run directories are read, not the ledger: %s", note);
		if (r < 0)
			return r;
		if (!json_array_size(l->pages[0]) && !runs_left_after(l->runs))
			runs_freep(&l->runs);
	} else if (!l->pages[source] && source == 1 && !l->remote.is_over) {
		int r = remote_rows_next(&l->remote, &l->pages[1], err);
		if (r < 0)
			return r;
	}
	*ret = json_array_get(l->pages[source], l->at[source]);
	return 0;
}

static struct runs_key record_key(const json_t *run)
{
	const char *time = json_string_value(json_object_get(run, "accepted"));
	return (struct runs_key){ json_string_value(json_object_get(run, "id")), time ? time : "" };
}

/* The next of both, borrowed. */
static int take(struct listing *l, json_t **ret, struct err *err)
{
	json_t *next[2];
	for (int i = 0; i < 2; i++) {
		int r = peek(l, i, &next[i], err);
		if (r < 0)
			return r;
	}
	bool is_second = !next[0];
	if (next[0] && next[1]) {
		struct runs_key record = record_key(next[0]), queued = remote_key(next[1]);
		is_second = runs_order(&l->args->query, &queued, &record) < 0;
	}
	*ret = next[is_second];
	l->at[is_second]++;
	return 0;
}

/* A part at a time, however many there are. */
static int print_part(struct listing *l, json_t *part, bool is_last, struct err *err)
{
	size_t i;
	json_t *run;
	if (!l->args->json)
		return json_array_size(part) || (is_last && !l->table.is_begun)
			       ? runs_print(part, &l->table, err)
			       : 0;
	json_array_foreach(part, i, run)
	{
		CLEANUP_FREE char *text = json_dumps(run, JSON_COMPACT);
		printf("%s%s", l->n == json_array_size(part) && i == 0 ? "" : ",", text);
	}
	return 0;
}

static int print_all(struct listing *l, struct err *err)
{
	uint64_t limit = l->args->query.limit;
	printf("%s", l->args->json ? "[" : "");
	for (bool is_last = false; !is_last;) {
		CLEANUP_JSON json_t *part = json_array();
		while (json_array_size(part) < PART && !is_last) {
			json_t *row = NULL;
			int r = limit && l->n == limit ? 0 : take(l, &row, err);
			if (r < 0)
				return r;
			is_last = !row;
			if (!row)
				break;
			json_array_append(part, row);
			(void)snprintf(l->last, sizeof l->last, "%s",
				       json_string_value(json_object_get(row, "id")));
			l->n++;
		}
		int r = print_part(l, part, is_last, err);
		if (r < 0)
			return r;
	}
	printf("%s", l->args->json ? "]\n" : "");
	return fflush(stdout) < 0 ? err_errno(err, "write") : 0;
}

/* Did the limit leave some out? */
static int has_more(struct listing *l, struct err *err)
{
	json_t *row = NULL;
	int r = 0;
	if (!l->args->query.limit || l->n < l->args->query.limit)
		return 0;
	if (l->runs && runs_left_after(l->runs))
		return 1;
	for (int i = 0; r >= 0 && !row && i < 2; i++)
		r = peek(l, i, &row, err);
	return r < 0 ? r : row != NULL;
}

/* A run that has begun since the queue was asked for is told as its record has it. */
static void drop_begun(const struct config *c, struct listing *l)
{
	for (size_t i = json_array_size(l->pages[1]); i-- > 0;) {
		const json_t *row = json_array_get(l->pages[1], i);
		CLEANUP_FREE char *directory = xasprintf(
			"%s/runs/%s", c->home, json_string_value(json_object_get(row, "id")));
		if (access(directory, F_OK) == 0)
			json_array_remove(l->pages[1], i);
	}
}

static int begin_listing(const struct config *c, const struct remote *remote, struct listing *l,
			 struct err *err)
{
	const struct runs_query *q = &l->args->query;
	bool only_queued = q->states.n == 1 && str_eq(q->states.v[0], "queued");
	bool no_queued = (q->states.n && !strv_has(&q->states, "queued")) || q->causes.n;
	l->remote = (struct remote_rows){ .remote = remote,
					  .query = q,
					  .is_queue = remote->is_here,
					  .is_over = !remote->client ||
						     (remote->is_here && no_queued) };
	json_t *unused = NULL;
	int r = l->remote.is_queue ? peek(l, 1, &unused, err) : 0;
	if (r < 0 || !remote_has_records(remote) || only_queued)
		return r;
	drop_begun(c, l);
	return runs_open(c, q, &l->runs, err);
}

/* Pipelines have steps where runs have a cause and a runtime. */
static int print_pipelines(const struct config *c, const struct list_args *args, struct err *err)
{
	const struct runs_query *q = &args->query;
	const struct pipelines_query wanted = { .viewer = &viewer_all,
						.after = q->after,
						.limit = q->limit,
						.is_oldest_first = q->is_oldest_first };
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

/* When the last run of the page before was accepted or submitted: the next page begins behind that. A service elsewhere knows by itself. */
static int find_after(const struct config *c, const struct remote *remote, struct runs_query *q,
		      struct err *err)
{
	CLEANUP_JSON json_t *told = NULL;
	if (!q->after || !remote_has_records(remote) ||
	    run_accepted(c, q->after, q->after_time) >= 0)
		return 0;
	int r = remote->client ? remote_show(remote->client, q->after, &told, err) : -ENOENT;
	if (r == -ENOENT)
		return err_set(err, ERR_CALLER, ENOENT,
			       "--after: there is no run '%s' to go on after", q->after);
	if (r >= 0)
		(void)snprintf(q->after_time, sizeof q->after_time, "%s", remote_key(told).time);
	return r;
}

static int list_runs(const struct config *c, struct list_args *args, struct err *err)
{
	CLEANUP_REMOTE struct remote remote = { 0 };
	CLEANUP(listing_release) struct listing l = { .args = args };
	int r = args->query.source == RUNS_DIRECTORIES ? 0 : remote_open(c, &remote, err);
	if (r >= 0)
		r = find_after(c, &remote, &args->query, err);
	if (r >= 0)
		r = begin_listing(c, &remote, &l, err);
	if (r >= 0)
		r = print_all(&l, err);
	if (r >= 0 && !args->json)
		r = has_more(&l, err);
	if (r > 0)
		fprintf(stderr, "cupel: there are more: --after %s\n", l.last);
	return r;
}

static int main_list(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config c = { 0 };
	CLEANUP(args_release) struct list_args args = { 0 };
	struct records_begin begin = { self, argc, argv, 0, &args };
	struct operands rest;
	struct err err = { 0 };
	int r = records_begin(&begin, &c, &rest, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	args.query.detail = args.json ? RUNS_ALL : RUNS_GLANCE;
	r = args.pipelines ? print_pipelines(&c, &args, &err) : list_runs(&c, &args, &err);
	return r < 0 ? cli_fail(&err) : 0;
}

const struct command command_list = {
	.name = "list",
	.usage = "[OPTION]...",
	.operands = COMPLETE_NOTHING,
	.summary = "list runs or pipelines, newest first",
	.options = &list_options,
	.main = main_list,
};
