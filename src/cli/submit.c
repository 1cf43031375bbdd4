/* cupel submit: hands an analysis or a pipeline to the service, which queues it and runs it. */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/path.h"
#include "cli/cli.h"
#include "cli/wait.h"
#include "flow/flow.h"
#include "spec/parameters.h"
#include "spec/request.h"
#include "spec/spec_json.h"

#define AGAIN_FIRST_MS 100
#define AGAIN_LAST_MS  1600 /* three seconds in all */

/* The caller's, as `cupel run` would pass them on: the service has an environment of its own. */
static void pass_variables(const struct config *c, struct analysis *a)
{
	for (size_t i = 0; i < c->env_pass.n; i++) {
		const char *value = getenv(c->env_pass.v[i]);
		if (value && !pairs_get(&a->env, c->env_pass.v[i]))
			pairs_set(&a->env, c->env_pass.v[i], value);
	}
}

static bool has_input(const struct analysis *a, const char *name)
{
	for (size_t i = 0; i < a->n_inputs; i++)
		if (str_eq(a->inputs[i].name, name))
			return true;
	return false;
}

/* The service knows of no project: what `cupel run` would show of this one's data is named to it. */
static int name_project_data(const struct config *c, struct analysis *a, struct err *err)
{
	if (!c->project_data)
		return 0;
	CLEANUP_DIR DIR *dir = opendir(c->project_data);
	if (!dir)
		return err_errno(err, "open the project's data directory %s", c->project_data);
	for (struct dirent *entry; (entry = readdir(dir));) {
		if (str_eq(entry->d_name, ".") || str_eq(entry->d_name, "..") ||
		    entry->d_type == DT_LNK || has_input(a, entry->d_name))
			continue;
		if (a->n_inputs == ANALYSIS_INPUTS_MAX)
			return err_caller(err, "%s has more than %d entries: too many to be named",
					  c->project_data, ANALYSIS_INPUTS_MAX);
		struct input input = { .path = path_join(c->project_data, entry->d_name),
				       .name = xstrdup(entry->d_name),
				       .origin = xstrdup("project.data") };
		analysis_add_input(a, &input);
	}
	return 0;
}

static int check_there(const char *what, const char *path, struct err *err)
{
	struct stat st = { 0 };
	if (stat(path, &st) == 0 || (errno != ENOENT && errno != ENOTDIR))
		return 0;
	return err_set(err, ERR_CALLER, errno, "%s: %s: %s", what, path, strerrordesc_np(errno));
}

/* A name that was mistyped is said here and now, not when its turn has come. Whether the service may read what is there is for it to say. */
static int check_names(const struct analysis *a, struct err *err)
{
	int r = 0;
	if (!client_is_here())
		return 0;
	for (size_t i = 0; r >= 0 && i < a->code.n; i++)
		r = check_there("code", a->code.v[i], err);
	for (size_t i = 0; r >= 0 && i < a->n_inputs; i++)
		r = check_there(a->inputs[i].origin, a->inputs[i].path, err);
	if (r >= 0 && a->db_snapshot)
		r = check_there(a->db_snapshot_origin, a->db_snapshot, err);
	return r;
}

static int analysis_asked(const struct config *c, struct analysis *a, json_t **ret, struct err *err)
{
	pass_variables(c, a);
	int r = name_project_data(c, a, err);
	if (r >= 0)
		r = analysis_check(a, err);
	if (r >= 0)
		r = check_names(a, err);
	return r < 0 ? r : analysis_request(a, ret, err);
}

/* The service reads the file itself, with the submitter's rights; what is wrong with it is said here and now. */
static int pipeline_asked(struct run_args *args, const char *file, json_t **ret, struct err *err)
{
	CLEANUP_FLOW struct flow f = { 0 };
	CLEANUP_JSON json_t *said = NULL;
	int r = 0;
	if (args->said.allow_missing.n || args->said.allow_drift)
		r = err_caller(
			err,
			"--allow-missing and --allow-drift of a pipeline that is submitted stand in its file");
	if (r >= 0)
		r = flow_read(NULL, file, args->said.parameters, &f, err);
	if (r >= 0)
		r = analysis_request(&args->said, &said, err);
	if (r < 0)
		return r;
	json_t *asked = json_pack("{s:o}", "file", json_text(f.real));
	json_object_update(asked, said); /* name, quest, labels, parameters, keep */
	if (args->force.n)
		json_object_set_new(asked, "force", strv_json(&args->force));
	if (args->jobs)
		json_object_set_new(asked, "jobs", json_u64(args->jobs));
	if (args->keep_going)
		json_object_set_new(asked, "keep_going", json_true());
	*ret = asked;
	return 0;
}

/* A submission on its way. */
struct submission {
	struct run_args args;
	struct config config;
	struct client *client; /* owned */
	json_t *analysis;      /* owned; as it is asked */
	char *id;              /* owned or NULL */
};

