/* What was asked: an analysis, from a YAML file or from options, before and after resolution. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "spec/contents.h"
#include "spec/limits.h"

#define ANALYSIS_FILE_MAX    (1024 * 1024)
#define ANALYSIS_INPUTS_MAX  4000
#define ANALYSIS_OUTPUTS_MAX 1000
#define ANALYSIS_ENV_MAX     1000 /* labels too */
#define ANALYSIS_ARGS_MAX    4096
#define ANALYSIS_STRING_MAX  (128 * 1024) /* the kernel's own cap on one argument or variable */
#define ANALYSIS_LABEL_MAX   256

struct pair {
	char *key;   /* owned */
	char *value; /* owned */
};

struct pairs {
	struct pair *v; /* owned */
	size_t n;
};
void pairs_set(struct pairs *pairs, const char *key, const char *value); /* replaces an equal key */
const char *pairs_get(const struct pairs *pairs, const char *key);
void pairs_release(struct pairs *pairs);

/* A file or directory the analysis may read: shown read-only at data/NAME. */
struct input {
	char *path;   /* owned; absolute after resolution */
	char *name;   /* owned */
	char *origin; /* owned; "file:line:column" or the option, for messages */
	char *step; /* owned or NULL: it is what this step made, and its name may be a relative path */
	bool is_own; /* cupel itself says so, and nobody who asks: it is read with cupel's rights */
	struct contents contents; /* once a run was resolved */
};

/* What becomes of an output that is damaged by the rules of its format: by itself it fails the run if the output is required, and is
 * a remark if not. */
enum output_check { OUTPUT_CHECK_AUTO, OUTPUT_CHECK_OFF, OUTPUT_CHECK_WARN, OUTPUT_CHECK_REQUIRE };
extern const char *const output_check_names[]; /* auto, off, warn, require */

struct output {
	char *pattern; /* owned; glob relative to the working directory, "**" crosses directories */
	char *media_type; /* owned or NULL */
	bool required;
	enum output_check check;
};

enum network { NETWORK_NONE, NETWORK_HOST };
enum keep { KEEP_NEVER, KEEP_FAILED, KEEP_ALWAYS };
/* What its working directory is on: the disk, or memory that counts as its own, which the kernel limits exactly for any user. */
enum scratch_place { SCRATCH_DISK, SCRATCH_MEMORY };
extern const char *const keep_names[];    /* never, failed, always */
extern const char *const scratch_names[]; /* disk, memory */
extern const char *const network_names[]; /* none, host */

/* A step of a pipeline, and which attempt at it. */
struct analysis_place {
	char *pipeline; /* owned or NULL: it stands alone */
	char *step;     /* owned; "align" or "align[s1]" */
	unsigned attempt;
	unsigned shard, shards; /* which of how many that are scattered alike; 0 of 0: it is not */
};

/* What its result depends on: a digest over named parts, each with its own. */
struct analysis_key {
	char sha256[HASH_HEX]; /* "": none was made */
	struct pairs parts;    /* "input data/x" -> SHA-256 in hex */
};

struct analysis {
	char *file;           /* owned; the analysis file as given, NULL when from options */
	char *id;             /* owned; NULL: to be generated */
	char *name;           /* owned or NULL */
	char *quest;          /* owned or NULL */
	char *runtime;        /* owned or NULL: chosen by the rules of runtime/select.h */
	char *runtime_origin; /* owned or NULL; "--runtime" or "FILE:LINE:COLUMN" */
	char *profile;        /* owned or NULL: the configured default */
	char *executor; /* owned or NULL: the runtime's or the configured default; resolved: its name */
	struct strv
		code; /* the script first, then files it needs: absolute host paths, shown at code/NAME */
	struct strv code_origins; /* "FILE:LINE:COLUMN" of each of code; empty when from options */
	struct contents
		*code_contents; /* owned or NULL; of each of code, once a run was resolved */
	struct strv args;       /* arguments of the script */
	struct strv command;    /* argv instead of code, or one text that a shell reads */
	bool command_is_text;
	struct strv
		shell; /* as said, for a text: the words before it; none: what the runtime has */
	struct strv shell_used; /* the words before the text, once a runtime is known */
	struct input *inputs;   /* owned */
	size_t n_inputs;
	char *db_snapshot; /* owned or NULL; an SQLite file of which it is shown a copy; real after resolution */
	char *db_snapshot_origin; /* owned or NULL; "FILE:LINE:COLUMN" or the option, for messages */
	char db_snapshot_sha256
		[HASH_HEX]; /* what the copy has to be, for a run again; "": anything */
	char *post_process; /* owned or NULL; the step of the configuration that its outputs are given to */
	char *post_process_origin; /* owned or NULL */
	char *checkpoint; /* owned or NULL; a directory in the working directory that survives attempts */
	int checkpoint_exit_code; /* 0: none; of an analysis that has saved and wants to be run again */
	char checkpoint_key
		[HASH_HEX]; /* which checkpoint it is; "": derived from what the run is, run/checkpoint_key.c */
	struct output *outputs; /* owned; none said: all below out/, see analysis_complete */
	size_t n_outputs;
	struct pairs env;
	struct strv
		passed; /* names in env that nobody said: they were passed from the caller (defaults.env_pass) */
	struct pairs
		secrets; /* name -> keyed digest of those of env that are never recorded: spec/secret.h */
	char *parameters; /* owned or NULL; see parameters.h */
	struct pairs labels;
	struct limits limits; /* as said here only */
	enum network network;
	bool network_said;
	enum keep keep;
	bool keep_said;
	enum scratch_place scratch;
	bool scratch_said;
	int warn_signal;           /* 0: none; default SIGUSR1 when limits.warn is said */
	struct strv allow_missing; /* layer names */
	bool allow_drift;          /* run even in a runtime that is degraded or broken */
	char *rerun_of; /* owned or NULL; the id of the run whose record this was read from */
	struct analysis_place place; /* in a pipeline */
	struct analysis_key key;
};

