/* Shards of a scattered step that are submitted at about the same time go to Slurm as one array. Each has a directory and a keeper of its own as
 * any other job; the keepers find each other by arrays/KEY.SHARD in the home, which names the shard's job. Whoever has the lock waits until no
 * more come, and submits for all:
 *
 *	array of each job: the array's name and its index there, and the directory of the array, STAGE/ARRAY: which job is which index
 *	sbatch
 *	job of each job: the array's number
 *
 * If it dies on the way the next one finds the array by its name in the queue, or begins anew. Where Slurm takes no arrays each is submitted
 * alone. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fs.h"
#include "executor/slurm_array.h"

/* So long is waited for whoever submits before a cancel is heard; whoever submits hears none until sbatch has ended. */
#define TURN_NS (2 * NS_PER_SEC)

/* Whoever submitted for it died: the array is in the queue, or never came there. 1: it is. *last: the array that was asked for before. */
static int recover(const struct slurm *s, const struct slurm_dir *d, struct slurm_task *last,
		   struct slurm_task *ret, struct err *err)
{
	struct slurm_task task = SLURM_TASK_INIT;
	int r = 0;
	if (!slurm_dir_note(d, "array", &task) || task.index < 0)
		return 0;
	if (!str_eq(last->array, task.array)) {
		*last = task;
		r = slurm_in_queue(s, d, task.array, &last->number, err);
	}
	if (r < 0)
		return r;
	if (last->number) {
		task.number = last->number;
		r = slurm_task_note(d, &task, err);
		*ret = task;
		return r < 0 ? r : 1;
	}
	slurm_array_forget(s, d, &task);
	return unlinkat(d->fd, "array", 0) < 0 && errno != ENOENT
		       ? err_errno(err, "remove the note of an array")
		       : 0;
}

/* Of those that came, the ones that are to be submitted. */
static int choose(const struct slurm *s, const struct slurm_meeting *at, const struct slurm_dir *d,
		  struct slurm_members *m, struct err *err)
{
	struct slurm_task last = SLURM_TASK_INIT;
	for (size_t i = m->n; i > 0; i--) {
		struct slurm_member *one = &m->v[i - 1];
		struct slurm_task task = SLURM_TASK_INIT;
		int r = slurm_dir_open(s, one->name, &one->d, NULL);
		bool is_fit = r >= 0 && one->d.uid == d->uid && !slurm_dir_job(&one->d, &task);
		if (is_fit)
			r = recover(s, &one->d, &last, &task, err);
		if (is_fit && r < 0)
			return r;
		if (is_fit && r == 0)
			continue;
		slurm_meeting_drop(at, one->shard);
		slurm_members_drop(m, i - 1);
	}
	return 0;
}

/* Who looks at the queue sees the number of the shard, as far as Slurm counts. */
static void number_members(struct slurm_members *m)
{
	bool fit = m->n && m->v[m->n - 1].shard < SLURM_ARRAY_MAX;
	for (size_t i = 0; i < m->n; i++)
		m->v[i].index = fit ? (int)m->v[i].shard + 1 : (int)i + 1;
}

/* One that no run has: ids have no "+". */
static int make_name(const struct slurm *s, const struct job *job, char ret[EXECUTOR_NAME_MAX + 1],
		     struct err *err)
{
	const struct analysis_place *place = &job->analysis->place;
	CLEANUP_FREE char *of =
		xasprintf("%s-%.*s", place->pipeline, (int)strcspn(place->step, "["), place->step);
	CLEANUP_FREE char *name = executor_job_name(s->x->config->home, of);
	uint64_t random = 0;
	if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
		return err_errno(err, "get random bytes");
	(void)snprintf(ret, EXECUTOR_NAME_MAX + 1, "%.180s+%016" PRIx64, name, random);
	return 0;
}

