/* Children by posix_spawn, heard by pipes, ended by pidfd. */
#include "serve/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/path.h"
#include "base/proc.h"

#define AT_ONCE   4
#define WAITING   64
#define OUT_MAX   ((size_t)64 << 20)
#define ERR_MAX   ((size_t)64 << 10)
#define LATE_USEC (120 * 1000000ULL)

struct heard {
	int fd; /* owned */
	sd_event_source *source;
	struct str text;
	size_t max;
};

struct child {
	struct children *all; /* borrowed */
	struct strv words;
	char *submitter;      /* owned or NULL */
	char *submitter_name; /* owned or NULL */
	child_done *done;
	void *data;
	pid_t pid;
	int pidfd; /* owned; -1: it was not started yet */
	sd_event_source *ended, *late;
	struct heard out, err;
	bool goes_on, is_late, is_too_long;
	struct child *next;
};

struct children {
	sd_event *event; /* borrowed */
	struct child *running, *waiting, **waiting_end;
	unsigned n_running, n_waiting;
};

static void heard_release(struct heard *h)
{
	sd_event_source_freep(&h->source);
	cleanup_fd(&h->fd);
	str_release(&h->text);
}

static void child_free(struct child *c)
{
	sd_event_source_freep(&c->ended);
	sd_event_source_freep(&c->late);
	if (c->pidfd >= 0 && !c->goes_on)
		proc_kill_child(c->pid);
	cleanup_fd(&c->pidfd);
	heard_release(&c->out);
	heard_release(&c->err);
	strv_release(&c->words);
	free(c->submitter);
	free(c->submitter_name);
	free(c);
}

struct children *children_new(sd_event *event)
{
	struct children *c = xcalloc(1, sizeof *c);
	c->event = event;
	c->waiting_end = &c->waiting;
	return c;
}

static void free_list(struct child *first)
{
	while (first) {
		struct child *next = first->next;
		child_free(first);
		first = next;
	}
}

void children_free(struct children *c)
{
	if (!c)
		return;
	free_list(c->running);
	free_list(c->waiting);
	free(c);
}

/* The one of this build, or that of the installation. */
static char *program(void)
{
	CLEANUP_FREE char *self = path_real("/proc/self/exe");
	CLEANUP_FREE char *directory = self ? path_parent(self) : NULL;
	CLEANUP_FREE char *beside = directory ? path_join(directory, "cupel") : NULL;
	return xstrdup(beside && access(beside, X_OK) == 0 ? beside : BINDIR "/cupel");
}

static void end_it(struct child *c)
{
	(void)kill(-c->pid, SIGKILL);
	(void)proc_signal(c->pidfd, SIGKILL);
}

static void hear(struct child *c, struct heard *h)
{
	char buffer[65536];
	for (ssize_t n; h->fd >= 0 && (n = read(h->fd, buffer, sizeof buffer)) != 0;) {
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n < 0)
			break;
		if (h->text.length + (size_t)n > h->max) {
			if (h == &c->out) {
				c->is_too_long = true;
				end_it(c);
				break;
			}
			continue;
		}
		str_add_n(&h->text, buffer, (size_t)n);
	}
	sd_event_source_freep(&h->source);
	cleanup_fd(&h->fd);
}

static int on_words(sd_event_source *source, int fd, uint32_t events, void *data)
{
	struct child *c = data;
	hear(c, fd == c->out.fd ? &c->out : &c->err);
	return 0;
}

static int on_late(sd_event_source *source, uint64_t usec, void *data)
{
	struct child *c = data;
	c->is_late = true;
	end_it(c);
	return 0;
}

static void start_next(struct children *all);

static void finish(struct child *c, int status)
{
	struct children *all = c->all;
	struct child_result result = { .status = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
				       .is_late = c->is_late,
				       .is_too_long = c->is_too_long };
	for (struct child **at = &all->running; *at; at = &(*at)->next)
		if (*at == c) {
			*at = c->next;
			break;
		}
	all->n_running--;
	result.out = c->out.text;
	result.err = c->err.text;
	if (c->is_late || c->is_too_long)
		result.status = -1;
	c->done(c->data, &result);
	child_free(c);
	start_next(all);
}

static int on_ended(sd_event_source *source, int fd, uint32_t events, void *data)
{
	struct child *c = data;
	int status = 0;
	hear(c, &c->out);
	hear(c, &c->err);
	(void)proc_wait(c->pidfd, &status);
	/* In this order: a child that is just being forked has the descriptor too, and the loop would go on to hear of it. */
	sd_event_source_freep(&c->ended);
	cleanup_fd(&c->pidfd);
	finish(c, status);
	return 0;
}

struct ends {
	int in, out, err; /* borrowed */
};