void analysis_release(struct analysis *a);
/* Where a file of the code was named, for messages. */
const char *analysis_code_origin(const struct analysis *a, size_t i);
#define CLEANUP_ANALYSIS CLEANUP(analysis_release)

/* Reads a YAML file strictly; the first mistake is in err as file:line:column with the remedy.
 * Relative paths in the file are relative to the file's directory. */
int analysis_read(const char *path, struct analysis *ret, struct err *err);
/* The same from memory (tests, fuzzing); `path` is for messages and relative paths. */
int analysis_parse(const char *path, const char *text, size_t length, struct analysis *ret,
		   struct err *err);

/* The text of an analysis file, capped; owned by the caller. */
int analysis_text(const char *path, char **ret_text, size_t *ret_length, struct err *err);
/* The directory that relative paths of a file are relative to; owned, NULL if there is none. */
char *analysis_base(const char *path);

struct document;
struct node;
/* A map of a document as an analysis by itself, as a step of a pipeline, or as what a pipeline says for all its steps. The keys that only a
 * pipeline has (steps, needs, scatter, inputs of steps...) are allowed where they belong, and left to whoever reads the pipeline. */
enum analysis_part { ANALYSIS_WHOLE, ANALYSIS_STEP, ANALYSIS_PIPELINE };
int analysis_read_map(const struct document *d, const struct node *map, const char *base,
		      enum analysis_part part, struct analysis *ret, struct err *err);

/* Checks what no single value shows: code or command given, names unique, env names well formed
 * and not cupel's own (CUPEL_*), sizes of lists within caps. */
int analysis_check(const struct analysis *a, struct err *err);

/* What is executed for its command: with the words of the shell before a text. The text alone while the shell is not known. */
void analysis_argv(const struct analysis *a, struct strv *ret);
/* The words before a text that `shell: WORD` stands for. */
void shell_words(const char *word, struct strv *ret);

/* What nobody said, once the limits are resolved: all files below out/ are outputs, none required;
 * the warning, if limits have one, is SIGUSR1. */
void analysis_complete(struct analysis *a, const struct limits *effective);

/* [A-Za-z_][A-Za-z0-9_]*, not CUPEL_*. */
int env_name_check(const char *name, struct err *err);
/* Relative, no empty, "." or ".." component, no control characters. */
int output_pattern_check(const char *pattern, struct err *err);
/* The name of a directory that the working directory has no other use for. */
int checkpoint_name_check(const char *name, struct err *err);
/* 1 to 125. */
int checkpoint_exit_code_parse(const char *text, int *ret, struct err *err);
/* Both keys together, and beside the outputs. */
int checkpoint_check(const struct analysis *a, struct err *err);
/* "SIGUSR1" or "USR1": the number; only USR1 USR2 INT HUP TERM. */
int warn_signal_parse(const char *text, int *ret, struct err *err);

/* "PATH" or "PATH:NAME" as in --data. */
int input_parse(const char *text, const char *base, const char *origin, struct input *ret,
		struct err *err);
void analysis_add_input(struct analysis *a, struct input *input); /* takes the contents */
void analysis_add_output(struct analysis *a, const char *pattern, const char *media_type,
			 bool required);

/* The layers that --allow-missing knows. */
extern const char *const layer_names[];
extern const size_t layer_count;
int layer_check(const char *name, struct err *err);
