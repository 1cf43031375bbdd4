/* How a job stands: Slurm says whether it waits, runs or is over, the node's record how the analysis ended. A verdict of the node's cupel
 * stands, whatever Slurm says or does afterwards; but an analysis that was ended, or that ended itself with a failure, may have been
 * ended by Slurm: that waits for Slurm's word. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/path.h"
#include "executor/slurm.h"
#include "spec/id.h"

#define VERDICT_MAX (1 << 20)
#define TAIL_MAX    4096
#define LAG_NS      (60 * NS_PER_SEC)

static const struct meaning {
	const char *word; /* JobState of scontrol(1) */
	enum job_state state;
	enum job_why why;
} meanings[] = {
	{ "PENDING", JOB_QUEUED, JOB_WHY_NONE },      { "CONFIGURING", JOB_QUEUED, JOB_WHY_NONE },
	{ "REQUEUED", JOB_QUEUED, JOB_WHY_NONE },     { "REQUEUE_FED", JOB_QUEUED, JOB_WHY_NONE },
	{ "REQUEUE_HOLD", JOB_QUEUED, JOB_WHY_NONE }, { "RESV_DEL_HOLD", JOB_QUEUED, JOB_WHY_NONE },
	{ "SPECIAL_EXIT", JOB_QUEUED, JOB_WHY_NONE }, { "RUNNING", JOB_RUNNING, JOB_WHY_NONE },
	{ "SUSPENDED", JOB_RUNNING, JOB_WHY_NONE },   { "STOPPED", JOB_RUNNING, JOB_WHY_NONE },
	{ "RESIZING", JOB_RUNNING, JOB_WHY_NONE },    { "SIGNALING", JOB_RUNNING, JOB_WHY_NONE },
	{ "STAGE_OUT", JOB_RUNNING, JOB_WHY_NONE },   { "COMPLETING", JOB_RUNNING, JOB_WHY_NONE },
	{ "COMPLETED", JOB_ENDED, JOB_WHY_NONE },     { "FAILED", JOB_ENDED, JOB_WHY_NONE },
	{ "TIMEOUT", JOB_ENDED, JOB_WHY_DEADLINE },   { "DEADLINE", JOB_ENDED, JOB_WHY_DEADLINE },
	{ "OUT_OF_MEMORY", JOB_ENDED, JOB_WHY_OOM },  { "CANCELLED", JOB_ENDED, JOB_WHY_CANCELLED },
	{ "REVOKED", JOB_ENDED, JOB_WHY_CANCELLED },  { "PREEMPTED", JOB_ENDED, JOB_WHY_PREEMPTED },
	{ "NODE_FAIL", JOB_ENDED, JOB_WHY_NODE },     { "BOOT_FAIL", JOB_ENDED, JOB_WHY_START },
};

/* Held for good after Slurm could not start it: nobody but an administrator would let it go on. */
static bool is_stuck(const struct slurm_job *j)
{
	return str_eq(j->state, "PENDING") && strstr(j->reason, "launch") &&
	       strstr(j->reason, "held");
}

static void read_meaning(const struct slurm_job *j, struct job_report *ret)
{
	ret->state = JOB_UNKNOWN;
	for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++) {
		if (!str_eq(meanings[i].word, j->state))
			continue;
		ret->state = meanings[i].state;
		ret->why = meanings[i].why;
	}
	if (is_stuck(j)) {
		ret->state = JOB_ENDED;
		ret->why = JOB_WHY_START;
	}
	ret->restarts = j->restarts;
	ret->started_real_ns = ret->state == JOB_QUEUED ? 0 : j->started_real_ns;
	ret->ended_real_ns = ret->state == JOB_ENDED ? j->ended_real_ns : 0;
	(void)snprintf(ret->reason, sizeof ret->reason, "%s%s%s", j->state,
		       str_eq(j->reason, "None") ? "" : ", ",
		       str_eq(j->reason, "None") ? "" : j->reason);
}

/* As far as was told last. */
static bool is_waiting(const struct slurm_seen *seen)
{
	struct job_report report = { 0 };
	read_meaning(&seen->job, &report);
	return report.state == JOB_QUEUED;
}

/* What the node's cupel says, of each attempt by Slurm. */
struct looked {
	struct slurm *s;
	struct slurm_handle h;
	struct slurm_dir d;
	int last;    /* the last attempt that has a record, or negative */
	int decided; /* the first one whose verdict stands, or -1 */
	int verdict; /* the last one with any verdict, or -1 */
	bool likely; /* that one's is what it seems if nobody can be asked */
};

static void looked_release(struct looked *l)
{
	slurm_dir_release(&l->d);
}

