/* The small process that starts runs. It is forked before the service opens anything, so that its forks stay cheap and no thread holds a lock
 * across them; it ends when the service does. What it starts is apart from both.
 *
 * Each request comes with one end of a SOCK_SEQPACKET pair. Over the other end the service sends what is to be started, as JSON in a memfd,
 * and hears struct starter_said, then struct keeper_msg, until the process at that end is gone. */
#pragma once

#include "base/err.h"
#include "base/json.h"
#include "keeper/keeper.h"
#include "spec/config.h"
#include "spec/id.h"
#include "spec/limits.h"

enum starter_kind {
	/* {"submission","run","submitter","uid","gid","admin","analysis","limits"}; again: "rerun_of", "anyway" */
	STARTER_RUN,
	STARTER_PIPELINE, /* the same, without limits, with "given"; to go on with `run`: "resume" */
	/* Either of them, which is not started: says what it needs, or why not. The text of a pipeline is written to "copy_to". */
	STARTER_LOOK,
	STARTER_SWEEP,   /* records what died; nothing is sent */
	STARTER_DELIVER, /* enters what is complete into the ledger; the same */
	STARTER_CHECK,   /* {"runtime"}: `cupel runtime check` */
};

/* It will be started with these. Of a pipeline: what its largest step needs, and what could run side by side. */
struct starter_said {
	uint64_t limits[LIMIT_COUNT_], wide[LIMIT_COUNT_];
	char runtime[ID_MAX + 1]; /* the one that was chosen */
};

/* Returns the service's end of the starter's socket. Of what is open the starter keeps the standard streams and lock_fd, until a run is recorded:
 * who can lock that knows that nothing is being started. `config` is copied. */
int starter_fork(struct config *config, int lock_fd, struct err *err);
/* Returns our end of the report socket. `what` is borrowed. -EAGAIN if the starter has too much to do already. */
int starter_ask(int starter_fd, enum starter_kind kind, const json_t *what, struct err *err);

/* Reads an analysis that was sent as JSON with the keys of an analysis file. `origin` is for messages. */
int starter_analysis(const json_t *sent, struct analysis *ret, struct err *err);
/* Who has submitted it, and whether what it asks for beside files and limits is his to ask for: -EPERM (caller). */
struct starter_who {
	const char *name; /* borrowed */
	uid_t uid;
	bool is_admin; /* had the scope */
};
int starter_rights(const struct config *c, const struct starter_who *who, const struct analysis *a,
		   struct err *err);
int starter_no_layer(const char *layer, struct err *err); /* its words for allow_missing */
/* Words for `cupel run` or `cupel plan`: -p NAME=VALUE. */
void starter_parameters(const json_t *parameters, struct strv *words);
/* Where the text of a pipeline is kept that was submitted under this id, and beside it what it said on standard error; owned. */
char *starter_pipeline_file(const struct config *c, const char *id);
char *starter_pipeline_errors(const struct config *c, const char *id);
