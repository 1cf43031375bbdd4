/* Making runtimes: `cupel runtime create` and `remove`.
 *
 * A runtime is built by the tool that is made for it (venv and pip, mmdebstrap, a conda) in a new generation below HOME/runtimes/NAME
 * (runtime/made.h), synced, and only then named by a catalog entry, which is replaced in one step. Whatever goes wrong before that, the
 * runtime that was there before, if any, is as it was. Tools run as the caller, by argument vectors, with a cleaned environment, no
 * terminal and no input. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "runtime/runtime.h"
#include "spec/config.h"

/* Who shows how it goes on. */
struct create_viewer {
	void *data;
	/* `line` is what the tool said last, from outside and not cleaned; "" at the beginning of a phase. */
	void (*tell)(void *data, const char *phase, const char *line);
};

struct create_request {
	const char *name;
	enum runtime_kind kind;
	const char *summary; /* NULL: one is made */
	const char *version; /* NULL: "1" */
	const char
		*to; /* directory of the entry; NULL: the user's runtimes.d, root's the system's */
	bool replace;
	/* venv */
	const char *requirements, *wheels; /* or NULL */
	const char *python;                /* NULL: python3 */
	bool system_site_packages;
	/* rootfs, conda */
	struct strv packages;
	/* rootfs */
	const char *suite; /* NULL: this host's */
	struct strv mirrors;
	bool squashfs;
	/* conda */
	const char *file;
	struct strv channels;
	/* image */
	const char *layout;

	struct strv said; /* the command, to be recorded */
	const struct create_viewer *viewer;
};
void create_request_release(struct create_request *q);
/* "a,b,c", and a file of names with blanks, commas or newlines between them and comments behind '#'. */
int create_add_packages(struct create_request *q, const char *list, struct err *err);
int create_read_packages(struct create_request *q, const char *file, struct err *err);

struct create_result {
	char *entry; /* owned; the catalog file */
	char *place; /* owned; what it names */
	char *log;   /* owned */
	char *own; /* owned or NULL: where the entry has to be copied before its name is known here */
	json_t *notes; /* owned; what else there is to say of it */
};
void create_result_release(struct create_result *r);

/* -EEXIST (caller): the name is taken. -ECANCELED: a signal asked us to end. */
int runtime_create(const struct config *config, const struct create_request *q,
		   struct create_result *ret, struct err *err);

struct remove_result {
	char *entry;      /* owned or NULL; the catalog file that is gone */
	char *entry_text; /* owned or NULL; what stood there */
	char *lock;       /* owned or NULL; its lock, which is gone with the entry */
	char *place;      /* owned or NULL; the directory that is gone */
	char *remaining; /* owned or NULL; where the entry of that name is from that counts without this one */
	uint64_t files, bytes;
	json_t *said; /* owned or NULL; the command that made it, as a list */
};
void remove_result_release(struct remove_result *r);

enum remove_how { REMOVE_REALLY, REMOVE_DRY_RUN };
/* The entry with its lock, and what cupel made for it; never a prefix or root that it did not make. -ENOENT, -EBUSY (caller). */
int runtime_remove(const struct config *config, const char *name, enum remove_how how,
		   struct remove_result *ret, struct err *err);
