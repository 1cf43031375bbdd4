/* The database looked at by its own means: pages, indexes, foreign keys. Changes nothing. */
#pragma once

#include "base/err.h"
#include "spec/config.h"

/* INSPECT_FAULT: something is broken. INSPECT_NOTE: what could not be looked at, and what would make that possible. */
enum inspect_kind { INSPECT_FAULT, INSPECT_NOTE };
/* QUICK leaves out whether each index has what its table has. */
enum inspect_depth { INSPECT_QUICK, INSPECT_FULL };

/* `where` is the file, table or index; both texts live until the function returns. */
typedef void (*inspect_tell)(void *data, enum inspect_kind kind, const char *where,
			     const char *text);

/* A damaged database is no error but a fault that is told. -ENOENT: there is no SQLite file; -EAGAIN: it is busy or cannot be
 * reached. */
int ledger_inspect(const struct config *c, enum inspect_depth depth, inspect_tell tell, void *data,
		   struct err *err);
