/* Between the files of pid 1, which is a program of its own. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "box/plan.h"

#define PID1_RULES_MAX  64
#define PID1_LIMITS_MAX 8
#define PID1_END_ALL                                                                               \
	64 /* SIGRTMAX of the kernel: ends everything, with a status as of any other end */

/* What it was told beside the analysis itself. All borrowed from the command line. */
struct orders {
	const char *status; /* path */
	const char *gate;   /* a FIFO: nothing starts before a byte comes; NULL: at once */
	const char *env;    /* a file: the environment, each variable ended by NUL; NULL: its own */
	const char *logs[2]; /* files that get what the analysis prints; NULL: it prints to ours */
	uint64_t log_max;    /* bytes of each; the rest is counted and dropped */
	struct rule rules[PID1_RULES_MAX];
	size_t n_rules;
	bool filter;                                /* load the system call filter */
	struct plan_rlimit limits[PID1_LIMITS_MAX]; /* of the analysis alone */
	size_t n_limits;
};

/* pid1_confine.c: for itself and all that it starts, for ever. Negative errno. */
int confine(const struct orders *o, int *ret_abi);

/* pid1_pump.c: what the analysis prints, into files. */
struct pump {
	int pipe_fd; /* -1 at its end */
	int file_fd;
	uint64_t kept_bytes, all_bytes, max_bytes;
	int error; /* errno of the write that failed: nothing is kept from there on */
};
/* *ret_write_fd is for the analysis. Negative errno. */
int pump_open(struct pump *p, const char *path, uint64_t max_bytes, int *ret_write_fd);
/* Some of what is there; closes the pipe at its end. */
void pump_some(struct pump *p);
/* All that is left. What was dropped, but for what is beyond a GiB, stands in the file as a hole, so that whoever reads on counts it;
 * but not what could not be written, which is no more than lost. */
void pump_end(struct pump *p);

/* pid1_counters.c: what the kernel counted for the container, from the inside, to its last moment: from the outside the group is gone
 * by the time one looks. Each is a line of the status. */
#define COUNTERS_MAX 8
struct counters {
	int fds[COUNTERS_MAX]; /* -1: there is no such file */
};
void counters_open(struct counters *c);
void counters_note(const struct counters *c, int status_fd);

/* pid1.c: a line of the status; a negative number is left out. */
void note(int status_fd, const char *what, int64_t number);
