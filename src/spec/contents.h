/* What an analysis is shown, by content: its SHA-256, and the stat tuples that say cheaply whether it can have changed.
 *
 * A file's digest is known again from HOME/cache/digests while its device, inode, size, mtime and ctime are the same. A tuple that is
 * younger than two seconds proves nothing (a later write may leave the same one), so it is neither kept nor relied on. A write
 * through a shared mapping that lasts is beyond this: its time is told when the kernel writes the page back. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/json.h"

#define CONTENTS_ENTRIES_MAX 20000               /* of a directory; more are not looked at */
#define CONTENTS_READ_MAX    ((uint64_t)2 << 30) /* bytes that one run may read for this */
#define CONTENTS_DEPTH_MAX   64

enum contents_kind { CONTENTS_UNSEEN, CONTENTS_FILE, CONTENTS_DIRECTORY, CONTENTS_OTHER };

struct contents {
	enum contents_kind kind;
	char sha256
		[HASH_HEX]; /* of the file; of a directory over its sorted entries; "": more than was read */
	char stat[HASH_HEX]; /* over the stat tuples; "": too many entries */
	uint64_t files, bytes;
	bool is_young; /* a tuple was too young to prove anything */
};

struct contents_reader {
	bool opens_first; /* what is known of a file is told only to who could read it */
	int cache_fd;     /* owned; -1: none */
	uint64_t bytes_left;
	uint64_t entries_max;
	uint64_t bytes_read; /* what the cache did not know */
};

/* Without a cache, or with one that can't be opened, everything is read. */
void contents_begin(struct contents_reader *r, const char *home);
/* Without the bounds on bytes and entries: for whoever can do nothing without the digest. */
void contents_begin_all(struct contents_reader *r, const char *home);
void contents_end(struct contents_reader *r);
#define CLEANUP_CONTENTS_READER CLEANUP(contents_end)

/* What is at `path` now, which is a real one; links below it are not followed. */
int contents_read(struct contents_reader *r, const char *path, struct contents *ret,
		  struct err *err);
/* The same of what stat(2) just said that about. */
void contents_read_known(struct contents_reader *r, const char *path, const struct stat *st,
			 struct contents *ret);
/* The digest of one regular file, and its tuple; no link is followed. Negative errno: -EINVAL if it is something else, -EBUSY if it
 * changed under the reading or is larger than what may be read. */
int contents_file(struct contents_reader *r, int dir_fd, const char *name, struct stat *ret_st,
		  char ret_hex[HASH_HEX]);
/* Is it still what it was? Only tuples are looked at while they are the same and prove it. A directory of which nothing is known, because
 * it was too large, need only be a directory still. */
bool contents_holds(struct contents_reader *r, const char *path, const struct contents *then);
/* {"kind","files","bytes","sha256","stat"}, null for what is not known; and back: -EINVAL if it is something else. */
void contents_to_json(const struct contents *c, json_t *object);
int contents_from_json(const json_t *object, struct contents *ret);
