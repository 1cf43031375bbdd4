/* cupel outputs: what a run left behind, listed, printed or copied. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/path.h"
#include "cli/cli.h"
#include "collect/fetch.h"
#include "collect/outputs.h"
#include "run/run.h"
#include "view/outputs_view.h"
#include "view/runs_view.h"

struct outputs_args {
	bool json;
	bool raw;
	const char *to;     /* borrowed from argv, or NULL */
	const char *id;     /* borrowed from argv */
	const char *wanted; /* borrowed from argv, or NULL: all */
};

static int set_json(void *target, const struct option_row *row, const char *value, struct err *err)
{
	((struct outputs_args *)target)->json = true;
	return 0;
}

static int set_raw(void *target, const struct option_row *row, const char *value, struct err *err)
{
	((struct outputs_args *)target)->raw = true;
	return 0;
}

static int set_to(void *target, const struct option_row *row, const char *value, struct err *err)
{
	((struct outputs_args *)target)->to = value;
	return 0;
}

static const struct option_row rows[] = {
	{ 0, "json", NULL, "print JSON: the manifest, or the entries that PATH names", set_json,
	  0 },
	{ 0, "raw", NULL, "do not escape control characters on a terminal", set_raw, 0 },
	{ 0, "to", "DIR", "copy them into this directory, which is made if need be", set_to, 0 },
};
static const struct options options = { rows, sizeof rows / sizeof *rows };

/* The files that `wanted` names: one, those in a directory, those a glob matches. Sets *ret_one if it is the path of a file. */
static json_t *choose(const json_t *manifest, const char *wanted, const json_t **ret_one)
{
	json_t *chosen = json_array();
	size_t i;
	json_t *file;
	json_array_foreach(json_object_get(manifest, "files"), i, file)
	{
		CLEANUP_FREE char *path = fetch_path(file);
		if (!path)
			continue;
		if (wanted && str_eq(path, wanted))
			*ret_one = file;
		if (!wanted || str_eq(path, wanted) || outputs_match(wanted, path))
			json_array_append(chosen, file);
	}
	return chosen;
}

static int copy_all(const struct fetch *f, const json_t *files, const char *to, struct err *err)
{
	size_t i;
	json_t *file;
	CLEANUP_FREE char *cwd = path_cwd();
	CLEANUP_FREE char *place = cwd && *to ? path_normal(cwd, to) : NULL;
	if (!place)
		return err_caller(err, "'%.200s' is no place for a directory", to);
	int r = fs_make_dirs(place, 0755, err);
	if (r < 0)
		return r;
	CLEANUP_FD int dest_fd = open(place, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dest_fd < 0)
		return err_errno(err, "open %.200s", place);
	json_array_foreach(files, i, file)
	{
		r = fetch_copy(f, file, dest_fd, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int give(const struct fetch *f, const struct outputs_args *args, struct err *err)
{
	const json_t *one = NULL;
	const char *wanted = args->wanted;
	CLEANUP_JSON json_t *chosen = choose(f->manifest, wanted, &one);
	if (wanted && json_array_size(chosen) == 0)
		return err_caller(
			err, "the run '%s' has no output '%.200s'; `cupel outputs %s` lists them",
			args->id, wanted, args->id);
	int r = args->to ? copy_all(f, chosen, args->to, err) : 0;
	if (r < 0)
		return r;
	if (args->json)
		json_print(wanted ? chosen : f->manifest);
	else if (one && !args->to) {
		struct terminal_out to =
			terminal_out(STDOUT_FILENO, args->raw ? TERMINAL_RAW : TERMINAL_SAFE);
		return fetch_print(f, one, &to, err);
	} else if (!args->to)
		return outputs_print(f->manifest, chosen, err);
	return 0;
}

static int parse(const struct command *self, int argc, char **argv, struct outputs_args *args,
		 struct err *err)
{
	struct operands rest = { 0 };
	int r = cli_parse(self, argc, argv, args, &rest, err);
	if (r < 0)
		return r;
	int n = argc - rest.first;
	if (n < 1 || n > 2)
		return err_caller(err, "usage: cupel %s %s", self->name, self->usage);
	args->id = argv[rest.first];
	args->wanted = n == 2 ? argv[rest.first + 1] : NULL;
	return 0;
}

static int main_outputs(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config c = { 0 };
	CLEANUP_JSON json_t *run = NULL;
	CLEANUP_JSON json_t *manifest = NULL;
	struct outputs_args args = { 0 };
	struct gc_report report;
	struct err err = { 0 }, ignored = { 0 };
	int r = parse(self, argc, argv, &args, &err);
	if (r >= 0)
		r = config_read(&(struct config_where){ 0 }, &c, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	/* A run whose keeper died is to be seen as what it is. */
	if (run_sweep(&c, &report, &ignored) < 0)
		log_warning("%s", ignored.text);
	r = run_json(&c, args.id, &run, &err);
	if (r >= 0 && !str_eq(json_string_value(json_object_get(run, "state")), "ended"))
		r = err_set(&err, ERR_CALLER, EBUSY,
			    "the run '%s' has not ended: nothing vouches for its outputs yet",
			    args.id);
	if (r < 0)
		return cli_fail(&err);
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s", c.home, args.id);
	CLEANUP_FD int run_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (run_fd < 0)
		r = err_errno(&err, "open %s", path);
	if (r >= 0)
		r = fetch_manifest(run_fd, &manifest, &err);
	struct fetch f = { run_fd, manifest };
	if (r >= 0)
		r = give(&f, &args, &err);
	return r < 0 ? cli_fail(&err) : 0;
}

const struct command command_outputs = {
	.name = "outputs",
	.usage = "ID [PATH] [--to DIR] [--raw] [--json]",
	.summary = "what a run left behind: listed, printed or copied",
	.details =
		"Without PATH, or with a directory or a glob, they are listed; the PATH of one file prints it. Each is compared\n"
		"with its digest as it is read.",
	.options = &options,
	.main = main_outputs,
};
