/* A YAML document as an immutable tree whose nodes know their place, with everything hostile capped:
 * bytes, depth, nodes after alias expansion, length of a scalar. Duplicate keys, several documents,
 * tags, merge keys, NUL and invalid UTF-8 are refused. The only file that includes yaml.h of libyaml is yaml.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define YAML_DEPTH_MAX   24
#define YAML_NODES_MAX   10000
#define YAML_BYTES_MAX   (1024 * 1024)     /* of the file */
#define YAML_SCALAR_MAX  (128 * 1024)      /* of one scalar */
#define YAML_TEXT_MAX    (2 * 1024 * 1024) /* of all scalars, aliases expanded */
#define YAML_ANCHORS_MAX 256

enum node_kind { NODE_SCALAR, NODE_LIST, NODE_MAP };

struct node {
	enum node_kind kind;
	int line, column;     /* from 1 */
	char *text;           /* scalar: owned by the document */
	bool quoted;          /* scalar: written in quotes or as a block */
	struct node **keys;   /* map: scalars */
	struct node **values; /* map and list */
	size_t n;
	size_t weight;   /* this node and those below, aliases expanded */
	size_t bytes;    /* text of the same */
	unsigned height; /* levels below */
};

struct document; /* owns all nodes */

/* The file of an analysis that has none: it came in a request, written anew as one line, in which places mean nothing to anybody. */
#define DOCUMENT_SENT "/analysis"

/* A node without contents at this byte of a text. */
struct node text_place(const char *text, size_t offset);
/* What to do about a line that is not valid: it tells from what most often stands there. */
const char *text_remedy(const char *text, size_t length, int at);

int document_parse(const char *file, const char *text, size_t length, struct document **ret,
		   struct err *err);
void document_free(struct document *d);
const struct node *document_root(const struct document *d); /* NULL for an empty document */
const char *document_file(const struct document *d);

static inline void document_freep(struct document **d)
{
	document_free(*d);
	*d = NULL;
}
#define CLEANUP_DOCUMENT __attribute__((cleanup(document_freep)))

/* For messages: "file:line:column", or what it is if it was sent. Owned by the caller. */
char *node_place(const struct document *d, const struct node *n);
/* "file:line:column: FORMAT", kind caller, -EINVAL. */
int node_error(const struct document *d, const struct node *n, struct err *err, const char *format,
	       ...) __attribute__((format(printf, 4, 5)));

/* One row a key that a map may have: its setter reads the value into `target`. */
struct key_row {
	const char *key;
	int (*read)(const struct document *d, const struct node *value, void *target,
		    struct err *err);
};
/* Each key of the map through its row; an unknown key is an error with "did you mean". */
int map_read(const struct document *d, const struct node *map, const struct key_row *rows,
	     size_t n_rows, void *target, struct err *err);

/* The value of a key, or NULL; a NULL map has none. */
const struct node *map_get(const struct node *map, const char *key);
/* Plain `null`, `~` or nothing at all. */
bool node_is_null(const struct node *n);

/* Typed reads with an error that says what was expected. Strings are owned by the caller. */
int node_string(const struct document *d, const struct node *n, char **ret, struct err *err);
int node_bool(const struct document *d, const struct node *n, bool *ret,
	      struct err *err); /* true, false */
struct strv;
/* A list of at most `max` strings; they are appended to `ret`, which is untouched on failure. */
int node_strings(const struct document *d, const struct node *n, size_t max, struct strv *ret,
		 struct err *err);
/* One of `count` words: its index, or an error that lists them. */
int node_word(const struct document *d, const struct node *n, const char *const *words,
	      size_t count, struct err *err);
/* "FILE:LINE" for records of where a value was said; owned by the caller. */
char *node_origin(const struct document *d, const struct node *n);
