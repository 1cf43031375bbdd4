#include "keeper/notebook.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "keeper/verdict.h"
#include "runtime/driver.h"

static unsigned number(const json_t *o, const char *key)
{
	json_int_t value = json_integer_value(json_object_get(o, key));
	return value > 0 && value <= NOTEBOOK_CELLS_MAX ? (unsigned)value : 0;
}

int notebook_end_read(int work_fd, struct notebook_end *ret)
{
	CLEANUP_JSON json_t *o = NULL;
	int r = json_read_file(work_fd, DRIVER_PROGRESS, DRIVER_PROGRESS_MAX, &o, NULL);
	if (r < 0)
		return r;
	if (!json_is_object(o))
		return -EINVAL;
	struct notebook_end n = { .cell = number(o, "cell"),
				  .cells = number(o, "cells"),
				  .done = number(o, "done"),
				  .execution_count = number(o, "execution_count") };
	const char *error = json_string_value(json_object_get(o, "error"));
	(void)snprintf(n.error, sizeof n.error, "%s", error ? error : "");
	str_clean(n.error);
	*ret = n;
	return 0;
}

static json_t *number_json(unsigned value)
{
	return value ? json_integer(value) : json_null();
}

json_t *notebook_end_json(const struct notebook_end *n)
{
	return json_pack("{s:o,s:i,s:i,s:o,s:o}", "cell", number_json(n->cell), "cells",
			 (int)n->cells, "done", (int)n->done, "execution_count",
			 number_json(n->execution_count), "error",
			 n->error[0] ? json_text(n->error) : json_null());
}

/* "at cell 7 of 12", or where else it was. */
static void write_place(const struct notebook_end *n, char *ret, size_t room)
{
	if (n->cell)
		(void)snprintf(ret, room, "at cell %u of %u", n->cell, n->cells);
	else
		(void)snprintf(ret, room, "%s",
			       n->done ? "after the last cell" : "before the first cell");
}

void notebook_end_words(const struct notebook_end *n, const struct verdict *v, char *ret,
			size_t room)
{
	char place[64];
	const char *dot = n->error[0] && n->error[strlen(n->error) - 1] == '.' ? "" : ".";
	write_place(n, place, sizeof place);
	ret[0] = 0;
	if (v->cause == CAUSE_OOM)
		(void)snprintf(ret, room, "Out of memory %s. ", place);
	else if (v->cause == CAUSE_DEADLINE)
		(void)snprintf(ret, room, "Deadline %s. ", place);
	else if (v->cause == CAUSE_OK || (!n->error[0] && !n->cell))
		return;
	else if (!n->error[0])
		(void)snprintf(ret, room, "Stopped %s. ", place);
	else if (!n->cell)
		(void)snprintf(ret, room, "%s: %s%s ",
			       n->done ? "After the last cell" : "The notebook was not run",
			       n->error, dot);
	else if (str_starts(n->error, "the "))
		(void)snprintf(ret, room, "A%s %s%s ", place + 1, n->error, dot);
	else
		(void)snprintf(ret, room, "Cell %u of %u raised %s%s ", n->cell, n->cells, n->error,
			       dot);
}
