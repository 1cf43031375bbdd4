/* A run that is carried out elsewhere, between the files that tell its story: attend.c, attend_job.c, attend_watch.c, attend_taken.c. */
#pragma once

#include "executor/executor.h"
#include "keeper/state.h"

#define ATTEND_FILE "executor.json" /* in the run directory: what another keeper needs to go on */

/* How far it has come; what is in ATTEND_FILE is durable before the next begins. */
enum attend_phase {
	ATTEND_SUBMITTING, /* a job of that name may be there */
	ATTEND_SUBMITTED,  /* its handle is known */
	ATTEND_REAPED,     /* nothing of it is left there */
};
extern const char *const attend_phase_names[];

struct attendance {
	struct keeper_state *s;
	struct executor *x; /* owned */
	struct capability capability;
	enum attend_phase phase;
	char *name;          /* owned; of the job */
	char *stage;         /* owned; the executor's own directory for it */
	json_t *handle;      /* owned or NULL */
	bool is_running;     /* was seen to run */
	bool is_over;        /* nothing of it is alive */
	bool gave_up;        /* it may be alive, but nobody can say */
	uint64_t killing_ns; /* since when it is to be dead; 0: not yet */
	char stop_by[120];   /* who asked the keeper before us for its end */
	unsigned restarts;
	uint64_t offsets[2];      /* of its two streams, as the executor counts them */
	int log_errors[2];        /* of the last question for each; 0: it was answered */
	uint64_t unreachable_ns;  /* since when; 0: it answers */
	struct job_report report; /* the last one */
	struct verdict given;     /* JUDGING_THERE: of the node's own keeper, a failure */
};

/* attend_job.c: from the claim to a job that is submitted, or found again. */
int attend_open(struct attendance *t, struct err *err);
int attend_submit(struct attendance *t, struct err *err);
/* What keeps us from it now may be over in a moment; whoever asked may not want to wait: negative then, or when the time is up. */
int attend_try_again(struct attendance *t, uint64_t until_ns);
int attend_find(struct attendance *t, struct err *err);
/* What the keeper before us noted, and what we do for the next. */
int attend_read(struct attendance *t, struct err *err);
int attend_write(const struct attendance *t, struct err *err);
struct job attend_job(const struct attendance *t);
/* The job is removed where it was, and what was written for it here. */
int attend_reap(struct attendance *t, struct err *err);

/* attend_watch.c: until it is over. */
void attend_watch(struct attendance *t);

/* attend_taken.c: what the node's keeper recorded becomes ours: logs, receipt, outputs, verdict. */
void attend_take(struct attendance *t);
