/* What is recorded of a pipeline: HOME/pipelines/ID. pipeline.json says what was asked, pipeline.yaml is the file as it was then, steps.jsonl grows by a line for whatever happens to a
 * task, result.json is written last. The runs of the steps are recorded where all runs are; this says how they belong together. Whom it is for, and how
 * it ended, is in begun.json and ended.json too, each before the larger file: few bytes, for a service that is not to read long.
 *
 * Whoever runs the pipeline holds a POSIX lock on `lock`, which ends with the process. HOME/pipelines/.files/DIGEST names the last pipeline
 * of a file, so that the next one knows what came before. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"
#include "flow/flow.h"
#include "spec/id.h"
#include "spec/viewer.h"

#define FLOW_PIPELINES "pipelines"
#define FLOW_BEGUN                                                                                 \
	"begun.json" /* {"submitter": UID:GID or null, "submitter_name": TEXT or null, "submission": ID or null} */
#define FLOW_ENDED     "ended.json" /* {"state", "cause", "exit_status", "lookups"} */
#define FLOW_SMALL_MAX ((size_t)64 << 10)
#define FLOW_LOG_MAX   ((size_t)512 << 20) /* of a steps.jsonl */

struct flow_record {
	char id[ID_MAX + 1];
	char previous[ID_MAX + 1]; /* of the same file; "": none */
	int dir_fd;                /* owned */
	int lock_fd;               /* owned */
	int log_fd;                /* owned */
	struct str pending;        /* lines not yet written */
};
#define FLOW_RECORD_INIT                                                                           \
	{                                                                                          \
		.dir_fd = -1, .lock_fd = -1, .log_fd = -1                                          \
	}
void flow_record_release(struct flow_record *r);
#define CLEANUP_FLOW_RECORD CLEANUP(flow_record_release)

/* A new record; the flow's own id, or one that is made. -EEXIST (caller) if there is one of that id. */
int flow_record_new(const struct config *c, const struct flow *f, struct flow_record *ret,
		    struct err *err);
/* One that did not end, or not well, to go on with. -EBUSY (caller) if somebody is at it, -ENOENT (caller) if there is none. */
int flow_record_resume(const struct config *c, const char *id, struct flow_record *ret,
		       struct err *err);
/* Takes `line`; its time is added. */
void flow_record_add(struct flow_record *r, json_t *line);
/* The line of a task whose result is used again, of which there may be many thousand. The shard may be NULL; the others are names, which have no
 * character that JSON would have to escape. */
void flow_record_reused(struct flow_record *r, const char *step, const char *shard, const char *key,
			const char *run);
/* What was added is in the file: it survives us, though not a power cut. */
int flow_record_flush(struct flow_record *r, struct err *err);
/* Does a step of it have a variable whose value is never recorded? */
bool flow_has_secrets(const struct flow *f);
/* The keyed digest of its file, which the record has in place of a SHA-256 if there are secret values in it. */
int flow_record_digest(const struct config *c, const struct flow *f, char ret_hex[HASH_HEX],
		       struct err *err);
#define FLOW_SUBMITTED "submissions" /* in the home: the text of pipelines that a service runs */
/* Removes a service's own copy of a file with secret values. Without it the pipeline can't be resumed; submitted again, it reuses the
 * steps that are finished. */
void flow_record_drop_copy(const struct config *c, const struct flow *f);
int flow_record_end(struct flow_record *r, const json_t *result, struct err *err);

/* The last pipeline of this file, without making one; "" if there is none. */
void flow_record_last(const struct config *c, const struct flow *f, char ret[ID_MAX + 1]);
/* pipeline.json or result.json of a pipeline, -ENOENT (caller) if there is no such pipeline or it has none yet. */
int flow_record_read(const struct config *c, const char *id, const char *name, json_t **ret,
		     struct err *err);
/* Each line of its steps.jsonl; a line that a crash cut is passed over. Stops when `each` returns false. */
int flow_record_lines(const struct config *c, const char *id,
		      bool (*each)(void *data, json_t *line), void *data, struct err *err);
bool flow_record_exists(const struct config *c, const char *id);
/* The name of its submitter, "" if it has none. -ENOENT if there is no such pipeline. */
int flow_record_submitter(const struct config *c, const char *id, char ret[VIEWER_NAME_MAX + 1]);
/* Whether whom this process acts for may see it. */
bool flow_record_is_visible(const struct config *c, const char *id);
/* It has a result, which is written whole or not at all, and may be long. */
bool flow_record_is_over(const struct config *c, const char *id);
/* Who runs it now: 0 nobody, -1 somebody of another pid namespace. */
pid_t flow_record_holder(const struct config *c, const char *id);
/* Somebody runs it now. */
bool flow_record_alive(const struct config *c, const char *id);
