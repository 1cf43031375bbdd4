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
#include "spec/id.h"
#include "view/outputs_view.h"
#include "view/pipeline_dossier.h"
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

/* One output of a pipeline: PATH of the run that made it, known as STEP/PATH or STEP/SHARD/PATH. */
struct step_output {
	char run[ID_MAX + 1];
	char *folder;     /* owned; STEP or STEP/SHARD */
	json_t *manifest; /* owned; of that run */
	json_t *file;     /* owned; its entry there */
	json_t *shown;    /* owned; the same with its path here, "step", "shard" and "run" */
};

struct step_outputs {
	struct step_output *v; /* owned */
	size_t n;
};

static void step_outputs_release(struct step_outputs *o)
{
	for (size_t i = 0; i < o->n; i++) {
		free(o->v[i].folder);
		json_decref(o->v[i].manifest);
		json_decref(o->v[i].file);
		json_decref(o->v[i].shown);
	}
	free(o->v);
}

static int run_open(const struct config *c, const char *id, struct err *err)
{
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s", c->home, id);
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_errno(err, "open %s", path) : fd;
}

static json_t *shown_entry(const json_t *file, const struct dossier_step *step,
			   const struct dossier_task *task, const char *folder)
{
	json_t *shown = json_copy((json_t *)file);
	CLEANUP_FREE char *own = fetch_path(file);
	CLEANUP_FREE char *path = xasprintf("%s/%s", folder, own);
	json_object_del(shown, "path_hex");
	json_object_set_new(shown, "path", json_text(path));
	json_object_set_new(shown, "step", json_text(step->name));
	if (task->shard[0])
		json_object_set_new(shown, "shard", json_text(task->shard));
	json_object_set_new(shown, "run", json_string(task->run));
	return shown;
}

/* The outputs of one step, or of a shard of it, if `wanted` names them. */
static int add_task(const struct config *c, const struct dossier_step *step,
		    const struct dossier_task *task, const char *wanted, struct step_outputs *to,
		    struct err *err)
{
	CLEANUP_JSON json_t *manifest = NULL;
	CLEANUP_FREE char *folder = task->shard[0] ? xasprintf("%s/%s", step->name, task->shard)
						   : xstrdup(step->name);
	size_t i;
	json_t *file;
	bool has_name = path_name_ok(step->name) && (!task->shard[0] || path_name_ok(task->shard));
	if ((task->state != TASK_OK && task->state != TASK_REUSED) || !task->run[0] || !has_name)
		return 0;
	CLEANUP_FD int run_fd = run_open(c, task->run, err);
	int r = run_fd < 0 ? run_fd : fetch_manifest(run_fd, &manifest, err);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	json_array_foreach(json_object_get(manifest, "files"), i, file)
	{
		CLEANUP_FREE char *own = fetch_path(file);
		CLEANUP_FREE char *path = own ? xasprintf("%s/%s", folder, own) : NULL;
		if (!path || (wanted && !str_eq(path, wanted) && !outputs_match(wanted, path)))
			continue;
		to->v = xreallocarray(to->v, to->n + 1, sizeof *to->v);
		struct step_output *one = &to->v[to->n++];
		*one = (struct step_output){ .folder = xstrdup(folder),
					     .manifest = json_incref(manifest),
					     .file = json_incref(file),
					     .shown = shown_entry(file, step, task, folder) };
		(void)snprintf(one->run, sizeof one->run, "%s", task->run);
	}
	return 0;
}

static int copy_step_outputs(const struct config *c, const struct step_outputs *all, const char *to,
			     struct err *err)
{
	CLEANUP_FREE char *cwd = path_cwd();
	CLEANUP_FREE char *place = cwd && *to ? path_normal(cwd, to) : NULL;
	int r = place ? 0 : err_caller(err, "'%.200s' is no place for a directory", to);
	for (size_t i = 0; r >= 0 && i < all->n; i++) {
		const struct step_output *one = &all->v[i];
		CLEANUP_FREE char *directory = path_join(place, one->folder);
		CLEANUP_FD int run_fd = run_open(c, one->run, err);
		r = run_fd < 0 ? run_fd : fs_make_dirs(directory, 0755, err);
		CLEANUP_FD int dest_fd =
			r < 0 ? -1
			      : open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (r >= 0 && dest_fd < 0)
			r = err_errno(err, "open %.200s", directory);
		const struct fetch f = { run_fd, one->manifest };
		if (r >= 0)
			r = fetch_copy(&f, one->file, dest_fd, err);
	}
	return r;
}

