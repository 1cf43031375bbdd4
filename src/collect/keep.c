/* --keep: the working directory of a dead box, copied for people to look at. It costs what it cost the analysis: holes stay
 * holes and hard links, which would multiply, stay behind. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "collect/copy.h"
#include "collect/entry.h"
#include "collect/outputs.h"

struct kept_copy {
	struct rights rights;
	char *buffer; /* owned; COPY_BUFFER_SIZE */
	uint64_t files;
	uint64_t entries;
};

static void keeping_release(struct kept_copy *k)
{
	rights_release(&k->rights);
	free(k->buffer);
}

static int keep_link(struct kept_copy *k, int from_fd, int to_fd, const char *name)
{
	char target[PATH_MAX];
	ssize_t n;
	{
		CLEANUP_RIGHTS_LEAVE const struct rights *as = &k->rights;
		int r = rights_enter(as);
		if (r < 0)
			return r;
		n = readlinkat(from_fd, name, target, sizeof target - 1);
	}
	if (n <= 0)
		return 0;
	target[n] = '\0';
	if (symlinkat(target, to_fd, name) < 0)
		return -errno;
	k->files++;
	return 0;
}

static int keep_file(struct kept_copy *k, const struct entry *e, int to_fd, const char *name)
{
	mode_t mode = (e->st.st_mode & 0755) | 0600;
	CLEANUP_FD int fd =
		openat(to_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd < 0)
		return -errno;
	struct copy copy = { e->fd, fd, &e->st, k->buffer };
	const char *reason = NULL;
	int r = copy_sparse(&copy, &reason);
	if (r == 0 && !reason) {
		k->files++;
		return 0;
	}
	/* A size that the destination cannot even write down is the analysis's doing. */
	if (unlinkat(to_fd, name, 0) < 0 && r == 0)
		r = -errno;
	return r == -EFBIG ? 0 : r;
}

static int keep_dir(struct kept_copy *k, DIR *from, int to_fd, unsigned depth);

static int keep_below(struct kept_copy *k, struct entry *e, int to_fd, const char *name,
		      unsigned depth)
{
	CLEANUP_DIR DIR *dir = entry_list(take_fd(&e->fd));
	if (!dir || mkdirat(to_fd, name, 0755) < 0)
		return -errno;
	CLEANUP_FD int fd = openat(to_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return depth < OUTPUT_DEPTH_MAX ? keep_dir(k, dir, fd, depth + 1) : 0;
}

static int keep_dir(struct kept_copy *k, DIR *from, int to_fd, unsigned depth)
{
	const struct dirent *d;
	while ((d = entry_next(from)) != NULL && k->entries++ < OUTPUT_ENTRIES_MAX) {
		CLEANUP_ENTRY struct entry e = { .fd = -1 };
		int r = entry_open(&k->rights, dirfd(from), d->d_name, &e);
		if (r == 0 && e.reason && S_ISLNK(e.st.st_mode))
			r = keep_link(k, dirfd(from), to_fd, d->d_name);
		else if (r == 0 && !e.reason && S_ISREG(e.st.st_mode))
			r = keep_file(k, &e, to_fd, d->d_name);
		else if (r == 0 && !e.reason)
			r = keep_below(k, &e, to_fd, d->d_name, depth);
		if (r < 0)
			return r;
	}
	return 0;
}

int outputs_keep(int work_fd, int dest_fd, uid_t uid, gid_t gid, uint64_t *ret_files,
		 struct err *err)
{
	CLEANUP(keeping_release)
	struct kept_copy k = { .buffer = xmalloc(COPY_BUFFER_SIZE) };
	int r = rights_init(&k.rights, uid, gid, err);
	if (r < 0)
		return r;

	CLEANUP_ENTRY struct entry top = { .fd = -1 };
	r = entry_open(&k.rights, work_fd, ".", &top);
	if (r == 0 && !top.reason) {
		CLEANUP_DIR DIR *dir = entry_list(take_fd(&top.fd));
		r = dir ? keep_dir(&k, dir, dest_fd, 0) : -errno;
	}
	/* One sync for the whole tree: what it was copied from is about to be removed. */
	CLEANUP_FD int sync_fd = openat(dest_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r == 0 && (sync_fd < 0 || syncfs(sync_fd) < 0))
		r = -errno;
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "keep the working directory: %s", strerror(-r));
	*ret_files = k.files;
	return 0;
}
