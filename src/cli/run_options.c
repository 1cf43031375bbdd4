/* The options of `run`, `plan`, `submit` and `resume`. */
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "base/path.h"
#include "cli/cli.h"
#include "cli/foreign.h"
#include "spec/parameters.h"

static int set_json(void *target, const struct option_row *row, const char *value, struct err *err)
{
	((struct run_args *)target)->json = true;
	return 0;
}

static int set_quiet(void *target, const struct option_row *row, const char *value, struct err *err)
{
	((struct run_args *)target)->quiet = true;
	return 0;
}

static int set_limit(void *target, const struct option_row *row, const char *value, struct err *err)
{
	struct run_args *args = target;
	uint64_t number;
	char origin[64];
	int r = limit_parse((enum limit_id)row->number, value, &number, err);
	if (r < 0)
		return err_wrap(err, "--%s", row->name);
	(void)snprintf(origin, sizeof origin, "--%s", row->name);
	limits_set(&args->said.limits, (enum limit_id)row->number, number, origin);
	return 0;
}

static int set_timings(void *target, const struct option_row *row, const char *value,
		       struct err *err)
{
	((struct run_args *)target)->timings = true;
	return 0;
}

static int set_raw(void *target, const struct option_row *row, const char *value, struct err *err)
{
	((struct run_args *)target)->raw = true;
	return 0;
}

enum { TEXT_RUNTIME, TEXT_ID, TEXT_PROFILE, TEXT_QUEST, TEXT_NAME, TEXT_EXECUTOR };

static int set_text(void *target, const struct option_row *row, const char *value, struct err *err)
{
	struct analysis *a = &((struct run_args *)target)->said;
	char **const fields[] = { &a->runtime, &a->id,   &a->profile,
				  &a->quest,   &a->name, &a->executor };
	if (!*value)
		return err_caller(err, "--%s is empty", row->name);
	free(*fields[row->number]);
	*fields[row->number] = xstrdup(value);
	if (row->number == TEXT_RUNTIME && !a->runtime_origin)
		a->runtime_origin = xstrdup("--runtime");
	return 0;
}

static int set_data(void *target, const struct option_row *row, const char *value, struct err *err)
{
	struct analysis *a = &((struct run_args *)target)->said;
	struct input input = { 0 };
	CLEANUP_FREE char *cwd = path_cwd();
	if (!cwd)
		return err_errno(err, "find the current directory");
	int r = input_parse(value, cwd, "--data", &input, err);
	if (r < 0)
		return r;
	analysis_add_input(a, &input);
	return 0;
}

static int set_db_snapshot(void *target, const struct option_row *row, const char *value,
			   struct err *err)
{
	struct analysis *a = &((struct run_args *)target)->said;
	CLEANUP_FREE char *cwd = path_cwd();
	char *path = cwd ? path_normal(cwd, value) : NULL;
	if (!path)
		return err_caller(err, "--db-snapshot: '%.200s' is no path", value);
	free(a->db_snapshot);
	a->db_snapshot = path;
	if (!a->db_snapshot_origin)
		a->db_snapshot_origin = xstrdup("--db-snapshot");
	return 0;
}

static int set_post_process(void *target, const struct option_row *row, const char *value,
			    struct err *err)
{
	struct analysis *a = &((struct run_args *)target)->said;
	if (!path_name_ok(value))
		return err_caller(err, "--post-process takes the name of a step, not '%.60s'",
				  value);
	free(a->post_process);
	a->post_process = xstrdup(value);
	if (!a->post_process_origin)
		a->post_process_origin = xstrdup("--post-process");
	return 0;
}

static int set_out(void *target, const struct option_row *row, const char *value, struct err *err)
{
	int r = output_pattern_check(value, err);
	if (r < 0)
		return err_wrap(err, "--out");
	analysis_add_output(&((struct run_args *)target)->said, value, NULL, false);
	return 0;
}

static int set_env(void *target, const struct option_row *row, const char *value, struct err *err)
{
	return options_env(value, &((struct run_args *)target)->said.env, err);
}

