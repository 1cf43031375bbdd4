/* Verdicts: every cause from what was seen, the strongest evidence first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "keeper/notebook.h"
#include "keeper/verdict.h"

#define EXITED(code)  .started = true, .exited = true, .wait_status = (code) << 8
#define SIGNALED(sig) .started = true, .exited = true, .wait_status = (sig)
#define MEMORY        (1ULL << 30)
#define PEAK_AT_LIMIT .usage.mem_peak_bytes = MEMORY
#define PEAK_BELOW    .usage.mem_peak_bytes = MEMORY / 2

struct row {
	const char *what;
	struct ending e;
	enum cause cause;
	int exit_status;
	int exit_code;
	int signal;
	const char *notes[3]; /* each is said */
};

static const struct step_end failed_step = { .step = "to-table",
					     .run = "r1-post",
					     .cause = "oom",
					     .exit_code = -1,
					     .notes = "It needed more." };
static const struct step_end good_step = { .step = "to-table", .run = "r1-post", .cause = "ok" };

static const struct row rows[] = {
	{ "success", { EXITED(0) }, CAUSE_OK, 0, 0, 0, { "succeeded" } },
	{ "a wait for a cpu of more than a tenth",
	  { EXITED(0), .usage.has_cpu_wait = true, .usage.cpu_wait_usec = 1200000 },
	  CAUSE_OK,
	  0,
	  0,
	  0,
	  { "succeeded", "waited for a CPU for 1.20 s of 1.50 s", "more threads than CPUs" } },
	{ "its own status", { EXITED(3) }, CAUSE_EXIT, 3, 3, 0, { "status 3", "stderr.log" } },
	{ "a strict shell is named",
	  { EXITED(1), .strict_shell = STRICT_BASH },
	  CAUSE_EXIT,
	  1,
	  1,
	  0,
	  { "'bash -euo pipefail -c'", "option -e", "shell: sh" } },
	{ "the other one",
	  { EXITED(1), .strict_shell = STRICT_SH },
	  CAUSE_EXIT,
	  1,
	  1,
	  0,
	  { "'sh -eu -c'", "option -e", "shell: sh" } },
	{ "a variable that is not set",
	  { EXITED(1), .strict_shell = STRICT_BASH, .unset_variable = true },
	  CAUSE_EXIT,
	  1,
	  1,
	  0,
	  { "option -u", "shell: sh" } },
	{ "a reader that stopped early",
	  { EXITED(141), .strict_shell = STRICT_BASH },
	  CAUSE_EXIT,
	  141,
	  141,
	  0,
	  { "pipefail", "zcat", "shell: sh" } },
	{ "137 of its own is no OOM", { EXITED(137) }, CAUSE_EXIT, 137, 137, 0, { "status 137" } },
	{ "137 at the memory limit without a kill is no OOM",
	  { EXITED(137), PEAK_AT_LIMIT, .usage.mem_limit_hits = 9 },
	  CAUSE_EXIT,
	  137,
	  137,
	  0,
	  { "status 137" } },
	{ "SIGKILL without a kill is no OOM",
	  { SIGNALED(SIGKILL), PEAK_AT_LIMIT },
	  CAUSE_SIGNAL,
	  137,
	  -1,
	  SIGKILL,
	  { "SIGKILL", "not for memory" } },
	{ "OOM",
	  { SIGNALED(SIGKILL), PEAK_AT_LIMIT, .usage.oom_kills = 1 },
	  CAUSE_OOM,
	  137,
	  -1,
	  SIGKILL,
	  { "1.0 GiB", "--memory 1600M" } },
	{ "OOM of a worker wins over exit 0",
	  { EXITED(0), PEAK_AT_LIMIT, .usage.oom_kills = 1 },
	  CAUSE_OOM,
	  137,
	  0,
	  0,
	  { "--memory" } },
	{ "OOM of a worker wins over exit 1",
	  { EXITED(1), PEAK_AT_LIMIT, .usage.oom_kills = 1 },
	  CAUSE_OOM,
	  137,
	  1,
	  0,
	  { "--memory" } },
	{ "OOM wins over the deadline",
	  { SIGNALED(SIGKILL), PEAK_AT_LIMIT, .stop = STOP_DEADLINE, .usage.oom_kills = 2 },
	  CAUSE_OOM,
	  137,
	  -1,
	  SIGKILL,
	  { "--memory" } },
	{ "OOM that the keeper saw",
	  { SIGNALED(SIGKILL), PEAK_AT_LIMIT, .stop = STOP_OOM },
	  CAUSE_OOM,
	  137,
	  -1,
	  SIGKILL,
	  { "--memory" } },
	{ "OOM of all runs together",
	  { SIGNALED(SIGKILL), PEAK_BELOW, .usage.oom_kills = 1 },
	  CAUSE_OOM,
	  137,
	  -1,
	  SIGKILL,
	  { "aggregate: memory", "512.0 MiB" } },
	{ "a fault", { SIGNALED(SIGSEGV) }, CAUSE_SIGNAL, 139, -1, SIGSEGV, { "SIGSEGV" } },
	{ "a fault with a core",
	  { SIGNALED(SIGSEGV | 0x80) },
	  CAUSE_SIGNAL,
	  139,
	  -1,
	  SIGSEGV,
	  { "SIGSEGV" } },
	{ "a real-time signal", { SIGNALED(40) }, CAUSE_SIGNAL, 168, -1, 40, { "signal 40" } },
	{ "a file too large",
	  { SIGNALED(SIGXFSZ), .limits.at[LIMIT_FILE_SIZE].value = 5 << 20 },
	  CAUSE_SIGNAL,
	  128 + SIGXFSZ,
	  -1,
	  SIGXFSZ,
	  { "5.0 MiB", "--file-size" } },
	{ "a forbidden call",
	  { SIGNALED(SIGSYS) },
	  CAUSE_DENIED,
	  128 + SIGSYS,
	  -1,
	  SIGSYS,
	  { "SIGSYS" } },
	{ "deadline",
	  { SIGNALED(SIGTERM), .stop = STOP_DEADLINE },
	  CAUSE_DEADLINE,
	  124,
	  -1,
	  0,
	  { "1m", "--time" } },
	{ "deadline wins over exit 0",
	  { EXITED(0), .stop = STOP_DEADLINE },
	  CAUSE_DEADLINE,
	  124,
	  0,
	  0,
	  { "--time" } },
	{ "deadline by force",
	  { SIGNALED(SIGKILL), .stop = STOP_DEADLINE, .forced = true },
	  CAUSE_DEADLINE,
	  124,
	  -1,
	  0,
	  { "by force" } },
	{ "a deadline with a checkpoint is one",
	  { EXITED(85), .stop = STOP_DEADLINE, .has_checkpoint = true, .checkpoint_exit_code = 85 },
	  CAUSE_DEADLINE,
	  124,
	  85,
	  0,
	  { "checkpoint is kept" } },
	{ "saved, to be run again",
	  { EXITED(85), .has_checkpoint = true, .checkpoint_exit_code = 85, .disk_full = true },
	  CAUSE_CHECKPOINTED,
	  85,
	  85,
	  0,
	  { "run it again to go on", "status 85", "--disk" } },
	{ "another status is a failure",
	  { EXITED(84), .has_checkpoint = true, .checkpoint_exit_code = 85 },
	  CAUSE_EXIT,
	  84,
	  84,
	  0,
	  { "checkpoint is kept" } },
	{ "no status was declared",
	  { EXITED(85), .has_checkpoint = true, .checkpoint_note = "It was set aside" },
	  CAUSE_EXIT,
	  85,
	  85,
	  0,
	  { "checkpoint is kept", " It was set aside." } },
	{ "killed for memory in its last act",
	  { EXITED(85), .has_checkpoint = true, .checkpoint_exit_code = 85, .usage.oom_kills = 1,
	    PEAK_AT_LIMIT },
	  CAUSE_OOM,
	  137,
	  85,
	  0,
	  { "checkpoint is kept" } },
	{ "saved on a disk that failed",
	  { EXITED(85), .has_checkpoint = true, .checkpoint_exit_code = 85,
	    .checkpoint_damaged = true },
	  CAUSE_CHECKPOINTED,
	  85,
	  85,
	  0,
	  { "may not be whole" } },
	{ "cpu time",
	  { SIGNALED(SIGKILL), .stop = STOP_CPU },
	  CAUSE_CPU,
	  128 + SIGXCPU,
	  -1,
	  0,
	  { "--cpu-time" } },
	{ "watched disk that cannot be counted",
	  { SIGNALED(SIGKILL), .stop = STOP_DISK, .disk_uncounted = "1 unreadable directory" },
	  CAUSE_DISK,
	  128 + SIGXFSZ,
	  -1,
	  0,
	  { "1 unreadable directory", "counts as over its limit" } },
	{ "watched disk",
	  { SIGNALED(SIGKILL), .stop = STOP_DISK, .disk_peak_bytes = 3 << 20 },
	  CAUSE_DISK,
	  128 + SIGXFSZ,
	  -1,
	  0,
	  { "3.0 MiB", "--disk", "--inodes" } },
	{ "a disk that one file filled",
	  { SIGNALED(SIGXFSZ), .disk_full = true, .disk_peak_bytes = 3 << 20 },
	  CAUSE_DISK,
	  128 + SIGXFSZ,
	  -1,
	  SIGXFSZ,
	  { "3.0 MiB", "--disk", "--inodes" } },
	{ "a file too large on a full disk",
	  { SIGNALED(SIGXFSZ), .disk_full = true, .limits.at[LIMIT_FILE_SIZE].value = 1 << 20 },
	  CAUSE_SIGNAL,
	  128 + SIGXFSZ,
	  -1,
	  SIGXFSZ,
	  { "1.0 MiB", "--file-size" } },
	{ "a file beyond a disk that is not full",
	  { SIGNALED(SIGXFSZ) },
	  CAUSE_SIGNAL,
	  128 + SIGXFSZ,
	  -1,
	  SIGXFSZ,
	  { "2.0 MiB", "--disk" } },
	{ "failure on a full disk",
	  { EXITED(1), .disk_full = true },
	  CAUSE_DISK,
	  1,
	  1,
	  0,
	  { "--disk", "status 1" } },
	{ "success on a full disk", { EXITED(0), .disk_full = true }, CAUSE_OK, 0, 0, 0, { NULL } },
	{ "failure after refused forks",
	  { EXITED(1), .usage.pids_limit_hits = 7 },
	  CAUSE_PIDS,
	  1,
	  1,
	  0,
	  { "refused 7", "--pids" } },
	{ "success after refused forks",
	  { EXITED(0), .usage.pids_limit_hits = 7 },
	  CAUSE_OK,
	  0,
	  0,
	  0,
	  { "refused 7" } },
	{ "outputs beyond the cap",
	  { EXITED(0), .output_over_cap = true },
	  CAUSE_OUTPUT_CAP,
	  1,
	  0,
	  0,
	  { "output_size" } },
	{ "an output that is missing",
	  { EXITED(0), .output_missing = "out/r.csv" },
	  CAUSE_OUTPUT_MISSING,
	  1,
	  0,
	  0,
	  { "'out/r.csv'" } },
	{ "an input that changed",
	  { EXITED(0), .input_changed = "/data/a.csv" },
	  CAUSE_INPUT_CHANGED,
	  1,
	  0,
	  0,
	  { "'/data/a.csv'" } },
	{ "a failure is no changed input, which is told all the same",
	  { EXITED(2), .input_changed = "/data/a.csv" },
	  CAUSE_EXIT,
	  2,
	  2,
	  0,
	  { "'/data/a.csv' changed" } },
	{ "an output that is not sound",
	  { EXITED(0), .output_invalid = "out/r.csv: truncated" },
	  CAUSE_OUTPUT_INVALID,
	  1,
	  0,
	  0,
	  { "out/r.csv: truncated", "check: off" } },
	{ "a failure is no unsound output",
	  { EXITED(2), .output_invalid = "out/r.csv: truncated" },
	  CAUSE_EXIT,
	  2,
	  2,
	  0,
	  { "status 2" } },
	{ "a success with a remark",
	  { EXITED(0), .output_warning = "out/r.csv: odd", .outputs_warned = 1 },
	  CAUSE_OK,
	  0,
	  0,
	  0,
	  { "out/r.csv: odd" } },
	{ "a failure is no missing output",
	  { EXITED(2), .output_missing = "out/r.csv" },
	  CAUSE_EXIT,
	  2,
	  2,
	  0,
	  { "status 2" } },
	{ "cancelled by a signal",
	  { SIGNALED(SIGTERM), .stop = STOP_CANCEL, .stop_signal = SIGINT, .stop_by = "SIGINT" },
	  CAUSE_CANCELLED,
	  130,
	  -1,
	  0,
	  { "cancelled", "SIGINT" } },
	{ "cancelled by no signal",
	  { SIGNALED(SIGTERM), .stop = STOP_CANCEL, .stop_by = "cupel run is gone" },
	  CAUSE_CANCELLED,
	  137,
	  -1,
	  0,
	  { "cupel run is gone" } },
	{ "set-up",
	  { .stop = STOP_SETUP, .setup.text = "landlock: none" },
	  CAUSE_SETUP,
	  125,
	  -1,
	  0,
	  { "nothing was started", "landlock: none" } },
	{ "set-up that could do without",
	  { .stop = STOP_SETUP,
	    .setup = { .layer = "memory,cpu", .text = "memory,cpu: none" },
	    .setup_optional = true },
	  CAUSE_SETUP,
	  125,
	  -1,
	  0,
	  { "memory,cpu: none", "--allow-missing memory,cpu." } },
	{ "no record",
	  { SIGNALED(SIGKILL), .stop = STOP_RECORD, .setup.text = "disk is full" },
	  CAUSE_SETUP,
	  125,
	  -1,
	  0,
	  { "record", "disk is full" } },
	{ "a runtime that is not what it was",
	  { .stop = STOP_RUNTIME, .setup = { .code = ESTALE, .text = "it differs from its lock" } },
	  CAUSE_RUNTIME_BROKEN,
	  125,
	  -1,
	  0,
	  { "nothing was started", "differs from its lock", "--allow-drift" } },
	{ "a runtime that is gone",
	  { .stop = STOP_RUNTIME, .setup = { .code = ENOENT, .text = "no such prefix" } },
	  CAUSE_RUNTIME_BROKEN,
	  125,
	  -1,
	  0,
	  { "nothing was started", "no such prefix" } },
	{ "drift that was allowed",
	  { EXITED(0), .drift = "it differs from its lock" },
	  CAUSE_OK,
	  0,
	  0,
	  0,
	  { "as was allowed", "differs from its lock" } },
	{ "a snapshot that is not what it was",
	  { .stop = STOP_INPUT, .setup = { .code = ESTALE, .text = "the snapshot has changed" } },
	  CAUSE_INPUT_CHANGED,
	  125,
	  -1,
	  0,
	  { "Nothing was started", "the snapshot has changed" } },
	{ "a step that failed",
	  { EXITED(0), .after = &failed_step },
	  CAUSE_POST_PROCESS,
	  1,
	  0,
	  0,
	  { "'to-table'", "(oom)", "cupel logs r1-post" } },
	{ "a step that succeeded",
	  { EXITED(0), .after = &good_step },
	  CAUSE_OK,
	  0,
	  0,
	  0,
	  { "The step 'to-table' has taken" } },
	{ "a step that was cancelled with its run",
	  { EXITED(0), .after = &failed_step, .stop = STOP_CANCEL, .stop_by = "interrupted",
	    .stop_signal = SIGINT },
	  CAUSE_CANCELLED,
	  130,
	  0,
	  0,
	  { "interrupted" } },
	{ "no such program",
	  { .exec_errno = ENOENT, .exited = true, .wait_status = 1 << 8 },
	  CAUSE_EXIT,
	  127,
	  127,
	  0,
	  { "'prog'", "not found" } },
	{ "no such directory",
	  { .exec_errno = ENOTDIR },
	  CAUSE_EXIT,
	  127,
	  127,
	  0,
	  { "not found" } },
	{ "not executable",
	  { .exec_errno = EACCES },
	  CAUSE_EXIT,
	  126,
	  126,
	  0,
	  { "Permission denied" } },
	{ "init killed from outside",
	  { .started = true },
	  CAUSE_SIGNAL,
	  137,
	  -1,
	  SIGKILL,
	  { "from outside", "not for memory" } },
	{ "remarks",
	  { EXITED(0), .log_dropped = { 1 << 20, 1 << 20 }, .outputs_refused = 4,
	    .missing_layers = "disk,landlock" },
	  CAUSE_OK,
	  0,
	  0,
	  0,
	  { "2.0 MiB were dropped", "4 entries", "disk,landlock" } },
	{ "a log the disk had no room for",
	  { EXITED(0), .log_dropped = { 1 << 20, 0 }, .log_errno = ENOSPC },
	  CAUSE_OK,
	  0,
	  0,
	  0,
	  { "could not be written to the end: No space left" } },
	{ "an output the disk lost",
	  { EXITED(0), .output_damaged = "out/x" },
	  CAUSE_DISK,
	  1,
	  0,
	  0,
	  { "'out/x' was lost", "Make room" } },
};

