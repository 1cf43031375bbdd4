/* What a keeper that died left: where it worked, by its own note, and what it was writing. */
#pragma once

#include <stdbool.h>

#include "budget/scratch.h"
#include "keeper/record.h"
#include "spec/config.h"

struct traces {
	char *work_dir;      /* owned */
	char *cgroup_parent; /* owned */
	struct scratch_mark mark;
	bool has_mark;
};
void traces_release(struct traces *t);
#define CLEANUP_TRACES CLEANUP(traces_release)

/* Of a record that was adopted. */
void traces_read(const struct record *r, const struct config *c, struct traces *ret);
int traces_remove_unfinished(const struct record *r, struct err *err);
int traces_remove_torn(const struct record *r, struct err *err);
