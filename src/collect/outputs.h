/* What came out: the working directory is hostile, so it is walked by descriptor, beneath, after the box is dead, and opened
 * with the analysis's own file-system rights, never root's. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/json.h"
#include "collect/check.h"
#include "spec/analysis.h"

struct collected {
	char *path; /* owned; relative to the working directory, bytes as they are */
	uint64_t size;
	char sha256[HASH_HEX];
	char *media_type; /* owned or NULL */
	bool required;    /* by a pattern that matches it */
	enum output_check check;
	bool stored; /* it is the store's, by a hard link */
	struct check_finding finding;
};

struct refused {
	char *path; /* owned */
	char *reason; /* owned; "symbolic link", "hard link", "FIFO", "unreadable", "changed while it was read" ... */
};

struct manifest {
	struct collected *files; /* owned; sorted by path */
	size_t n_files;
	struct refused
		*refused; /* owned; sorted; OUTPUT_REFUSED_MAX at most, n_refused_all counts all */
	size_t n_refused;
	uint64_t n_refused_all;
	uint64_t bytes;
	char *missing; /* owned; the first required pattern that matched no collected file, or NULL; not judged when over_cap */
	char *damaged; /* owned; the first output that the disk lost, or NULL */
	char *invalid; /* owned; "PATH: WHY" of the first output that failed its check and had to pass it, or NULL */
	uint64_t n_warned; /* outputs with a remark */
	char *warning;     /* owned; "PATH: WHY" of the first of them, or NULL */
	bool partial;      /* the run did not succeed: they are in partial/, and not in the store */
	bool over_cap; /* a cap was passed: what was taken before it is listed and committed all the same, nothing after it was looked at */
};
#define OUTPUT_REFUSED_MAX 100
#define OUTPUT_DEPTH_MAX   128 /* directories below the working directory */
#define OUTPUT_PATH_MAX                                                                            \
	4087 /* bytes of a relative path: with "outputs/" before it, it is still one */
/* Names looked at in all: links cost no inode, so a directory of them has no other bound. */
#define OUTPUT_ENTRIES_MAX 4000000
/* Bytes of their paths in outputs.json: names cost an analysis nothing, but whoever lists them memory. */
#define OUTPUT_LISTED_MAX (32 << 20)
/* So much of an outputs.json is read: hundreds of thousands of files. */
#define MANIFEST_MAX ((size_t)256 << 20)
/* The copies grow in run_fd/OUTPUT_TEMP_PREFIX + random; a crash leaves that for whoever sweeps the run directory. */
#define OUTPUT_TEMP_PREFIX ".outputs.tmp-"

struct collect_request {
	int work_fd; /* the working directory */
	int run_fd;  /* the run directory: copies go to outputs/PATH below it, read-only */
	uid_t uid; /* rights with which outputs are opened (setfsuid); the caller's own uid when not root */
	gid_t gid;
	const struct output *outputs;
	size_t n_outputs;
	uint64_t max_bytes, max_count;
	/* The disk under the working directory may have failed unseen. It is asked as a whole before the first output is taken: if it lost
	 * anything, none can be trusted; work_fd is to be open since before the analysis was, so that it is told of every write that
	 * failed, even one whose error was asked for in the box, or whose inode is no longer in memory. Then each output is synced
	 * before it is read. */
	bool sync_sources;
	bool takes_links; /* it is a record: its outputs are its store's too */
};

/* Copies each match to a temporary tree, hashing as it goes, syncs, then renames it to outputs/ (none is made when nothing was
 * taken). Regular files with one link only, copied as 0444 (less the umask); a file's apparent size counts against max_bytes
 * before it is read. data, docs, code, tmp, home and lost+found at the top of the working directory are never looked at.
 * What matched but was not taken is in `refused`; so is a symbolic link or unreadable directory on the way to a match. Under root
 * the process's supplementary groups are dropped for the duration: the process must have one thread.
 * Negative errno only when the host failed (disk full, rights not switchable): no outputs/ then, and *ret is untouched. */
int outputs_collect(const struct collect_request *request, struct manifest *ret, struct err *err);
void manifest_release(struct manifest *m);
#define CLEANUP_MANIFEST CLEANUP(manifest_release)
/* {"files":[{path,size,sha256,media_type,stored,check:{state,format,note}}],"refused":[{path,reason}],"refused_count":N,"count":N,
 * "bytes":N,"missing":TEXT or null,"invalid":TEXT or null,"partial":BOOL,"over_cap":BOOL}. A path that is not UTF-8 is written lossily, with its bytes in "path_hex" beside it. */
json_t *manifest_json(const struct manifest *m);
/* Pattern match by component: "*" and "?" and [..] as fnmatch (a leading dot is nothing special), "**" any number of components,
 * at the end at least one. A pattern that names a directory ("out", "out/") means everything below it. Absolute patterns, "..",
 * and more than 63 components match nothing. */
bool outputs_match(const char *pattern, const char *path);
/* By extension: "text/csv", "image/png"...; NULL if unknown. */
const char *media_type_guess(const char *path);

/* --keep: copies the whole working directory (regular files with their holes, directories, links as links) beneath dest_fd,
 * with the same care: other types, hard links, other file systems, what is unreadable or too deep and entries past OUTPUT_ENTRIES_MAX stay behind. Set-id bits and
 * write permission of others are not copied. On failure what was copied so far remains, for the caller to remove. */
int outputs_keep(int work_fd, int dest_fd, uid_t uid, gid_t gid, uint64_t *ret_files,
		 struct err *err);
