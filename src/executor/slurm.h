/* The parts of the executor `slurm`. A job has a directory of its own in the stage, STAGE/NAME, that its node sees at the same path:
 *
 *	request.yaml  what is run there, by `cupel run`        home.N  the home of the node's cupel; N: how often Slurm started it again
 *	job           its number, once Slurm gave it one       owner   a link to the number of the one job that may run it
 *	node.N        where it was started, and host.N         slurm.err  what was said by whoever could not run it
 *	script, id    what Slurm was given, and the run's id   sweep, reaped  see slurm_reap.c
 *	gather, array, alone  see slurm_array.c
 *
 * The directory belongs to whom the analysis runs as, and so do the commands that Slurm is given for it. What is in it is not trusted. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "executor/executor.h"

/* What Slurm says of a job. */
struct slurm_job {
	char state[32];   /* "RUNNING" */
	char reason[120]; /* "Resources" */
	char node[64];
	char exit[16]; /* "CODE:SIGNAL" of the script */
	unsigned restarts;
	uint64_t started_real_ns, ended_real_ns; /* 0: not yet */
};

/* Which job of the queue it is. */
struct slurm_task {
	uint64_t number;                   /* 0: not known */
	int index;                         /* of a task of an array, or -1 */
	char array[EXECUTOR_NAME_MAX + 1]; /* the array's name; "": it is a job by itself */
};
#define SLURM_TASK_INIT                                                                            \
	{                                                                                          \
		.index = -1                                                                        \
	}
/* "NUMBER", or "NUMBER_INDEX ARRAY"; behind the number of a job by itself, its name says nothing. */
int slurm_task_read(const char *text, struct slurm_task *ret);

/* What it said last, so that it is not asked more often than is of use. */
struct slurm_seen {
	char name[EXECUTOR_NAME_MAX + 1];
	struct slurm_job job;
	bool is_forgotten;
	uint64_t at_ns, wait_ns; /* 0: ask */
	int attempt;             /* the one that counts, as far as is known */
};

struct slurm {
	const struct executor *x; /* borrowed */
	const char *stage;        /* borrowed */
	char *real_stage;         /* owned; the same without links, or NULL: nobody needed it yet */
	uint64_t until_ns;        /* of the operation that goes on */
	struct slurm_seen seen;
};

#define SLURM_CALL_NS ((EXECUTOR_WAIT_S - 1) * NS_PER_SEC)

/* Each operation begins with it. */
struct slurm *slurm_begin(struct executor *x);

/* The directory of a job. */
struct slurm_dir {
	int fd; /* owned */
	uid_t uid;
	gid_t gid;
};
void slurm_dir_release(struct slurm_dir *d);
#define CLEANUP_SLURM_DIR CLEANUP(slurm_dir_release)
#define SLURM_DIR_INIT                                                                             \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/* slurm_call.c: one of Slurm's commands, to its end. */
struct slurm_said {
	int status;  /* as from waitpid */
	char *out;   /* owned */
	char *error; /* owned; its last line that says something, cleaned */
};
void slurm_said_release(struct slurm_said *s);
#define CLEANUP_SAID CLEANUP(slurm_said_release)
/* If we are root: as whom the job belongs to; NULL: as ourselves. -EAGAIN if it does not end in time. */
int slurm_call(const struct slurm *s, const struct slurm_dir *d, struct strv *words,
	       struct slurm_said *ret, struct err *err);
/* The same where a status other than 0 is an error: -EAGAIN if the controller can't be reached, otherwise -EREMOTEIO. */
int slurm_call_ok(const struct slurm *s, const struct slurm_dir *d, struct strv *words,
		  struct slurm_said *ret, struct err *err);
bool slurm_is_away(const char *error);

/* slurm_stage.c. */
/* The stage itself: nobody may take an entry there away from whom it belongs to. */
int slurm_stage_open(const struct slurm *s, int *ret_fd, struct err *err);
/* -ENOENT: there is none, or it is only there to be swept. */
int slurm_dir_open(const struct slurm *s, const char *name, struct slurm_dir *ret, struct err *err);
/* The one that is there, of that user, or a new one. */
int slurm_dir_make(const struct slurm *s, const char *name, uid_t uid, gid_t gid,
		   struct slurm_dir *ret, bool *ret_new, struct err *err);
