/* Answers that are made by running `cupel ... --json`, the program beside us: few at a time, with a time limit and a cap on what is heard. So what
 * people see by the command line and by HTTP is the same, and nothing of it makes the loop wait. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "serve/event.h"

struct children;
struct children *children_new(sd_event *event);
/* Ends those that run; nobody is told. */
void children_free(struct children *c);

struct child_result {
	int status; /* of its exit; -1: it was ended by a signal, our time limit or our cap */
	struct str out, err;
	bool is_late, is_too_long;
};
typedef void child_done(void *data, const struct child_result *result);

struct child_request {
	const struct strv *words; /* borrowed; behind "cupel" */
	const char
		*submitter; /* borrowed or NULL: "UID:GID" of whom it acts for, see config_caller */
	const char *submitter_name; /* borrowed or NULL: the name that goes with it */
	bool goes_on; /* without a time limit, whatever becomes of us; its words go nowhere */
};
/* -EAGAIN with the text: too many wait already. */
int child_run(struct children *all, const struct child_request *q, child_done *done, void *data,
	      struct err *err);
