/* Shared by the files of the starter; no other file includes it. */
#pragma once

#include "flow/flow.h"
#include "run/rerun.h"
#include "serve/starter.h"

/* This process becomes `cupel run` of the pipeline that was sent; it returns only on failure. The report socket stays open in it: whoever holds the
 * other end sees it end. */
int pipeline_become(struct config *config, const json_t *sent, int report_fd, struct err *err);
/* The same with `cupel runtime check` of the one that was named. */
int check_become(struct config *config, const json_t *sent, int report_fd, struct err *err);
/* Reads it for its submitter, and checks that he may read what it names. The text, too, is the caller's. */
int pipeline_read(struct config *config, const json_t *sent, struct flow *ret, struct str *ret_text,
		  struct err *err);

/* starter_look.c: STARTER_LOOK. */
int starter_look(struct config *config, const json_t *sent, struct starter_said *ret,
		 struct err *err);
/* A run that is to be run again, resolved; -ESTALE (caller) names what is not what it was. Both are the caller's. */
int rerun_prepare(struct config *config, const json_t *sent, struct rerun *ret_rerun,
		  struct resolved *ret, struct err *err);
struct starter_who starter_who(const json_t *sent);
/* May do what the host's administrator may. */
bool starter_is_trusted(const struct starter_who *who);

/* starter.c: limits that have grown. */
void starter_set_limits(const json_t *limits, struct analysis *a);
