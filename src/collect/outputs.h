/* What came out: the working directory is hostile, so it is walked by descriptor, beneath, after the box is dead, and opened
 * with the analysis's own file-system rights, never root's. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/hash.h"
#include "spec/analysis.h"

struct collected {
	char *path; /* owned; relative to the working directory, bytes as they are */
	uint64_t size;
	char sha256[HASH_HEX];
	char *media_type; /* owned or NULL */
};

struct refused {
	char *path; /* owned */
	char *reason; /* owned; "symbolic link", "hard link", "FIFO", "unreadable", "changed while it was read" ... */
};

struct manifest {
	struct collected *files; /* owned; sorted by path */
	size_t n_files;
	struct refused
		*refused; /* owned; at most OUTPUT_REFUSED_MAX are kept, n_refused_all counts all */
	size_t n_refused;
	uint64_t n_refused_all;
	uint64_t bytes;
	char *missing; /* owned; the first required pattern that matched nothing, or NULL */
	bool over_cap; /* the count or byte cap was passed: nothing after it was taken */
};
#define OUTPUT_REFUSED_MAX 100
#define OUTPUT_DEPTH_MAX   128

struct collect_request {
	int work_fd; /* the working directory */
	int run_fd;  /* the run directory: copies go to outputs/PATH below it, read-only */
	uid_t uid; /* rights with which outputs are opened (setfsuid); the caller's own uid when not root */
	gid_t gid;
	const struct output *outputs;
	size_t n_outputs;
	uint64_t max_bytes, max_count;
};

/* Copies each match to a temporary tree, hashing as it goes, syncs, then renames it to outputs/. Regular files with one link only;
 * data, docs, code, tmp and home below the working directory are never looked at. */
int outputs_collect(const struct collect_request *request, struct manifest *ret, struct err *err);
void manifest_release(struct manifest *m);
/* {"files":[{path,size,sha256,media_type}],"refused":[...],"bytes":N,...} */
struct json_t;
struct json_t *manifest_json(const struct manifest *m);
/* Pattern match by component: "*" and "?" and [..] as fnmatch, "**" any number of components. */
bool outputs_match(const char *pattern, const char *path);
/* By extension: "text/csv", "image/png"...; NULL if unknown. */
const char *media_type_guess(const char *path);

/* --keep: copies the whole working directory (regular files, directories, links as links) beneath dest_fd, with the same care. */
int outputs_keep(int work_fd, int dest_fd, uid_t uid, gid_t gid, uint64_t *ret_files,
		 struct err *err);
