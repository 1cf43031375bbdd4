/* In what state a runtime is, in three depths, and what differs from its lock.
 *
 * identity: milliseconds, before every run: what the package managers say is there (conda-meta, dist-info, dpkg for what the entry
 * names and all that it depends on, pyvenv.cfg and the base interpreter, the image's digest, size+mtime+ctime of a squashfs file).
 * stat: every file's lstat tuple. content: every file's SHA-256, on all cores; *.pyc and __pycache__ are left out of both. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/str.h"
#include "runtime/runtime.h"

enum depth { DEPTH_IDENTITY, DEPTH_STAT, DEPTH_CONTENT, DEPTH_COUNT_ };
extern const char *const depth_names[];

struct fingerprint {
	char hex[DEPTH_COUNT_][HASH_HEX]; /* "" for a depth that was not looked at */
	uint64_t files, bytes; /* seen at stat or content depth; directories are not counted */
};

struct fingerprint_progress {
	void *data;
	/* In the caller's thread, ten times a second; files are counted anew when content follows stat. NULL: nobody asks */
	void (*tell)(void *data, uint64_t files_done, uint64_t bytes_done);
};

/* Up to and including `depth`. Reads only; a file that vanishes meanwhile is an error that names it. */
int fingerprint_take(const struct runtime *r, enum depth depth,
		     const struct fingerprint_progress *progress, struct fingerprint *ret,
		     struct err *err);

/* The identity alone, before a run: with what was found the last time in cache_dir (HOME/cache/identity) it costs a stat for each file
 * that identity is made of, and reads none while these are as they were. The directory is made if its parent is there; without it, or when
 * something changed in the last two seconds, all is read. */
int fingerprint_identity(const struct runtime *r, const char *cache_dir, struct fingerprint *ret,
			 struct err *err);

/* The lock pins all three depths: FILE (small, JSON) and FILE's manifest beside it (one line a file: path, kind, mode, size, mtime,
 * ctime, sha256 or link target), whose digest is in the lock. Written atomically. */
int lock_write(const struct runtime *r, const struct fingerprint_progress *progress,
	       struct fingerprint *ret, struct err *err);
/* Removes the manifests beside its lock, all `but` the one of this path, or NULL. One that can't be removed stays and harms nobody. */
void lock_drop_manifests(const struct runtime *r, const char *but);
struct lock {
	bool exists;
	struct fingerprint fingerprint;
	char *time;     /* owned; when it was taken */
	char *manifest; /* owned; path */
	char manifest_sha256[HASH_HEX];
};
void lock_release(struct lock *l);
#define CLEANUP_LOCK CLEANUP(lock_release)
/* No lock file is no error: exists is false. A damaged one is. */
int lock_read(const struct runtime *r, struct lock *ret, struct err *err);
/* One file's text; for tests and fuzzing. */
int lock_parse(const struct runtime *r, const char *text, size_t length, struct lock *ret,
	       struct err *err);

enum drift_kind { DRIFT_CHANGED, DRIFT_MISSING, DRIFT_ADDED, DRIFT_PACKAGE };
struct drift {
	enum drift_kind kind;
	char *what; /* owned; path in the runtime, with \n, \xff for what no line may hold; or package NAME VERSION -> VERSION */
	char *detail; /* owned or NULL; "content", "size 10 -> 11", "mode", "not what PACKAGE's RECORD says" */
	char *owner; /* owned or NULL; the package whose file it is */
};
#define DRIFT_MAX 1000 /* named one by one; the rest is counted */
struct drifts {
	struct drift *v; /* owned */
	size_t n;
	uint64_t n_all;
};
void drifts_release(struct drifts *d);
#define CLEANUP_DRIFTS CLEANUP(drifts_release)
json_t *drifts_json(const struct drifts *d);

/* Compares with the lock at `depth`; 0 and no drift: as locked. At stat depth a file that differs by its ctime alone is read: a hard link
 * made elsewhere is no drift, a forged mtime is. Without a lock, content depth compares with what the package managers
 * recorded (paths_data.sha256_in_prefix, RECORD, dpkg md5sums). `ret_now` has what was seen. */
int lock_compare(const struct runtime *r, enum depth depth,
		 const struct fingerprint_progress *progress, struct drifts *ret,
		 struct fingerprint *ret_now, struct err *err);