/* What Slurm is given, with a file for each index: one that is gone has nothing to run. */
static int write_array(const struct slurm *s, const struct slurm_members *m, const char *name,
		       struct err *err)
{
	CLEANUP_SLURM_DIR struct slurm_dir a = SLURM_DIR_INIT;
	CLEANUP_STR struct str script = { 0 };
	CLEANUP_FREE char *stage = str_shell(s->stage);
	int r = slurm_dir_make(s, name, m->v[0].d.uid, m->v[0].d.gid, &a, NULL, err);
	for (size_t i = 0; r >= 0 && i < m->n; i++) {
		char index[16];
		(void)snprintf(index, sizeof index, "%d", m->v[i].index);
		r = slurm_dir_put(&a, index, m->v[i].name, err);
	}
	if (r < 0)
		return r;
	str_addf(
		&script,
		"#!/bin/sh\n# A job array of cupel: the task of each index is one run, as the script in its directory says.\numask 077\n"
		"job=$(cat %s/%s/\"$SLURM_ARRAY_TASK_ID\" 2>/dev/null) && cd %s/\"$job\" || exit 0\n"
		"exec /bin/sh ./script 2>>slurm.err\n",
		stage, name, stage);
	return slurm_dir_write(&a, "script", str_text(&script), err);
}

static int submit(const struct slurm *s, const struct slurm_dir *d, const struct slurm_members *m,
		  const char *name, const struct strv *limits, uint64_t *ret, struct err *err)
{
	CLEANUP_STRV struct strv words = { 0 };
	CLEANUP_STR struct str indexes = { 0 };
	for (size_t i = 0; i < m->n; i++)
		str_addf(&indexes, "%s%d", i ? "," : "", m->v[i].index);
	slurm_command(s, name, &words);
	strv_addf(&words, "--job-name=%s", name);
	strv_add(&words, "--error=/dev/null");
	strv_copy(&words, limits);
	strv_addf(&words, "--array=%s", str_text(&indexes));
	strv_addf(&words, "%s/%s/script", s->stage, name);
	return slurm_sbatch(s, d, &words, ret, err);
}

static int note_all(const struct slurm_meeting *at, const struct slurm_members *m,
		    const struct slurm_task *array, struct err *err)
{
	int r = 0;
	for (size_t i = 0; r >= 0 && i < m->n; i++) {
		struct slurm_task task = *array;
		task.index = m->v[i].index;
		r = slurm_task_note(&m->v[i].d, &task, err);
		if (r >= 0 && task.number)
			slurm_meeting_drop(at, m->v[i].shard);
	}
	return r;
}

/* Slurm takes no such array: each is submitted alone, and told why if that is refused too. */
static int leave_alone(const struct slurm *s, const struct slurm_meeting *at,
		       const struct slurm_members *m, const struct slurm_task *array,
		       struct err *err)
{
	struct slurm_handle all = { .task = SLURM_TASK_INIT, .name = array->array };
	int r = 0;
	if (array->array
		    [0]) /* it may have come through all the same: with nothing to run it would still wait for its turn */
		(void)slurm_scancel(s, &m->v[0].d, &all, NULL, NULL);
	for (size_t i = 0; r >= 0 && i < m->n; i++) {
		struct slurm_task task = *array;
		task.index = m->v[i].index;
		if (task.array[0])
			slurm_array_forget(s, &m->v[i].d, &task);
		(void)unlinkat(m->v[i].d.fd, "array", 0);
		r = slurm_dir_write(&m->v[i].d, "alone", "", err);
		slurm_meeting_drop(at, m->v[i].shard);
	}
	return r;
}

/* With the lock. */
static int lead(struct slurm *s, const struct slurm_meeting *at, const struct job *job,
		const struct slurm_dir *d, const struct strv *limits, struct err *err)
{
	CLEANUP_SLURM_MEMBERS struct slurm_members *m = xcalloc(1, sizeof *m);
	struct slurm_task array = SLURM_TASK_INIT;
	int r = slurm_meeting_wait(at, job->analysis->place.shards, m, err);
	if (r >= 0)
		r = choose(s, at, d, m, err);
	if (r >= 0 &&
	    m->n == 0) { /* all were found in the queue; or not even our own entry could be used */
		struct slurm_task found = SLURM_TASK_INIT;
		if (slurm_dir_job(d, &found))
			return 0;
		r = err_set(err, ERR_HOST, EAGAIN, "its directory in the stage can't be opened");
	}
	if (r < 0)
		return r;
	if (m->n == 1)
		return leave_alone(s, at, m, &array, err);
	number_members(m);
	r = make_name(s, job, array.array, err);
	if (r >= 0)
		r = note_all(at, m, &array, err);
	if (r >= 0)
		r = write_array(s, m, array.array, err);
	FAULT_PHASE("array-noted");
	s->until_ns = clock_monotonic_ns() + SLURM_CALL_NS; /* all that took its time */
	if (r >= 0)
		r = submit(s, d, m, array.array, limits, &array.number, err);
	if (r == -EREMOTEIO)
		return leave_alone(s, at, m, &array, err);
	FAULT_PHASE("array-submitted");
	return r < 0 ? r : note_all(at, m, &array, err);
}

