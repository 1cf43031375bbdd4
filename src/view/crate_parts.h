/* Building the graph: private to crate*.c. */
#pragma once

#include "view/crate.h"

/* Terms that no vocabulary has: defined in the context of each crate. */
#define CRATE_TERMS "https://w3id.org/scidex/run#"

struct crate {
	const struct dossier *d;
	const struct crate_files *files;
	json_t *graph;  /* borrowed */
	json_t *parts;  /* borrowed; hasPart of the root */
	json_t *action; /* borrowed */
};

/* {"@id": id} */
json_t *crate_ref(const char *id);
/* A new entity of the graph; borrowed from it. */
json_t *crate_entity(struct crate *c, const char *id, const char *type);
void crate_set(json_t *entity, const char *key, const char *text); /* nothing if the text is "" */

struct crate_value {
	const char *id, *name, *term, *unit,
		*value; /* term without CRATE_TERMS; unit of QUDT or NULL */
};
/* A PropertyValue that entity's `key` refers to. */
void crate_add_value(struct crate *c, json_t *entity, const char *key,
		     const struct crate_value *value);

/* crate_values.c: what the action says of limits, environment, verdict and usage. */
void crate_values(struct crate *c);
/* crate_tools.c: instrument, code, inputs, runtime. */
void crate_tools(struct crate *c);
