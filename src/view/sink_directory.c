/* A crate as a directory. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/str.h"
#include "view/sink.h"

struct directory {
	struct sink sink;
	int top_fd;  /* borrowed */
	int file_fd; /* owned */
};

static int fail(struct err *err, int code, const char *path)
{
	return err_set(err, ERR_HOST, code, "write '%s': %s", path, strerrordesc_np(code));
}

/* The directories on the way; made anew in an empty tree, so none is a link. */
static int make_parents(int top_fd, const char *path)
{
	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		CLEANUP_FREE char *parent = xstrndup(path, (size_t)(slash - path));
		const char *name = NULL;
		CLEANUP_FD int fd = fs_open_parent(top_fd, parent, &name);
		if (fd < 0)
			return fd;
		if (mkdirat(fd, name, 0755) < 0 && errno != EEXIST)
			return -errno;
	}
	return 0;
}

static int directory_open(struct sink *s, const char *path, uint64_t size, struct err *err)
{
	struct directory *d = (struct directory *)s;
	int r = make_parents(d->top_fd, path);
	if (r >= 0)
		r = fs_open_beneath(d->top_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (r < 0)
		return fail(err, -r, path);
	d->file_fd = r;
	return 0;
}

static int directory_write(struct sink *s, const void *bytes, size_t length, struct err *err)
{
	int r = fs_write_all(((struct directory *)s)->file_fd, bytes, length);
	return r < 0 ? fail(err, -r, "a file of the crate") : 0;
}

static int directory_close(struct sink *s, struct err *err)
{
	cleanup_fd(&((struct directory *)s)->file_fd);
	return 0;
}

/* One for all of them: a crate may have ten thousand files. */
static int directory_finish(struct sink *s, struct err *err)
{
	return syncfs(((struct directory *)s)->top_fd) < 0 ? err_errno(err, "sync the crate") : 0;
}

static void directory_free(struct sink *s)
{
	cleanup_fd(&((struct directory *)s)->file_fd);
	free(s);
}

struct sink *sink_directory(int dir_fd)
{
	static const struct sink_ops ops = { directory_open, directory_write, directory_close,
					     directory_finish, directory_free };
	struct directory *d = xcalloc(1, sizeof *d);
	*d = (struct directory){ .sink.ops = &ops, .top_fd = dir_fd, .file_fd = -1 };
	return &d->sink;
}
