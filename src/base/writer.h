/* JSON as text, written from front to back as json_dumps(JSON_INDENT(2)) would write it, without a tree of values: for what is large and
 * written once. Keys are ours: plain words that need no quoting. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct writer {
	struct str text; /* owned */
	unsigned depth;
	bool is_empty; /* nothing stands in what is open yet */
};

void writer_release(struct writer *w);
#define CLEANUP_WRITER CLEANUP(writer_release)

/* `key` is NULL for what stands in an array, and for the whole. */
void writer_open(struct writer *w, const char *key, char bracket);
void writer_close(struct writer *w, char bracket);
/* As json_text and json_u64. */
void writer_text(struct writer *w, const char *key, const char *text);
void writer_u64(struct writer *w, const char *key, uint64_t value);
void writer_bool(struct writer *w, const char *key, bool value);
void writer_texts(struct writer *w, const char *key, const struct strv *texts);
/* Any other value; taken. */
void writer_value(struct writer *w, const char *key, json_t *value);
