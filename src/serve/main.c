/* cupel-serve: the service. `cupel serve` becomes this program, which alone needs an HTTP library. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/path.h"
#include "keeper/record.h"
#include "run/run.h"
#include "serve/http.h"
#include "serve/service.h"
#include "serve/starter.h"

#define LOCK_WAIT_NS                                                                               \
	(20 * NS_PER_SEC) /* what a killed service was just starting is recorded by then */

struct serving {
	int lock_fd;    /* owned */
	int starter_fd; /* owned; -1 once the service has it */
	struct config config;
	sd_event *event;
	struct service *service;
	struct http *http;
	bool waits; /* when asked to end, for what runs */
};

static void serving_release(struct serving *s)
{
	http_freep(&s->http);
	service_freep(&s->service);
	sd_event_unref(s->event);
	config_release(&s->config);
	cleanup_fd(&s->starter_fd);
	cleanup_fd(&s->lock_fd);
}

static void drained(void *data)
{
	struct serving *s = data;
	(void)sd_event_exit(s->event, 0);
}

static int on_signal(sd_event_source *source, const struct signalfd_siginfo *info, void *data)
{
	struct serving *s = data;
	if (service_is_draining(s->service))
		return sd_event_exit(s->event, 0); /* a second time: at once; nothing is lost */
	(void)sd_notify(0, "STOPPING=1");
	http_quiesce(s->http);
	service_drain(s->service, s->waits, drained, s);
	return 0;
}

static int take_signals(struct serving *s)
{
	static const int numbers[] = { SIGTERM, SIGINT };
	sigset_t set;
	sigemptyset(&set);
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		sigaddset(&set, numbers[i]);
	(void)signal(SIGPIPE, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		int r = sd_event_add_signal(s->event, NULL, numbers[i], on_signal, s);
		if (r < 0)
			return r;
	}
	return 0;
}

/* One service a home. Its starter holds the lock too, until what it starts is recorded: whoever gets it sees all that was begun. */
static int take_lock(struct serving *s, struct err *err)
{
	CLEANUP_FREE char *path = xasprintf("%s/service.lock", s->config.home);
	uint64_t until = clock_monotonic_ns() + LOCK_WAIT_NS;
	bool is_said = false;
	s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->lock_fd < 0)
		return err_errno(err, "open %s", path);
	while (flock(s->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK)
			return err_errno(err, "lock %s", path);
		if (clock_monotonic_ns() > until)
			return err_caller(err, "another service has %s", s->config.home);
		if (!is_said)
			log_warning("another service has %s; waiting for its end", s->config.home);
		is_said = true;
		(void)nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
	}
	return 0;
}

static void raise_files(void)
{
	struct rlimit files = { 0 };
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
}

/* A service is of no project, wherever it is started: what that one's runs are shown is not for everybody who submits. */
static int leave_project(struct err *err)
{
	const char *named = getenv("CUPEL_CONFIG");
	CLEANUP_FREE char *cwd = path_cwd();
	CLEANUP_FREE char *absolute = named && named[0] && cwd ? path_normal(cwd, named) : NULL;
	if ((absolute && setenv("CUPEL_CONFIG", absolute, 1) < 0) || chdir("/") < 0)
		return err_errno(err, "leave the current directory");
	return 0;
}

/* What an earlier service was making for somebody who asked, and was killed. */
static void clear_temporary(const struct config *c)
{
	CLEANUP_FREE char *path = path_join(c->home, "tmp");
	CLEANUP_DIR DIR *dir = opendir(path);
	for (const struct dirent *e = NULL; dir && (e = readdir(dir));)
		if (str_starts(e->d_name, "serve-"))
			(void)unlinkat(dirfd(dir), e->d_name, 0);
}

/* In this order: the starter is forked while there is neither a thread nor a socket. */
static int begin(struct serving *s, struct err *err)
{
	int r = leave_project(err);
	if (r >= 0)
		r = config_read(&(struct config_where){ 0 }, &s->config, err);
	if (r >= 0)
		r = record_home(s->config.home, err);
	if (r >= 0)
		r = take_lock(s, err);
	if (r >= 0)
		r = run_prepare(&s->config, err);
	if (r >= 0)
		clear_temporary(&s->config);
	if (r >= 0)
		r = s->starter_fd = starter_fork(&s->config, s->lock_fd, err);
	raise_files();
	return r;
}

static int serve(struct serving *s, struct err *err)
{
	int r = begin(s, err);
	if (r < 0)
		return r;
	r = sd_event_new(&s->event);
	if (r >= 0)
		r = take_signals(s);
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "begin to wait for events: %s",
			       strerrordesc_np(-r));
	r = service_open(s->event, &s->config, take_fd(&s->starter_fd), &s->service, err);
	if (r >= 0)
		r = http_open(s->event, &s->config, s->service, &s->http, err);
	if (r < 0)
		return r;
	http_say(s->http);
	(void)sd_event_set_watchdog(s->event, 1);
	(void)sd_notify(0, "READY=1");
	r = sd_event_loop(s->event);
	return r < 0 ? err_set(err, ERR_HOST, -r, "wait for events: %s", strerrordesc_np(-r)) : 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = { { "drain-wait", no_argument, NULL, 'w' }, { 0 } };
	__attribute__((cleanup(serving_release))) struct serving s = { .lock_fd = -1,
								       .starter_fd = -1 };
	struct err err = { 0 };
	int option;
	while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (option != 'w')
			return 2;
		s.waits = true;
	}
	if (serve(&s, &err) < 0) {
		log_error("%s", err.text);
		return err.kind == ERR_CALLER ? 2 : 125;
	}
	return 0;
}
