/* Shared by the files of the service itself; its doors see service.h only. */
#pragma once

#include "serve/queue.h"
#include "serve/service.h"

struct watcher {
	service_news *news;
	void *data;
};

/* What was made for one who asked, for those who ask soon after: with many waiting it takes the loop long. */
struct service_shown {
	json_t *value;             /* owned or NULL */
	uint64_t made_ns, took_ns; /* monotonic */
};

/* Somebody waits for it to be durable that a submission is cancelled. */
struct cancelling {
	char id[ID_MAX + 1];
	cancel_done *done; /* or NULL: nobody any more */
	void *done_data;
	struct cancelling *next;
};

/* Somebody waits for the copy of a file. */
struct copying {
	struct service *service; /* borrowed */
	uint64_t n;              /* its turn, among the submissions */
	size_t submitter;
	json_t *sent;  /* owned or NULL: it was asked for */
	int report_fd; /* owned */
	sd_event_source *report;
	copy_done *done; /* or NULL: nobody any more */
	void *done_data;
	struct copying *next;
};
void copying_free(struct copying *c);

struct service {
	sd_event *event;             /* borrowed */
	const struct config *config; /* borrowed */
	int starter_fd;              /* owned */
	struct store *store;         /* owned */
	struct queue queue;
	uint64_t cap[SCHEDULE_RESOURCES_];
	uint64_t last_n; /* the number of the last that came */
	bool is_loaded;  /* what the ledger had is known */
	struct strv
		doubtful; /* ids whose entry failed: a commit may have come through without its answer */
	sd_event_source *starter_gone;
	sd_event_source *pass;    /* something has changed: see what fits */
	sd_event_source *timer;   /* the same at a time */
	sd_event_source *deliver; /* runs are complete: have them entered */
	sd_event_source *check;   /* a runtime may be due */
	sd_event_source *checking;
	int checking_fd;    /* owned; -1: no runtime is being checked */
	struct pairs tried; /* runtimes that were, by us: when */
	bool is_draining, waits_for_runs;
	void (*drained)(void *data);
	void *drained_data;
	sd_event_source *drain_limit;
	size_t n_looking;              /* looked at: of those that are being entered, and copies */
	struct cancelling *cancelling; /* owned, with all that follow */
	struct copying *copying;       /* the same */
	struct watcher *watchers;      /* owned */
	size_t n_watchers;
	struct service_shown rows, waiting;
};

/* service.c */
const char *service_submitter(const struct service *s, const struct submission *sub);
/* Is there nothing left to wait for? */
void service_check_drained(struct service *s);
/* Something may fit now. */
void service_poke(struct service *s);
void service_tell(struct service *s, const struct service_change *change);
/* What was since we began, of the submitter of this one. */
struct service_use *service_counts(struct service *s, const struct submission *sub);
/* Writes where it is. */
void service_note(struct service *s, const struct submission *sub,
		  const struct submission_end *end);
/* It is over: writes it, tells it, forgets it. */
void service_over(struct service *s, struct submission *sub, const char *state, const char *cause,
		  const char *note);
/* The same for one that never began; `tag` as of store_settle. */
void service_withdraw(struct service *s, struct submission *sub, void *tag);

/* doors.c: what became of an entry, and of a change that somebody waits for; see serve/queue_store.h. */
void door_entered(void *data, void *tag, const struct store_entered *what);
void door_settled(void *data, void *tag, int result, const struct err *err);

/* look.c has looked at it: it is entered, or, negative errno with the text, refused. */
void door_looked(struct service *s, struct submission *sub, int result, const struct err *err);
/* names.c: is its id one that another's may come to? -EEXIST (caller). */
int names_check(const struct service *s, const struct submission *sub, size_t submitter,
		struct err *err);
/* look.c: some of those that want it, copies among them. */
void look_next(struct service *s);
/* One of this submitter is over. */
void look_ended(struct service *s, size_t submitter);
/* copy.c: its turn has come; -errno: it is over, and freed. */
int copy_begin(struct copying *c);

/* follow.c: what the starter is sent; owned by the caller. */
json_t *follow_request(const struct service *s, const struct submission *sub);
/* One that waits is started; -EAGAIN if it must be tried again. */
int follow_start(struct service *s, struct submission *sub, struct err *err);
/* One that runs is asked to end. */
void follow_cancel(struct submission *sub);
/* adopt.c: what there is of it: taken over if it runs, taken up if it has ended, recorded if it died. 0 if there is nothing of it. */
int adopt_look(struct service *s, struct submission *sub);
/* Its attempt has ended: again, or over. */
void adopt_ended(struct service *s, struct submission *sub, const char *cause);
/* Nobody is at the other end any more, and it did not say how it ended: what there is of it tells. */
void adopt_silent(struct service *s, struct submission *sub);
/* Is the record under its run's id one that it made? */
bool adopt_is_own(const struct service *s, const struct submission *sub);
/* The process that has it, by its lock; 0: none. */
pid_t adopt_holder(const struct service *s, const struct submission *sub);

/* checks.c */
int checks_open(struct service *s);
void checks_close(struct service *s);