/* Ours, and for whom it acts. */
static void make_environment(const struct child *c, struct strv *ret)
{
	for (char **line = environ; *line; line++)
		if (!str_starts(*line, "CUPEL_SUBMITTER=") &&
		    !str_starts(*line, "CUPEL_SUBMITTER_NAME="))
			strv_add(ret, *line);
	if (c->submitter)
		strv_addf(ret, "CUPEL_SUBMITTER=%s", c->submitter);
	if (c->submitter_name)
		strv_addf(ret, "CUPEL_SUBMITTER_NAME=%s", c->submitter_name);
}

static int spawn(const struct child *c, const struct ends *ends, pid_t *ret)
{
	CLEANUP_FREE char *path = program();
	CLEANUP_STRV struct strv environment = { 0 };
	CLEANUP_STRV struct strv argv = { 0 };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none, all;
	strv_add(&argv, "cupel");
	strv_copy(&argv, &c->words);
	make_environment(c, &environment);
	sigemptyset(&none);
	sigfillset(&all);
	(void)posix_spawn_file_actions_init(&actions);
	(void)posix_spawnattr_init(&attributes);
	(void)posix_spawn_file_actions_adddup2(&actions, ends->in, 0);
	(void)posix_spawn_file_actions_adddup2(&actions, ends->out, 1);
	(void)posix_spawn_file_actions_adddup2(&actions, ends->err, 2);
	(void)posix_spawnattr_setsigmask(&attributes, &none);
	(void)posix_spawnattr_setsigdefault(&attributes, &all);
	(void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
							    POSIX_SPAWN_SETPGROUP);
	int r = posix_spawn(ret, path, &actions, &attributes, strv_argv(&argv),
			    strv_argv(&environment));
	(void)posix_spawn_file_actions_destroy(&actions);
	(void)posix_spawnattr_destroy(&attributes);
	return -r;
}

/* Non-blocking at our end only. */
static int listen_to(struct child *c, struct heard *h, size_t max, int *ret_theirs)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	(void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
	h->fd = ends[0];
	h->max = max;
	*ret_theirs = ends[1];
	return sd_event_add_io(c->all->event, &h->source, h->fd, EPOLLIN, on_words, c);
}

static int start(struct child *c)
{
	CLEANUP_FD int out = -1;
	CLEANUP_FD int err = -1;
	CLEANUP_FD int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int r = null < 0 ? -errno : 0;
	if (r >= 0 && !c->goes_on)
		r = listen_to(c, &c->out, OUT_MAX, &out);
	if (r >= 0 && !c->goes_on)
		r = listen_to(c, &c->err, ERR_MAX, &err);
	if (r >= 0)
		r = spawn(c,
			  &(struct ends){ null, c->goes_on ? null : out, c->goes_on ? null : err },
			  &c->pid);
	if (r >= 0)
		r = c->pidfd = proc_pidfd_of_child(c->pid);
	if (r >= 0)
		r = sd_event_add_io(c->all->event, &c->ended, c->pidfd, EPOLLIN, on_ended, c);
	if (r >= 0 && !c->goes_on)
		r = sd_event_add_time_relative(c->all->event, &c->late, CLOCK_MONOTONIC, LATE_USEC,
					       0, on_late, c);
	/* Nobody would hear of its end. */
	if (r < 0 && c->pidfd >= 0) {
		proc_kill_child(c->pid);
		cleanup_fd(&c->pidfd);
	}
	return r;
}

static void start_next(struct children *all)
{
	while (all->waiting && all->n_running < AT_ONCE) {
		struct child *c = all->waiting;
		all->waiting = c->next;
		if (!all->waiting)
			all->waiting_end = &all->waiting;
		all->n_waiting--;
		c->next = all->running;
		all->running = c;
		all->n_running++;
		if (start(c) < 0)
			finish(c, -1);
	}
}

int child_run(struct children *all, const struct child_request *q, child_done *done, void *data,
	      struct err *err)
{
	if (all->n_waiting >= WAITING)
		return err_set(err, ERR_HOST, EAGAIN, "too many such questions wait already");
	struct child *c = xcalloc(1, sizeof *c);
	*c = (struct child){ .all = all, .done = done, .data = data, .pidfd = -1 };
	c->goes_on = q->goes_on;
	c->out.fd = c->err.fd = -1;
	strv_copy(&c->words, q->words);
	c->submitter = q->submitter ? xstrdup(q->submitter) : NULL;
	c->submitter_name = q->submitter_name ? xstrdup(q->submitter_name) : NULL;
	*all->waiting_end = c;
	all->waiting_end = &c->next;
	all->n_waiting++;
	start_next(all);
	return 0;
}
