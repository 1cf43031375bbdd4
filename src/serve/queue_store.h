/* The one thread that talks to the database: what is handed to it is written in order, all that came meanwhile in one transaction. What
 * becomes of it is told to the thread of the loop, by its events.
 *
 * A database that is away is tried again every second. What is to be entered fails then; what has changed is kept until it is written. */
#pragma once

#include "base/err.h"
#include "ledger/submissions.h"
#include "serve/event.h"
#include "spec/config.h"

struct store_row {
	char *v[SUBMISSION_COLUMNS_]; /* owned; each may be NULL */
	struct submission_ran ran;
};
void store_row_release(struct store_row *row);
#define CLEANUP_STORE_ROW CLEANUP(store_row_release)

struct store_entered {
	int result; /* 1 entered; 0 it was there, see found; negative errno with the text */
	struct submission_found found;
	struct err err;
};

struct store_events {
	void *data;
	/* As soon as the database is there, and again when it is back after entries have failed, which may be among them: what waits or
	 * runs, and the largest number. Borrowed. */
	void (*loaded)(void *data, const struct store_row *rows, size_t n, uint64_t last);
	void (*entered)(void *data, void *tag, const struct store_entered *what);
	/* It is durable; or, negative errno with the text, it is not yet. Once for each store_settle. */
	void (*settled)(void *data, void *tag, int result, const struct err *err);
	/* Nothing is left to be written, or the database has come or gone. */
	void (*turned)(void *data);
};

struct store;
/* `config` is borrowed. Begins to read at once. */
int store_open(sd_event *event, const struct config *config, const struct store_events *events,
	       struct store **ret, struct err *err);
/* Writes what it can, and waits for that. */
void store_free(struct store *s);
static inline void store_freep(struct store **s)
{
	store_free(*s);
	*s = NULL;
}
/* Each takes the row's contents. `tag`, not NULL, is given back with what became of it. */
void store_enter(struct store *s, struct store_row *row, void *tag);
/* Enters nothing; a result of 0 says in found.id whether one of its key or id is there. */
void store_find(struct store *s, struct store_row *row, void *tag);
void store_change(struct store *s, struct store_row *row);
/* The same, for one who waits for it. */
void store_settle(struct store *s, struct store_row *row, void *tag);

bool store_is_idle(const struct store *s);
/* NULL while the database is there; else why not. Borrowed until the next event. */
const char *store_trouble(const struct store *s);