static void look_at_verdict(struct looked *l, int attempt, const char *cause)
{
	bool ended = str_eq(cause, "cancelled") || str_eq(cause, "lost");
	l->verdict = attempt;
	l->likely = cause && !ended;
	if (l->likely && !str_eq(cause, "exit") && !str_eq(cause, "signal"))
		l->decided = attempt;
}

static void look_at_records(struct looked *l)
{
	l->decided = l->verdict = -1;
	l->last = slurm_dir_last(&l->d, l->h.id);
	for (int i = 0; i <= l->last && l->decided < 0; i++) {
		CLEANUP_FD int fd = slurm_dir_record(&l->d, (unsigned)i, l->h.id);
		CLEANUP_JSON json_t *verdict = NULL;
		if (fd >= 0 && json_read_file(fd, "verdict.json", VERDICT_MAX, &verdict, NULL) >= 0)
			look_at_verdict(l, i, json_string_value(json_object_get(verdict, "cause")));
	}
}

static int look(struct slurm *s, const json_t *handle, struct looked *ret, struct err *err)
{
	ret->s = s;
	int r = slurm_handle_open(s, handle, &ret->h, &ret->d, err);
	if (r >= 0 && !s->real_stage && !(s->real_stage = path_real(s->stage)))
		r = err_errno(err, "the stage %s", s->stage);
	if (r < 0)
		return r;
	look_at_records(ret);
	return 0;
}

/* Whoever opens it follows no link, and the site may have put some before its stage. */
static void point_at(const struct looked *l, int attempt, struct job_report *ret)
{
	(void)snprintf(ret->record, sizeof ret->record, "%s/%s/home.%d/runs/%s", l->s->real_stage,
		       l->h.name, attempt, l->h.id);
}

