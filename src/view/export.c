/* Copies the files of a crate, each held against its digest, and gives the whole its name at the end. */
#include "view/export.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/fs.h"
#include "base/path.h"
#include "view/crate.h"
#include "view/sink.h"

#define COPY_SIZE (256 << 10)

struct export
{
	const struct export_what *what;
	struct sink *sink; /* borrowed */
	struct exported done;
};

void exported_release(struct exported *e)
{
	cleanup_free(&e->path);
}

static int put_text(struct export *e, const char *name, const char *text, size_t length,
		    struct err *err)
{
	const struct sink_ops *ops = e->sink->ops;
	int r = ops->open(e->sink, name, length, err);
	if (r >= 0)
		r = ops->write(e->sink, text, length, err);
	if (r >= 0)
		r = ops->close(e->sink, err);
	e->done.files++;
	e->done.bytes += length;
	return r;
}

static int changed(const struct crate_file *f, struct err *err)
{
	return err_set(
		err, ERR_HOST, EBADMSG,
		"'%s' is not what was recorded: its size or SHA-256 has changed; nothing was exported",
		f->path);
}

static int copy(struct export *e, const struct crate_file *f, int fd, struct err *err)
{
	char hex[HASH_HEX];
	uint64_t size = 0;
	CLEANUP_FREE char *buffer = xmalloc(COPY_SIZE);
	CLEANUP_HASH struct hash *hash = hash_new();
	for (;;) {
		ssize_t n = read(fd, buffer, COPY_SIZE);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, "read '%s'", f->path);
		if (n == 0)
			break;
		size += (uint64_t)n;
		if (size > f->size)
			return changed(f, err);
		hash_add(hash, buffer, (size_t)n);
		int r = e->sink->ops->write(e->sink, buffer, (size_t)n, err);
		if (r < 0)
			return r;
	}
	hash_end(hash, hex);
	e->done.files++;
	e->done.bytes += size;
	return size == f->size && str_eq(hex, f->sha256) ? 0 : changed(f, err);
}

static int put_file(struct export *e, const struct crate_file *f, struct err *err)
{
	struct stat st = { 0 };
	int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	CLEANUP_FD int fd = f->source ? open(f->source, flags)
				      : fs_open_beneath(f->dir_fd, f->path + f->above, flags, 0);
	if (fd < 0)
		return err_set(err, ERR_HOST, f->source ? errno : -fd, "open '%s': %s", f->path,
			       strerrordesc_np(f->source ? errno : -fd));
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return changed(f, err);
	int r = e->sink->ops->open(e->sink, f->path, f->size, err);
	if (r >= 0)
		r = copy(e, f, fd, err);
	return r < 0 ? r : e->sink->ops->close(e->sink, err);
}

/* As jansson wants it. That of ten thousand runs is large: it is in memory once. */
static int add_text(const char *bytes, size_t length, void *to)
{
	str_add_n(to, bytes, length);
	return 0;
}

static int put_all(struct export *e, struct err *err)
{
	const struct crate_files *files = e->what->files;
	CLEANUP_STR struct str metadata = { 0 };
	if (json_dump_callback(e->what->crate, add_text, &metadata, JSON_INDENT(2)) < 0)
		return err_set(err, ERR_HOST, ENOMEM, "write " CRATE_METADATA);
	str_add(&metadata, "\n");
	int r = put_text(e, CRATE_METADATA, metadata.text, metadata.length, err);
	if (r >= 0)
		r = put_text(e, CRATE_PREVIEW, str_text(e->what->page), e->what->page->length, err);
	for (size_t i = 0; r >= 0 && i < files->n; i++)
		r = put_file(e, &files->v[i], err);
	return r < 0 ? r : e->sink->ops->finish(e->sink, err);
}

