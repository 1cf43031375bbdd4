/* Where a run is carried out if not by a keeper on this host: one interface for every engine.
 *
 * The keeper of such a run (keeper/attend.c) owns its record here as that of any other. It submits a job, looks at it, takes what it prints,
 * collects what it left, decides the verdict by the same function as always, and only then has the job removed. What it must know to go on
 * is in executor.json of the run directory, so that another keeper can take over at any time: submit is idempotent by name, everything else
 * by the handle.
 *
 * Each function returns 0 or more, or a negative errno with err set: -EAGAIN if the engine can't be reached now and it is worth trying again; any other is
 * final. None waits longer than EXECUTOR_WAIT_S, so that whoever calls can hear a cancel. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "box/plan.h"
#include "runtime/runtime.h"
#include "spec/analysis.h"
#include "spec/config.h"
#include "spec/limits.h"

#define EXECUTOR_WAIT_S   10
#define EXECUTOR_NAME_MAX 200 /* of a job on the engine */

/* How files get to where the job runs. */
enum staging {
	STAGING_HERE,   /* the engine is on this host: its directories are shown as they are */
	STAGING_SHARED, /* nodes see the staging directory at the same path */
	STAGING_COPY,   /* both ways, by the executor */
};
extern const char *const staging_names[]; /* here, shared, copy */

/* Who decides how the job ended. */
enum judging {
	JUDGING_HERE, /* the engine tells how the process ended, and what it saw; the verdict is made here */
	JUDGING_THERE, /* the node ran cupel's own keeper, whose record is taken over */
};

/* What an executor can do and enforce, found out by asking it. Copies of a working directory that are judged here are not brought back by
 * anybody yet: STAGING_COPY goes with JUDGING_THERE only, and program.c refuses the pair. */
struct capability {
	bool limits[LIMIT_COUNT_]; /* enforced, by whomever */
	bool layers[16];           /* as layer_names[] */
	bool reattaches; /* a job outlives the keeper that submitted it, and another can take over */
	bool queues;     /* a job may wait there */
	bool signals;    /* a signal other than the kill reaches the analysis */
	bool checkpoints;
	bool network_host;
	bool submitters; /* what a run of another user names is read with his rights: spec/caller.h */
	enum staging staging;
	enum judging judging;
	char engine[96]; /* what it is, in its own words: "podman 4.3.1, API 1.41" */
};

/* What is to be run. All borrowed. */
struct job {
	const char *id;
	const char *
		name; /* on the engine: one of this home and id, whoever submits it and how often */
	const struct config *config;
	const struct analysis *analysis; /* resolved */
	const struct runtime *runtime;
	const struct plan *plan; /* mounts, argv, variables, limits */
	const char *work_dir; /* JUDGING_HERE: the working directory on this host, there already */
	const char *
		stage; /* a directory of this job alone, for what the executor itself has to write; removed after reap */
	uid_t uid; /* whom the analysis runs as; the working directory is his */
	gid_t gid;
};

enum job_state {
	JOB_UNKNOWN, /* nothing is known yet */
	JOB_QUEUED,
	JOB_RUNNING,
	JOB_ENDED,
	JOB_GONE, /* the engine knows no such job (any more): somebody removed it, or the engine lost it */
};
extern const char *const job_state_names[];

/* Why the engine ended it, if the engine says so; the same words for all engines. */
enum job_why {
	JOB_WHY_NONE,
	JOB_WHY_OOM, /* its memory limit, by the engine's own evidence, never guessed from 137 */
	JOB_WHY_DEADLINE,  /* the engine's own time limit */
	JOB_WHY_CANCELLED, /* by somebody on the engine */
	JOB_WHY_PREEMPTED, /* for another job, or its node failed: it is worth trying again */
	JOB_WHY_NODE,
	JOB_WHY_START, /* it could not be started; `reason` says why */
};
extern const char *const job_why_names[];

struct job_report {
	enum job_state state;
	enum job_why why;
	bool started; /* the program was executed at some time */
	bool exited;  /* wait_status is known */
	int wait_status;
	unsigned restarts; /* the engine started it again so often */
	int exec_errno; /* the program could not be executed; 0: it could, or that is not known */
	uint64_t mem_bytes, mem_peak_bytes, cpu_usec, pids; /* 0: not told */
	uint64_t oom_kills, pids_limit_hits;                /* as counted by the kernel there */
	uint64_t started_real_ns, ended_real_ns;            /* 0: not told */
	char reason[200]; /* in the engine's own words, for people: why it waits or ended */
	char record
		[4096]; /* JUDGING_THERE: the node's run directory, once ended; "": there is none */
	json_t *evidence; /* owned or NULL; what the engine said, for the record */
};
void job_report_release(struct job_report *r);
#define CLEANUP_JOB_REPORT CLEANUP(job_report_release)

struct executor {
	const struct executor_ops *ops;
	const struct executor_settings *settings; /* borrowed; of the configuration */
	const struct config *config;              /* borrowed */
	void *data;                               /* the kind's own */
};

struct executor_ops {
	/* Is it there, and what can it do? */
	int (*probe)(struct executor *x, struct capability *ret, struct err *err);
	/* Starts the job, or finds it if it was started under this name before. *ret_handle is plain data, owned by the caller. */
	int (*submit)(struct executor *x, const struct job *job, json_t **ret_handle,
		      struct err *err);
	/* The handle of a job that was submitted under this name, by whomever; -ENOENT if there is none. */
	int (*find)(struct executor *x, const char *name, json_t **ret_handle, struct err *err);
	/* How it stands. */
	int (*poll)(struct executor *x, const json_t *handle, struct job_report *ret,
		    struct err *err);
	/* Bytes of stdout (0) or stderr (1) from `offset` on; 0: none now. */
	ssize_t (*logs)(struct executor *x, const json_t *handle, int stream, uint64_t offset,
			void *buffer, size_t room, struct err *err);
	/* To the analysis: SIGTERM, SIGUSR1... */
	int (*signal)(struct executor *x, const json_t *handle, int signal_number, struct err *err);
	/* Ends it for good, whether it waits or runs. Done is done: again is no error. */
	int (*cancel)(struct executor *x, const json_t *handle, struct err *err);
	/* JUDGING_THERE, STAGING_COPY: brings the node's record to this host, to where report.record says. NULL where nothing is to do. */
	int (*collect)(struct executor *x, const json_t *handle, const struct job *job,
		       struct err *err);
	/* Removes every trace of it from the engine; again is no error. */
	int (*reap)(struct executor *x, const json_t *handle, struct err *err);
	void (*release)(struct executor *x);
};

/* By the settings of its name; `local` and kinds that a keeper on this host carries out have none, and *ret is NULL. Nothing is asked yet. */
int executor_open(const struct config *config, const char *name, struct executor **ret,
		  struct err *err);
void executor_release(struct executor **x);
#define CLEANUP_EXECUTOR CLEANUP(executor_release)

/* What the job of a run is named there; owned by the caller. */
char *executor_job_name(const char *home, const char *id);
/* Does it give everything that this run asks for? The error (caller) lists what not, and how to allow it. */
int executor_suffices(const struct executor *x, const struct capability *c, const struct job *job,
		      struct err *err);
json_t *capability_json(const struct capability *c);
/* And back; -EINVAL if it says not how files get there. */
int capability_read(const json_t *o, struct capability *ret);
