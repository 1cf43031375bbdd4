/* The commands. Each is a row in main.c and a file of its own; none holds logic that another needs. */
#pragma once

#include "base/err.h"
#include "cli/options.h"
#include "spec/analysis.h"
#include "spec/config.h"

/* What the operands of a command name, for completion in shells. */
enum complete {
	COMPLETE_FILES,
	COMPLETE_NOTHING,
	COMPLETE_RUNS, /* and pipelines */
	COMPLETE_RUNTIMES,
	COMPLETE_EXECUTORS,
	COMPLETE_COUNT_
};

struct command {
	const char *name;
	const char *usage;   /* behind "cupel NAME" */
	const char *summary; /* one line */
	const char *details; /* or NULL: a paragraph for --help */
	const struct options *options;
	const struct command *const *subs; /* or NULL: commands of its own, "NAME WORD" each */
	size_t n_subs;
	enum complete operands;
	bool ends_options; /* the first operand does: words behind it are the analysis's */
	/* argv[0] is the command's name. The exit status. */
	int (*main)(const struct command *self, int argc, char **argv);
};

extern const struct command command_run, command_plan, command_resume, command_why, command_config,
	command_list, command_show, command_logs, command_rerun, command_ps, command_top,
	command_diff, command_doctor, command_verify, command_protect, command_health, command_gc,
	command_outputs, command_export, command_report, command_audit, command_ledger,
	command_runtime, command_executor, command_serve, command_token, command_submit,
	command_wait, command_cancel, command_completion, command_version;

/* The table, for help and completion. */
extern const struct command *const commands[];
extern const size_t n_commands;

/* The last word of a command's name: "list" of "runtime list". */
const char *cli_word(const struct command *c);
/* Prints the error and gives the exit status: 2 for the caller's mistake, 125 for the host's. */
int cli_fail(const struct err *err);
void cli_help(const struct command *c);
/* Parses; < 0: the caller returns cli_stop(r, ...). */
int cli_parse(const struct command *c, int argc, char **argv, void *target, struct operands *ret,
	      struct err *err);
/* The main of a command that has only commands of its own. */
int cli_main_subs(const struct command *self, int argc, char **argv);
/* A command without options but --help. */
extern const struct options cli_no_options;
/* The exit status after a failed cli_parse: 0 when it was --help (then printed). */
int cli_stop(const struct command *c, int r, const struct err *err);

/* run_options.c, run_args.c: what `run`, `plan` and `submit` share. */
struct run_args {
	struct analysis said; /* by options */
	bool json;
	bool quiet;
	bool timings;
	bool raw;
	bool is_plan;
	/* Of a pipeline. */
	struct strv force;
	uint64_t jobs;
	bool keep_going;
	/* Of a submission. */
	int priority;
	char *key;              /* owned or NULL */
	uint64_t not_before_ns; /* since 1970; 0: at once */
	bool wait;
};
void run_args_release(struct run_args *a);
extern const struct options run_options, submit_options, resume_options;
/* pipeline.c: is what is named a pipeline? */
bool pipeline_is_named(int argc, char **argv, const struct operands *rest);
/* Options that only a step can have, and words behind the file: -EINVAL. */
int pipeline_check_args(const struct run_args *args, int argc, char **argv,
			const struct operands *rest, struct err *err);
/* If what is named is a pipeline, runs or plans it and gives the exit status; -1 if it is none. */
int pipeline_main(struct run_args *args, int argc, char **argv, const struct operands *rest);
/* Options over the analysis file or script or command. */
int run_args_analysis(struct run_args *args, int argc, char **argv, const struct operands *rest,
		      struct analysis *ret, struct err *err);