static struct ending complete(const struct ending *from)
{
	struct ending e = *from;
	e.program = "prog";
	e.wall_ns = 1500000000;
	limits_set(&e.limits, LIMIT_MEMORY, MEMORY, "test");
	limits_set(&e.limits, LIMIT_TIME, 60000000000ULL, "test");
	limits_set(&e.limits, LIMIT_DISK, 2 << 20, "test");
	return e;
}

/* Not of a short wait, of a small part of a long run, or where nothing is known. */
static void short_waits_are_not_mentioned(void **state)
{
	static const struct {
		uint64_t wall_ns, wait_usec;
		bool is_known;
	} cases[] = { { 2000000000, 900000, true },
		      { 100000000000, 10000000, true },
		      { 2000000000, 1900000, false } };
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct ending e = { EXITED(0), .wall_ns = cases[i].wall_ns,
					  .usage.cpu_wait_usec = cases[i].wait_usec,
					  .usage.has_cpu_wait = cases[i].is_known };
		struct verdict v;
		verdict_decide(&e, &v);
		assert_null(strstr(v.notes, "waited"));
		CLEANUP_JSON json_t *o = verdict_json(&v, &e);
		const json_t *told = json_object_get(json_object_get(o, "usage"), "cpu_wait_usec");
		assert_true(cases[i].is_known
				    ? json_integer_value(told) == (json_int_t)cases[i].wait_usec
				    : json_is_null(told));
	}
}

