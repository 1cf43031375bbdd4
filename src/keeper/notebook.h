/* How far a notebook came: read, when the box is dead, from the small file that its driver kept. Whatever ran in the box could write
 * there, so it is believed for words only, never for the cause. */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "base/json.h"

#define NOTEBOOK_CELLS_MAX 1000000

struct verdict;

struct notebook_end {
	unsigned cell;            /* that ran at the end, among code cells, from 1; 0: none */
	unsigned cells;           /* code cells in all */
	unsigned done;            /* the last one that ended well */
	unsigned execution_count; /* of that one; 0: unknown */
	char error[404];          /* what went wrong, in the notebook's own words; "": nothing */
};

/* -ENOENT where there is none, another negative errno where it is not one. */
int notebook_end_read(int work_fd, struct notebook_end *ret);
json_t *notebook_end_json(const struct notebook_end *n);
/* A sentence that says at which cell a run ended that did not succeed; "" where there is nothing to say. */
void notebook_end_words(const struct notebook_end *n, const struct verdict *v, char *ret,
			size_t room);
