/* Shared by the files that read the configuration; no other file includes it. */
#pragma once

#include "spec/config.h"
#include "spec/yaml.h"

/* One configuration file while it is read into the configuration. */
struct config_layer {
	enum config_source source;
	char *file;      /* owned */
	char *directory; /* owned; relative paths in the file are relative to it */
	char *text;      /* owned */
	size_t length;
	struct config *config;  /* borrowed */
	struct pairs *origins;  /* borrowed; dotted key -> "FILE:LINE"; no entry: built-in */
	char *project_root;     /* owned or NULL: as named in this file, absolute */
	char *project_data;     /* owned or NULL */
	char *project_docs;     /* owned or NULL */
	struct strv protect;    /* as said: relative to a project root that is known at the end */
	struct strv protect_at; /* their origins */
	struct strv protect_levels; /* how closely each is watched: "schema", "rows" or "content" */
};

void config_layer_release(struct config_layer *layer);
#define CLEANUP_LAYER CLEANUP(config_layer_release)

/* Opens, checks whom the file belongs to, reads. 1 if it was read, 0 if there is none. */
int config_file_load(const char *path, enum config_source source, struct config_layer *ret,
		     struct err *err);
/* The project's file from `start_dir` upward; the two others are no project's file. As above. */
int config_project_load(const char *start_dir, const char *system_file, const char *user_file,
			struct config_layer *ret, struct err *err);

/* Every key of the file into layer->config. */
int config_layer_read(struct config_layer *layer, struct err *err);

/* Fills c->values from what is in effect. */
void config_values_fill(struct config *c, const struct pairs *origins);

#define ROWS(rows) rows, sizeof(rows) / sizeof(rows[0])
/* The head of a row's function; see struct key_row. The target is a struct config_layer. */
#define READER(name)                                                                               \
	static int name(const struct document *d, const struct node *n, void *target,              \
			struct err *err)

/* For the rows: remember who said the key; replace a string; replace a list (`said` gets the old). */
void config_say(struct config_layer *layer, const struct document *d, const struct node *n,
		const char *key);
int config_string(struct config_layer *layer, const struct document *d, const struct node *n,
		  const char *key, char **owned);
void config_list(struct config_layer *layer, const struct document *d, const struct node *n,
		 const char *key, struct strv *said, struct strv *owned);

/* A scalar that is one path component; a path, made absolute against `base` (NULL: it has to be), replacing *ret. */
int config_name_check(const struct document *d, const struct node *n, const char *what,
		      struct err *err);
int config_path_value(const struct document *d, const struct node *n, const char *base, char **ret,
		      struct err *err);

/* Rows of the host's policy. */
int config_read_ceilings(const struct document *d, const struct node *n, void *target,
			 struct err *err);
int config_read_cpu_weight(const struct document *d, const struct node *n, void *target,
			   struct err *err);
int config_read_aggregate(const struct document *d, const struct node *n, void *target,
			  struct err *err);
int config_read_uids(const struct document *d, const struct node *n, void *target, struct err *err);
int config_read_policy(const struct document *d, const struct node *n, void *target,
		       struct err *err);
int config_read_cgroup(const struct document *d, const struct node *n, void *target,
		       struct err *err);
int config_read_disk(const struct document *d, const struct node *n, void *target, struct err *err);
int config_read_ledger(const struct document *d, const struct node *n, void *target,
		       struct err *err);
int config_read_post_processes(const struct document *d, const struct node *n, void *target,
			       struct err *err);

int config_read_gc(const struct document *d, const struct node *n, void *target, struct err *err);
int config_read_executors(const struct document *d, const struct node *n, void *target,
			  struct err *err);
int config_read_quests(const struct document *d, const struct node *n, void *target,
		       struct err *err);
int config_read_service(const struct document *d, const struct node *n, void *target,
			struct err *err);

extern const char *const cgroup_manager_names[];
extern const char *const disk_mechanism_names[];
