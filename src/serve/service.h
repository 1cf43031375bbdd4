/* The service as its doors see it: what waits, what runs, and what may be done about it. All of it is called by the thread of the loop.
 *
 * A submission is durable in the ledger before it is answered. What is started is a run as any other: its keeper outlives the service, and
 * the next service finds it by its record. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/json.h"
#include "serve/event.h"
#include "serve/identity.h"
#include "serve/waits.h"
#include "spec/config.h"
#include "spec/id.h"

#define SERVICE_KEY_MAX 200 /* bytes of an idempotency key */

struct service;

/* Reads the queue, adopts what runs, and begins to start what fits; all that as soon as the ledger is there, and without waiting for it.
 * `config` is borrowed; starter_fd, of starter_fork, is taken. */
int service_open(sd_event *event, const struct config *config, int starter_fd, struct service **ret,
		 struct err *err);
void service_free(struct service *s);
static inline void service_freep(struct service **s)
{
	service_free(*s);
	*s = NULL;
}

/* Nothing is accepted or started from here on; `done` is called once nothing is left to be written, and, if `wait`, once nothing runs. */
void service_drain(struct service *s, bool wait, void (*done)(void *data), void *data);
bool service_is_draining(const struct service *s);

struct submit_request {
	const struct identity *who;
	json_t *analysis;    /* borrowed; the keys of an analysis file, paths absolute */
	const char *id;      /* or NULL: one is made */
	int priority;        /* -100 .. 100; above 0 is for SCOPE_ADMIN */
	json_t *retries;     /* borrowed or NULL; as in a step */
	uint64_t not_before; /* unix nanoseconds; 0: at once */
	const char *key;     /* or NULL: Idempotency-Key */
	const char *
		rerun_of; /* or NULL: the run whose record is run again; `analysis` is what is shown */
	bool is_anyway;        /* that one, whatever of it has changed */
	const char *resume;    /* or NULL: the pipeline that is gone on with; `analysis` the same */
	char sha256[HASH_HEX]; /* of the body: the same key with another body is a conflict */
};
struct submit_answer {
	char id[ID_MAX + 1];
	bool is_new; /* false: the key was there, with this body */
	int error; /* 0, or: EEXIST id or key taken by another, EAGAIN the database can't be reached, ESTALE what is run again has changed, else as refused at once or the host's */
	struct err err;
};
typedef void submit_done(void *data, const struct submit_answer *answer);
/* Negative errno with the text: refused at once, and `done` is not called. -EPERM the scope is missing, -EDQUOT the submitter has too much
 * waiting, -ESHUTDOWN draining, -EEXIST the id is taken, -EBUSY it waits or runs already, -EAGAIN the ledger was never reached yet, -EINVAL and any other what is asked can't be
 * done here. Otherwise `done` is called once, when it is durable or failed. */
int service_submit(struct service *s, const struct submit_request *q, submit_done *done, void *data,
		   struct err *err);
/* Whoever has asked does not want to know any more. */
void service_forget(struct service *s, void *data);

/* -ESRCH nothing of that id waits or runs, -EPERM it is another's, -EAGAIN the ledger can't be reached; `done` is not called then. Otherwise
 * it is called once: with 0 when it is durable that this never begins, or ends. Whatever becomes of the service then. */
typedef void cancel_done(void *data, const char *id, int error, const struct err *err);
int service_cancel(struct service *s, const struct identity *who, const char *id, cancel_done *done,
		   void *data, struct err *err);

/* The file that a pipeline is, read and checked with the rights of `who`, is copied to `path`, which is ours, when its turn has come. `done` is
 * called once, with 0 or an errno as of service_submit; it may be before this returns. */
struct copy_request {
	const struct identity *who;
	json_t *analysis; /* borrowed; {"file", "parameters"} */
	const char *path;
};
/* Is what is said of a pipeline that is a file what can be said of one? -EINVAL (caller). */
int submission_check_file(const json_t *analysis, struct err *err);
typedef void copy_done(void *data, int error, const struct err *err);
void service_copy(struct service *s, const struct copy_request *q, copy_done *done, void *data);

/* Each returned value is owned by the caller. Rows and queue may be shared with others who asked, in other threads: they are not to be changed. */
/* What only the service knows of a run: {"state","submitter","priority","submitted","attempt","attempts","pending","spark","not_before","kind"}; NULL if
 * it knows nothing. Waiting and running ones only need memory; ended ones are asked of the ledger by serve/rows.h. */
json_t *service_run(const struct service *s, const char *id);
/* Rows of what waits and of what runs, in the order in which they are expected to start or did start: see ROW of the API. */
json_t *service_rows(struct service *s);
/* Whose that is which waits or runs under this id, borrowed until the next event; NULL if nothing does. A resumed pipeline is its record's. */
const char *service_submitter_of(const struct service *s, const char *id);
/* GET /v1/queue, for those who see everything */
json_t *service_queue(struct service *s);
/* For /metrics and pages. */
struct service_use {
	uint64_t waiting, running, submitted, started, ended, retried, refused;
	struct waits waits; /* until the first attempt was started */
	struct {
		uint64_t hit, miss, unusable;
	} lookups; /* of results that pipelines might use again */
	uint64_t memory_used, memory_cap, cpus_used, cpus_cap, pids_used,
		pids_cap; /* cpus in thousandths */
};
/* The share of a viewer; the caps are everybody's. */
void service_use(const struct service *s, const struct viewer *viewer, struct service_use *ret);

/* Every change of a state, as it happens. */
struct service_change {
	const char *id, *state, *cause; /* cause: NULL as long as there is none */
	const char *submitter;          /* NULL: none */
	const char *what; /* "submitted", "started", "ended", "cancelled", "retried", "refused" */
};
typedef void service_news(void *data, const struct service_change *change);
void service_watch(struct service *s, service_news *news, void *data);
