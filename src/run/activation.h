/* Conda's activation of a prefix, as variables of the runtime. What its scripts (activate.d) change is found out by running them in a box,
 * once for each identity of the prefix; HOME/cache/activation keeps the answer. */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include "run/run.h"

enum activation_how {
	ACTIVATION_STATIC, /* without the scripts */
	ACTIVATION_KNOWN,  /* with what is known of the scripts; if that is nothing, a warning */
	ACTIVATION_RUN,    /* with the scripts, run now if need be */
};

struct activation_request {
	const struct config *config;
	const struct analysis *analysis; /* whose runtime it is */
	const char *id;                  /* of its run */
	enum activation_how how;
	struct strv *warnings;
};

/* Lays the activation below the runtime's own variables and before its PATH; chosen->activation names the run that ran the scripts. Nothing
 * to do for other kinds. A failure means that the runtime is broken. */
int activation_apply(const struct activation_request *q, struct runtime *r, struct chosen *chosen,
		     struct err *err);

/* resolve.c */
int run_resolve_how(const struct config *config, struct analysis *analysis, enum activation_how how,
		    struct resolved *ret, struct err *err);