static int set_label(void *target, const struct option_row *row, const char *value, struct err *err)
{
	struct analysis *a = &((struct run_args *)target)->said;
	const char *equals = strchr(value, '=');
	if (!equals || equals == value)
		return err_caller(err, "--%s takes NAME=VALUE, not '%.60s'", row->name, value);
	CLEANUP_FREE char *key = xstrndup(value, (size_t)(equals - value));
	pairs_set(&a->labels, key, equals + 1);
	return 0;
}

static int set_param(void *target, const struct option_row *row, const char *value, struct err *err)
{
	int r = parameters_set(&((struct run_args *)target)->said.parameters, value, err);
	return r < 0 ? err_wrap(err, "--param") : 0;
}

static int set_keep(void *target, const struct option_row *row, const char *value, struct err *err)
{
	struct analysis *a = &((struct run_args *)target)->said;
	for (int i = KEEP_NEVER; i <= KEEP_ALWAYS; i++)
		if (str_eq(value, keep_names[i])) {
			a->keep = i;
			a->keep_said = true;
			return 0;
		}
	return err_caller(err, "--keep takes never, failed or always, not '%.60s'", value);
}

static int set_scratch(void *target, const struct option_row *row, const char *value,
		       struct err *err)
{
	struct analysis *a = &((struct run_args *)target)->said;
	for (int i = SCRATCH_DISK; i <= SCRATCH_MEMORY; i++)
		if (str_eq(value, scratch_names[i])) {
			a->scratch = i;
			a->scratch_said = true;
			return 0;
		}
	return err_caller(err, "--scratch takes disk or memory, not '%.60s'", value);
}

static int set_network(void *target, const struct option_row *row, const char *value,
		       struct err *err)
{
	struct analysis *a = &((struct run_args *)target)->said;
	for (int i = NETWORK_NONE; i <= NETWORK_HOST; i++)
		if (str_eq(value, network_names[i])) {
			a->network = i;
			a->network_said = true;
			return 0;
		}
	return err_caller(err, "--network takes none or host, not '%.60s'", value);
}

static int set_missing(void *target, const struct option_row *row, const char *value,
		       struct err *err)
{
	struct analysis *a = &((struct run_args *)target)->said;
	if (!*value)
		return err_caller(err, "--%s is empty: name a layer", row->name);
	while (*value) { /* one or several, with commas */
		size_t n = strcspn(value, ",");
		CLEANUP_FREE char *layer = xstrndup(value, n);
		int r = layer_check(layer, err);
		if (r < 0)
			return err_wrap(err, "--allow-missing");
		strv_add(&a->allow_missing, layer);
		value += n + (value[n] == ',');
	}
	return 0;
}

static int set_drift(void *target, const struct option_row *row, const char *value, struct err *err)
{
	((struct run_args *)target)->said.allow_drift = true;
	return 0;
}

static int set_force(void *target, const struct option_row *row, const char *value, struct err *err)
{
	strv_add(&((struct run_args *)target)->force, value);
	return 0;
}

static int set_jobs(void *target, const struct option_row *row, const char *value, struct err *err)
{
	struct run_args *args = target;
	int r = num_count(value, &args->jobs, err);
	if (r >= 0 && args->jobs > 256)
		r = err_caller(err, "at most 256");
	return r < 0 ? err_wrap(err, "--jobs") : 0;
}

static int set_keep_going(void *target, const struct option_row *row, const char *value,
			  struct err *err)
{
	((struct run_args *)target)->keep_going = true;
	return 0;
}

static int set_warn_signal(void *target, const struct option_row *row, const char *value,
			   struct err *err)
{
	return warn_signal_parse(value, &((struct run_args *)target)->said.warn_signal, err);
}

static int set_checkpoint(void *target, const struct option_row *row, const char *value,
			  struct err *err)
{
	struct analysis *a = &((struct run_args *)target)->said;
	int r = checkpoint_name_check(value, err);
	if (r < 0)
		return err_wrap(err, "--checkpoint");
	free(a->checkpoint);
	a->checkpoint = xstrdup(value);
	return 0;
}

