/* How a container stands: the engine's word, pid 1's notes, and the kernel's counters. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "executor/engine_parts.h"

#define RECEIPT_MAX (1 << 20)
/* So long pid 1 has to confine itself, on however busy a host. */
#define READY_NS (60 * NS_PER_SEC)

struct look {
	struct executor *x;
	const json_t *handle;
	const json_t *inspection, *state;
	int stage_fd;                /* owned */
	char status[STATUS_MAX + 1]; /* pid 1's notes: the end of them */
	bool is_forged;              /* they can't be pid 1's alone */
	json_t *receipt;             /* owned or NULL: {seen, error, released_real_ns} */
};

static void look_release(struct look *l)
{
	cleanup_fd(&l->stage_fd);
	json_decref(l->receipt);
}

/* The last line of that name: what pid 1 wrote in the end, when nobody else could write any more. */
static const char *noted(const struct look *l, const char *name)
{
	const char *found = NULL;
	size_t length = strlen(name);
	for (const char *at = l->status; *at; at += strcspn(at, "\n"), at += *at == '\n')
		if (strncmp(at, name, length) == 0 &&
		    (at[length] == ' ' || at[length] == '\n' || !at[length]))
			found = at + length;
	return found;
}

static uint64_t noted_number(const struct look *l, const char *name)
{
	const char *at = noted(l, name);
	return at ? strtoull(at, NULL, 10) : 0;
}

static int write_receipt(struct look *l, struct err *err)
{
	return json_write_file(l->stage_fd, STAGE_RECEIPT, l->receipt, err);
}