/* The last sample that the node's keeper wrote. */
static void read_usage(int record_fd, struct job_report *ret)
{
	char text[TAIL_MAX + 1];
	struct stat st = { 0 };
	CLEANUP_FD int fd =
		fs_open_beneath(record_fd, "usage.jsonl", O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	ssize_t n = pread(fd, text, TAIL_MAX, st.st_size > TAIL_MAX ? st.st_size - TAIL_MAX : 0);
	if (n <= 0 || text[n - 1] != '\n')
		return;
	text[n - 1] = '\0';
	const char *line = strrchr(text, '\n');
	CLEANUP_JSON json_t *o = json_loads(line ? line + 1 : text, 0, NULL);
	ret->mem_bytes = (uint64_t)json_integer_value(json_object_get(o, "mem"));
	ret->cpu_usec = (uint64_t)json_integer_value(json_object_get(o, "cpu_usec"));
	ret->pids = (uint64_t)json_integer_value(json_object_get(o, "pids"));
}

static void read_record(const struct looked *l, struct job_report *ret)
{
	CLEANUP_FD int fd = slurm_dir_record(&l->d, l->last < 0 ? 0 : (unsigned)l->last, l->h.id);
	if (fd < 0)
		return;
	ret->started = faccessat(fd, "receipt.json", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	read_usage(fd, ret);
}

/* What was said by whoever could not run it: the shell, env, or a cupel that refused. "" if it is not that. */
static void read_refusal(const struct looked *l, const struct slurm_job *j, char *ret, size_t room)
{
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;
	static const char *const statuses[] = { "2:0", "125:0", "126:0", "127:0" };
	bool is_refused = false;
	ret[0] = '\0';
	for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
		is_refused |= str_eq(j->exit, statuses[i]);
	if (!is_refused || l->last >= (int)j->restarts ||
	    fs_read_capped(l->d.fd, "slurm.err", VERDICT_MAX, &text, &length, NULL) < 0)
		return;
	while (length && strchr("\n\r ", text[length - 1]))
		text[--length] = '\0';
	const char *line = strrchr(text, '\n');
	(void)snprintf(ret, room, "%s", line ? line + 1 : text);
	str_clean(ret);
}

static json_t *make_evidence(const struct looked *l, const struct slurm_job *j)
{
	json_t *o = json_pack("{s:I,s:o,s:o,s:o,s:o,s:i}", "job", (json_int_t)l->h.task.number,
			      "state", json_text(j->state), "reason", json_text(j->reason),
			      "exit_code", json_text(j->exit), "node", json_text(j->node),
			      "restarts", (int)j->restarts);
	if (l->h.task.index >= 0)
		json_object_set_new(o, "array_index", json_integer(l->h.task.index));
	return o;
}

/* Slurm says that it is over, and no verdict stands. */
static void conclude(const struct looked *l, const struct slurm_job *j, struct job_report *ret)
{
	char said[sizeof ret->reason];
	if (l->verdict >= 0 && l->verdict == (int)j->restarts) {
		point_at(l, l->verdict, ret);
		return;
	}
	if (ret->why != JOB_WHY_NONE)
		return;
	read_refusal(l, j, said, sizeof said);
	if (said[0]) {
		ret->why = JOB_WHY_START;
		(void)snprintf(ret->reason, sizeof ret->reason, "%s", said);
	} else if (slurm_dir_lags(&l->d) && clock_real_ns() < j->ended_real_ns + LAG_NS) {
		ret->state = JOB_RUNNING;
		ret->ended_real_ns = 0;
	} else {
		(void)snprintf(ret->reason, sizeof ret->reason,
			       "%s with exit code %s, and the node left no verdict", j->state,
			       j->exit);
	}
}

/* It is over by the node's own word. A process of it may still be there as long as Slurm says that it runs. */
static void decide(const struct looked *l, struct job_report *ret)
{
	if (ret->state == JOB_RUNNING && !str_starts(ret->reason, "COMPLETING"))
		return;
	ret->state = JOB_ENDED;
	ret->why = JOB_WHY_NONE;
	ret->started = true;
	ret->restarts = (unsigned)l->decided;
	l->s->seen.attempt = l->decided;
	point_at(l, l->decided, ret);
}

/* Slurm forgot it, or can't be asked. */
static void conclude_alone(const struct looked *l, const struct err *why, struct job_report *ret)
{
	ret->state = l->verdict >= 0 ? JOB_ENDED : JOB_GONE;
	ret->restarts = l->last > 0 ? (unsigned)l->last : 0;
	(void)snprintf(ret->reason, sizeof ret->reason, "%.180s", why->text);
	if (l->verdict >= 0)
		point_at(l, l->verdict, ret);
}

int slurm_poll(struct executor *x, const json_t *handle, struct job_report *ret, struct err *err)
{
	struct slurm *s = slurm_begin(x);
	CLEANUP(looked_release) struct looked l = { .d = SLURM_DIR_INIT };
	struct job_report report = { 0 };
	struct slurm_job job = { 0 };
	int r = look(s, handle, &l, err);
	if (r == -ENOENT) {
		*ret = (struct job_report){ .state = JOB_GONE, .reason = "its directory is gone" };
		return 0;
	}
	if (r < 0)
		return r;
	if (l.verdict >= 0 || (l.last >= 0 && is_waiting(&s->seen)))
		s->seen.wait_ns = 0; /* ask now */
	r = slurm_ask(s, &l.d, &l.h, &job, err);
	if (r < 0 && r != -ENOENT && l.decided < 0 && !l.likely)
		return r;
	look_at_records(&l); /* what Slurm says has happened is to be seen there by now */
	read_record(&l, &report);
	if (r < 0) {
		conclude_alone(&l, err, &report);
	} else {
		read_meaning(&job, &report);
		report.evidence = make_evidence(&l, &job);
	}
	if (l.decided >= 0)
		decide(&l, &report);
	else if (r >= 0 && report.state == JOB_ENDED)
		conclude(&l, &job, &report);
	*ret = report;
	*err = (struct err){ 0 };
	return 0;
}

ssize_t slurm_logs(struct executor *x, const json_t *handle, int stream, uint64_t offset,
		   void *buffer, size_t room, struct err *err)
{
	struct slurm *s = slurm_begin(x);
	CLEANUP_SLURM_DIR struct slurm_dir d = SLURM_DIR_INIT;
	struct slurm_handle h = { 0 };
	struct stat st = { 0 };
	int r = slurm_handle_read(handle, &h, err);
	if (r >= 0)
		r = slurm_dir_open(s, h.name, &d, err);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	bool is_seen = str_eq(s->seen.name, h.name) && !s->seen.is_forgotten;
	if (is_seen && is_waiting(&s->seen))
		return 0; /* nothing is heard of it before it is said to run: it would be ended as one that waits */
	int attempt = is_seen ? s->seen.attempt : slurm_dir_last(&d, h.id);
	CLEANUP_FD int record_fd = attempt < 0 ? -1 : slurm_dir_record(&d, (unsigned)attempt, h.id);
	CLEANUP_FD int fd = record_fd < 0 ? -1
					  : fs_open_beneath(record_fd,
							    stream ? "stderr.log" : "stdout.log",
							    O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0);
	if (fd < 0)
		return 0; /* it has not begun */
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(err, ERR_HOST, EINVAL, "the log of %s is no file", h.name);
	ssize_t n = pread(fd, buffer, room, (off_t)offset);
	return n < 0 ? err_errno(err, "read the log of %s", h.name) : n;
}
