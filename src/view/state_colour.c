#include "view/state_colour.h"

#include <string.h>

#include "base/str.h"

/* With spaces around each word. */
static const struct {
	const char *words;
	enum terminal_colour colour;
} rows[] = {
	{ " ok healthy passed accepted ", COLOUR_GOOD },
	{ " queued starting running waiting reused checkpointed skipped note absent - ",
	  COLOUR_NOTE },
	{ " cancelled lost? degraded unknown warned unchecked partial stale never ", COLOUR_WARN },
};

enum terminal_colour state_colour(const char *word)
{
	CLEANUP_FREE char *spaced = xasprintf(" %s ", word);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (strstr(rows[i].words, spaced))
			return str_eq(word, "-") ? COLOUR_NONE : rows[i].colour;
	return COLOUR_BAD;
}