static void check_row(const struct row *row)
{
	struct ending e = complete(&row->e);
	struct verdict v;
	verdict_decide(&e, &v);
	bool notes = true;
	for (size_t i = 0; i < 3 && row->notes[i]; i++)
		notes = notes && strstr(v.notes, row->notes[i]);
	if (v.cause != row->cause || v.exit_status != row->exit_status ||
	    v.exit_code != row->exit_code || v.signal != row->signal || !notes)
		fail_msg("%s: %s, exit status %d, code %d, signal %d: %s", row->what,
			 cause_name(v.cause), v.exit_status, v.exit_code, v.signal, v.notes);
	CLEANUP_JSON json_t *o = verdict_json(&v, &e);
	assert_non_null(o);
	assert_string_equal(json_string_value(json_object_get(o, "cause")), cause_name(row->cause));
	json_t *code = json_object_get(o, "exit_code");
	assert_true(row->exit_code < 0 ? json_is_null(code)
				       : json_integer_value(code) == row->exit_code);
	assert_int_equal(json_is_null(json_object_get(o, "signal")), row->signal == 0);
}

static void every_ending_has_its_cause(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		check_row(&rows[i]);
}

/* What the disk had no room for was not dropped for the limit of the log. */
static void a_log_without_room_is_not_blamed_on_its_limit(void **state)
{
	struct ending e = complete(
		&(struct ending){ EXITED(0), .log_dropped = { 1 << 20, 0 }, .log_errno = ENOSPC });
	struct verdict v;
	verdict_decide(&e, &v);
	assert_non_null(strstr(v.notes, "No space left"));
	assert_null(strstr(v.notes, "beyond the limit"));
	e.log_errno = 0;
	verdict_decide(&e, &v);
	assert_non_null(strstr(v.notes, "beyond the limit"));
}

