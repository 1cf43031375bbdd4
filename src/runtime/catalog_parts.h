/* Between the files that read the catalog; nobody else includes it. */
#pragma once

#include "runtime/catalog.h"
#include "spec/yaml.h"

#define CATALOG_LIST_MAX 1000

/* An entry while it is read. */
struct entry {
	struct runtime r;
	const char *directory; /* of the file; relative paths are relative to it */
	const char *
		project; /* the project's directory, which its entries may not leave; NULL: not a project's */
};

/* runtime_parse for a file of a project, or of none. */
int entry_parse(const char *file, const char *text, size_t length, const char *project,
		struct runtime *ret, struct err *err);

/* A path made absolute; `key` is for the message of a project's that leads out of it. */
int entry_path(const struct document *d, const struct node *n, const struct entry *e,
	       const char *key, char **ret, struct err *err);

/* Rows; the target is a struct entry. */
int entry_interpreters(const struct document *d, const struct node *n, void *target,
		       struct err *err);
int entry_checks(const struct document *d, const struct node *n, void *target, struct err *err);

#define ROWS(rows) rows, sizeof(rows) / sizeof(rows[0])
/* The head of a row's function; see struct key_row. */
#define READER(name)                                                                               \
	static int name(const struct document *d, const struct node *n, void *target,              \
			struct err *err)
