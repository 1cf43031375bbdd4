/* What the files of this folder share. */
#pragma once

#include <sys/types.h>

#include "protect/protect.h"
#include "runtime/fingerprint_parts.h"

enum protect_thing { THING_MISSING, THING_FILE, THING_TREE, THING_SQLITE, THING_POSTGRES };

#define ITEM_SCHEMA  "schema"  /* how a table, view or function is made; digest */
#define ITEM_COUNTER "counter" /* what a server counts of a table's changes; version */
#define ITEM_TABLE   "table"   /* rows: their number is the version, their checksum the digest */

/* Files are in the snapshot's tree, databases in its items. */
struct protect_state {
	char *what; /* owned */
	enum protect_thing thing;
	enum watch_level level; /* of a database */
	bool is_unread;         /* a database of which nothing was read */
	struct snapshot snapshot;
};

/* rights.c: root's own, while those of a file's owner are in effect: SQLite writes what lies beside a file (-shm), and its owner chose
 * what that is. */
struct rights {
	gid_t gid;
	gid_t *groups; /* owned */
	size_t n_groups;
	bool are_put_off;
};
int rights_of_owner(const char *path, struct rights *ret, struct err *err);
void rights_restore(struct rights *r);

/* database.c: items of the database; at stat depth of a server only what its catalogue tells. */
int database_look(const struct protect_look *q, struct items *ret, struct err *err);
/* Of what both depths have. */
struct database_compared {
	enum depth depth;
	enum watch_level level;
};
void database_compare(const struct items *then, const struct items *now,
		      const struct database_compared *how, struct drifts *ret);
