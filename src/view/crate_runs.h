/* The files and runs of a pipeline's crate: private to crate_pipeline.c and crate_runs.c. */
#pragma once

#include "view/crate_parts.h"
#include "view/pipeline_dossier.h"

struct crate_runs {
	const struct config *config;
	const struct pipeline_dossier *p;
	struct crate_files *files; /* borrowed */
	struct crate c;
	struct crate_step step;
	json_t *made;        /* owned; SHA-256 -> @id of outputs */
	json_t *ranges;      /* owned; id of a run -> [first, behind the last] of its files */
	json_t *outs, *used; /* owned; as of struct crate_step */
	json_t *taken;       /* owned; path in the crate -> SHA-256, of code and inputs */
	json_t *controls;    /* owned; references of ControlActions */
	json_t *workflow;    /* borrowed */
	json_t *run;         /* borrowed; of the workflow */
	char *runs;          /* owned; HOME/runs as inputs name it */
	char *version;       /* owned or NULL; of the cupel that ran the first of them */
};
void crate_runs_release(struct crate_runs *b);
#define CLEANUP_CRATE_RUNS CLEANUP(crate_runs_release)

/* An empty graph, owned by the caller. */
json_t *crate_runs_begin(struct crate_runs *b);
/* The files of the pipeline's own record. */
int crate_runs_record(struct crate_runs *b, struct err *err);
/* The analysis file among the files of the crate, NULL if it is not what was run any more. Borrowed until the next file is added. */
const struct crate_file *crate_runs_workflow(struct crate_runs *b, const char *file,
					     const char *sha256);
/* A run of b->step with its files. One whose record is gone is named all the same. */
int crate_runs_add(struct crate_runs *b, const struct dossier_task *t, const char *run,
		   const char *action, struct err *err);
