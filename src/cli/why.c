/* cupel why: what made a step of a pipeline run again, or why it did not have to. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/path.h"
#include "cli/cli.h"
#include "flow/record.h"

#define RECORD_MAX (8 << 20)

struct why_args {
	bool json;
};

static int set_json(void *target, const struct option_row *row, const char *value, struct err *err)
{
	((struct why_args *)target)->json = true;
	return 0;
}

static const struct option_row rows[] = {
	{ 0, "json", NULL, "print it as JSON, one object a task", set_json, 0 },
};
static const struct options why_options = { rows, sizeof rows / sizeof *rows };

struct search {
	const char *step; /* "align" or "align[s1]"; NULL: all */
	bool json;
	size_t found;
};

static bool is_asked(const struct search *s, const json_t *line)
{
	const char *step = json_string_value(json_object_get(line, "step"));
	const char *shard = json_string_value(json_object_get(line, "shard"));
	CLEANUP_FREE char *label = shard && step ? xasprintf("%s[%s]", step, shard) : NULL;
	return step && (!s->step || str_eq(s->step, step) || str_eq(s->step, label));
}

static bool show_line(void *data, json_t *line)
{
	struct search *s = data;
	const char *event = json_string_value(json_object_get(line, "event"));
	const char *run = json_string_value(json_object_get(line, "run"));
	const char *why = json_string_value(json_object_get(line, "why"));
	const char *shard = json_string_value(json_object_get(line, "shard"));
	const char *error = json_string_value(json_object_get(line, "error"));
	bool told = error || str_eq(event, "reused") || str_eq(event, "started") ||
		    str_eq(event, "skipped");
	if (!told || !is_asked(s, line))
		return true;
	s->found++;
	if (s->json) {
		json_print(line);
		return true;
	}
	CLEANUP_FREE char *name = xasprintf("%s%s%s%s",
					    json_string_value(json_object_get(line, "step")),
					    shard ? "[" : "", shard ? shard : "", shard ? "]" : "");
	CLEANUP_FREE char *label = str_visible(name);
	CLEANUP_FREE char *words = str_visible(error ? error : why ? why : "");
	if (str_eq(event, "reused"))
		printf("%s: reused from %s: nothing that it depends on changed\n", label,
		       run ? run : "?");
	else if (str_eq(event, "started"))
		printf("%s: run as %s: %s\n", label, run ? run : "?", words);
	else
		printf("%s: not run: %s\n", label, words);
	return true;
}

/* The id of a step's own run will do: its record names the pipeline. */
static int find_pipeline(const struct config *c, const char *id, char ret[ID_MAX + 1],
			 char **ret_step, struct err *err)
{
	CLEANUP_JSON json_t *record = NULL;
	struct err unused = { 0 };
	int r = id_check(id, err);
	if (r < 0)
		return r;
	(void)snprintf(ret, ID_MAX + 1, "%s", id);
	if (flow_record_exists(c, id))
		return 0;
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s/analysis.json", c->home, id);
	if (json_read_file(AT_FDCWD, path, RECORD_MAX, &record, &unused) < 0)
		return err_set(err, ERR_CALLER, ENOENT, "there is no pipeline '%s' in %s", id,
			       c->home);
	const json_t *place = json_object_get(record, "pipeline");
	const char *pipeline = json_string_value(json_object_get(place, "id"));
	const char *step = json_string_value(json_object_get(place, "step"));
	if (!pipeline || !step || id_check(pipeline, &unused) < 0)
		return err_caller(
			err,
			"the run '%s' is no step of a pipeline: it was run because it was asked for",
			id);
	(void)snprintf(ret, ID_MAX + 1, "%s", pipeline);
	*ret_step = xstrdup(step);
	return 0;
}

static int main_why(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config config = { 0 };
	CLEANUP_FREE char *step = NULL;
	struct why_args args = { 0 };
	struct operands rest;
	struct err err = { 0 };
	char id[ID_MAX + 1];
	int r = cli_parse(self, argc, argv, &args, &rest, &err);
	if (r >= 0 && (argc - rest.first < 1 || argc - rest.first > 2))
		r = err_caller(&err, "usage: cupel %s %s", self->name, self->usage);
	if (r < 0)
		return cli_stop(self, r, &err);
	r = config_read(&(struct config_where){ 0 }, &config, &err);
	if (r >= 0)
		r = find_pipeline(&config, argv[rest.first], id, &step, &err);
	struct search search = { .json = args.json };
	if (r >= 0) {
		search.step = argc - rest.first == 2 ? argv[rest.first + 1] : step;
		r = flow_record_lines(&config, id, show_line, &search, &err);
	}
	if (r >= 0 && !search.found)
		r = err_caller(&err, "the pipeline '%s' has not come to a step '%.60s'", id,
			       search.step ? search.step : "");
	return r < 0 ? cli_fail(&err) : 0;
}

const struct command command_why = {
	.name = "why",
	.usage = "[OPTION]... ID [STEP]",
	.operands = COMPLETE_RUNS,
	.summary = "say why a step of a pipeline was run, or was not",
	.details =
		"ID is a pipeline's, or that of the run of one of its steps. STEP is its name, or NAME[SHARD].",
	.options = &why_options,
	.main = main_why,
};
