/* Outputs of a run, given out again: read by the manifest, and compared with it. */
#pragma once

#include "base/err.h"
#include "base/json.h"
#include "base/terminal.h"

/* outputs.json of a run directory; "partial" is true too if they were set aside later. -ENOENT (caller) if nothing was collected. */
int fetch_manifest(int run_fd, json_t **ret, struct err *err);
/* The bytes of a file's path, owned by the caller; NULL if the entry is none. */
char *fetch_path(const json_t *file);
/* The same of any text NAME that has its bytes in NAME_hex beside it if they are no UTF-8. */
char *fetch_bytes(const json_t *object, const char *name);

struct fetch {
	int run_fd;             /* borrowed */
	const json_t *manifest; /* borrowed */
};

/* Writes the bytes of one file. -EBADMSG (host) if they are not those that were collected: they are out by then. */
int fetch_print(const struct fetch *f, const json_t *file, struct terminal_out *to,
		struct err *err);
/* A copy at its own path below dest_fd: whole, compared and synced before it has its name, and never in place of something else. */
int fetch_copy(const struct fetch *f, const json_t *file, int dest_fd, struct err *err);
