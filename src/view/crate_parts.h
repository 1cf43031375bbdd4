/* Building the graph: private to crate*.c. */
#pragma once

#include "view/crate.h"

/* Terms that no vocabulary has: defined in the context of each crate. */
#define CRATE_TERMS "https://w3id.org/scidex/run#"

struct crate {
	const struct dossier *d;
	const struct crate_files *files;
	size_t first;     /* the files of `d` begin there */
	json_t *graph;    /* borrowed */
	json_t *index;    /* owned; @id -> entity */
	json_t *copies;   /* owned; place on the host, and digest -> @id of the copy in the crate */
	json_t *parts;    /* borrowed; hasPart of the root */
	json_t *mentions; /* borrowed; of the root */
	json_t *action;   /* borrowed */
	bool is_shared;   /* it has many runs: what they have in common is said once */
	const struct crate_step *step; /* NULL if the run stands alone */
	const char *cupel;             /* version of the one that ran it, once it is known */
};
void crate_release(struct crate *c);
#define CLEANUP_CRATE CLEANUP(crate_release)

/* What the run of a step needs to know of its pipeline. */
struct crate_step {
	json_t *tool;      /* borrowed; the entity that is its instrument */
	const char *name;  /* of the step */
	bool is_scattered; /* its shards share their slots: a name of a file is not that of a slot */
	const char *runs;  /* HOME/runs, as inputs name it */
	json_t *ranges;    /* borrowed; id of a run -> [first, behind the last] of its files */
	json_t *made;      /* borrowed; SHA-256 -> @id of outputs of steps */
	json_t *how_to;    /* borrowed; the HowToStep */
	json_t *outs;      /* borrowed; list of {"@id", "slot" of the workflow} of outputs */
	json_t *used;      /* borrowed; @id of outputs that a step took -> true */
	json_t *workflow;  /* borrowed */
	json_t *run;       /* borrowed; the action that is the run of the workflow */
};

/* A name as a part of the fragment of a URI: also '/' is percent-encoded. Owned by the caller. */
char *crate_fragment(const char *name);
/* {"@id": id} */
json_t *crate_ref(const char *id);
/* A new entity of the graph; borrowed from it. */
json_t *crate_entity(struct crate *c, const char *id, const char *type);
/* NULL if there is none. */
json_t *crate_find(const struct crate *c, const char *id);
void crate_set(json_t *entity, const char *key, const char *text); /* nothing if the text is "" */
/* The profile takes no "Z". */
void crate_set_time(json_t *entity, const char *key, const char *time);
void crate_set_status(json_t *entity, bool is_ok, const char *error);
/* Adds to a list; crate_add_once: unless it is in it, for short ones. */
void crate_add_ref(json_t *entity, const char *key, const char *id);
void crate_add_once(json_t *entity, const char *key, const char *id);

struct crate_root {
	const char *id, *name, *description, *ended, *quest;
	const json_t *labels;
};
/* Descriptor, root, licence, preview. The root, borrowed. */
json_t *crate_begin(struct crate *c, const struct crate_root *r);
/* The root conforms to it. */
void crate_profile(struct crate *c, json_t *root, const char *id, const char *name,
		   const char *version);
void crate_agents(struct crate *c, const char *caller);
/* A graph with its context. Owned by the caller, `graph` within. */
json_t *crate_document(json_t *graph);
/* An entity for that file, which is a part of the root. */
json_t *crate_add_file(struct crate *c, const struct crate_file *f);
/* The run that c->d is: c->action with all that belongs to it. */
void crate_run(struct crate *c, const char *action);

struct crate_value {
	const char *id, *name, *term, *unit,
		*value; /* term without CRATE_TERMS; unit of QUDT or NULL */
	const char *of; /* the slot that it fills, or NULL */
};
/* A PropertyValue that entity's `key` refers to. */
void crate_add_value(struct crate *c, json_t *entity, const char *key,
		     const struct crate_value *value);

/* crate_values.c: what the action says of limits, environment, verdict and usage. */
void crate_values(struct crate *c);
/* The key that its result is known by: a digest, and those of its parts by name. */
void crate_key(struct crate *c, const char *sha256, const json_t *parts);
/* Parameters as what the action was given; `slots` is what "@id" of each slot begins with, or NULL. */
void crate_parameters(struct crate *c, json_t *action, const json_t *parameters, const char *slots);
/* crate_tools.c: instrument, code, inputs, runtime. */
void crate_tools(struct crate *c);

/* crate_slots.c: what a workflow or tool can be given, and gives. */
enum crate_slot { SLOT_INPUT, SLOT_OUTPUT };
/* `slot` of `owner`, made if need be, is filled by that entity. */
void crate_fill_slot(struct crate *c, json_t *owner, enum crate_slot kind, const char *slot,
		     json_t *with);
/* The receiving step's slot gets what fills the slots of tools that `with` came from. */
void crate_connect(struct crate *c, json_t *how_to, const char *slot, const json_t *with);
/* Its "@id"; owned by the caller. */
char *crate_slot_id(const json_t *owner, enum crate_slot kind, const char *slot);
/* One for each parameter; the ids begin with `slots`. */
void crate_parameter_slots(struct crate *c, json_t *owner, const json_t *parameters,
			   const char *slots);
/* The name of the slot of the step that this output is of: its pattern. Borrowed. */
const char *crate_output_slot(const struct crate *c, const char *path);
