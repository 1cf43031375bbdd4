/* Shared by the files that read a pipeline; no other file includes it. */
#pragma once

#include "flow/flow.h"
#include "spec/yaml.h"

/* Nodes that were made, not read; they share texts with the document where they can. */
struct clones {
	void **v; /* owned */
	size_t n;
};
void clones_release(struct clones *c);
#define CLEANUP_CLONES CLEANUP(clones_release)

/* `n` with each {{name}} replaced; `n` itself if there is none in it. */
int template_node(struct clones *c, const struct document *d, const struct node *n,
		  const json_t *values, const struct node **ret, struct err *err);
/* The text that a value stands for; NULL for lists and maps. Owned by the caller. */
char *template_value(const json_t *value);

struct shard {
	char *name;     /* owned */
	json_t *values; /* owned; an object */
};
struct shards {
	struct strv variables;
	struct shard *v; /* owned */
	size_t n;
	const struct node
		*of; /* the name of the step whose shards these are to be; v is empty then */
};
void shards_release(struct shards *s);
#define CLEANUP_SHARDS CLEANUP(shards_release)
int scatter_read(const struct document *d, const struct node *n, const char *base,
		 const json_t *parameters, struct shards *ret, struct err *err);

/* The keys of a step that only pipelines have. */
int step_read_cache(const struct document *d, const struct node *n, bool *ret, struct err *err);

/* Inputs of other steps, from the inputs of a task as they are with its values. */
int sources_read(const struct document *d, const struct node *inputs, const struct flow *f,
		 struct flow_task *task, struct err *err);
/* The step of that name, or an error that names the nearest. */
int step_named(const struct document *d, const struct node *n, const struct flow *f, size_t *ret,
	       struct err *err);
/* Once all steps are read: what each needs, cycles, outputs that no step declares. */
int graph_link(const struct document *d, const struct node *steps, struct flow *f, struct err *err);
/* About what its texts take: each shard has its own. */
size_t flow_task_bytes(const struct flow_task *t);
