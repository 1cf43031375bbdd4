/* Where a platform's database is: sqlite:/PATH, or postgresql://USER[:PASSWORD]@[HOST[:PORT]]/DATABASE[?PARAMETERS] as libpq reads it. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum db_kind { DB_SQLITE, DB_POSTGRES };

struct dburl {
	enum db_kind kind;
	char *path;                   /* owned; SQLite: absolute */
	char *user, *password, *name; /* owned; PostgreSQL, decoded; password may be NULL */
	char *host;                   /* owned; a socket's directory if it begins with '/' */
	char *params; /* owned; those that are not in here, as they were said: "a=b&c=d" */
	uint16_t port;
};

void dburl_release(struct dburl *u);
#define CLEANUP_DBURL CLEANUP(dburl_release)

/* The message never quotes the URL, which may hold a password. */
int dburl_parse(const char *text, struct dburl *ret, struct err *err);
/* A database, not a path. */
bool dburl_is(const char *text);
/* Do both name one database, whoever asks it and with whatever parameters? By name: two addresses of one server are two. */
bool dburl_same(const char *a, const char *b);
/* For people's eyes: without its password; a path as it is. Owned by the caller. */
char *dburl_shown(const char *text);
/* The same database as seen by one for whom its socket is in `directory`; no password. Owned by the caller. */
char *dburl_inside(const struct dburl *u, const char *directory);
/* A line for libpq's password file. NULL if there is no password. Owned by the caller. */
char *dburl_pgpass(const struct dburl *u);
