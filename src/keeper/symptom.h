/* What an analysis that failed wrote last, as far as it tells what would help. The text is the analysis's own, so it may give words to a verdict
 * and never its cause; a name from it is used only if it is a plain one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "spec/config.h"

#define SYMPTOM_TEXT_MAX 8192 /* bytes at the end of the log that are looked at */

enum symptom_kind {
	SYMPTOM_NONE,
	SYMPTOM_NETWORK, /* a host name could not be resolved, or nothing is reached */
	SYMPTOM_PYTHON,  /* no module of that name */
	SYMPTOM_R        /* no package of that name */
};

struct symptom {
	enum symptom_kind kind;
	char name[64]; /* of the module or package */
	/* What else is known, for the sentence: filled in by the keeper. */
	bool network_is_off, network_may_be_on;
	char runtime[64];
	char providers[128]; /* runtimes that say that they have it, with commas; "": none does */
};

/* Pure: looks for the last symptom in the text. */
void symptom_find(const char *text, size_t length, struct symptom *ret);
/* The sentence, with a space before it; nothing if nothing would help. */
void symptom_words(const struct symptom *s, struct str *to);
/* Names the runtimes of the catalog that provide the module or package. */
void symptom_look_up(const struct config *config, const char *runtime, struct symptom *s);
