/* One poll loop: the box's init, its two streams, the memory limit, signals, whoever asked for the run, and the clock. */
#include "keeper/watch.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/proc.h"

#define SAMPLE_NS  (1 * NS_PER_SEC)
#define WATCHED_NS (250 * NS_PER_MS) /* a directory that is only watched is looked at more often */
/* Two looks could both meet a program that changes modes all the time; ten do so only if it hides something. A process that is about to leave
 * exec cannot be looked into either, and on a busy machine it may wait for a processor in that state for part of a second: hence two seconds.
 * Where each look takes long, fewer looks are enough. */
#define UNCOUNTED_LOOKS   10
#define UNCOUNTED_NS      (2 * NS_PER_SEC)
#define UNCOUNTED_FEW     3
#define UNCOUNTED_SLOW_NS (20 * NS_PER_SEC)
#define OOM_LOOK_NS       (5 * NS_PER_MS)
#define KILL_WAIT_NS      (30 * NS_PER_SEC)

enum { FD_INIT, FD_CONTROL, FD_OUT, FD_ERR, FD_OOM, FD_SIGNAL, FD_REPORT, FD_COUNT };

void keeper_say(struct keeping *k, const struct keeper_msg *msg)
{
	/* Never wait for a listener that does not listen: a lost progress word is no loss, it is said again. */
	if (k->report_fd >= 0)
		(void)send(k->report_fd, msg, sizeof *msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void kill_box(struct keeping *k)
{
	struct err err;
	(void)proc_signal(k->box.pid_fd,
			  SIGKILL); /* pid 1: the kernel ends everything in its namespace */
	if (k->budget->ops->kill_all(k->budget, KILL_WAIT_NS, &err) < 0)
		(void)record_event(&k->record, "kill-incomplete",
				   json_pack("{s:o}", "error", json_text(err.text)), NULL);
}

/* Notes why the box is ended (the first reason stays) and asks it to end, or kills it. */
static void watch_stop(struct keeping *k, enum stop stop)
{
	bool again = k->ending.stop != STOP_NONE;
	uint64_t now = clock_monotonic_ns();
	if (!again) {
		k->ending.stop = stop;
		(void)record_event(&k->record, "stopping",
				   json_pack("{s:s}", "reason", stop_name(stop)), NULL);
	}
	if (again || stop == STOP_OOM || stop == STOP_DISK || stop == STOP_RECORD) {
		k->ending.forced = true;
		kill_box(k);
		k->kill_at = 0;
		return;
	}
	launch_signal(&k->box, BOX_CMD_SIGNAL_ALL, SIGTERM);
	launch_signal(&k->box, BOX_CMD_SIGNAL_ALL,
		      SIGCONT); /* a stopped process could not see it */
	k->kill_at = now + k->q->plan->limits.at[LIMIT_GRACE].value;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

void watch_note_usage(struct keeping *k, const struct usage *now)
{
	const struct usage before = k->ending.usage;
	struct usage *u = &k->ending.usage;
	*u = *now;
	u->mem_anon_bytes = larger(u->mem_anon_bytes, before.mem_anon_bytes);
	u->mem_file_bytes = larger(u->mem_file_bytes, before.mem_file_bytes);
	u->mem_shmem_bytes = larger(u->mem_shmem_bytes, before.mem_shmem_bytes);
	u->mem_kernel_bytes = larger(u->mem_kernel_bytes, before.mem_kernel_bytes);
	u->mem_peak_bytes = larger(u->mem_peak_bytes, before.mem_peak_bytes);
	u->pids_peak = larger(u->pids_peak, before.pids_peak);
}

/* A directory that is unreadable for a moment is no reason to end a run; one that stays so hides how much is in it. Whatever was hidden is seen by
 * the first look that finds everything, so the limit is exceeded for the time between two looks, never for longer. */
static bool is_uncounted(struct keeping *k, uint64_t now, const struct scratch_use *disk)
{
	if (!disk->uncounted[0]) {
		k->n_uncounted = 0;
		return false;
	}
	if (k->n_uncounted++ == 0)
		k->uncounted_since_ns = now;
	uint64_t lasts_ns = now - k->uncounted_since_ns;
	return (lasts_ns >= UNCOUNTED_NS && k->n_uncounted >= UNCOUNTED_LOOKS) ||
	       (lasts_ns >= UNCOUNTED_SLOW_NS && k->n_uncounted >= UNCOUNTED_FEW);
}

bool watch_disk(struct keeping *k, uint64_t now, struct scratch_use *ret)
{
	bool is_watched = scratch_is_watched(&k->scratch);
	if (scratch_measure(&k->scratch, ret) < 0)
		return false;
	k->ending.disk_full |= ret->full;
	if (ret->over || !is_watched || !is_uncounted(k, now, ret))
		return ret->over;
	(void)snprintf(k->ending.disk_uncounted, sizeof k->ending.disk_uncounted, "%s",
		       ret->uncounted);
	return true;
}

static void sample(struct keeping *k, uint64_t now)
{
	struct usage u;
	struct scratch_use disk = { 0 };
	if (watch_disk(k, now, &disk) && k->ending.stop == STOP_NONE)
		watch_stop(k, STOP_DISK);
	if (k->budget->ops->read_usage(k->budget, &u, NULL) < 0)
		return;
	watch_note_usage(k, &u);
	char line[400];
	int n = snprintf(
		line, sizeof line,
		"{\"t_ms\":%llu,\"mem\":%llu,\"anon\":%llu,\"file\":%llu,\"shmem\":%llu,\"cpu_usec\":%llu,\"pids\":%llu,"
		"\"io_read\":%llu,\"io_write\":%llu,\"disk\":%llu}\n",
		(unsigned long long)((now - k->started_ns) / NS_PER_MS),
		(unsigned long long)u.mem_bytes, (unsigned long long)u.mem_anon_bytes,
		(unsigned long long)u.mem_file_bytes, (unsigned long long)u.mem_shmem_bytes,
		(unsigned long long)u.cpu_usec, (unsigned long long)u.pids,
		(unsigned long long)u.io_read_bytes, (unsigned long long)u.io_write_bytes,
		(unsigned long long)disk.bytes);
	if (n > 0 && (size_t)n < sizeof line)
		(void)fs_append(k->usage_fd, line, (size_t)n);
	struct keeper_msg msg = { .kind = KEEPER_MSG_SAMPLE,
				  .sample = { now - k->started_ns, u.mem_bytes, u.cpu_usec,
					      u.pids } };
	keeper_say(k, &msg);
}

/* The next look: a second from now, or sooner when the cpu time left could be used up before that. */
static uint64_t next_sample(const struct keeping *k, uint64_t now)
{
	uint64_t wait = scratch_is_watched(&k->scratch) ? WATCHED_NS : SAMPLE_NS;
	uint64_t age = now - k->started_ns;
	wait = age < wait ? age
			  : wait; /* denser at the start, so that a short run has samples too */
	if (k->n_uncounted && wait > UNCOUNTED_NS / UNCOUNTED_LOOKS)
		wait = UNCOUNTED_NS / UNCOUNTED_LOOKS;
	uint64_t cpu_ns = k->q->plan->limits.at[LIMIT_CPU_TIME].value;
	uint64_t used_ns = k->ending.usage.cpu_usec * 1000;
	if (cpu_ns && used_ns < cpu_ns) {
		uint64_t left = (cpu_ns - used_ns) / (uint64_t)k->q->plan->n_cpus + NS_PER_MS;
		wait = left < wait ? left : wait;
	}
	return now + wait;
}

static void on_clock(struct keeping *k, uint64_t now)
{
	uint64_t cpu_ns = k->q->plan->limits.at[LIMIT_CPU_TIME].value;
	if (k->warn_at && now >= k->warn_at) {
		k->warn_at = 0;
		launch_signal(&k->box, BOX_CMD_SIGNAL_MAIN, k->q->analysis->warn_signal);
		(void)record_event(&k->record, "warned",
				   json_pack("{s:i}", "signal", k->q->analysis->warn_signal), NULL);
	}
	if (k->end_at && now >= k->end_at) {
		k->end_at = 0;
		if (k->ending.stop == STOP_NONE)
			watch_stop(k, STOP_DEADLINE);
	}
	if (k->kill_at && now >= k->kill_at) {
		k->kill_at = 0;
		k->ending.forced = true;
		kill_box(k);
	}
	if (k->sample_at && now >= k->sample_at) {
		if (!k->settled)
			scratch_settle(&k->scratch, k->q->config->home);
		k->settled = true;
		sample(k, now);
		if (k->ending.usage.oom_kills && k->ending.stop != STOP_OOM)
			watch_stop(k, STOP_OOM);
		if (cpu_ns && k->ending.usage.cpu_usec * 1000 >= cpu_ns &&
		    k->ending.stop == STOP_NONE)
			watch_stop(k, STOP_CPU);
		/* From the end of this look: one that takes long leaves time for the rest. */
		k->sample_at = next_sample(k, clock_monotonic_ns());
	}
}

static int timeout_ms(const struct keeping *k, uint64_t now)
{
	const uint64_t times[] = { k->warn_at, k->end_at, k->kill_at, k->sample_at };
	uint64_t next = UINT64_MAX;
	for (size_t i = 0; i < sizeof times / sizeof *times; i++)
		if (times[i] && times[i] < next)
			next = times[i];
	if (next == UINT64_MAX)
		return -1;
	uint64_t left_ms = next <= now ? 0 : (next - now) / NS_PER_MS + 1;
	return left_ms < INT_MAX ? (int)left_ms : INT_MAX;
}

static void on_control(struct keeping *k)
{
	struct box_msg msg;
	ssize_t n = proc_recv(k->box.control_fd, &msg, sizeof msg, MSG_DONTWAIT);
	if (n <= 0) {
		if (n == 0 || errno != EAGAIN)
			cleanup_fd(&k->box.control_fd);
		return;
	}
	if (n != sizeof msg)
		return;
	if (msg.kind == BOX_MSG_STARTED) {
		k->ending.started = true;
		/* From now on there is somebody who can hold files; until its exec the kernel lets nobody look into a process of init's. */
		k->scratch.box = (struct scratch_box){ .budget = k->budget,
						       .init_pid = k->box.pid,
						       .pid_ns = k->box.facts.ns[BOX_NS_PID] };
	}
	if (msg.kind == BOX_MSG_EXEC_FAILED)
		k->ending.exec_errno = msg.exec_errno;
	if (msg.kind == BOX_MSG_EXITED) {
		k->ending.exited = true;
		k->ending.wait_status = msg.exited;
		k->ending.wall_ns = clock_monotonic_ns() - k->started_ns;
	}
}

static void on_stream(struct keeping *k, struct stream *s)
{
	uint64_t before = s->kept_bytes;
	int r = stream_pump(s);
	if (r < 0) {
		k->ending.log_errno = -r;
		(void)record_event(&k->record, "log-unwritable", NULL, NULL);
	}
	if (s->kept_bytes != before) {
		struct keeper_msg msg = { .kind = KEEPER_MSG_LOG };
		keeper_say(k, &msg);
	}
}

static void on_oom(struct keeping *k)
{
	struct usage u;
	k->budget->ops->oom_ack(k->budget);
	if (k->budget->ops->read_usage(k->budget, &u, NULL) < 0)
		return;
	watch_note_usage(k, &u);
	if (u.oom_kills ==
	    0) /* v1 wakes us when the kernel begins to look for a victim: look again shortly */
		k->sample_at = clock_monotonic_ns() + OOM_LOOK_NS;
	else if (k->ending.stop != STOP_OOM)
		watch_stop(k, STOP_OOM);
}

static void cancel(struct keeping *k, int signal_number, const char *by)
{
	if (k->ending.stop == STOP_NONE) {
		k->ending.stop_signal = signal_number;
		k->ending.stop_by = by;
	}
	watch_stop(k, STOP_CANCEL);
}

/* Who wants the run to end, or NULL. */
static const char *hear_signal(struct keeping *k, int *ret_signal)
{
	struct signalfd_siginfo info;
	while (read(k->signal_fd, &info, sizeof info) == sizeof info)
		if (info.ssi_signo != SIGCHLD && info.ssi_signo != SIGPIPE) {
			*ret_signal = (int)info.ssi_signo;
			return "the keeper was sent a signal";
		}
	return NULL;
}

static const char *hear_report(struct keeping *k, int *ret_signal)
{
	struct keeper_cmd cmd;
	if (k->report_fd < 0)
		return NULL;
	ssize_t n = recv(k->report_fd, &cmd, sizeof cmd, MSG_DONTWAIT);
	*ret_signal = n == sizeof cmd ? cmd.cancel_signal : 0;
	if (n == sizeof cmd && k->q->detached)
		return "cancelled by way of the service";
	if (n == sizeof cmd)
		return cmd.cancel_signal == SIGINT ? "interrupted by the user"
						   : "ended by a signal to cupel run";
	if (n < 0 && errno == EAGAIN)
		return NULL;
	cleanup_fd(&k->report_fd);
	return k->q->detached ? NULL : "cupel run is gone";
}

bool watch_hear_cancel(struct keeping *k, int *ret_signal, const char **ret_by)
{
	const char *by = hear_signal(k, ret_signal);
	if (!by)
		by = hear_report(k, ret_signal);
	if (by)
		*ret_by = by;
	return by;
}

static void on_signal(struct keeping *k)
{
	int number = 0;
	for (const char *by; (by = hear_signal(k, &number));)
		cancel(k, number, by);
}

static void on_report(struct keeping *k)
{
	int number = 0;
	const char *by = hear_report(k, &number);
	if (by)
		cancel(k, number, by);
}

static void dispatch(struct keeping *k, const struct pollfd fds[FD_COUNT])
{
	if (fds[FD_OUT].revents)
		on_stream(k, &k->streams[0]);
	if (fds[FD_ERR].revents)
		on_stream(k, &k->streams[1]);
	if (fds[FD_OOM].revents)
		on_oom(k);
	if (fds[FD_CONTROL].revents)
		on_control(k);
	if (fds[FD_SIGNAL].revents)
		on_signal(k);
	if (fds[FD_REPORT].revents)
		on_report(k);
}

/* What is in the pipe now, and nothing that comes later. */
static void drain_stream(struct keeping *k, struct stream *s)
{
	int left = 0;
	if (s->pipe_fd < 0 || ioctl(s->pipe_fd, FIONREAD, &left) < 0)
		return;
	for (int n = left / STREAM_PUMP_MAX + 1; n > 0 && s->pipe_fd >= 0; n--)
		on_stream(k, s);
}

/* What the box wrote and said before it died is still in the pipes. A process outside may have got the other end from the box, and write for ever. */
static void drain(struct keeping *k)
{
	while (k->box.control_fd >= 0) {
		struct pollfd fd = { .fd = k->box.control_fd, .events = POLLIN };
		if (poll(&fd, 1, 0) <= 0)
			break;
		on_control(k);
	}
	for (int i = 0; i < 2; i++)
		drain_stream(k, &k->streams[i]);
}

void watch(struct keeping *k)
{
	struct budget *b = k->budget;
	for (;;) {
		struct pollfd fds[FD_COUNT] = {
			[FD_INIT] = { .fd = k->box.pid_fd, .events = POLLIN },
			[FD_CONTROL] = { .fd = k->box.control_fd, .events = POLLIN },
			[FD_OUT] = { .fd = k->streams[0].pipe_fd, .events = POLLIN },
			[FD_ERR] = { .fd = k->streams[1].pipe_fd, .events = POLLIN },
			[FD_OOM] = { .fd = b->ops->oom_fd(b), .events = b->ops->oom_events(b) },
			[FD_SIGNAL] = { .fd = k->signal_fd, .events = POLLIN },
			[FD_REPORT] = { .fd = k->report_fd, .events = POLLIN },
		};
		int n = poll(fds, FD_COUNT, timeout_ms(k, clock_monotonic_ns()));
		if (n < 0 && errno != EINTR)
			break;
		dispatch(k, fds);
		if (fds[FD_INIT].revents)
			break;
		on_clock(k, clock_monotonic_ns());
	}
	/* Whatever ended the loop. Init ends when all in its namespace are dead, and is reaped first: so mostly the groups are empty
	 * when they are looked at. */
	(void)proc_signal(k->box.pid_fd, SIGKILL);
	(void)proc_wait(k->box.pid_fd, NULL);
	kill_box(k);
	drain(k);
	k->scratch.box = (struct scratch_box){ 0 };
	if (!k->ending.wall_ns)
		k->ending.wall_ns = clock_monotonic_ns() - k->started_ns;
}
