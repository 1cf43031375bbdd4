/* What cupel itself made below HOME/runtimes, and who is making it.
 *
 *   NAME/GENERATION/   one making of NAME: env/, root/, root.squashfs or layout/, and created.json
 *   NAME/create.log    what the tools said the last time
 *   .making/NAME       locked while NAME is made or removed; says which generation and where its entry is or will be
 *
 * Environments are not to be moved once they are made, so each is built where it will stay, in a directory with a name of its own; it is
 * alive when the catalog entry names it, and that file is replaced in one step. Whatever else is there when nobody holds the lock is
 * left over (health/gc_runtimes.c). The tools that build hold the lock too: while one of them lives, nothing is swept from under it. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

enum making_act { MAKING_NOTHING, MAKING_CREATE, MAKING_REMOVE };

struct making {
	char *name;          /* owned */
	char *path;          /* owned; HOME/runtimes/NAME */
	int runtimes_fd;     /* owned; HOME/runtimes */
	int lock_fd;         /* owned; .making/NAME */
	enum making_act act; /* as noted */
	char *generation;    /* owned or NULL; as noted */
	char *entry;         /* owned or NULL; as noted */
};
#define MAKING_INIT                                                                                \
	{                                                                                          \
		.runtimes_fd = -1, .lock_fd = -1                                                   \
	}
void making_release(struct making *m);
#define CLEANUP_MAKING CLEANUP(making_release)

/* Takes the lock of a name and reads what is noted. -EAGAIN: another has it, no text. */
int making_lock(const char *home, const char *name, struct making *ret, struct err *err);
/* Durable before anything is made or removed. `generation` may be NULL. */
int making_note(struct making *m, enum making_act act, const char *generation, const char *entry,
		struct err *err);
/* Nothing is left to do under this name. */
void making_done(struct making *m);
/* Names in .making, as owned strings. */
void making_names(const char *home, struct strv *ret);

/* The generations of a name, whole or not, as owned strings. */
void made_generations(const struct making *m, struct strv *ret);
/* Removes all of them but `keep` (may be NULL). */
int made_clear(const struct making *m, const char *keep, struct err *err);
/* Whether the entry's file says that this generation is the runtime; with NULL: that any of this name is. */
bool made_is_named(const struct making *m, const char *generation, const char *entry);
/* created.json of a generation. -ENOENT if it has none. *ret is the caller's. */
int made_read(const struct making *m, const char *generation, json_t **ret, struct err *err);