static int set_checkpoint_exit_code(void *target, const struct option_row *row, const char *value,
				    struct err *err)
{
	struct analysis *a = &((struct run_args *)target)->said;
	int r = checkpoint_exit_code_parse(value, &a->checkpoint_exit_code, err);
	return r < 0 ? err_wrap(err, "--checkpoint-exit-code") : 0;
}

/* From -100 to 100. */
static int set_priority(void *target, const struct option_row *row, const char *value,
			struct err *err)
{
	struct run_args *args = target;
	uint64_t number = 0;
	bool is_negative = value[0] == '-';
	if (num_u64(value + is_negative, 100, &number) < 0)
		return err_caller(err, "--priority is from -100 to 100, not '%.60s'", value);
	args->priority = is_negative ? -(int)number : (int)number;
	return 0;
}

static int set_key(void *target, const struct option_row *row, const char *value, struct err *err)
{
	struct run_args *args = target;
	free(args->key);
	args->key = xstrdup(value);
	return *value ? 0 : err_caller(err, "--key is empty");
}

static int set_not_before(void *target, const struct option_row *row, const char *value,
			  struct err *err)
{
	struct run_args *args = target;
	uint64_t from_now_ns = 0;
	if (clock_read(value, &args->not_before_ns) >= 0)
		return 0;
	if (num_duration(value, &from_now_ns, NULL) < 0)
		return err_caller(
			err,
			"--not-before takes a time in UTC (2026-01-31T12:00) or how long from now (2h), not '%.60s'",
			value);
	args->not_before_ns = clock_real_ns() + from_now_ns;
	return 0;
}

static int set_wait(void *target, const struct option_row *row, const char *value, struct err *err)
{
	((struct run_args *)target)->wait = true;
	return 0;
}