static int print_step_output(const struct config *c, const struct step_output *one,
			     const struct outputs_args *args, struct err *err)
{
	struct terminal_out to =
		terminal_out(STDOUT_FILENO, args->raw ? TERMINAL_RAW : TERMINAL_SAFE);
	CLEANUP_FD int run_fd = run_open(c, one->run, err);
	const struct fetch f = { run_fd, one->manifest };
	return run_fd < 0 ? run_fd : fetch_print(&f, one->file, &to, err);
}

static int give_step_outputs(const struct config *c, const struct outputs_args *args,
			     const struct step_outputs *all, struct err *err)
{
	CLEANUP_JSON json_t *files = json_array();
	for (size_t i = 0; i < all->n; i++)
		json_array_append(files, all->v[i].shown);
	if (args->wanted && all->n == 0)
		return err_caller(
			err,
			"the pipeline '%s' has no output '%.200s'; `cupel outputs %s` lists them",
			args->id, args->wanted, args->id);
	int r = args->to ? copy_step_outputs(c, all, args->to, err) : 0;
	if (r < 0)
		return r;
	if (args->json) {
		CLEANUP_JSON json_t *list =
			json_pack("{s:s,s:O}", "pipeline", args->id, "files", files);
		json_print(args->wanted ? files : list);
		return 0;
	}
	if (args->to)
		return 0;
	const char *only = all->n == 1 ? json_string_value(json_object_get(all->v[0].shown, "path"))
				       : NULL;
	return only && str_eq(only, args->wanted) ? print_step_output(c, &all->v[0], args, err)
						  : outputs_print(NULL, files, err);
}

static int of_pipeline(const struct config *c, const struct outputs_args *args, struct err *err)
{
	CLEANUP_PIPELINE_DOSSIER struct pipeline_dossier d = PIPELINE_DOSSIER_INIT;
	CLEANUP(step_outputs_release) struct step_outputs all = { 0 };
	int r = pipeline_dossier_read(c, args->id, &d, err);
	for (size_t s = 0; r >= 0 && s < d.n_steps; s++)
		for (size_t t = 0; r >= 0 && t < d.steps[s].n_tasks; t++)
			r = add_task(c, &d.steps[s], &d.steps[s].tasks[t], args->wanted, &all, err);
	return r < 0 ? r : give_step_outputs(c, args, &all, err);
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
	if (pipeline_is_there(&c, args.id)) {
		r = of_pipeline(&c, &args, &err);
		return r < 0 ? cli_fail(&err) : 0;
	}
	r = run_json(&c, args.id, &run, &err);
	if (r >= 0 && !str_eq(json_string_value(json_object_get(run, "state")), "ended"))
		r = err_set(&err, ERR_CALLER, EBUSY,
			    "the run '%s' has not ended: nothing vouches for its outputs yet",
			    args.id);
	if (r < 0)
		return cli_fail(&err);
	CLEANUP_FD int run_fd = run_open(&c, args.id, &err);
	r = run_fd < 0 ? run_fd : fetch_manifest(run_fd, &manifest, &err);
	struct fetch f = { run_fd, manifest };
	if (r >= 0)
		r = give(&f, &args, &err);
	return r < 0 ? cli_fail(&err) : 0;
}

const struct command command_outputs = {
	.name = "outputs",
	.usage = "ID [PATH] [--to DIR] [--raw] [--json]",
	.operands = COMPLETE_RUNS,
	.summary = "list, print or copy the outputs of a run or pipeline",
	.details =
		"Without PATH, or with a directory or a glob, they are listed; the PATH of one file prints it. Each is compared\n"
		"with its digest as it is read. Outputs of a pipeline are named STEP/PATH, of a step with shards STEP/SHARD/PATH.",
	.options = &options,
	.main = main_outputs,
};