static void submission_release(struct submission *s)
{
	run_args_release(&s->args);
	config_release(&s->config);
	client_freep(&s->client);
	json_decref(s->analysis);
	free(s->id);
}

static int read_asked(struct submission *s, int argc, char **argv, const struct operands *rest,
		      struct err *err)
{
	CLEANUP_ANALYSIS struct analysis a = { 0 };
	struct run_args *args = &s->args;
	int r;
	if (pipeline_is_named(argc, argv, rest)) {
		r = pipeline_check_args(args, argc, argv, rest, err);
		s->id = take_ptr(args->said.id);
		return r < 0 ? r : pipeline_asked(args, argv[rest->first], &s->analysis, err);
	}
	r = run_args_analysis(args, argc, argv, rest, &a, err);
	if (r >= 0)
		r = analysis_asked(&s->config, &a, &s->analysis, err);
	s->id = take_ptr(a.id);
	return r;
}

static json_t *body_of(const struct submission *s)
{
	char when[40];
	const struct run_args *args = &s->args;
	json_t *body = json_pack("{s:O,s:i}", "analysis", s->analysis, "priority", args->priority);
	if (s->id)
		json_object_set_new(body, "id", json_text(s->id));
	if (args->not_before_ns)
		json_object_set_new(
			body, "not_before",
			json_string(clock_write(args->not_before_ns, when, sizeof when)));
	return body;
}

/* A user's own home has a socket of its own: who wants the host's service has to say so. */
static int nobody_answers(const struct config *c, struct err *err)
{
	CLEANUP_FREE char *socket = config_service_socket(c);
	bool is_hosts = str_eq(socket, SERVICE_SOCKET_HOST);
	if (!is_hosts && access(SERVICE_SOCKET_HOST, F_OK) == 0)
		return err_set(err, ERR_HOST, EHOSTDOWN,
			       "no service answers on %s; for the host's, say CUPEL_SERVICE=%s",
			       socket, SERVICE_SOCKET_HOST);
	return err_set(err, ERR_HOST, EHOSTDOWN,
		       "no service answers on %s; `cupel serve` starts one, `cupel run` needs none",
		       socket);
}

static int send_it(struct submission *s, json_t **ret, struct err *err)
{
	int r = client_open(&s->config, &s->client, err);
	if (r < 0)
		return r;
	if (!s->client)
		return nobody_answers(&s->config, err);
	CLEANUP_JSON json_t *body = body_of(s);
	const struct client_request request = {
		.path = "/v1/runs", .method = "POST", .body = body, .key = s->args.key
	};
	/* It was told not now: a service that has just begun, or ends and is followed by the next. */
	r = client_call(s->client, &request, ret, err);
	for (int ms = AGAIN_FIRST_MS; r == -EAGAIN && ms <= AGAIN_LAST_MS; ms *= 2) {
		(void)poll(NULL, 0, ms);
		r = client_call(s->client, &request, ret, err);
	}
	if (r >= 0 && !json_is_string(json_object_get(*ret, "id")))
		r = err_set(err, ERR_HOST, EPROTO, "the service at %s names no id",
			    client_where(s->client));
	return r;
}

/* Prints what it has become, and waits for it if that was asked. */
static int answered(struct submission *s, const json_t *answer)
{
	const struct run_args *args = &s->args;
	const struct wait_how how = { .json = args->json, .quiet = args->quiet };
	free(s->id);
	s->id = xstrdup(json_string_value(json_object_get(answer, "id")));
	if (args->json && !args->wait)
		json_print(answer);
	else if (!args->json)
		printf("%s\n", s->id);
	if (fflush(stdout) != 0)
		return 125; /* main says why */
	char *const ids[] = { s->id, NULL };
	return args->wait ? wait_for(&s->config, s->client, ids, &how) : 0;
}

static int main_submit(const struct command *self, int argc, char **argv)
{
	CLEANUP(submission_release) struct submission s = { 0 };
	CLEANUP_JSON json_t *answer = NULL;
	struct operands rest;
	struct err err = { 0 };
	int r = cli_parse(self, argc, argv, &s.args, &rest, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	r = config_read(&(struct config_where){ 0 }, &s.config, &err);
	if (r >= 0)
		r = read_asked(&s, argc, argv, &rest, &err);
	if (r >= 0)
		r = send_it(&s, &answer, &err);
	return r < 0 ? cli_fail(&err) : answered(&s, answer);
}

const struct command command_submit = {
	.name = "submit",
	.usage = "[OPTION]... (ANALYSIS.yaml | SCRIPT [ARG]... | -- COMMAND [ARG]...)",
	.summary = "hand an analysis to the service, which queues it and runs it",
	.details =
		"Prints the id of the run. The options are those of `cupel run`, and those that say when it is its turn.",
	.options = &submit_options,
	.ends_options = true,
	.main = main_submit,
};
