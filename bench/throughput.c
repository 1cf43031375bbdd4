/* Full runs from one process through the library: resolve, start, follow by poll, finish; JOBS at a time. Prints one line of JSON.
 * usage: throughput [-n RUNS] [-s SECONDS] [-j JOBS] [--] COMMAND [ARG]...     (CUPEL_HOME names the home, as for cupel) */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "run/run.h"

#define JOBS_MAX 256

struct load {
	struct config config;
	struct analysis analysis;
	uint64_t runs, seconds, jobs; /* runs 0: until the seconds are over */
	uint64_t started, finished;
	uint64_t began_ns;
	struct running slots[JOBS_MAX]; /* fd -1: free */
};

static void load_release(struct load *l)
{
	for (size_t i = 0; i < l->jobs; i++)
		running_release(&l->slots[i]);
	analysis_release(&l->analysis);
	config_release(&l->config);
}

static bool wants_more(const struct load *l)
{
	if (l->runs)
		return l->started < l->runs;
	return clock_monotonic_ns() - l->began_ns < l->seconds * NS_PER_SEC;
}

static int start_one(struct load *l, struct running *slot, struct err *err)
{
	CLEANUP_RESOLVED struct resolved resolved = { 0 };
	int r = run_resolve(&l->config, &l->analysis, &resolved, err);
	if (r >= 0)
		r = run_start(&l->config, &l->analysis, &resolved, slot, err);
	l->started += r >= 0;
	return r;
}

/* Every run must succeed: a rate of failures would be no rate of runs. */
static int finish_one(struct load *l, struct running *slot, struct err *err)
{
	int status = 0;
	int r = run_finish(slot, &status, err);
	if (r >= 0 && status != 0)
		r = err_set(err, ERR_HOST, EIO, "run %s ended with status %d", slot->id, status);
	running_release(slot);
	l->finished += r >= 0;
	return r;
}

static int hear(struct load *l, struct running *slot, struct err *err)
{
	struct keeper_msg msg;
	(void)run_hear(slot, &msg);
	return slot->ended ? finish_one(l, slot, err) : 0;
}

static int drive(struct load *l, struct err *err)
{
	struct pollfd fds[JOBS_MAX];
	int r = run_prepare(&l->config, err);
	l->began_ns = clock_monotonic_ns();
	while (r >= 0) {
		uint64_t busy = 0;
		for (size_t i = 0; r >= 0 && i < l->jobs; i++) {
			if (l->slots[i].fd < 0 && wants_more(l))
				r = start_one(l, &l->slots[i], err);
			fds[i] = (struct pollfd){ .fd = l->slots[i].fd, .events = POLLIN };
			busy += l->slots[i].fd >= 0;
		}
		if (r < 0 || busy == 0)
			break;
		if (poll(fds, l->jobs, -1) < 0 && errno != EINTR)
			return err_errno(err, "wait for the keepers");
		for (size_t i = 0; r >= 0 && i < l->jobs; i++)
			if (fds[i].revents)
				r = hear(l, &l->slots[i], err);
	}
	return r;
}

static int read_options(struct load *l, int argc, char **argv, struct err *err)
{
	int r = 0;
	for (int option; r >= 0 && (option = getopt(argc, argv, "+n:s:j:")) >= 0;) {
		if (option == 'n')
			r = num_count(optarg, &l->runs, err);
		else if (option == 's')
			r = num_count(optarg, &l->seconds, err);
		else if (option == 'j')
			r = num_count(optarg, &l->jobs, err);
		else
			r = err_caller(
				err,
				"usage: throughput [-n RUNS] [-s SECONDS] [-j JOBS] [--] COMMAND [ARG]...");
	}
	if (r >= 0 && (l->jobs < 1 || l->jobs > JOBS_MAX))
		r = err_caller(err, "-j: from 1 to %d", JOBS_MAX);
	if (r < 0) {
		l->jobs = 0;
		return r;
	}
	for (size_t i = 0; i < l->jobs; i++)
		l->slots[i] = (struct running)RUNNING_INIT;
	for (int i = optind; i < argc; i++)
		strv_add(&l->analysis.command, argv[i]);
	return 0;
}

int main(int argc, char **argv)
{
	CLEANUP(load_release) struct load l = { .runs = 0, .seconds = 5, .jobs = 1 };
	struct err err = { 0 };
	int r = read_options(&l, argc, argv, &err);
	if (r >= 0)
		r = config_read(&(struct config_where){ 0 }, &l.config, &err);
	if (r >= 0)
		r = drive(&l, &err);
	if (r < 0) {
		fprintf(stderr, "throughput: %s\n", err.text);
		return 1;
	}
	double seconds = (double)(clock_monotonic_ns() - l.began_ns) / NS_PER_SEC;
	printf("{\"runs\": %llu, \"seconds\": %.6f, \"per_second\": %.2f}\n",
	       (unsigned long long)l.finished, seconds, (double)l.finished / seconds);
	return 0;
}