/* `lost` is gc's; all others are decided from an ending. */
static void the_table_reaches_every_cause(void **state)
{
	bool reached[CAUSE_COUNT_] = { [CAUSE_LOST] = true };
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		reached[rows[i].cause] = true;
	for (int cause = 0; cause < CAUSE_COUNT_; cause++)
		if (!reached[cause])
			fail_msg("no row for %s", cause_name((enum cause)cause));
}

static void names_are_all_there_and_differ(void **state)
{
	for (int i = 0; i < CAUSE_COUNT_; i++)
		for (int j = 0; j < i; j++)
			assert_string_not_equal(cause_name((enum cause)i),
						cause_name((enum cause)j));
	for (int i = 0; i < STOP_COUNT_; i++)
		for (int j = 0; j < i; j++)
			assert_string_not_equal(stop_name((enum stop)i), stop_name((enum stop)j));
}

/* No status of the analysis's own, with whatever else was counted, is ever called an OOM. */
static void without_a_counted_kill_nothing_is_oom(void **state)
{
	for (int status = 0; status < 256; status++) {
		const struct ending seen = { EXITED(status), PEAK_AT_LIMIT,
					     .usage.mem_limit_hits = 1000 };
		struct ending e = complete(&seen);
		struct verdict v;
		verdict_decide(&e, &v);
		assert_int_not_equal(v.cause, CAUSE_OOM);
		assert_int_equal(v.exit_status, status);
	}
}

