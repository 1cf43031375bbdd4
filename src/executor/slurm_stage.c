/* The directory of a job in the stage. Whom the analysis runs as can change everything in it, so it is looked at by descriptor, beneath
 * itself, through no link; the worst he can do is to spoil his own run. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/fs.h"
#include "base/num.h"
#include "executor/slurm.h"

#define NUMBER_MAX   32
#define NOTE_MAX     (EXECUTOR_NAME_MAX + 2 * NUMBER_MAX)
#define ATTEMPTS_MAX 100000
#define CIFS_MAGIC   0xFF534D42

void slurm_dir_release(struct slurm_dir *d)
{
	cleanup_fd(&d->fd);
}

int slurm_stage_open(const struct slurm *s, int *ret_fd, struct err *err)
{
	struct stat st = { 0 };
	CLEANUP_FD int fd = open(s->stage, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "the stage %s", s->stage);
	if ((st.st_uid != 0 && st.st_uid != geteuid()) ||
	    ((st.st_mode & 0022) && !(st.st_mode & S_ISVTX)))
		return err_set(
			err, ERR_HOST, EPERM,
			"the stage %s is one that others can change; it must be root's or yours, and have the sticky bit if others write there",
			s->stage);
	*ret_fd = take_fd(&fd);
	return 0;
}

int slurm_dir_open(const struct slurm *s, const char *name, struct slurm_dir *ret, struct err *err)
{
	CLEANUP_FD int stage_fd = -1;
	struct stat st = { 0 };
	int r = slurm_stage_open(s, &stage_fd, err);
	if (r < 0)
		return r;
	CLEANUP_FD int fd = openat(stage_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "%s/%s", s->stage, name);
	if (geteuid() != 0 && st.st_uid != geteuid())
		return err_set(err, ERR_HOST, EPERM, "%s/%s is somebody else's", s->stage, name);
	if (faccessat(fd, "reaped", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return err_set(err, ERR_HOST, ENOENT, "%s/%s is being swept", s->stage, name);
	*ret = (struct slurm_dir){ .fd = take_fd(&fd), .uid = st.st_uid, .gid = st.st_gid };
	return 0;
}

static bool is_empty(int dir_fd)
{
	CLEANUP_FD int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CLEANUP_DIR DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	size_t n = 0;
	if (!dir)
		return false;
	(void)take_fd(&fd);
	for (const struct dirent *e = readdir(dir); e; e = readdir(dir))
		n += !str_eq(e->d_name, ".") && !str_eq(e->d_name, "..");
	return n == 0;
}

int slurm_dir_make(const struct slurm *s, const char *name, uid_t uid, gid_t gid,
		   struct slurm_dir *ret, bool *ret_new, struct err *err)
{
	CLEANUP_SLURM_DIR struct slurm_dir d = SLURM_DIR_INIT;
	CLEANUP_FD int stage_fd = -1;
	int r = slurm_stage_open(s, &stage_fd, err);
	if (r < 0)
		return r;
	bool is_new = mkdirat(stage_fd, name, 0700) == 0;
	if (!is_new && errno != EEXIST)
		return err_errno(err, "make %s/%s", s->stage, name);
	r = slurm_dir_open(s, name, &d, err);
	if (r < 0)
		return r;
	if (!is_new && d.uid == geteuid() && d.uid != uid && is_empty(d.fd))
		is_new = true; /* whoever made it was killed before it was given away */
	if (is_new && d.uid != uid && fchown(d.fd, uid, gid) < 0)
		return err_errno(err, "give %s/%s to user %u", s->stage, name, (unsigned)uid);
	if (!is_new && d.uid != uid)
		return err_set(err, ERR_HOST, EPERM, "%s/%s is there, and not user %u's", s->stage,
			       name, (unsigned)uid);
	*ret = (struct slurm_dir){ .fd = take_fd(&d.fd), .uid = uid, .gid = gid };
	if (ret_new)
		*ret_new = is_new;
	return 0;
}

int slurm_dir_remove(const struct slurm *s, const char *name, struct err *err)
{
	CLEANUP_FD int stage_fd = -1;
	int r = slurm_stage_open(s, &stage_fd, err);
	return r < 0 ? r : fs_remove_tree(stage_fd, name, NULL, err);
}

/* A file until it has its name. */
struct temp {
	int dir_fd; /* borrowed */
	int fd;     /* owned */
	char name[40];
};

static void temp_release(struct temp *t)
{
	cleanup_fd(&t->fd);
	if (t->name[0])
		(void)unlinkat(t->dir_fd, t->name, 0);
	t->name[0] = '\0';
}

static int temp_open(struct temp *t)
{
	uint64_t random = 0;
	if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
		return -1;
	(void)snprintf(t->name, sizeof t->name, FS_TEMP_PREFIX "%016" PRIx64, random);
	t->fd = openat(t->dir_fd, t->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		       0600);
	if (t->fd < 0)
		t->name[0] = '\0'; /* not ours to remove */
	return t->fd;
}

