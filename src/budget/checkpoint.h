/* Checkpoints: directories that outlive the runs which write into them, HOME/checkpoints/KEY/. All of this is root's or the caller's own;
 * only what is in the directory itself is an analysis's.
 *
 * lock      who has it: the id of the run, which is the last one that had it once nobody holds the lock. A POSIX lock, as of active/ID.
 * disk.img  (image) ext4 with a journal, mounted detached from a loop device that frees itself: mount and device go with keeper and box.
 *           Whoever mounts it holds a flock(2) on the open file, which the device keeps: a box that is still dying is waited for.
 * files/    (watched) a plain directory; its bytes count with those of the working directory.
 *
 * HOME/checkpoints/lock is held for the moment in which a KEY is made, locked or given another name, so that nothing comes between. What
 * is made, or about to be removed, has a name that begins with a dot, and nobody takes it for a checkpoint. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/str.h"
#include "spec/id.h"

#define CHECKPOINTS_DIR "checkpoints" /* in the home */
/* A smaller disk has no room for a journal. */
#define CHECKPOINT_IMAGE_MIN_BYTES (UINT64_C(8) << 20)

struct checkpoint {
	char key[HASH_HEX];
	char *path;  /* owned; for messages. NULL: there is none */
	char *home;  /* owned */
	int all_fd;  /* owned; HOME/checkpoints */
	int dir_fd;  /* owned; KEY */
	int lock_fd; /* owned; locked by this process */
	int mount_fd; /* owned; an image's mount, attached nowhere, until it is handed to the box; or -1 */
	int root_fd;           /* owned; what the analysis sees; -1: not open */
	bool mounted;          /* an image */
	bool found;            /* an earlier run left it */
	char last[ID_MAX + 1]; /* the run that had it before us, or "" */
	char note[300];        /* what a person should know of it, or "" */
};
#define CHECKPOINT_INIT                                                                            \
	{                                                                                          \
		.all_fd = -1, .dir_fd = -1, .lock_fd = -1, .mount_fd = -1, .root_fd = -1           \
	}
void checkpoint_release(struct checkpoint *c); /* lets go of it; removes nothing */

/* Makes KEY if need be and locks it for this process. -EBUSY (caller), with the run that has it, if another has. No link is followed below
 * the home. */
int checkpoint_take(const char *home, const char *key, struct checkpoint *ret, struct err *err);
/* From here on the run `id` is the last one that had it. */
int checkpoint_sign(struct checkpoint *c, const char *id, struct err *err);

/* What an earlier run left is dropped. */
int checkpoint_empty(struct checkpoint *c, struct err *err);

struct checkpoint_request {
	uint64_t limit_bytes, limit_inodes;
	uid_t uid; /* whose it becomes, with all that is in it */
	gid_t gid;
	bool image; /* or a plain directory */
};
/* The directory itself, in c->root_fd. An image that the kernel refuses is set aside, and a new one made; c->note says so. */
int checkpoint_open(struct checkpoint *c, const struct checkpoint_request *q, struct err *err);
/* When nothing of the box is alive: what was saved becomes durable, and the mount goes. Negative errno if the disk lost something. */
int checkpoint_close(struct checkpoint *c);
/* It is no longer needed. What a crash leaves of it is none any more. */
int checkpoint_drop(struct checkpoint *c, struct err *err);

/* For gc. */
struct checkpoint_old {
	uint64_t bytes;   /* on the disk */
	uint64_t used_ns; /* real time of its last use */
	bool locked;      /* a run has it */
	bool is_none;     /* there is nothing in it, or it was being made or removed */
	char last[ID_MAX + 1];
};
/* Names in HOME/checkpoints, sorted; none if there is no such directory. */
int checkpoint_list(const char *home, struct strv *ret, struct err *err);
/* -ENOENT if it is gone meanwhile. */
int checkpoint_look(const char *home, const char *name, struct checkpoint_old *ret);
/* Unless a run has it: 1 if it was removed, otherwise 0. */
int checkpoint_remove(const char *home, const char *name, struct err *err);
