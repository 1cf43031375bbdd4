/* The working directory's disk: how many bytes and files it may hold, and its removal.
 *
 * image    (root) a sparse ext4 image in an unnamed file behind a loop device, formatted from a template that is made once
 *          per size with mkfs.ext4 and kept in HOME/cache; mounted on the working directory. At the limit the analysis gets ENOSPC.
 *          Nothing but the mount has a name: when it goes, loop device and bytes go with it. The filesystem's own tables are not
 *          part of the limit: all of limit_bytes can be written but for a few blocks, and never more. The inode limit is rounded
 *          up to what fills ext4's tables (16 a block group of 128 MiB). The file is sparse: the host's own disk may be full first.
 * memory   (any user) a tmpfs that the box's init makes in its namespaces, of exactly these sizes. At the limit the analysis gets ENOSPC.
 *          Its files are memory of the run, and the kernel counts all of them, whoever holds them and how. It has no place on the host: when box
 *          and keeper are gone, so is it.
 * watched  a plain directory that the keeper measures; over the limit the run is ended with cause `disk`. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/str.h"
#include "budget/unlinked.h"

/* Below this an image is refused (caller): ext4 itself would take most of it. */
#define SCRATCH_IMAGE_MIN_BYTES (1024 * 1024)

/* Whose processes may keep files of the working directory alive without a name. */
struct scratch_box {
	struct budget *budget; /* borrowed; NULL: nobody works in the directory */
	pid_t init_pid;
	uint64_t pid_ns; /* as struct unlinked_request has them */
};

struct scratch {
	char *path;         /* owned; /tmp/scidex-analysis-ID */
	char mechanism[16]; /* "image", "memory", "watched" */
	uint64_t limit_bytes, limit_inodes;
	int root_fd; /* owned; the parent directory, O_PATH; -1: in memory */
	int dir_fd; /* owned; the working directory itself (inside the image when mounted), O_DIRECTORY */
	int beside_fd; /* borrowed; a directory that counts too: its bytes if watched, its being full if an image; -1: none */
	uint64_t peak_bytes, peak_inodes; /* largest seen by scratch_measure */
	bool beside_is_image;
	bool mounted; /* an image */
	bool in_memory;
	/* What a watched directory needs: */
	struct scratch_box box;
	struct unlinked_use unlinked; /* when it was counted last */
	int unlinked_result;          /* of that count, as unlinked_measure gave it */
	uint64_t unlinked_due_ns;     /* monotonic: counted again from then on */
};

struct scratch_request {
	const char *home; /* for the image and the template cache */
	const char *path; /* must not exist yet */
	uint64_t limit_bytes, limit_inodes;
	uid_t owner_uid; /* owner of the directory and of what is made in it */
	gid_t owner_gid;
	int mechanism;           /* enum disk_mechanism */
	bool may_miss;           /* --allow-missing disk: image falls back to watched */
	const struct strv *dirs; /* names of subdirectories, or NULL; see scratch_make_dirs */
};

/* Makes the directory (0700, owner) with its mechanism. DISK_AUTO: image as root, watched otherwise. A path that exists is a caller
 * error. The image's mechanism failing is err_layer("disk") with the remedy. Nothing is left behind on failure. */
int scratch_create(const struct scratch_request *request, struct scratch *ret, struct err *err);
/* One that is there already, made by a keeper that died. */
int scratch_open(const struct scratch_request *request, struct scratch *ret, struct err *err);
/* One in memory, by a mount that the box's init made. That it has just the limits that were asked for is read back from the kernel;
 * otherwise err_layer("disk"). */
int scratch_adopt(const struct scratch_request *request, int mount_fd, struct scratch *ret,
		  struct err *err);
/* Does the keeper have to look, since the kernel does not keep the limit of all of it? */
bool scratch_is_watched(const struct scratch *s);
/* A copy of its mount that is attached nowhere, owned by the caller; -1 where it is a plain directory. */
int scratch_mount_copy(const struct scratch *s, int *ret_fd, struct err *err);
/* The subdirectories that were asked for, with their owner. */
int scratch_make_dirs(struct scratch *s, const struct scratch_request *request, struct err *err);

struct scratch_use {
	uint64_t bytes, inodes; /* used now */
	bool full; /* at or over a limit (memory: no page or no inode left; image: no inode left, or less space than a large write needs) */
	bool over; /* at or over a limit that nobody but the keeper keeps */
	char uncounted
		[96]; /* not "": why not everything could be counted; the numbers are then too small */
};
/* Image, memory: statfs, microseconds. Watched: walks by descriptor, again where entries moved meanwhile, and adds the files without a name
 * that the processes of the box hold. Updates the peaks. Negative errno: a file system that can't be asked. */
int scratch_measure(struct scratch *s, struct scratch_use *ret);

/* To be called once, a moment after the start: a longer run gets the arrangement that suits it. */
void scratch_settle(const struct scratch *s, const char *home);

/* Unmounts (image) and removes; `ret` counts files and bytes and what remained (0 on success). */
int scratch_remove(struct scratch *s, struct fs_removed *ret, struct err *err);
void scratch_release(struct scratch *s); /* closes descriptors; removes nothing */

/* A directory that was seen to be made: what a sweep may remove. */
struct scratch_mark {
	dev_t dev;
	ino_t ino;
};
int scratch_mark(const struct scratch *s, struct scratch_mark *ret);

/* For gc: a dead run's working directory. An image is removed if it was made for this home; a plain directory if it is the marked one; an
 * empty directory of ours with mode 0700 in any case; whatever else is at that path is somebody else's. 1 if something was removed, otherwise 0. */
struct scratch_dead {
	const char *path;
	const char *home;
	const struct scratch_mark *mark; /* NULL: its maker died before it could note it */
};
/* Is an image mounted there that was made for this home? */
bool scratch_is_image(const struct scratch_dead *dead);
int scratch_sweep(const struct scratch_dead *dead, struct fs_removed *ret, struct err *err);