/* Given to him before it has its name, and by descriptor: by then he may have put anything else there, which must not become his. */
static int write_file(const struct slurm_dir *d, const char *name, const char *text,
		      bool is_durable, struct err *err)
{
	CLEANUP(temp_release) struct temp t = { .dir_fd = d->fd, .fd = -1 };
	if (temp_open(&t) < 0)
		return err_errno(err, "make %s of a job", name);
	int r = fs_write_all(t.fd, text, strlen(text));
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "write %s of a job: %s", name,
			       strerrordesc_np(-r));
	if (d->uid != geteuid() && fchown(t.fd, d->uid, d->gid) < 0)
		return err_errno(err, "give %s of a job to user %u", name, (unsigned)d->uid);
	if ((is_durable && fsync(t.fd) < 0) || renameat(d->fd, t.name, d->fd, name) < 0)
		return err_errno(err, "write %s of a job", name);
	t.name[0] = '\0';
	return is_durable && fsync(d->fd) < 0 ? err_errno(err, "write %s of a job", name) : 0;
}

int slurm_dir_write(const struct slurm_dir *d, const char *name, const char *text, struct err *err)
{
	return write_file(d, name, text, true, err);
}

int slurm_dir_put(const struct slurm_dir *d, const char *name, const char *text, struct err *err)
{
	return write_file(d, name, text, false, err);
}

/* Directories of arrays are told from those of runs by the "+". */
static bool is_array_name(const char *name)
{
	return str_starts(name, "cupel-") && strchr(name, '+') && !strpbrk(name, "/ \n") &&
	       strlen(name) <= EXECUTOR_NAME_MAX;
}

int slurm_task_read(const char *text, struct slurm_task *ret)
{
	struct slurm_task task = SLURM_TASK_INIT;
	CLEANUP_FREE char *number = xstrndup(text, strcspn(text, "_ \n"));
	const char *rest = text + strlen(number);
	uint64_t index = 0;
	if (num_u64(number, UINT32_MAX, &task.number) < 0)
		return -EINVAL;
	if (*rest == '_') {
		CLEANUP_FREE char *word = xstrndup(rest + 1, strcspn(rest + 1, " \n"));
		if (num_u64(word, INT32_MAX, &index) < 0)
			return -EINVAL;
		task.index = (int)index;
		rest += 1 + strlen(word);
	}
	if (*rest == ' ' && is_array_name(rest + 1))
		(void)snprintf(task.array, sizeof task.array, "%s", rest + 1);
	*ret = task;
	return 0;
}

bool slurm_dir_note(const struct slurm_dir *d, const char *name, struct slurm_task *ret)
{
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;
	return fs_read_capped(d->fd, name, NOTE_MAX, &text, &length, NULL) >= 0 &&
	       slurm_task_read(text, ret) >= 0;
}

bool slurm_dir_job(const struct slurm_dir *d, struct slurm_task *ret)
{
	char text[NOTE_MAX] = "";
	struct slurm_task task = SLURM_TASK_INIT;
	ssize_t n = readlinkat(d->fd, "owner", text, sizeof text - 1);
	text[n > 0 ? n : 0] = '\0';
	if (n <= 0 || slurm_task_read(text, &task) < 0 || !task.number) {
		if (!slurm_dir_note(d, "job", &task) || !task.number)
			return false;
	}
	*ret = task;
	return true;
}

int slurm_task_note(const struct slurm_dir *d, const struct slurm_task *task, struct err *err)
{
	CLEANUP_FREE char *text = task->index < 0 ? xasprintf("%" PRIu64, task->number)
						  : xasprintf("%" PRIu64 "_%d %s", task->number,
							      task->index, task->array);
	return slurm_dir_put(d, task->number ? "job" : "array", text, err);
}

int slurm_dir_record(const struct slurm_dir *d, unsigned attempt, const char *id)
{
	CLEANUP_FREE char *path = xasprintf("home.%u/runs/%s", attempt, id);
	return fs_open_beneath(d->fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
}

int slurm_dir_last(const struct slurm_dir *d, const char *id)
{
	CLEANUP_FD int fd = openat(d->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CLEANUP_DIR DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	int last = -ENOENT;
	if (!dir)
		return -errno;
	(void)take_fd(&fd);
	for (const struct dirent *e = readdir(dir); e; e = readdir(dir)) {
		uint64_t n = 0;
		if (!str_starts(e->d_name, "home.") ||
		    num_u64(e->d_name + strlen("home."), ATTEMPTS_MAX, &n) < 0 || (int)n <= last)
			continue;
		CLEANUP_FD int record_fd = slurm_dir_record(d, (unsigned)n, id);
		if (record_fd >= 0)
			last = (int)n;
	}
	return last;
}

bool slurm_dir_lags(const struct slurm_dir *d)
{
	struct statfs st = { 0 };
	if (fstatfs(d->fd, &st) < 0)
		return true;
	return st.f_type == NFS_SUPER_MAGIC || st.f_type == SMB_SUPER_MAGIC ||
	       st.f_type == SMB2_SUPER_MAGIC || st.f_type == FUSE_SUPER_MAGIC ||
	       st.f_type == V9FS_MAGIC || (uint32_t)st.f_type == CIFS_MAGIC;
}
