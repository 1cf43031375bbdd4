/* The record of a node's own keeper becomes ours: its receipt, its outputs, its verdict. It is read as data: nothing there is believed beyond
 * what a verdict can say. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "keeper/attend.h"

#define RECORD_MAX ((size_t)8 << 20)

static bool read_cause(const json_t *verdict, enum cause *ret)
{
	const char *name = json_string_value(json_object_get(verdict, "cause"));
	for (int i = 0; name && i < CAUSE_COUNT_; i++)
		if (str_eq(name, cause_name((enum cause)i))) {
			*ret = (enum cause)i;
			return true;
		}
	return false;
}

static uint64_t count_of(const json_t *o, const char *key)
{
	json_int_t value = json_integer_value(json_object_get(o, key));
	return value > 0 ? (uint64_t)value : 0;
}

static void take_usage(struct ending *e, const json_t *verdict)
{
	const json_t *usage = json_object_get(verdict, "usage");
	const json_t *evidence = json_object_get(verdict, "evidence");
	const char *missing = json_string_value(json_object_get(verdict, "missing_layers"));
	struct usage *u = &e->usage;
	e->wall_ns = count_of(usage, "wall_usec") * 1000;
	u->cpu_usec = count_of(usage, "cpu_usec");
	u->cpu_user_usec = count_of(usage, "cpu_user_usec");
	u->cpu_system_usec = count_of(usage, "cpu_system_usec");
	u->mem_peak_bytes = count_of(usage, "memory_peak_bytes");
	u->mem_anon_bytes = count_of(usage, "memory_anon_peak_bytes");
	u->mem_file_bytes = count_of(usage, "memory_file_peak_bytes");
	u->mem_shmem_bytes = count_of(usage, "memory_shmem_peak_bytes");
	u->pids_peak = count_of(usage, "pids_peak");
	u->io_read_bytes = count_of(usage, "io_read_bytes");
	u->io_write_bytes = count_of(usage, "io_write_bytes");
	u->oom_kills = count_of(evidence, "oom_kills");
	u->pids_limit_hits = count_of(evidence, "pids_limit_hits");
	e->disk_peak_bytes = count_of(usage, "disk_peak_bytes");
	e->disk_peak_inodes = count_of(usage, "disk_peak_inodes");
	(void)snprintf(e->missing_layers, sizeof e->missing_layers, "%s", missing ? missing : "");
}

/* An analysis that was ended, or ended itself, as somebody here or the engine wanted it: that is why. */
static bool is_explained(const struct attendance *t, enum cause cause)
{
	bool by_whomever = cause == CAUSE_CANCELLED || cause == CAUSE_LOST ||
			   cause == CAUSE_SIGNAL || cause == CAUSE_EXIT;
	bool is_told = t->s->k.ending.stop != STOP_NONE && t->s->k.ending.stop != STOP_LOST;
	return by_whomever && (is_told || t->report.why != JOB_WHY_NONE);
}

/* Its success is looked at again here, by the outputs that arrived; its failure is what it is. */
static void take_verdict(struct attendance *t, const json_t *verdict, enum cause cause)
{
	struct ending *e = &t->s->k.ending;
	const char *notes = json_string_value(json_object_get(verdict, "completion_notes"));
	const json_t *code = json_object_get(verdict, "exit_code");
	struct verdict *v = &t->given;
	take_usage(e, verdict);
	e->started = true;
	if (is_explained(t, cause)) {
		e->usage.oom_kills += t->report.why == JOB_WHY_OOM;
		return;
	}
	e->exited = true;
	e->wait_status = 0;
	e->stop = STOP_NONE;
	if (cause == CAUSE_OK)
		return;
	*v = (struct verdict){ .cause = cause, .exit_code = -1 };
	if (json_is_integer(code))
		v->exit_code = (int)json_integer_value(code);
	v->signal = (int)json_integer_value(json_object_get(verdict, "signal"));
	v->exit_status = (int)json_integer_value(json_object_get(verdict, "exit_status"));
	(void)snprintf(v->notes, sizeof v->notes, "%s", notes ? notes : "");
	str_clean(v->notes);
	e->given = v;
}

