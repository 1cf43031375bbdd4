/* Why a run ended: a pure function of what was seen. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "budget/budget.h"
#include "keeper/symptom.h"
#include "spec/id.h"
#include "spec/limits.h"

enum cause {
	CAUSE_OK,
	CAUSE_EXIT,
	CAUSE_SIGNAL,
	CAUSE_OOM,
	CAUSE_DEADLINE,
	CAUSE_CPU,
	CAUSE_DISK,
	CAUSE_PIDS,
	CAUSE_OUTPUT_CAP,
	CAUSE_OUTPUT_MISSING,
	CAUSE_OUTPUT_INVALID,
	CAUSE_DENIED,
	CAUSE_CANCELLED,
	CAUSE_LOST,
	CAUSE_SETUP,
	CAUSE_RUNTIME_BROKEN,
	CAUSE_INPUT_CHANGED,
	CAUSE_POST_PROCESS,
	CAUSE_CHECKPOINTED, /* it has saved what it had, and is to be run again */
	CAUSE_COUNT_
};
const char *cause_name(enum cause cause);

/* Why the keeper ended the box, if it did. */
enum stop {
	STOP_NONE,
	STOP_DEADLINE,
	STOP_CPU,
	STOP_OOM,
	STOP_DISK,
	STOP_CANCEL,
	STOP_SETUP,
	STOP_RECORD,
	STOP_RUNTIME,
	STOP_INPUT,
	STOP_LOST, /* where it was carried out, it is no more, or nobody can say how it ended */
	STOP_COUNT_
};
const char *stop_name(enum stop stop);

struct notebook_end; /* notebook.h */
struct verdict;

/* How the step ended that the outputs were given to. */
struct step_end {
	const char *step;     /* its name */
	char run[ID_MAX + 1]; /* its own run; "": none was started */
	char cause[24];       /* as in the verdict of that run */
	int exit_code;        /* -1: none */
	char notes[600];      /* one or two sentences */
};

/* The strict shell that read a command which is one text, where nobody said which. */
enum strict_shell { STRICT_NONE, STRICT_BASH, STRICT_SH };

/* Everything that was seen of a run. */
struct ending {
	bool setup_optional; /* the layer that failed is one that the caller could allow to be missing */
	enum stop stop;
	const char *stop_by; /* STOP_CANCEL: "SIGINT", "cupel run is gone", ... */
	int stop_signal;     /* STOP_CANCEL: the signal that asked for it, 0 if none */
	bool forced;         /* SIGTERM was not enough */
	struct err setup;    /* STOP_SETUP, STOP_RECORD, STOP_RUNTIME, STOP_INPUT, STOP_LOST */
	bool started;        /* exec took place */
	int exec_errno;      /* it did not */
	bool exited;         /* wait_status is known */
	int wait_status;
	bool own_kernel; /* of the box, and a process of it: what refuses it a thread, ends it */
	uint64_t wall_ns;
	struct usage
		usage; /* at the end; what is only known while it lives (anon, file, shmem) is the largest seen */
	uint64_t disk_peak_bytes, disk_peak_inodes;
	bool disk_full; /* seen at a limit */
	char disk_mechanism[16];
	char disk_uncounted
		[96]; /* STOP_DISK: not "": what could not be counted, which is why it was ended */
	uint64_t log_dropped[2];
	int log_errno; /* the log could not be written */
	bool output_over_cap;
	const char *output_missing; /* pattern or NULL */
	const char *output_damaged; /* path or NULL: the disk below lost it */
	const char *
		output_invalid; /* "PATH: WHY" of one that failed a check it had to pass, or NULL */
	const char *output_warning; /* the same of one with a remark */
	uint64_t outputs_warned;
	uint64_t outputs_refused;
	const char
		*input_changed; /* path or NULL: what was shown is not what it was at the start */
	const struct step_end *after; /* NULL: there was none, or it did not come to it */
	bool has_checkpoint;
	int checkpoint_exit_code;            /* 0: none */
	bool checkpoint_damaged;             /* the disk below lost a write */
	const char *checkpoint_note;         /* NULL or "", or a sentence without its full stop */
	const struct notebook_end *notebook; /* NULL: it was none, or nothing is known */
	struct symptom symptom;              /* of what it wrote last */
	struct limits limits;
	const char *program; /* argv[0] */
	enum strict_shell strict_shell;
	bool unset_variable; /* its shell's last words are that a variable is not set */
	const char *
		drift; /* NULL, or why the runtime is not fit: it was run in all the same, as was allowed */
	char missing_layers[128];    /* comma list */
	const struct verdict *given; /* not NULL: a failure, decided by these rules where it ran */
};

struct verdict {
	enum cause cause;
	int exit_code;    /* of the analysis; -1 if it has none */
	int signal;       /* that ended it; 0 if none */
	int exit_status;  /* of `cupel run` */
	char notes[1200]; /* completion_notes */
};

static inline uint64_t ending_limit(const struct ending *e, enum limit_id id)
{
	return e->limits.at[id].value;
}

void verdict_decide(const struct ending *e, struct verdict *ret);
/* Of a run whose keeper died before it could say. `found` tells what was left over. */
json_t *verdict_lost_json(const char *id, const char *found, bool outputs_aside);
/* verdict.json; `id` and the times are the keeper's. */
json_t *verdict_json(const struct verdict *v, const struct ending *e);
