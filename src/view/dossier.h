/* The record of one complete run, read into memory: what crates, exports and reports are made of. A run directory is the truth; all that
 * is made here follows from it and can be made again at any time. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/str.h"
#include "spec/config.h"

struct dossier {
	char *id;   /* owned */
	int dir_fd; /* owned; runs/ID */
	/* Owned; NULL where the record has none, which json_object_get() takes. */
	json_t *analysis, *plan, *receipt, *outputs, *verdict;
	json_t *events; /* owned; an array; lines that a crash tore are not in it */
};
#define DOSSIER_INIT                                                                               \
	{                                                                                          \
		.dir_fd = -1                                                                       \
	}

/* -ENOENT (caller) if there is no such run, -EBUSY (caller) if it has not ended. */
int dossier_read(const struct config *c, const char *id, struct dossier *ret, struct err *err);
void dossier_release(struct dossier *d);
#define CLEANUP_DOSSIER CLEANUP(dossier_release)

/* Texts and numbers of JSON that may lack them. Borrowed. */
const char *dossier_text(const json_t *o, const char *key);
uint64_t dossier_number(const json_t *o, const char *key);
/* What is recorded of the code file of that number; NULL if nothing is. */
const json_t *dossier_code(const struct dossier *d, size_t at);
/* RFC 3339 in UTC: when it was accepted, started and ended, as far as anything tells; "" otherwise. Borrowed. */
const char *dossier_began(const struct dossier *d);
const char *dossier_ended(const struct dossier *d);
/* "outputs", or "partial" where no verdict vouches for them; NULL if none were kept. */
const char *dossier_outputs_dir(const struct dossier *d);

enum crate_role { CRATE_OUTPUT, CRATE_LOG, CRATE_RECORD, CRATE_CODE, CRATE_INPUT };

/* One file of a crate. */
struct crate_file {
	enum crate_role role;
	char *path;       /* owned; in the crate, bytes as they are */
	char *source;     /* owned or NULL: absolute, on the host */
	int dir_fd;       /* borrowed; if there is no source: the directory that it is read from, */
	size_t above;     /* by its path without so many bytes */
	char *name;       /* owned; for people */
	char *media_type; /* owned or NULL */
	char sha256[HASH_HEX];
	uint64_t size;
};

void crate_file_release(struct crate_file *f);
#define CLEANUP_CRATE_FILE CLEANUP(crate_file_release)

/* CRATE_IN_PLACE: the run directory itself is the crate, in which there is neither code nor inputs. */
enum crate_with { CRATE_IN_PLACE, CRATE_WITHOUT_INPUTS, CRATE_WITH_INPUTS };

struct crate_files {
	struct crate_file *v; /* owned */
	size_t n;
	enum crate_with with;
};
void crate_files_release(struct crate_files *files);
void crate_files_add(struct crate_files *files, struct crate_file *taken); /* takes the contents */
#define CLEANUP_CRATE_FILES CLEANUP(crate_files_release)

/* The files that belong to the crate of a run: record, logs, outputs that a verdict vouches for, and code, as far as it is still what was
 * run: by its digest where one was recorded, else by its ctime. Inputs in the same way, if they are asked for. */
int crate_gather(const struct dossier *d, enum crate_with with, struct crate_files *ret,
		 struct err *err);