static void a_program_of_any_bytes_is_recorded(void **state)
{
	const struct ending seen = { .exec_errno = ENOENT };
	struct ending e = complete(&seen);
	struct verdict v;
	e.program = "bad-\xff\xfe-name\x1b";
	verdict_decide(&e, &v);
	CLEANUP_JSON json_t *o = verdict_json(&v, &e);
	assert_non_null(o);
	CLEANUP_FREE char *text = json_dumps(o, 0);
	assert_non_null(text);
	assert_non_null(strstr(text, "bad-"));
	assert_true(str_is_utf8(text, strlen(text)));
}

static void endless_words_are_cut(void **state)
{
	const struct ending seen = { .exec_errno = ENOENT,
				     .log_errno = ENOSPC,
				     .outputs_refused = 3 };
	struct ending e = complete(&seen);
	struct verdict v;
	CLEANUP_FREE char *name = xcalloc(1, 8001);
	for (size_t i = 0; i < 8000; i += 2)
		memcpy(name + i, "\xc3\xa9", 2); /* cut in the middle of a character, perhaps */
	e.program = name;
	verdict_decide(&e, &v);
	assert_true(strlen(v.notes) < sizeof(v.notes));
	CLEANUP_JSON json_t *o = verdict_json(&v, &e);
	CLEANUP_FREE char *text = json_dumps(o, 0);
	assert_non_null(text);
}

