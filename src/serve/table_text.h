/* The beginning of a table that is text: commas or tabs, quotes as RFC 4180 has them. Pure, and never fails: whatever it is, it has rows. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"

#define TABLE_TEXT_COLUMNS 200
#define TABLE_TEXT_CELL    1000 /* bytes of a cell that are shown */

/* {"columns":[...],"rows":[[...]],"truncated":bool}; at most `rows` rows behind the first, which names the columns. `is_whole`: the text is all of the
 * file; else its last line may be cut, and is left out. */
json_t *table_text(const char *text, size_t length, char separator, size_t rows, bool is_whole);