static void take_file(struct attendance *t, int dir_fd, const char *name)
{
	struct record *record = &t->s->k.record;
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;
	if (fs_read_capped(dir_fd, name, RECORD_MAX, &text, &length, NULL) < 0)
		return;
	(void)unlinkat(record->dir_fd, name, 0); /* what was known before it ended */
	if (length && text[length - 1] == '\n')
		text[length - 1] = '\0';
	(void)record_text(record, name, take_ptr(text), NULL);
}

/* Where its outputs are, as if it were the working directory: keeper_collect copies and digests them. */
static void open_outputs(struct attendance *t, int dir_fd, bool is_ok)
{
	struct keeping *k = &t->s->k;
	struct stat st = { 0 };
	k->scratch.dir_fd = fs_open_beneath(dir_fd, is_ok ? "outputs" : "partial",
					    O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (k->scratch.dir_fd < 0) { /* it has none: an empty place will do, such as the stage's */
		k->scratch.dir_fd = -1;
		CLEANUP_FREE char *none = xasprintf("%s/none", t->stage);
		if (mkdir(none, 0700) == 0 || errno == EEXIST)
			k->scratch.dir_fd = open(none, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (k->scratch.dir_fd >= 0 && fstat(k->scratch.dir_fd, &st) == 0) {
		t->s->uid = st.st_uid;
		t->s->gid = st.st_gid;
	}
}

/* Whoever the job belongs to can write around it: nothing is followed, and what is not his is not his record. */
static int open_record(const struct attendance *t)
{
	const struct config_caller *caller = &t->s->k.q->config->caller;
	uid_t owner = geteuid() == 0 && caller->is_set ? caller->uid : geteuid();
	struct stat st = { 0 };
	CLEANUP_FD int fd = fs_open_resolve(AT_FDCWD, t->report.record,
					    O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0,
					    RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	/* Or ours: cupel there may be the same user's as here, and act for him. */
	return st.st_uid == owner || st.st_uid == geteuid() ? take_fd(&fd) : -EPERM;
}

/* It has ended, and what it left is there: an executor that is out of reach is waited for as long as one whose job runs. */
static int collect(struct attendance *t, const struct job *job, struct err *err)
{
	uint64_t until_ns = clock_monotonic_ns() + t->x->settings->patience_ns;
	int r = 0;
	while (t->x->ops->collect && (r = t->x->ops->collect(t->x, t->handle, job, err)) == -EAGAIN)
		if (attend_try_again(t, until_ns) < 0)
			break;
	if (r >= 0)
		*err = (struct err){ 0 };
	return r;
}

void attend_take(struct attendance *t)
{
	struct keeping *k = &t->s->k;
	CLEANUP_JSON json_t *verdict = NULL;
	struct job job = attend_job(t);
	struct err err = { 0 };
	enum cause cause = CAUSE_LOST;
	if (!t->report.record[0])
		return;
	if (collect(t, &job, &err) < 0) {
		if (k->ending.stop != STOP_CANCEL)
			k->ending.stop = STOP_LOST;
		k->ending.setup = err;
		return;
	}
	CLEANUP_FD int dir_fd = open_record(t);
	int r = dir_fd < 0 ? err_set(&err, ERR_HOST, -dir_fd,
				     "open the node's record %.300s, through no link: %s",
				     t->report.record, strerrordesc_np(-dir_fd))
			   : json_read_file(dir_fd, "verdict.json", RECORD_MAX, &verdict, &err);
	if (r < 0 || !read_cause(verdict, &cause)) {
		k->ending.stop = STOP_LOST;
		k->ending.setup = err;
		return;
	}
	take_verdict(t, verdict, cause);
	take_file(t, dir_fd, "receipt.json");
	open_outputs(t, dir_fd, cause == CAUSE_OK);
	json_object_set_new(t->report.evidence ? t->report.evidence
					       : (t->report.evidence = json_object()),
			    "node_verdict", json_incref(verdict));
}