static bool is_alone(const struct slurm_dir *d)
{
	return faccessat(d->fd, "alone", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

bool slurm_array_is_gathering(const struct slurm_dir *d)
{
	return faccessat(d->fd, "gather", F_OK, AT_SYMLINK_NOFOLLOW) == 0 && !is_alone(d);
}

int slurm_array_submit(struct slurm *s, const struct job *job, const struct slurm_dir *d,
		       const struct strv *limits, struct slurm_task *ret, struct err *err)
{
	CLEANUP_SLURM_MEETING struct slurm_meeting at = SLURM_MEETING_INIT;
	char key[SLURM_KEY_LENGTH + 1];
	uint64_t until_ns = clock_monotonic_ns() + TURN_NS;
	if (job->analysis->place.shards < 2 || is_alone(d))
		return 0;
	slurm_meeting_key(s, job, d, limits, key);
	int r = slurm_meeting_open(s, d, key, &at, err);
	if (r >= 0)
		r = slurm_meeting_enter(&at, job, d, err);
	while (r >= 0 && !slurm_dir_job(d, ret) && !is_alone(d)) {
		if (flock(at.lock_fd, LOCK_EX | LOCK_NB) == 0) {
			/* While we waited for the lock, whoever had it may have done all. */
			if (!slurm_dir_job(d, ret) && !is_alone(d))
				r = lead(s, &at, job, d, limits, err);
			(void)flock(at.lock_fd, LOCK_UN);
		} else if (clock_monotonic_ns() > until_ns) {
			return err_set(err, ERR_HOST, EAGAIN, "the array is being submitted");
		} else {
			slurm_pause(SLURM_LOOK_NS);
		}
	}
	if (r < 0)
		return r;
	slurm_meeting_drop(&at, job->analysis->place.shard);
	return ret->number != 0;
}

int slurm_array_hold(const struct slurm *s, const struct slurm_dir *d, struct slurm_task *ret,
		     struct slurm_meeting *at, struct err *err)
{
	struct slurm_task last = SLURM_TASK_INIT;
	int r = slurm_meeting_find(s, d, at, err);
	if (r <= 0)
		return r;
	while (flock(at->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		if (clock_monotonic_ns() > s->until_ns)
			return err_set(err, ERR_HOST, EAGAIN, "the array is being submitted");
		slurm_pause(SLURM_LOOK_NS);
	}
	return slurm_dir_job(d, ret) ? 1 : recover(s, d, &last, ret, err);
}

static bool has_indexes(int fd)
{
	CLEANUP_FD int again_fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CLEANUP_DIR DIR *dir = again_fd < 0 ? NULL : fdopendir(again_fd);
	if (!dir)
		return true;
	(void)take_fd(&again_fd);
	for (const struct dirent *e = readdir(dir); e; e = readdir(dir))
		if (e->d_name[0] >= '0' && e->d_name[0] <= '9')
			return true;
	return false;
}

/* The name is from a directory that its user can change: only an array of his own is touched. */
void slurm_array_forget(const struct slurm *s, const struct slurm_dir *d,
			const struct slurm_task *task)
{
	CLEANUP_FD int stage_fd = -1;
	struct stat st = { 0 };
	char index[16];
	if (!task->array[0] || slurm_stage_open(s, &stage_fd, NULL) < 0)
		return;
	CLEANUP_FD int fd =
		openat(stage_fd, task->array, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != d->uid)
		return;
	(void)snprintf(index, sizeof index, "%d", task->index);
	(void)unlinkat(fd, index, 0);
	if (!has_indexes(fd))
		(void)fs_remove_tree(stage_fd, task->array, NULL, NULL);
}
