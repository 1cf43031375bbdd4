/* Who may see which runs. A run belongs to its submitter: the user who asked the service for it, or the token, as "token:NAME", if the
 * token has no user. A run without a submitter belongs to the owner of the home. This is the only place that decides it: routes, lists,
 * sums, event streams and the reuse of results all ask here, or put the same names into their SQL. */
#pragma once

#include <stdbool.h>

#include "base/json.h"
#include "spec/config.h"

#define VIEWER_NAMES    2
#define VIEWER_NAME_MAX 63

struct viewer {
	bool sees_all;
	bool owns_home;                                /* and so the runs without a submitter */
	char names[VIEWER_NAMES][VIEWER_NAME_MAX + 1]; /* the submitters that it is; "" is none */
};
/* For programs that act for the owner of the home. */
extern const struct viewer viewer_all;

/* `submitter`: NULL or "" is none. */
bool viewer_owns(const struct viewer *v, const char *submitter);
bool viewer_sees(const struct viewer *v, const char *submitter);
/* Whom this process acts for: everything for the owner of the home, nothing for a submitter whose name is not known. */
void viewer_of(const struct config *c, struct viewer *ret);
/* The submitter in the record of a run, owned by the caller; NULL if it has none. -ENOENT if there is no record of such a run. */
int viewer_submitter_of_run(const struct config *c, const char *id, char **ret);
