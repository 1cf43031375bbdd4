/* cupel top: the runs that are going on, again and again. On a terminal it takes the screen until q; elsewhere it prints. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <termios.h>

#include "base/clock.h"
#include "base/num.h"
#include "base/terminal.h"
#include "cli/records.h"
#include "cli/remote.h"
#include "view/live.h"

struct top_args {
	bool json;
	uint64_t interval_ns;
	uint64_t count; /* 0: until it is ended */
	enum live_order order;
};

static int set_json(void *target, const struct option_row *row, const char *value, struct err *err)
{
	((struct top_args *)target)->json = true;
	return 0;
}

static int set_interval(void *target, const struct option_row *row, const char *value,
			struct err *err)
{
	return num_duration(value, &((struct top_args *)target)->interval_ns, err);
}

static int set_count(void *target, const struct option_row *row, const char *value, struct err *err)
{
	return num_count(value, &((struct top_args *)target)->count, err);
}

static int set_sort(void *target, const struct option_row *row, const char *value, struct err *err)
{
	for (int i = 0; i < LIVE_ORDER_COUNT_; i++)
		if (str_eq(value, live_order_names[i])) {
			((struct top_args *)target)->order = (enum live_order)i;
			return 0;
		}
	return err_caller(err, "--sort takes id, cpu, memory or time, not '%.60s'", value);
}

static const struct option_row rows[] = {
	{ 0, "sort", "BY", "id, cpu (default), memory or time", set_sort, 0 },
	{ 0, "interval", "TIME", "look again after this: 1s", set_interval, 0 },
	{ 'n', "count", "N", "look so many times (default: 1 if it is no terminal)", set_count, 0 },
	{ 0, "json", NULL, "print JSON, a line each time", set_json, 0 },
};
static const struct options top_options = { rows, sizeof rows / sizeof *rows };

struct screen {
	bool is_taken;
	struct termios before;
	int signal_fd; /* owned */
	int timer_fd;  /* owned */
};

static void screen_release(struct screen *s)
{
	if (s->is_taken) {
		terminal_control(stdout,
				 "\033[?25h\033[?1049l"); /* cursor, the screen that was there */
		(void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &s->before);
	}
	s->is_taken = false;
	cleanup_fd(&s->signal_fd);
	cleanup_fd(&s->timer_fd);
}

static void take_screen(struct screen *s)
{
	if (tcgetattr(STDIN_FILENO, &s->before) < 0)
		return;
	struct termios raw = s->before;
	raw.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	s->is_taken = tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw) == 0;
	if (s->is_taken)
		terminal_control(stdout, "\033[?1049h\033[?25l");
}

/* Signals are read, so that the screen is given back whatever ends us. */
static int begin_waiting(struct screen *s, const struct top_args *args, struct err *err)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGWINCH);
	struct timespec every = { .tv_sec = (time_t)(args->interval_ns / NS_PER_SEC),
				  .tv_nsec = (long)(args->interval_ns % NS_PER_SEC) };
	struct itimerspec timer = { .it_interval = every, .it_value = every };
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return err_errno(err, "block signals");
	s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	s->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (s->signal_fd < 0 || s->timer_fd < 0 ||
	    timerfd_settime(s->timer_fd, 0, &timer, NULL) < 0)
		return err_errno(err, "wait for the next look");
	return 0;
}

/* False: somebody wants the end. */
static bool on_key(struct top_args *args)
{
	char key = 0;
	while (read(STDIN_FILENO, &key, 1) == 1) {
		static const char keys[] = { [LIVE_BY_ID] = 'i',
					     [LIVE_BY_CPU] = 'c',
					     [LIVE_BY_MEMORY] = 'm',
					     [LIVE_BY_TIME] = 't' };
		if (key == 'q' || key == 'Q' || key == 3)
			return false;
		for (int i = 0; i < LIVE_ORDER_COUNT_; i++)
			if (key == keys[i])
				args->order = (enum live_order)i;
	}
	return true;
}

