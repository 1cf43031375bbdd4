/* A sized ext4 filesystem in an unnamed file, for scratch.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

/* Inodes that ext4 keeps for itself, root included; lost+found is removed. */
#define IMAGE_RESERVED_INODES 10

struct image_request {
	const char *home;
	uint64_t limit_bytes, limit_inodes;
	const struct strv *dirs; /* names of directories that it should have, or NULL */
	bool lasts; /* it is needed again: with a journal, in a file that the caller has */
};

/* A detached mount of a fresh filesystem (nosuid, nodev), empty but for those directories where the template has them; the caller owns the descriptor and gives it a place with
 * move_mount(2). When the last reference goes, the loop device and the bytes go too. Text in err; a negative errno. */
int image_mount(const struct image_request *request, struct err *err);

/* The size of its file. */
uint64_t image_bytes(const struct image_request *request);
/* Makes an empty file of that size the image, without mounting it. Not synced. */
int image_make(const struct image_request *request, int file_fd, struct err *err);
/* A detached mount of a lasting image (nosuid, nodev), as above; a journal that a crash left is replayed. An image that the kernel does
 * not take for a sound file system is -EUCLEAN. The device holds the very open file that file_fd is, and with it a lock by flock(2), until
 * the last mount is gone. */
int image_mount_file(const char *home, int file_fd, struct err *err);
/* What an image of that limit (0: not known) holds, as struct scratch_use. */
struct scratch_use;
int image_use(int dir_fd, uint64_t limit_inodes, struct scratch_use *ret);

/* True if the directory is in an image made for this home. */
bool image_is_ours(const char *home, int dir_fd);

/* For a run that turns out to be more than a moment: from now on the image is read and written past the page cache, where its bytes
 * would be kept twice. Not from the start: until then a short run never waits for the disk. */
void image_settle(const char *home, int dir_fd);
