/* The commands that look at records: list, show, logs. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/path.h"
#include "cli/simple.h"
#include "health/gc.h"
#include "run/run.h"
#include "view/runs_view.h"

static int begin(const struct command *self, int argc, char **argv, int n_operands,
		 struct simple_args *args, struct config *config, struct operands *rest,
		 struct err *err)
{
	int r = cli_parse(self, argc, argv, args, rest, err);
	if (r >= 0 && argc - rest->first != n_operands)
		r = err_caller(err, "usage: cupel %s %s", self->name, self->usage);
	if (r >= 0)
		r = config_read(&(struct config_where){ 0 }, config, err);
	/* So that a run whose keeper died is shown as what it is. What can't be swept is no reason not to look. */
	struct gc_report report;
	struct err ignored;
	if (r >= 0 && gc_sweep(config, &report, &ignored) < 0)
		log_warning("%s", ignored.text);
	if (r >= 0)
		run_deliver(config);
	return r;
}

static void print_json(const json_t *value)
{
	CLEANUP_FREE char *text = json_dumps(value, JSON_COMPACT);
	printf("%s\n", text ? text : "null");
}

static int main_list(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config c = { 0 };
	CLEANUP_JSON json_t *runs = NULL;
	struct simple_args args = { 0 };
	struct operands rest;
	struct err err = { 0 };
	int r = begin(self, argc, argv, 0, &args, &c, &rest, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	if (runs_json(&c, &runs, &err) < 0)
		return cli_fail(&err);
	if (args.json)
		print_json(runs);
	else
		runs_print(runs);
	return 0;
}

const struct command command_list = {
	.name = "list",
	.usage = "[--json]",
	.summary = "the runs there are, in the order of their ids",
	.options = &simple_options,
	.main = main_list,
};

static int main_show(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config c = { 0 };
	CLEANUP_JSON json_t *run = NULL;
	struct simple_args args = { 0 };
	struct operands rest;
	struct err err = { 0 };
	int r = begin(self, argc, argv, 1, &args, &c, &rest, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	if (!args.json)
		return run_print(&c, argv[rest.first], &err) < 0 ? cli_fail(&err) : 0;
	if (run_json(&c, argv[rest.first], &run, &err) < 0)
		return cli_fail(&err);
	print_json(run);
	return 0;
}

const struct command command_show = {
	.name = "show",
	.usage = "[--json] ID",
	.summary = "how a run ended, and where its record is",
	.options = &simple_options,
	.main = main_show,
};

/* The stored bytes as they are: stdout.log to stdout, stderr.log to stderr. */
static int copy_log(const struct config *c, const char *id, const char *name, int to_fd,
		    struct err *err)
{
	char buffer[65536];
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s/%s", c->home, id, name);
	CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT)
		return 0; /* it never came to that */
	if (fd < 0)
		return err_errno(err, "open %s", path);
	for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0;)
		if (fs_write_all(to_fd, buffer, (size_t)n) < 0)
			return err_errno(err, "write the log");
	return 0;
}

static int main_logs(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config c = { 0 };
	CLEANUP_JSON json_t *run = NULL;
	struct simple_args args = { 0 };
	struct operands rest;
	struct err err = { 0 };
	int r = begin(self, argc, argv, 1, &args, &c, &rest, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	const char *id = argv[rest.first];
	r = run_json(&c, id, &run, &err); /* says so if there is none */
	if (r >= 0 && args.json) {
		CLEANUP_FREE char *out = xasprintf("%s/runs/%s/stdout.log", c.home, id);
		CLEANUP_FREE char *errors = xasprintf("%s/runs/%s/stderr.log", c.home, id);
		CLEANUP_JSON json_t *paths = json_pack("{s:o,s:o}", "stdout", json_text(out),
						       "stderr", json_text(errors));
		print_json(paths);
		return 0;
	}
	if (r >= 0)
		r = copy_log(&c, id, "stdout.log", STDOUT_FILENO, &err);
	if (r >= 0)
		r = copy_log(&c, id, "stderr.log", STDERR_FILENO, &err);
	return r < 0 ? cli_fail(&err) : 0;
}

const struct command command_logs = {
	.name = "logs",
	.usage = "[--json] ID",
	.summary =
		"what a run wrote: its stdout to stdout, its stderr to stderr; with --json where they are",
	.options = &simple_options,
	.main = main_logs,
};
