/* post_process: a step of the host's that takes the outputs of a success into the platform's database, as a run of its own, before the
 * verdict. Its declaration is the host's or the user's own; nothing of a project has a say in it but its name. */
#pragma once

#include "box/plan.h"
#include "keeper/keeper.h"
#include "run/activation.h"
#include "run/relay.h"
#include "run/run.h"
#include "spec/dburl.h"

struct post {
	struct config
		config; /* borrowed contents: without what a project says of runtimes and data */
	const struct analysis *parent;   /* borrowed */
	const char *parent_id;           /* borrowed */
	const struct post_process *step; /* borrowed from the configuration */
	struct dburl url;
	char *runs;               /* owned; real path of the home's runs/ */
	char *outputs;            /* owned or NULL */
	char *database_dir;       /* owned or NULL */
	struct strv others;       /* what else is in it */
	char *socket;             /* owned or NULL */
	char *socket_name;        /* owned or NULL */
	char *pgpass;             /* owned or NULL */
	char *inside;             /* owned; the URL in the box */
	char *written_by;         /* owned; which step it is, for people */
	struct analysis analysis; /* of the step */
	struct resolved resolved;
	struct relay relay;
	struct running run;
};
#define POST_INIT                                                                                  \
	{                                                                                          \
		.relay = { .dir_fd = -1 }, .run = RUNNING_INIT                                     \
	}

void post_release(struct post *p);
#define CLEANUP_POST CLEANUP(post_release)

/* Finds the step that `analysis` names and resolves its run, as it would be if that of `id` had ended well. Mistakes are said with the
 * place of the name, or of the step's declaration. */
int post_resolve(const struct config *config, const struct analysis *analysis, const char *id,
		 enum activation_how how, struct post *ret, struct err *err);
/* For the keeper of the run `id`: `p` is used until that ends. */
void post_after(const struct config *config, const struct analysis *analysis, const char *id,
		struct post *p, struct keeper_after *ret);
/* For `cupel plan`. Owned by the caller. */
json_t *post_json(const struct post *p);
/* The id of the step's run. */
void post_id(const char *parent_id, char ret[ID_MAX + 1]);

/* post_database.c: what the box of the step is given of the database, and as whom it runs. */
int post_database(struct post *p, struct err *err);

/* resolve.c */
int run_resolve_granted(const struct config *config, struct analysis *analysis,
			enum activation_how how, const struct plan_grant *grant,
			struct resolved *ret, struct err *err);