static void json_tells_evidence_and_usage(void **state)
{
	const struct ending seen = { SIGNALED(SIGKILL),         PEAK_AT_LIMIT,
				     .usage.oom_kills = 2,      .usage.cpu_usec = 123,
				     .disk_mechanism = "image", .missing_layers = "disk" };
	struct ending e = complete(&seen);
	struct verdict v;
	verdict_decide(&e, &v);
	CLEANUP_JSON json_t *o = verdict_json(&v, &e);
	json_t *evidence = json_object_get(o, "evidence");
	json_t *usage = json_object_get(o, "usage");
	assert_int_equal(json_integer_value(json_object_get(evidence, "oom_kills")), 2);
	assert_int_equal(json_integer_value(json_object_get(evidence, "memory_limit_bytes")),
			 MEMORY);
	assert_int_equal(json_integer_value(json_object_get(evidence, "wait_status")), SIGKILL);
	assert_string_equal(json_string_value(json_object_get(evidence, "disk_mechanism")),
			    "image");
	assert_int_equal(json_integer_value(json_object_get(usage, "cpu_usec")), 123);
	assert_int_equal(json_integer_value(json_object_get(usage, "wall_usec")), 1500000);
	assert_string_equal(json_string_value(json_object_get(o, "missing_layers")), "disk");
}