/* Pid 1 waits at its gate; it has opened it before it said so. */
static void open_gate(const struct look *l)
{
	CLEANUP_FD int fd =
		openat(l->stage_fd, STAGE_GATE, O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		(void)fs_write_all(fd, "g", 1);
}

static uint64_t time_of(const json_t *state, const char *key)
{
	uint64_t ns = 0;
	const char *text = engine_text(state, key);
	return clock_read(text, &ns) < 0 || str_starts(text, "0001-") ? 0 : ns;
}

static int refuse(struct look *l, const char *why, struct err *err)
{
	if (!l->receipt)
		l->receipt = json_object();
	json_object_set_new(l->receipt, "error", json_text(why));
	int r = write_receipt(l, err);
	return r < 0 ? r : engine_cancel(l->x, l->handle, err);
}

/* Looks at what the container is and lets the analysis start, or ends it. Whoever comes after us finds what we saw. */
static int let_go(struct look *l, struct job_report *ret, struct err *err)
{
	struct err why = { 0 };
	CLEANUP_JSON json_t *seen = NULL;
	int r = 0;
	if (l->receipt && json_object_get(l->receipt, "error"))
		return engine_cancel(l->x, l->handle, err);
	if (!l->receipt) {
		r = engine_receipt(l->x, l->inspection, engine_text(l->handle, "stage"), &seen,
				   &why);
		l->receipt = json_pack("{s:O?,s:o}", "seen", seen, "released_real_ns",
				       json_u64(clock_real_ns()));
		if (r < 0)
			return refuse(l, why.text, err);
		r = write_receipt(l, err);
	}
	if (r >= 0)
		r = engine_seal(l->stage_fd, err);
	if (r < 0)
		return r;
	open_gate(l);
	/* From here on it may print, and is to be asked before it is ended. */
	ret->state = JOB_RUNNING;
	ret->started = true;
	return 0;
}

static int wait_for_ready(struct look *l, struct err *err)
{
	uint64_t since_ns = time_of(l->state, "StartedAt"), now_ns = clock_real_ns();
	return since_ns && now_ns > since_ns + READY_NS
		       ? refuse(l, "its pid 1 gives no sign of life", err)
		       : 0;
}

static void report_running(const struct look *l, struct job_report *ret)
{
	struct group_values v = { 0 };
	group_read((pid_t)json_integer_value(json_object_get(l->state, "Pid")), &v);
	ret->state = JOB_RUNNING;
	ret->started = true;
	ret->mem_bytes = v.mem_bytes;
	ret->mem_peak_bytes = v.mem_peak;
	ret->cpu_usec = v.cpu_usec;
	ret->pids = v.pids;
	ret->oom_kills = v.oom_kills;
	ret->pids_limit_hits = v.pids_hits;
	if (v.oom_kills) { /* one for all: what is left of it is of no use */
		struct err ignored = { 0 };
		(void)engine_cancel(l->x, l->handle, &ignored);
	}
}

static int stop_forged(const struct look *l, struct job_report *ret, struct err *err)
{
	ret->state = JOB_RUNNING;
	ret->started = true;
	return engine_cancel(l->x, l->handle, err);
}

/* The verdict is that the run was lost. */
static void report_forged(const struct look *l, struct job_report *ret)
{
	ret->state = JOB_ENDED;
	ret->started = true;
	ret->ended_real_ns = time_of(l->state, "FinishedAt");
	(void)snprintf(
		ret->reason, sizeof ret->reason,
		"how it ended is not known: somebody else wrote to the notes of the container's pid 1");
}

/* Pid 1 says it exactly. Where it could not, it was killed itself, and the engine knows no more than that. */
static void report_end(const struct look *l, struct job_report *ret)
{
	const char *ended = noted(l, "ended");
	int code = (int)json_integer_value(json_object_get(l->state, "ExitCode"));
	const char *failed = engine_text(l->receipt, "error");
	ret->state = JOB_ENDED;
	ret->started = noted(l, "started") != NULL;
	ret->exec_errno = (int)noted_number(l, "refused");
	ret->mem_peak_bytes = noted_number(l, "memory-peak");
	ret->cpu_usec = noted_number(l, "cpu-usec") + noted_number(l, "cpu-nsec") / 1000;
	ret->oom_kills = noted_number(l, "oom-kills");
	ret->pids_limit_hits = noted_number(l, "pids-hits");
	ret->ended_real_ns = time_of(l->state, "FinishedAt");
	if (json_is_true(json_object_get(l->state, "OOMKilled")) && !ret->oom_kills)
		ret->oom_kills = 1;
	if (ret->oom_kills)
		ret->why = JOB_WHY_OOM;
	if (ended) {
		ret->wait_status = (int)strtol(ended, NULL, 10);
		ret->exited = true;
	} else if (ret->started && code == 128 + SIGKILL) {
		ret->wait_status = SIGKILL;
		ret->exited = true;
	}
	if (failed[0] || (!ret->started && !ret->exec_errno && !ended)) {
		ret->why = JOB_WHY_START;
		(void)snprintf(ret->reason, sizeof ret->reason, "%.190s",
			       failed[0] ? failed : engine_text(l->state, "Error"));
		if (!ret->reason[0])
			(void)snprintf(
				ret->reason, sizeof ret->reason,
				"pid 1 of the container ended with %d before the analysis began%s",
				code, noted(l, "failed") ? ": it could not confine itself" : "");
	}
}

static json_t *evidence(const struct look *l)
{
	json_t *notes = json_object();
	CLEANUP_FREE char *text = xstrdup(l->status);
	for (char *line = text, *next; line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		char *space = strchr(line, ' ');
		if (space)
			*space++ = 0;
		json_object_set_new(notes, line,
				    space ? json_integer((json_int_t)strtoll(space, NULL, 10))
					  : json_true());
	}
	return json_pack("{s:O?,s:o,s:O?}", "receipt", l->receipt, "init", notes, "state",
			 l->state);
}

static int look_on(struct look *l, struct job_report *ret, struct err *err)
{
	const char *state = engine_text(l->state, "Status");
	bool running = str_eq(state, "running") || str_eq(state, "paused");
	int r = 0;
	ret->state = JOB_QUEUED;
	(void)snprintf(ret->reason, sizeof ret->reason, "%.60s", state);
	if (str_eq(state, "created"))
		r = engine_start_container(l->x, engine_text(l->handle, "container"), err);
	else if (running && l->is_forged)
		r = stop_forged(l, ret, err);
	else if (running && (noted(l, "started") || noted(l, "refused")))
		report_running(l, ret);
	else if (running)
		r = noted(l, "ready") ? let_go(l, ret, err) : wait_for_ready(l, err);
	else if (!running && !str_eq(state, "restarting") && !str_eq(state, "initialized"))
		(l->is_forged ? report_forged : report_end)(l, ret);
	if (r >= 0 && l->receipt)
		ret->started_real_ns = (uint64_t)json_integer_value(
			json_object_get(l->receipt, "released_real_ns"));
	return r == -EIO ? err_set(err, ERR_HOST, EAGAIN, "start it again") : r;
}

int engine_poll(struct executor *x, const json_t *handle, struct job_report *ret, struct err *err)
{
	CLEANUP_JSON json_t *inspection = NULL;
	struct err none = { 0 };
	int r = engine_inspect(x, engine_text(handle, "container"), &inspection, err);
	*ret = (struct job_report){ .state = JOB_GONE };
	if (r == -ENOENT) {
		(void)snprintf(ret->reason, sizeof ret->reason,
			       "the engine has no such container any more");
		return 0;
	}
	if (r < 0)
		return r;
	CLEANUP(look_release)
	struct look l = { .x = x,
			  .handle = handle,
			  .inspection = inspection,
			  .state = json_object_get(inspection, "State"),
			  .stage_fd = open(engine_text(handle, "stage"),
					   O_RDONLY | O_DIRECTORY | O_CLOEXEC) };
	if (l.stage_fd < 0)
		return err_errno(err, "open %s", engine_text(handle, "stage"));
	l.is_forged = engine_notes(l.stage_fd, l.status, sizeof l.status) == -EBADMSG;
	if (faccessat(l.stage_fd, STAGE_RECEIPT, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		(void)json_read_file(l.stage_fd, STAGE_RECEIPT, RECEIPT_MAX, &l.receipt, &none);
	r = look_on(&l, ret, err);
	if (r >= 0)
		ret->evidence = evidence(&l);
	return r;
}