int slurm_dir_remove(const struct slurm *s, const char *name, struct err *err);
/* A file of that user, durable. */
int slurm_dir_write(const struct slurm_dir *d, const char *name, const char *text, struct err *err);
/* The same for what can be found again otherwise, and need not survive a power cut. */
int slurm_dir_put(const struct slurm_dir *d, const char *name, const char *text, struct err *err);
/* What a note says: `job`, or `array`. */
bool slurm_dir_note(const struct slurm_dir *d, const char *name, struct slurm_task *ret);
/* The job as noted there; false: none is yet. One that runs it comes first. */
bool slurm_dir_job(const struct slurm_dir *d, struct slurm_task *ret);
/* Which job it is; or, as long as that has no number, which one of an array it is to be. */
int slurm_task_note(const struct slurm_dir *d, const struct slurm_task *task, struct err *err);
/* The run directory of that attempt: a descriptor, or -ENOENT. */
int slurm_dir_record(const struct slurm_dir *d, unsigned attempt, const char *id);
/* The last attempt that has one; -ENOENT: none has. */
int slurm_dir_last(const struct slurm_dir *d, const char *id);
/* The node's files may be there before we see them. */
bool slurm_dir_lags(const struct slurm_dir *d);

/* slurm_submit.c */
int slurm_submit(struct executor *x, const struct job *job, json_t **ret_handle, struct err *err);
int slurm_find(struct executor *x, const char *name, json_t **ret_handle, struct err *err);

/* The lowest number of his that has the name, which anybody may give a job; 0: none has. */
int slurm_in_queue(const struct slurm *s, const struct slurm_dir *d, const char *name,
		   uint64_t *ret, struct err *err);
/* The number that sbatch gives it. */
int slurm_sbatch(const struct slurm *s, const struct slurm_dir *d, struct strv *words,
		 uint64_t *ret, struct err *err);
/* The beginning of an sbatch command for a job whose directory has that name: what the site says. */
void slurm_command(const struct slurm *s, const char *name, struct strv *ret);

/* slurm_script.c: `script` and `sweep`. */
int slurm_scripts_write(const struct slurm *s, const struct job *job, const struct slurm_dir *d,
			struct err *err);

/* slurm_reap.c: when no process of it is left, its directory is removed. */
int slurm_reap(struct executor *x, const json_t *handle, struct err *err);
/* Whatever was submitted as that by whom the directory belongs to. None is no error. `options` may be NULL. */
struct slurm_handle;
int slurm_scancel(const struct slurm *s, const struct slurm_dir *d, const struct slurm_handle *h,
		  const struct strv *options, struct err *err);

/* slurm_ask.c: the lines that squeue prints of his jobs of that name. */
int slurm_squeue(const struct slurm *s, const struct slurm_dir *d, const char *name,
		 const struct strv *options, struct slurm_said *ret, struct err *err);
/* What Slurm says of that job, of that user. -ENOENT: it knows none such (any more); -EAGAIN. */
int slurm_ask(struct slurm *s, const struct slurm_dir *d, const struct slurm_handle *h,
	      struct slurm_job *ret, struct err *err);

/* slurm_poll.c */
int slurm_poll(struct executor *x, const json_t *handle, struct job_report *ret, struct err *err);
ssize_t slurm_logs(struct executor *x, const json_t *handle, int stream, uint64_t offset,
		   void *buffer, size_t room, struct err *err);

/* What a handle says. */
struct slurm_handle {
	struct slurm_task task;
	const char *name, *id; /* borrowed from it; name: of its directory */
};
/* What Slurm knows it by. */
const char *slurm_handle_name(const struct slurm_handle *h);
int slurm_handle_read(const json_t *handle, struct slurm_handle *ret, struct err *err);
/* And its directory, which may say that another job than the one that was submitted runs it. */
int slurm_handle_open(const struct slurm *s, const json_t *handle, struct slurm_handle *ret,
		      struct slurm_dir *ret_dir, struct err *err);
