/* What the files of this folder share. */
#pragma once

#include <sys/types.h>

#include "conform/conform.h"

struct conform {
	const char *name;     /* of the executor */
	struct config config; /* the caller's, but in a home of our own; borrows */
	struct executor *x;   /* owned; NULL: a keeper on this host carries runs out */
	struct capability can;
	const struct strv *without; /* borrowed; layers that runs are allowed to miss */
	char *top;       /* owned; a directory of our own: what is asked for, inputs, and */
	char *home;      /* owned; the home in it */
	char *self;      /* owned; this program */
	struct strv ids; /* of all runs that were made */
	int signal_fd;   /* owned; who asks us to end */
	bool is_interrupted;
};

/* Nothing of the user's but how the host is set up, in the home that is given. Borrows. */
void conform_config(const struct config *from, char *home, struct config *ret);

/* The first failure is the one that counts. Each returns false. */
bool outcome_fail(struct outcome *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool outcome_skip(struct outcome *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What is said of one that passed. */
void outcome_remark(struct outcome *o, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* A run, and the process that follows it. */
struct attempt {
	char *id;        /* owned */
	json_t *asked;   /* owned; the analysis, as its file has it */
	pid_t pid;       /* 0: it is over, or killed */
	int fd;          /* owned */
	int status;      /* of the process, as from waitpid */
	json_t *verdict; /* owned or NULL */
};
#define ATTEMPT_INIT                                                                               \
	{                                                                                          \
		.fd = -1                                                                           \
	}
void attempt_release(struct attempt *t);
#define CLEANUP_ATTEMPT CLEANUP(attempt_release)

/* An analysis of a script for sh(1), with limits that suffice for any of them. */
json_t *shell_analysis(const char *script);
/* limits: {KEY: TEXT} */
void set_limit(json_t *analysis, const char *key, const char *text);

/* Starts it; takes `analysis`. False: o says why. */
bool attempt_begin(struct conform *c, json_t *analysis, struct attempt *t, struct outcome *o);
/* The same under an id that is taken. */
bool attempt_begin_as(struct conform *c, json_t *analysis, const char *id, struct attempt *t,
		      struct outcome *o);
/* Until `met` says so. False if it does not in time, or somebody wants us to end; o says so. */
typedef bool attempt_condition(struct conform *c, struct attempt *t);
bool attempt_until(struct conform *c, struct attempt *t, attempt_condition *met, const char *what,
		   struct outcome *o);
attempt_condition attempt_is_submitted, attempt_is_started, attempt_has_ended_there,
	attempt_has_verdict, attempt_is_followed_to_its_end, attempt_has_printed;
/* Until its process has ended; its verdict is then in t->verdict if there is one. */
bool attempt_end(struct conform *c, struct attempt *t, struct outcome *o);
/* All of it, and the cause is this one. */
bool attempt_run(struct conform *c, json_t *analysis, struct attempt *t, const char *cause,
		 struct outcome *o);
bool attempt_cause_is(const struct attempt *t, const char *cause, struct outcome *o);
/* Its number there, -1 if it has none. */
long attempt_number(const struct attempt *t, const char *key);
/* The keeper that holds the run now; false if there is none. */
bool attempt_keeper(const struct conform *c, const struct attempt *t, pid_t *ret);
/* A file of its run directory; owned by the caller, NULL if it has none. */
char *attempt_file(const struct conform *c, const struct attempt *t, const char *name,
		   size_t *ret_length);
json_t *attempt_json(const struct conform *c, const struct attempt *t, const char *name);
/* The log is this text and nothing else. */
bool attempt_log_is(struct conform *c, struct attempt *t, const char *name, const char *text,
		    struct outcome *o);
/* It has this output, with this content: size and digest of the manifest, and the bytes themselves. */
bool attempt_output_is(struct conform *c, struct attempt *t, const char *path, const char *bytes,
		       size_t length, struct outcome *o);
size_t attempt_output_count(const struct conform *c, const struct attempt *t);
/* What its process said, for messages; one line. */
char *attempt_said(const struct conform *c, const struct attempt *t);
/* Two lines and an output, with time between them for what is to be done to whoever attends it. */
json_t *two_lines(const char *seconds);
/* It ended, and all of that came. */
bool attempt_is_whole(struct conform *c, struct attempt *t, struct outcome *o);
/* Its record has an event of that name. */
bool attempt_has_event(const struct conform *c, const struct attempt *t, const char *name);
/* The first thing that is left of a run, here or there; owned by the caller, NULL: nothing. */
char *conform_left(struct conform *c, const char *id);
/* Waits until nothing is; false if something stays, which o says. */
bool conform_until_gone(struct conform *c, const char *id, struct outcome *o);
/* A moment, or until somebody wants us to end: then false. */
bool conform_pause(struct conform *c);

typedef void conform_case(struct conform *c, struct outcome *o);
/* cases_end.c: how runs end. */
conform_case case_success, case_exit, case_signal, case_oom, case_deadline, case_pids, case_disk,
	case_cancel, case_cancel_queued, case_follower_killed;
/* cases_data.c: what goes in and comes out. */
conform_case case_logs, case_large, case_many, case_missing, case_bytes, case_inputs, case_network,
	case_powers;
/* cases_away.c: what happens when the executor can't be reached. */
conform_case case_away_start, case_away_running, case_away_cancel, case_away_left;
/* cases_keeper.c: what happens when the one who attends dies; and nothing happens twice. */
conform_case case_killed_submitted, case_killed_running, case_killed_ended, case_submit_twice,
	case_same_id, case_refusal, case_left;