/* Those that only `run` has, those of both, those that only `submit` has. */
enum { N_RUN_ROWS = 2, N_SUBMIT_ROWS = 4 };
static const struct option_row rows[] = {
	{ 0, "timings", NULL, "say where the time went, stage by stage", set_timings, 0 },
	{ 0, "raw", NULL, "do not escape control characters on a terminal", set_raw, 0 },
	{ 'r', "runtime", "NAME", "run in this runtime (default: base)", set_text, TEXT_RUNTIME },
	{ 0, "id", "ID", "name the run (default: one is made)", set_text, TEXT_ID },
	{ 0, "name", "TEXT", "a title for people", set_text, TEXT_NAME },
	{ 0, "quest", "QUEST", "the goal this serves", set_text, TEXT_QUEST },
	{ 0, "label", "K=V", "a label for the record; may be repeated", set_label, 0 },
	{ 0, "profile", "P", "limits to start from: default, notebook, tool, post_process",
	  set_text, TEXT_PROFILE },
	{ 'x', "executor", "NAME", "carry it out there: see cupel executor list", set_text,
	  TEXT_EXECUTOR },
	{ 'm', "memory", "SIZE", "memory with tmpfs and shared memory, no swap: 2G, 512M",
	  set_limit, LIMIT_MEMORY },
	{ 'c', "cpus", "N", "cpus: 1.5", set_limit, LIMIT_CPUS },
	{ 0, "pids", "N", "processes and threads", set_limit, LIMIT_PIDS },
	{ 't', "time", "TIME", "wall time: 30m, 90s", set_limit, LIMIT_TIME },
	{ 0, "cpu-time", "TIME", "cpu time: 10m", set_limit, LIMIT_CPU_TIME },
	{ 0, "disk", "SIZE", "bytes of the working directory: 4G", set_limit, LIMIT_DISK },
	{ 0, "inodes", "N", "files of the working directory", set_limit, LIMIT_INODES },
	{ 0, "scratch", "WHERE",
	  "where the working directory is: disk, or memory (a hard limit for any user)",
	  set_scratch, 0 },
	{ 0, "file-size", "SIZE", "size of one file", set_limit, LIMIT_FILE_SIZE },
	{ 0, "open-files", "N", "open files of one process", set_limit, LIMIT_OPEN_FILES },
	{ 0, "log", "SIZE", "log kept of each of stdout and stderr", set_limit, LIMIT_LOG },
	{ 0, "output-size", "SIZE", "bytes collected in all", set_limit, LIMIT_OUTPUT_SIZE },
	{ 0, "output-count", "N", "files collected", set_limit, LIMIT_OUTPUT_COUNT },
	{ 0, "grace", "TIME", "between SIGTERM and the kill", set_limit, LIMIT_GRACE },
	{ 0, "warn", "TIME", "send the warning signal this long before the deadline", set_limit,
	  LIMIT_WARN },
	{ 0, "warn-signal", "SIGNAL", "the warning signal (default: USR1)", set_warn_signal, 0 },
	{ 0, "checkpoint", "DIR",
	  "a directory of the working directory that the next run of the same finds again",
	  set_checkpoint, 0 },
	{ 0, "checkpoint-exit-code", "N",
	  "the status of an analysis that has saved and is to be run again",
	  set_checkpoint_exit_code, 0 },
	{ 'd', "data", "PATH[:NAME]",
	  "show a file or directory read-only at data/NAME; may be repeated", set_data, 0 },
	{ 0, "db-snapshot", "FILE", "show a consistent copy of this SQLite file at $CUPEL_DB_PATH",
	  set_db_snapshot, 0 },
	{ 'o', "out", "GLOB",
	  "collect these from the working directory (default: out/**); may be repeated", set_out,
	  0 },
	{ 0, "post-process", "STEP",
	  "give the outputs to this step of the configuration before they count", set_post_process,
	  0 },
	{ 'p', "param", "NAME=VALUE",
	  "set a parameter, JSON or a text, for $CUPEL_PARAMETERS or a notebook; may be repeated",
	  set_param, 0 },
	{ 'e', "env", "K[=V]", "set a variable, or pass yours on; may be repeated", set_env, 0 },
	{ 0, "network", "MODE", "none (default: loopback only) or host, if the policy allows it",
	  set_network, 0 },
	{ 0, "keep", "WHEN", "keep the working directory: never, failed, always", set_keep, 0 },
	{ 0, "allow-missing", "LAYER",
	  "run even if the host lacks this layer; recorded; may be repeated", set_missing, 0 },
	{ 0, "allow-drift", NULL, "run even in a runtime that is degraded or broken; recorded",
	  set_drift, 0 },
	{ 0, "force", "STEP",
	  "of a pipeline: run this step whatever is known of it; may be repeated", set_force, 0 },
	{ 'j', "jobs", "N", "of a pipeline: so many steps side by side (default: one a cpu)",
	  set_jobs, 0 },
	{ 'k', "keep-going", NULL,
	  "of a pipeline: after a failure go on with what does not depend on it", set_keep_going,
	  0 },
	{ 0, "json", NULL, "print the result as JSON", set_json, 0 },
	{ 'q', "quiet", NULL, "no status line and no summary", set_quiet, 0 },
	{ 0, "priority", "N", "from -100 to 100, before others of mine; above 0 is for admins",
	  set_priority, 0 },
	{ 0, "key", "KEY", "of this submission: the same key again gives the first one's id",
	  set_key, 0 },
	{ 0, "not-before", "TIME", "wait until then: 2026-01-31T12:00 in UTC, or for so long: 2h",
	  set_not_before, 0 },
	{ 0, "wait", NULL, "wait for the end, and exit as `cupel run` would", set_wait, 0 },
};
const struct options run_options = { rows, sizeof rows / sizeof *rows - N_SUBMIT_ROWS,
				     foreign_option };
const struct options submit_options = { rows + N_RUN_ROWS, sizeof rows / sizeof *rows - N_RUN_ROWS,
					foreign_option };

static const struct option_row resume_rows[] = {
	{ 0, "force", "STEP", "run this step whatever is known of it; may be repeated", set_force,
	  0 },
	{ 'j', "jobs", "N", "so many steps side by side (default: one a cpu)", set_jobs, 0 },
	{ 'k', "keep-going", NULL, "after a failure go on with what does not depend on it",
	  set_keep_going, 0 },
	{ 0, "json", NULL, "print the result as JSON", set_json, 0 },
	{ 'q', "quiet", NULL, "failures only", set_quiet, 0 },
};
const struct options resume_options = { resume_rows, sizeof resume_rows / sizeof *resume_rows };
