/* A crate as a zip file, by libarchive. */
#include <errno.h>
#include <locale.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "runtime/archive.h"
#include "view/sink.h"

struct zip {
	struct sink sink;
	struct archive_library lib; /* owned */
	struct archive *archive;    /* owned */
	int fd;                     /* borrowed */
	int64_t mtime;
	locale_t utf8; /* owned */
};

static int fail(const struct zip *z, struct err *err, const char *what)
{
	const char *why = z->lib.error_string(z->archive);
	return err_set(err, ERR_HOST, EIO, "write '%s' into the zip file: %s", what,
		       why ? why : "unknown error");
}

static int zip_open(struct sink *s, const char *path, uint64_t size, struct err *err)
{
	struct zip *z = (struct zip *)s;
	struct archive_entry *e = z->lib.entry_new();
	if (!e)
		return err_set(err, ERR_HOST, ENOMEM, "write '%s' into the zip file", path);
	z->lib.entry_set_pathname(e, path);
	z->lib.entry_set_filetype(e, AE_IFREG);
	z->lib.entry_set_perm(e, 0644);
	z->lib.entry_set_size(e, (int64_t)size);
	z->lib.entry_set_mtime(e, z->mtime, 0);
	/* libarchive marks names as UTF-8 if that is the locale's; bytes that are none must not be marked so. */
	locale_t before = str_is_utf8(path, strlen(path)) && z->utf8 ? uselocale(z->utf8)
								     : (locale_t)0;
	int r = z->lib.write_header(z->archive, e);
	if (before)
		(void)uselocale(before);
	z->lib.entry_free(e);
	return r < ARCHIVE_WARN ? fail(z, err, path) : 0;
}

static int zip_write(struct sink *s, const void *bytes, size_t length, struct err *err)
{
	struct zip *z = (struct zip *)s;
	ssize_t n = z->lib.write_data(z->archive, bytes, length);
	return n < 0 || (size_t)n != length ? fail(z, err, "a file of the crate") : 0;
}

static int zip_close(struct sink *s, struct err *err)
{
	return 0;
}

static int zip_finish(struct sink *s, struct err *err)
{
	struct zip *z = (struct zip *)s;
	if (z->lib.write_close(z->archive) != ARCHIVE_OK)
		return fail(z, err, "the directory");
	return fsync(z->fd) < 0 ? err_errno(err, "sync the zip file") : 0;
}

static void zip_free(struct sink *s)
{
	struct zip *z = (struct zip *)s;
	if (z->archive)
		(void)z->lib.write_free(z->archive);
	if (z->utf8)
		freelocale(z->utf8);
	archive_unload(&z->lib);
	free(z);
}

int sink_zip(int fd, int64_t mtime, struct sink **ret, struct err *err)
{
	static const struct sink_ops ops = { zip_open, zip_write, zip_close, zip_finish, zip_free };
	struct zip *z = xcalloc(1, sizeof *z);
	*z = (struct zip){ .sink.ops = &ops, .fd = fd, .mtime = mtime };
	z->utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
	CLEANUP_SINK struct sink *s = &z->sink;
	int r = archive_load(&z->lib, err);
	if (r < 0)
		return r;
	z->archive = z->lib.write_new();
	if (!z->archive || z->lib.write_set_format_zip(z->archive) != ARCHIVE_OK ||
	    z->lib.write_open_fd(z->archive, fd) != ARCHIVE_OK)
		return z->archive ? fail(z, err, "the header")
				  : err_set(err, ERR_HOST, ENOMEM, "begin a zip file");
	*ret = take_ptr(s);
	return 0;
}
