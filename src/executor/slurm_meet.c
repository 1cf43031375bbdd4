/* Where the keepers of shards that may go to Slurm together find each other: arrays/KEY.SHARD in the home. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/hash.h"
#include "base/num.h"
#include "executor/slurm_array.h"

#define QUIET_NS  NS_PER_SEC
#define GATHER_NS (4 * NS_PER_SEC)

/* What they have in common. */
void slurm_meeting_key(const struct slurm *s, const struct job *job, const struct slurm_dir *d,
		       const struct strv *limits, char ret[SLURM_KEY_LENGTH + 1])
{
	const struct analysis_place *place = &job->analysis->place;
	CLEANUP_STR struct str text = { 0 };
	char digest[HASH_HEX];
	str_addf(&text, "%s\n%s\n%u\n%s\n%.*s\n", s->stage, s->x->settings->name, (unsigned)d->uid,
		 place->pipeline, (int)strcspn(place->step, "["), place->step);
	for (size_t i = 0; i < limits->n; i++)
		str_addf(&text, "%s\n", limits->v[i]);
	hash_bytes(str_text(&text), strlen(str_text(&text)), digest);
	(void)snprintf(ret, SLURM_KEY_LENGTH + 1, "%.*s", SLURM_KEY_LENGTH, digest);
}

void slurm_meeting_release(struct slurm_meeting *m)
{
	cleanup_fd(&m->dir_fd);
	cleanup_fd(&m->lock_fd);
}

/* The lock itself is not taken yet. There are sixteen of a user, which stay: no user waits for another; two steps of one user may share one, and go one after the other. */
int slurm_meeting_open(const struct slurm *s, const struct slurm_dir *d, const char *key,
		       struct slurm_meeting *ret, struct err *err)
{
	CLEANUP_FREE char *path = xasprintf("%s/arrays", s->x->config->home);
	CLEANUP_FREE char *lock = xasprintf("lock.%u.%c", (unsigned)d->uid, key[0]);
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_errno(err, "make %s", path);
	(void)snprintf(ret->key, sizeof ret->key, "%s", key);
	ret->dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (ret->dir_fd >= 0)
		ret->lock_fd = openat(ret->dir_fd, lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	return ret->dir_fd < 0 || ret->lock_fd < 0 ? err_errno(err, "open %s/%s", path, lock) : 0;
}

int slurm_meeting_find(const struct slurm *s, const struct slurm_dir *d, struct slurm_meeting *ret,
		       struct err *err)
{
	CLEANUP_FREE char *key = NULL;
	size_t length = 0;
	if (fs_read_capped(d->fd, "gather", SLURM_KEY_LENGTH, &key, &length, NULL) < 0 ||
	    length != SLURM_KEY_LENGTH || key[strspn(key, "0123456789abcdef")])
		return 0;
	int r = slurm_meeting_open(s, d, key, ret, err);
	return r < 0 ? r : 1;
}

void slurm_pause(uint64_t ns)
{
	struct timespec pause = { .tv_nsec = (long)ns };
	(void)nanosleep(&pause, NULL);
}

void slurm_members_free(struct slurm_members **m)
{
	for (size_t i = 0; *m && i < (*m)->n; i++)
		slurm_dir_release(&(*m)->v[i].d);
	free(*m);
	*m = NULL;
}

void slurm_members_drop(struct slurm_members *m, size_t at)
{
	slurm_dir_release(&m->v[at].d);
	memmove(&m->v[at], &m->v[at + 1], (--m->n - at) * sizeof m->v[0]);
}

static int by_shard(const void *a, const void *b)
{
	const struct slurm_member *x = a, *y = b;
	return (x->shard > y->shard) - (x->shard < y->shard);
}

static char *entry_name(const struct slurm_meeting *at, unsigned shard)
{
	return xasprintf("%s.%u", at->key, shard);
}

void slurm_meeting_drop(const struct slurm_meeting *at, unsigned shard)
{
	CLEANUP_FREE char *entry = entry_name(at, shard);
	(void)unlinkat(at->dir_fd, entry, 0);
}

/* Who has come. Their directories are not opened yet. */
static int members_read(const struct slurm_meeting *at, struct slurm_members *ret, struct err *err)
{
	CLEANUP_FD int fd = openat(at->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CLEANUP_DIR DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir)
		return err_errno(err, "read arrays of the home");
	(void)take_fd(&fd);
	ret->n = 0;
	for (const struct dirent *e = readdir(dir); e && ret->n < SLURM_ARRAY_MAX;
	     e = readdir(dir)) {
		CLEANUP_FREE char *name = NULL;
		size_t length = 0;
		uint64_t shard = 0;
		if (strncmp(e->d_name, at->key, SLURM_KEY_LENGTH) != 0 ||
		    e->d_name[SLURM_KEY_LENGTH] != '.' ||
		    num_u64(e->d_name + SLURM_KEY_LENGTH + 1, UINT32_MAX, &shard) < 0 ||
		    fs_read_capped(at->dir_fd, e->d_name, EXECUTOR_NAME_MAX, &name, &length, NULL) <
			    0 ||
		    !length)
			continue;
		struct slurm_member *m = &ret->v[ret->n++];
		*m = (struct slurm_member){ .shard = (unsigned)shard, .d = SLURM_DIR_INIT };
		(void)snprintf(m->name, sizeof m->name, "%s", name);
	}
	qsort(ret->v, ret->n, sizeof ret->v[0], by_shard);
	return 0;
}

/* Until all have come, or no more come. */
int slurm_meeting_wait(const struct slurm_meeting *at, unsigned shards, struct slurm_members *ret,
		       struct err *err)
{
	uint64_t begin = clock_monotonic_ns(), last = begin;
	for (size_t before = 0;;) {
		int r = members_read(at, ret, err);
		uint64_t now = clock_monotonic_ns();
		if (r < 0 || ret->n >= shards || ret->n == SLURM_ARRAY_MAX ||
		    now - begin > GATHER_NS)
			return r;
		if (ret->n != before)
			last = now;
		else if (now - last > QUIET_NS)
			return r;
		before = ret->n;
		slurm_pause(SLURM_LOOK_NS);
	}
}

int slurm_meeting_enter(const struct slurm_meeting *at, const struct job *job,
			const struct slurm_dir *d, struct err *err)
{
	CLEANUP_FREE char *entry = entry_name(at, job->analysis->place.shard);
	int r = slurm_dir_write(d, "gather", at->key, err); /* before anybody can find it here */
	return r < 0 ? r
		     : fs_write_atomic(at->dir_fd, entry, job->name, strlen(job->name), 0600, err);
}

void slurm_meeting_leave(const struct slurm_meeting *at, const char *name)
{
	CLEANUP_SLURM_MEMBERS struct slurm_members *m = at->dir_fd < 0 ? NULL
								       : xcalloc(1, sizeof *m);
	if (!m || members_read(at, m, NULL) < 0)
		return;
	for (size_t i = 0; i < m->n; i++)
		if (str_eq(m->v[i].name, name))
			slurm_meeting_drop(at, m->v[i].shard);
}