/* The words come from the notebook, the cause never does. */
static void a_notebook_says_its_cell_first(void **state)
{
	static const struct {
		struct ending e;
		struct notebook_end n;
		enum cause cause;
		const char *begins;
	} cases[] = {
		{ { EXITED(0) }, { .cells = 3, .done = 3 }, CAUSE_OK, "The analysis succeeded" },
		{ { EXITED(0) },
		  { .cell = 2, .cells = 3, .error = "KeyError: 1" },
		  CAUSE_OK,
		  "The analysis succeeded" },
		{ { EXITED(1) },
		  { .cell = 2, .cells = 3, .error = "KeyError: 1" },
		  CAUSE_EXIT,
		  "Cell 2 of 3 raised KeyError: 1. The analysis ended itself with status 1" },
		{ { EXITED(1) },
		  { .cell = 2, .cells = 3, .error = "the kernel died." },
		  CAUSE_EXIT,
		  "At cell 2 of 3 the kernel died. The" },
		{ { EXITED(1) },
		  { .error = "no kernel" },
		  CAUSE_EXIT,
		  "The notebook was not run: no kernel. The" },
		{ { EXITED(1) }, { 0 }, CAUSE_EXIT, "The analysis ended itself" },
		{ { EXITED(1), PEAK_AT_LIMIT, .usage.oom_kills = 1 },
		  { .cell = 7, .cells = 12, .error = "the kernel died" },
		  CAUSE_OOM,
		  "Out of memory at cell 7 of 12. The analysis needed" },
		{ { SIGNALED(SIGKILL), PEAK_AT_LIMIT, .usage.oom_kills = 1 },
		  { .cells = 12, .done = 12 },
		  CAUSE_OOM,
		  "Out of memory after the last cell. " },
		{ { EXITED(143), .stop = STOP_DEADLINE },
		  { .cell = 3, .cells = 5 },
		  CAUSE_DEADLINE,
		  "Deadline at cell 3 of 5. " },
		{ { EXITED(143), .stop = STOP_CANCEL, .stop_by = "somebody" },
		  { .cell = 3, .cells = 5 },
		  CAUSE_CANCELLED,
		  "Stopped at cell 3 of 5. " },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct ending e = complete(&cases[i].e);
		struct verdict v;
		e.notebook = &cases[i].n;
		verdict_decide(&e, &v);
		assert_int_equal(v.cause, cases[i].cause);
		if (!str_starts(v.notes, cases[i].begins))
			fail_msg("%s", v.notes);
	}
}

static void a_lost_run_says_what_was_removed(void **state)
{
	CLEANUP_JSON json_t *o = verdict_lost_json("r1", "its cgroup \xff", true);
	assert_non_null(o);
	assert_string_equal(json_string_value(json_object_get(o, "id")), "r1");
	assert_string_equal(json_string_value(json_object_get(o, "cause")), "lost");
	assert_int_equal(json_integer_value(json_object_get(o, "exit_status")), 137);
	/* a program reads every verdict alike */
	assert_non_null(json_object_get(json_object_get(o, "usage"), "wall_usec"));
	assert_non_null(json_object_get(o, "evidence"));
	assert_non_null(json_object_get(o, "missing_layers"));
	assert_non_null(
		strstr(json_string_value(json_object_get(o, "completion_notes")), "partial/"));
	assert_true(json_is_null(json_object_get(o, "exit_code")));
	assert_non_null(
		strstr(json_string_value(json_object_get(o, "completion_notes")), "its cgroup"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_ending_has_its_cause),
		cmocka_unit_test(short_waits_are_not_mentioned),
		cmocka_unit_test(a_log_without_room_is_not_blamed_on_its_limit),
		cmocka_unit_test(the_table_reaches_every_cause),
		cmocka_unit_test(names_are_all_there_and_differ),
		cmocka_unit_test(without_a_counted_kill_nothing_is_oom),
		cmocka_unit_test(a_program_of_any_bytes_is_recorded),
		cmocka_unit_test(endless_words_are_cut),
		cmocka_unit_test(json_tells_evidence_and_usage),
		cmocka_unit_test(a_notebook_says_its_cell_first),
		cmocka_unit_test(a_lost_run_says_what_was_removed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
