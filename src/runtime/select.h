/* Which runtime an analysis gets, by which rule, and why not another; all of it goes into the run's record. */
#pragma once

#include "base/err.h"
#include "base/json.h"
#include "runtime/catalog.h"
#include "spec/analysis.h"
#include "spec/config.h"
#include "spec/limits.h"

enum select_rule {
	RULE_OPTION,     /* -r */
	RULE_ANALYSIS,   /* runtime: in the analysis file */
	RULE_SCRIPT,     /* # /// script with [tool.cupel] runtime = "..." */
	RULE_KERNELSPEC, /* metadata.kernelspec of a notebook */
	RULE_IMPORTS,    /* what the script imports and calls, against `provides` */
	RULE_EXTENSION,  /* the script's ending */
	RULE_DEFAULT,    /* defaults.runtime */
	RULE_COUNT_
};
extern const char *const select_rule_names[];

struct selection {
	enum select_rule rule;
	char *name; /* owned */
	char *why;  /* owned; one sentence */
	struct considered {
		char *name;    /* owned */
		char *why_not; /* owned */
	} * considered;        /* owned */
	size_t n_considered;
	struct strv requires; /* script metadata: requires-python and dependencies, as said */
	struct limits
		limits; /* script metadata: [tool.cupel.limits]; what the analysis says itself goes over these */
};
void selection_release(struct selection *s);
#define CLEANUP_SELECTION CLEANUP(selection_release)

/* Reads at most the first MiB of the script (a notebook whole, up to 64 MiB), and of the catalog only what a rule needs: nothing at
 * all when an option names the runtime. That the runtime exists is known only where script metadata named it. a->code is real. */
int runtime_select(const struct config *config, const struct analysis *a, struct selection *ret,
		   struct err *err);
/* The same with the whole catalog at hand, so that every other entry is among those considered. */
int runtime_suggest(const struct config *config, const struct analysis *a, struct selection *ret,
		    struct err *err);
json_t *selection_json(const struct selection *s);
