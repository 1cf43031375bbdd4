/* cupel wait: until runs and pipelines are over. */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "cli/await.h"
#include "cli/cli.h"
#include "cli/wait.h"

struct wait_args {
	struct wait_how how;
};

static int set_flag(void *target, const struct option_row *row, const char *value, struct err *err)
{
	struct wait_how *how = &((struct wait_args *)target)->how;
	bool *const flags[] = { &how->is_any, &how->json, &how->quiet };
	*flags[row->number] = true;
	return 0;
}

static int set_timeout(void *target, const struct option_row *row, const char *value,
		       struct err *err)
{
	return num_duration(value, &((struct wait_args *)target)->how.timeout_ns, err);
}

static const struct option_row rows[] = {
	{ 0, "timeout", "TIME", "wait no longer than this: 90s, 2h", set_timeout, 0 },
	{ 0, "any", NULL, "until one of them is over, not all", set_flag, 0 },
	{ 0, "json", NULL, "print them as JSON", set_flag, 1 },
	{ 'q', "quiet", NULL, "no line for each end", set_flag, 2 },
};
static const struct options wait_options = { rows, sizeof rows / sizeof *rows };

static void say_end(void *data, const struct awaited *w)
{
	const struct wait_how *how = data;
	const char *cause = json_string_value(json_object_get(w->told, "cause"));
	const char *notes = json_string_value(json_object_get(w->told, "completion_notes"));
	CLEANUP_FREE char *shown = notes ? str_visible(notes) : NULL;
	if (how->quiet || how->json)
		return;
	if (!cause && w->is_pipeline)
		cause = "lost; `cupel resume` goes on with it";
	fprintf(stderr, "cupel: %s: %s%s%s\n", w->id, cause ? cause : "ended", shown ? ": " : "",
		shown ? shown : "");
}

/* Of the first that was named and did not succeed; with `any`, of the one that is over. */
static int status_of(const struct awaiting *a)
{
	for (size_t i = 0; i < a->n; i++)
		if (a->v[i].is_over && a->v[i].exit_status)
			return a->v[i].exit_status;
	return 0;
}

static void print_json(const struct awaiting *a)
{
	CLEANUP_JSON json_t *all = json_array();
	for (size_t i = 0; i < a->n; i++)
		json_array_append(all, a->v[i].told);
	json_print(all);
}

int wait_for(const struct config *config, struct client *client, char *const *ids,
	     const struct wait_how *how)
{
	struct err err = { 0 };
	CLEANUP_AWAITING struct awaiting a = { .config = config,
					       .client = client,
					       .is_any = how->is_any,
					       .news = say_end,
					       .data = (void *)how };
	if (how->timeout_ns)
		a.deadline_ns = clock_monotonic_ns() + how->timeout_ns;
	for (; *ids; ids++)
		awaiting_add(&a, *ids);
	int r = await_ends(&a, &err);
	if (r < 0)
		return cli_fail(&err);
	if (how->json)
		print_json(&a);
	if (r == 0 && !how->quiet)
		log_warning("the time is over; what is not over yet goes on");
	return r == 0 ? WAIT_TIMEOUT_STATUS : status_of(&a);
}

static int main_wait(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config c = { 0 };
	CLEANUP_CLIENT struct client *client = NULL;
	struct wait_args args = { 0 };
	struct operands rest;
	struct err err = { 0 };
	int r = cli_parse(self, argc, argv, &args, &rest, &err);
	if (r >= 0 && rest.first == argc)
		r = err_caller(&err, "usage: cupel %s %s", self->name, self->usage);
	if (r < 0)
		return cli_stop(self, r, &err);
	r = config_read(&(struct config_where){ 0 }, &c, &err);
	if (r >= 0)
		r = client_open(&c, &client, &err);
	return r < 0 ? cli_fail(&err) : wait_for(&c, client, argv + rest.first, &args.how);
}

const struct command command_wait = {
	.name = "wait",
	.usage = "[OPTION]... ID...",
	.operands = COMPLETE_RUNS,
	.summary = "wait until runs or pipelines are over, and exit as they did",
	.details =
		"The exit status is that of `cupel run`: 0 if all succeeded, else of the first named that did not.\n"
		"With --any it is of the one that is over. 123 the time is over, 2 there is none of that id.",
	.options = &wait_options,
	.main = main_wait,
};