/* Until it is time to look again: true. */
static bool wait_for_next(struct screen *s, struct top_args *args)
{
	struct pollfd fds[] = { { .fd = s->timer_fd, .events = POLLIN },
				{ .fd = s->signal_fd, .events = POLLIN },
				{ .fd = s->is_taken ? STDIN_FILENO : -1, .events = POLLIN } };
	uint64_t ticks;
	struct signalfd_siginfo info;
	if (poll(fds, 3, -1) < 0 && errno != EINTR)
		return false;
	if (fds[0].revents)
		(void)!read(s->timer_fd, &ticks, sizeof ticks);
	while (read(s->signal_fd, &info, sizeof info) == sizeof info)
		if (info.ssi_signo != SIGWINCH)
			return false;
	if (fds[2].revents & (POLLHUP | POLLERR))
		return false;
	return !fds[2].revents || on_key(args);
}

static size_t screen_lines(void)
{
	struct winsize size = { 0 };
	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 3 ? size.ws_row : 24;
}

struct looking {
	const struct config *config;
	struct remote *remote;
	const struct screen *screen;
	const struct top_args *args;
};

/* A service that goes away meanwhile may come back: until then the records are all there is. */
static int collect(const struct looking *l, size_t lines, json_t **ret, struct err *err)
{
	CLEANUP_JSON json_t *runs = NULL;
	int r = remote_has_records(l->remote) ? live_json(l->config, LIVE_BY_ID, &runs, err) : 0;
	runs = runs ? runs : json_array();
	if (r >= 0 && l->remote->client)
		r = remote_live(l->remote, runs, lines, err);
	if (r == -EHOSTDOWN && l->remote->is_here)
		r = 0;
	if (r >= 0)
		*ret = live_sort(runs, l->args->order);
	return r;
}

/* Those that wait have the lines that are left, and at least a quarter. */
static int print_tables(const json_t *runs, size_t lines, struct err *err)
{
	size_t i, live = 1, waiting = 0;
	json_t *run;
	json_array_foreach(runs, i, run)
	{
		live += !live_is_waiting(run);
		waiting += live_is_waiting(run);
	}
	size_t for_waiting = !lines || !waiting         ? 0
			     : lines > live + lines / 4 ? lines - live
							: lines / 4;
	int r = live_print(runs, lines ? lines - for_waiting : 0, err);
	return r < 0 ? r : waiting_print(runs, for_waiting, err);
}

static int look(const struct looking *l, struct err *err)
{
	CLEANUP_JSON json_t *runs = NULL;
	bool is_taken = l->screen->is_taken;
	size_t lines = is_taken ? screen_lines() - 2 : 0;
	int r = collect(l, lines, &runs, err);
	if (r < 0)
		return r;
	if (is_taken)
		terminal_control(stdout, "\033[H\033[J");
	if (l->args->json) {
		json_print(runs);
	} else {
		live_print_total(l->config, runs);
		r = print_tables(runs, lines, err);
	}
	if (r < 0)
		return r;
	if (is_taken)
		printf("sorted by %s; c cpu, m memory, t time, i id, q quit",
		       live_order_names[l->args->order]);
	return fflush(stdout) < 0 ? err_errno(err, "write") : 0;
}

static int main_top(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config c = { 0 };
	CLEANUP_REMOTE struct remote remote = { 0 };
	CLEANUP(screen_release) struct screen s = { .signal_fd = -1, .timer_fd = -1 };
	struct top_args args = { .interval_ns = NS_PER_SEC, .order = LIVE_BY_CPU };
	struct records_begin begin = { self, argc, argv, 0, &args };
	struct operands rest;
	struct err err = { 0 };
	int r = records_begin(&begin, &c, &rest, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	bool is_terminal = isatty(STDOUT_FILENO) && isatty(STDIN_FILENO) && !args.json;
	args.count = args.count || is_terminal ? args.count : 1;
	const struct looking looking = { &c, &remote, &s, &args };
	r = remote_open(&c, &remote, &err);
	if (r >= 0)
		r = begin_waiting(&s, &args, &err);
	if (r >= 0 && is_terminal)
		take_screen(&s);
	for (uint64_t i = 1; r >= 0; i++) {
		r = look(&looking, &err);
		if (r < 0 || i == args.count || !wait_for_next(&s, &args))
			break;
	}
	screen_release(&s);
	return r < 0 ? cli_fail(&err) : 0;
}

const struct command command_top = {
	.name = "top",
	.usage = "[OPTION]...",
	.operands = COMPLETE_NOTHING,
	.summary = "the runs that are going on and what they use, again and again",
	.details = "Keys: c cpu, m memory, t time, i id, q quit.",
	.options = &top_options,
	.main = main_top,
};
