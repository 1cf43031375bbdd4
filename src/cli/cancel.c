/* cupel cancel: asks runs and pipelines to end. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "base/log.h"
#include "base/proc.h"
#include "cli/await.h"
#include "cli/cli.h"

struct cancel_args {
	bool json;
	bool no_wait;
};

static int set_flag(void *target, const struct option_row *row, const char *value, struct err *err)
{
	struct cancel_args *a = target;
	*(row->number ? &a->no_wait : &a->json) = true;
	return 0;
}

static const struct option_row rows[] = {
	{ 0, "no-wait", NULL, "do not wait until they are over", set_flag, 1 },
	{ 0, "json", NULL, "print them as JSON", set_flag, 0 },
};
static const struct options cancel_options = { rows, sizeof rows / sizeof *rows };

static int is_over_already(const struct awaited *w, struct err *err)
{
	const char *cause = json_string_value(json_object_get(w->told, "cause"));
	return err_set(err, ERR_CALLER, EALREADY, "'%s' has ended already: %s", w->id,
		       cause ? cause : json_string_value(json_object_get(w->told, "state")));
}

/* Whoever keeps it records the end, as it does when `cupel run` is asked. */
static int cancel_by_record(struct awaiting *a, struct awaited *w, struct err *err)
{
	int r = await_look_record(a, w, err);
	if (r < 0)
		return r;
	if (w->is_over)
		return is_over_already(w, err);
	if (w->keeper_fd < 0)
		return err_set(
			err, ERR_HOST, ESRCH,
			"what keeps '%s' can't be seen from here: is it in another container?",
			w->id);
	r = proc_signal(w->keeper_fd, SIGTERM);
	if (r == -EPERM)
		return err_set(err, ERR_CALLER, EPERM, "'%s' is not yours: another user runs it",
			       w->id);
	if (r < 0 && r != -ESRCH) /* it has ended just now */
		return err_set(err, ERR_HOST, -r, "ask the keeper of '%s' to end: %s", w->id,
			       strerrordesc_np(-r));
	return 0;
}

static int cancel_one(struct awaiting *a, struct awaited *w, struct err *err)
{
	if (!a->client)
		return cancel_by_record(a, w, err);
	CLEANUP_FREE char *id = client_escape(w->id);
	CLEANUP_FREE char *path = xasprintf("/v1/runs/%s/cancel", id);
	int r = client_call(a->client, &(struct client_request){ .path = path, .method = "POST" },
			    NULL, err);
	if (r != -ENOENT && r != -EEXIST)
		return r;
	/* It neither waits nor runs there: it has ended, or somebody made it without the service, or there is none. */
	struct err why = { 0 };
	if (await_look_service(a, w, &why) >= 0 && w->is_over)
		return is_over_already(w, err);
	return cancel_by_record(a, w, &why) < 0 ? r : 0;
}

static void print_json(const struct awaiting *a)
{
	CLEANUP_JSON json_t *all = json_array();
	for (size_t i = 0; i < a->n; i++)
		json_array_append_new(all, a->v[i].told ? json_incref(a->v[i].told)
							: json_pack("{s:s}", "id", a->v[i].id));
	json_print(all);
}

/* Those that can't be cancelled are told of, and the others are all the same. */
static int cancel_all(struct awaiting *all, const struct cancel_args *args)
{
	CLEANUP_AWAITING struct awaiting asked = { .config = all->config, .client = all->client };
	struct err err = { 0 };
	int status = 0;
	for (size_t i = 0; i < all->n; i++) {
		if (cancel_one(all, &all->v[i], &err) < 0) {
			int failed = cli_fail(&err);
			status = status ? status : failed;
		} else {
			awaiting_add(&asked, all->v[i].id);
			asked.v[asked.n - 1].is_known = asked.v[asked.n - 1].is_ending = true;
		}
	}
	if (!args->no_wait && asked.n && await_ends(&asked, &err) < 0)
		return cli_fail(&err);
	if (args->json)
		print_json(&asked);
	for (size_t i = 0; i < asked.n && !args->json && !args->no_wait; i++) {
		const char *cause = json_string_value(json_object_get(asked.v[i].told, "cause"));
		fprintf(stderr, "cupel: %s: %s\n", asked.v[i].id, cause ? cause : "over");
	}
	return status;
}

static int main_cancel(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config c = { 0 };
	CLEANUP_CLIENT struct client *client = NULL;
	struct cancel_args args = { 0 };
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
	if (r < 0)
		return cli_fail(&err);
	CLEANUP_AWAITING struct awaiting all = { .config = &c, .client = client };
	for (int i = rest.first; i < argc; i++)
		awaiting_add(&all, argv[i]);
	return cancel_all(&all, &args);
}

const struct command command_cancel = {
	.name = "cancel",
	.usage = "[--no-wait] [--json] ID...",
	.operands = COMPLETE_RUNS,
	.summary = "end runs or pipelines that wait or go on",
	.details =
		"Waits until they are over. The exit status is 0 if all were cancelled; 2 if one is not there, has ended or is another's.",
	.options = &cancel_options,
	.main = main_cancel,
};
