/* Which runtime an analysis gets, by which rule, and why not another; all of it goes into the run's record. */
#pragma once

#include "base/err.h"
#include "base/json.h"
#include "runtime/catalog.h"
#include "spec/analysis.h"
#include "spec/config.h"

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
};
void selection_release(struct selection *s);
#define CLEANUP_SELECTION CLEANUP(selection_release)

/* Reads at most the first MiB of the script, and of the catalog only what a rule needs. */
int runtime_select(const struct config *config, const struct analysis *a, struct selection *ret,
		   struct err *err);
json_t *selection_json(const struct selection *s);