/* The end of the run, so that the same record gives the same file whenever it is exported. */
static int64_t time_of(const struct export_what *what)
{
	struct tm utc = { 0 };
	return strptime(what->ended, "%Y-%m-%dT%H:%M:%S", &utc) ? (int64_t)timegm(&utc) : 0;
}

/* Where it grows: beside its final name. */
struct place {
	int parent_fd;    /* owned */
	const char *name; /* borrowed */
	char *temporary;  /* owned; NULL once it has its name */
};

static void place_release(struct place *p)
{
	if (p->temporary)
		(void)fs_remove_tree(p->parent_fd, p->temporary, NULL, NULL);
	cleanup_free(&p->temporary);
	cleanup_fd(&p->parent_fd);
}

static int place_open(const char *path, struct place *p, struct err *err)
{
	struct stat st = { 0 };
	CLEANUP_FREE char *parent = path_parent(path);
	p->name = path_base(path);
	p->parent_fd = open(parent, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (p->parent_fd < 0)
		return err_set(err, ERR_CALLER, errno, "open %s: %s", parent,
			       strerrordesc_np(errno));
	if (fstatat(p->parent_fd, p->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return err_set(err, ERR_CALLER, EEXIST,
			       "%s is there already; name another place with --to", path);
	p->temporary = xasprintf(FS_TEMP_PREFIX "%ld-%.200s", (long)getpid(), p->name);
	return 0;
}

static int place_name(struct place *p, const char *path, struct err *err)
{
	if (renameat2(p->parent_fd, p->temporary, p->parent_fd, p->name, RENAME_NOREPLACE) < 0)
		return errno == EEXIST
			       ? err_set(err, ERR_CALLER, EEXIST,
					 "%s is there already; name another place with --to", path)
			       : err_errno(err, "name %s", path);
	cleanup_free(&p->temporary);
	return fsync(p->parent_fd) < 0 ? err_errno(err, "sync the directory of %s", path) : 0;
}

static int open_sink(const struct export_what *what, struct place *p, bool is_zip, int *ret_fd,
		     struct sink **ret, struct err *err)
{
	int flags = is_zip ? O_RDWR | O_CREAT | O_EXCL : O_DIRECTORY | O_RDONLY;
	if (!is_zip && mkdirat(p->parent_fd, p->temporary, 0755) < 0)
		*ret_fd = -errno;
	else
		*ret_fd = fs_open_beneath(p->parent_fd, p->temporary, flags | O_CLOEXEC,
					  is_zip ? 0644 : 0);
	if (*ret_fd == -EEXIST) /* not ours to remove */
		cleanup_free(&p->temporary);
	if (*ret_fd < 0)
		return err_set(err, ERR_HOST, -*ret_fd, "make a file beside %s: %s", p->name,
			       strerrordesc_np(-*ret_fd));
	if (is_zip)
		return sink_zip(*ret_fd, time_of(what), ret, err);
	*ret = sink_directory(*ret_fd);
	return 0;
}

int export_crate(const struct export_what *what, const char *to, struct exported *ret,
		 struct err *err)
{
	CLEANUP_FREE char *cwd = path_cwd();
	CLEANUP_FREE char *path = cwd ? path_normal(cwd, to) : NULL;
	CLEANUP(place_release) struct place place = { .parent_fd = -1 };
	CLEANUP_FD int fd = -1;
	CLEANUP_SINK struct sink *sink = NULL;
	struct export e = { .what = what };
	if (!path || str_eq(path, "/"))
		return err_caller(err, "'%s' is no place for a crate", to);
	int r = place_open(path, &place, err);
	if (r >= 0 && place.temporary)
		r = open_sink(what, &place, str_ends(path, ".zip"), &fd, &sink, err);
	if (r < 0 || !sink)
		return r;
	e.sink = sink;
	r = put_all(&e, err);
	if (r >= 0)
		r = place_name(&place, path, err);
	if (r < 0)
		return r;
	*ret = e.done;
	ret->path = take_ptr(path);
	return 0;
}
