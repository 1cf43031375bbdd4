/* Several shards of a step as one job array: slurm_meet.c, how those that may go together find each other; slurm_array.c, how they go. */
#pragma once

#include "executor/slurm.h"

#define SLURM_KEY_LENGTH 32
#define SLURM_ARRAY_MAX  1000 /* the greatest index that a Slurm takes unless it is told otherwise */
#define SLURM_LOOK_NS    (50 * NS_PER_MS)

/* Where those of one key meet. Whoever has the lock submits for them. */
struct slurm_meeting {
	int dir_fd, lock_fd; /* owned */
	char key[SLURM_KEY_LENGTH + 1];
};
void slurm_meeting_release(struct slurm_meeting *m);
#define CLEANUP_SLURM_MEETING CLEANUP(slurm_meeting_release)
#define SLURM_MEETING_INIT                                                                         \
	{                                                                                          \
		.dir_fd = -1, .lock_fd = -1                                                        \
	}

struct slurm_member {
	unsigned shard;
	char name[EXECUTOR_NAME_MAX + 1]; /* of its job */
	struct slurm_dir d;
	int index; /* in the array */
};

struct slurm_members {
	struct slurm_member v[SLURM_ARRAY_MAX]; /* by shard */
	size_t n;
};
void slurm_members_free(struct slurm_members **m);
#define CLEANUP_SLURM_MEMBERS CLEANUP(slurm_members_free)
void slurm_members_drop(struct slurm_members *m, size_t at);

/* What they have in common. */
void slurm_meeting_key(const struct slurm *s, const struct job *job, const struct slurm_dir *d,
		       const struct strv *limits, char ret[SLURM_KEY_LENGTH + 1]);
/* The lock itself is not taken yet. */
int slurm_meeting_open(const struct slurm *s, const struct slurm_dir *d, const char *key,
		       struct slurm_meeting *ret, struct err *err);
/* The one that it was at; 0: it was at none. */
int slurm_meeting_find(const struct slurm *s, const struct slurm_dir *d, struct slurm_meeting *ret,
		       struct err *err);
int slurm_meeting_enter(const struct slurm_meeting *at, const struct job *job,
			const struct slurm_dir *d, struct err *err);
/* Until all have come, or no more come. Their directories are not opened yet. */
int slurm_meeting_wait(const struct slurm_meeting *at, unsigned shards, struct slurm_members *ret,
		       struct err *err);
void slurm_meeting_drop(const struct slurm_meeting *at, unsigned shard);
/* The same by the name of the job: nobody is to submit it any more. */
void slurm_meeting_leave(const struct slurm_meeting *at, const char *name);
void slurm_pause(uint64_t ns);

/* It waits for others, or for whoever submits it with them. */
bool slurm_array_is_gathering(const struct slurm_dir *d);
/* Its files are there. 1: it is submitted, as *ret; 0: it is to be submitted alone; -EAGAIN: another submits it just now. */
int slurm_array_submit(struct slurm *s, const struct job *job, const struct slurm_dir *d,
		       const struct strv *limits, struct slurm_task *ret, struct err *err);
/* Has anybody submitted it with others? 1: as *ret; 0: not, and nobody will as long as *at is not released; -EAGAIN: it is being done. */
int slurm_array_hold(const struct slurm *s, const struct slurm_dir *d, struct slurm_task *ret,
		     struct slurm_meeting *at, struct err *err);
/* The task is over, or never was; with the last one the array's directory goes. */
void slurm_array_forget(const struct slurm *s, const struct slurm_dir *d,
			const struct slurm_task *task);
