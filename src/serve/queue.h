/* What waits and what runs, in memory: by id, by submitter, by quest. The ledger has the same, and is what counts. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "flow/retry.h"
#include "serve/event.h"
#include "serve/queue_store.h"
#include "serve/schedule.h"
#include "serve/service.h"
#include "spec/id.h"

#define SPARK_MAX 30

enum submission_kind { SUBMISSION_RUN_KIND, SUBMISSION_PIPELINE_KIND };
enum submission_state {
	SUBMISSION_ENTERING, /* not durable yet */
	SUBMISSION_WAITING,
	SUBMISSION_RUNNING,
};

struct submission {
	struct schedule_job job;
	struct submission *next; /* in the table */
	size_t at;               /* in the list of its state */
	struct service *service; /* borrowed */
	char id[ID_MAX + 1];
	char run[ID_MAX + 1]; /* the id of this attempt */
	enum submission_kind kind;
	enum submission_state state;
	uid_t uid;
	gid_t gid;
	char *analysis;               /* owned; JSON, without the values of secret variables */
	char *secrets;                /* owned or NULL; JSON, those values */
	char body[HASH_HEX];          /* the digest of the request, until it is entered */
	char *retries;                /* owned or NULL; JSON */
	char *name, *quest, *runtime; /* owned or NULL; the runtime as it was asked for */
	char *chosen;                 /* owned or NULL; the runtime of this attempt */
	uint64_t submitted_real_ns;
	uint64_t started_real_ns; /* of the first attempt; 0: none */
	unsigned attempt;         /* from 1 */
	struct submission_ran ran;
	struct flow_tries tries;
	bool has_grown[LIMIT_COUNT_]; /* limits of tries that go over those of the analysis */
	bool is_cancelled;
	bool is_admin;     /* its submitter had that scope */
	bool is_elsewhere; /* its executor takes nothing of this host's but a keeper */
	bool has_post;     /* its outputs are given to a step; known while it is entered */
	bool is_resume;    /* of the pipeline `run`, which others know it by */
	bool wants_look;   /* before it is entered */
	char *key;         /* owned or NULL; idempotency key */
	struct err *unfit; /* owned or NULL; why it is not entered, unless its key made it before */
	char *rerun_of;    /* owned or NULL; the run that is run again */
	bool is_anyway;    /* that one again, whatever has changed */
	bool is_swept;     /* the starter was asked to record its death */
	unsigned false_starts; /* it was never recorded */
	int report_fd;         /* owned; -1: it was adopted */
	sd_event_source *report;
	int pid_fd; /* owned; of an adopted one */
	sd_event_source *gone;
	/* Two timers that may run side by side: a cancel must not end the wait for the next look. */
	sd_event_source *recheck; /* look again at what there is of it */
	sd_event_source *nudge;   /* ask again whoever has it to end */
	uint64_t memory_limit_bytes, memory_bytes, cpu_usec;
	uint8_t spark[SPARK_MAX]; /* memory of its limit, in 255ths */
	size_t n_spark;
	submit_done *done; /* whoever waits for it to be durable; or NULL */
	void *done_data;
};
void submission_free(struct submission *s);
static inline void submission_freep(struct submission **s)
{
	submission_free(*s);
	*s = NULL;
}
#define CLEANUP_SUBMISSION __attribute__((cleanup(submission_freep)))

/* submission.c: what was asked, checked; -errno as service_submit. */
int submission_make(const struct config *c, const uint64_t cap[SCHEDULE_RESOURCES_],
		    const struct submit_request *q, struct submission **ret, struct err *err);
/* What it needs, of its limits; cpus are never more than there are. One that is elsewhere needs what its keeper does. */
void submission_need(struct submission *s, const uint64_t limits[LIMIT_COUNT_],
		     const uint64_t cap[SCHEDULE_RESOURCES_]);
/* Within the caps of all runs together, or it would wait for ever; -EINVAL (caller). */
int submission_fits(const struct submission *s, const uint64_t cap[SCHEDULE_RESOURCES_],
		    struct err *err);
/* The id that others know it by; borrowed. */
const char *submission_shown(const struct submission *s);
/* It runs in this; "" is not known. */
void submission_chose(struct submission *s, const char *runtime);
/* submission_row.c: as the ledger has it, and back. `state` is the ledger's word. Owned by the caller. */
struct submission_end {
	const char *state, *cause, *note;
	uint64_t ended_real_ns;
};
void submission_row(const struct submission *s, const char *submitter,
		    const struct submission_end *end, struct store_row *ret);
int submission_from_row(const struct config *c, const uint64_t cap[SCHEDULE_RESOURCES_],
			const struct store_row *row, struct submission **ret, struct err *err);
/* submission_secrets.c: sets analysis, secrets and, if there are any, a keyed digest as body. */
int submission_hide(const struct config *c, const json_t *analysis, struct submission *s,
		    struct err *err);
/* The analysis with all its values; owned by the caller. */
json_t *submission_analysis(const struct submission *s);
/* The file with the values: before it is entered, for the next service, and when it is over. */
int submission_keep_secrets(const struct config *c, const struct submission *s, struct err *err);
void submission_find_secrets(const struct config *c, struct submission *s);
void submission_drop_secrets(const struct config *c, const struct submission *s);
struct queue;
/* Removes files that belong to none of the queue. */
void submission_sweep_secrets(const struct config *c, const struct queue *q);
/* The next attempt, and its id: ID.2, ID.3..., or another if that is taken. */
void submission_next(const struct config *c, struct submission *s);

struct submission_list {
	struct submission **v; /* owned; what is in it is the table's */
	size_t n, room;
};

struct queue {
	struct submission **buckets; /* owned, with all that is in it */
	size_t n_buckets, n;
	struct submission_list entering, waiting, running;
	struct share *submitters; /* owned; the next two go with it, place by place */
	char **submitter_names;   /* owned */
	struct submitter_load {
		size_t waiting; /* with those that are being entered */
		size_t bytes;   /* of their analyses */
		size_t looking; /* processes that look at something of his */
		struct service_use
			counts; /* what was since the service began; what is, is made from the queue */
	} * loads;              /* owned */
	size_t n_submitters;
	struct share *quests; /* owned */
	struct quest {
		char *name; /* owned or NULL: the place is free */
		size_t submitter, users;
	} * quest_names; /* owned */
	size_t n_quests;
	size_t n_resumes;
	uint64_t used[SCHEDULE_RESOURCES_];
};
void queue_release(struct queue *q);
/* One that is being entered only if there is no other, and never one that is unfit: that is nothing but a question to the ledger. */
struct submission *queue_find(const struct queue *q, const char *id);
/* By what others know it by. */
struct submission *queue_find_shown(const struct queue *q, const char *id);
/* The place of a submitter, made if need be. */
size_t queue_submitter(struct queue *q, const struct config *c, const char *name);
/* Takes it, as one that is being entered. */
void queue_add(struct queue *q, struct submission *s, size_t submitter, uint64_t now_ns);
void queue_wait(struct queue *q, struct submission *s);
/* From those that wait to those that run, and what it needs is used. */
void queue_begin(struct queue *q, struct submission *s, uint64_t now_ns);
/* The other way round. */
void queue_end(struct queue *q, struct submission *s, uint64_t now_ns);
/* It has turned out what it needs. */
void queue_adjust(struct queue *q, struct submission *s, const uint64_t limits[LIMIT_COUNT_],
		  const uint64_t cap[SCHEDULE_RESOURCES_], uint64_t now_ns);
/* Frees it, wherever it is. */
void queue_drop(struct queue *q, struct submission *s, uint64_t now_ns);
