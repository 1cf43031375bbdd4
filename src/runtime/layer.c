/* Reads tar streams. Two readers of libarchive stand behind each other: the first only decompresses, so that what the second takes for
 * tar can be hashed and counted on its way. */
#include "runtime/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/path.h"
#include "base/str.h"
#include "runtime/archive.h"
#include "runtime/layer_entry.h"

#define CHUNK (256 * 1024)
#define GIB   (1024ULL * 1024 * 1024)

const struct layer_caps layer_caps_default = {
	.bytes = 64 * GIB,
	.entries = 4000000,
	.depth = 100,
	.ratio = 200,
	.ratio_from = GIB / 4,
};

struct reading {
	const struct layer *layer; /* borrowed */
	const struct archive_library *lib;
	int root_fd;                 /* borrowed */
	struct layer_counts *counts; /* borrowed */
	struct archive *raw;         /* owned; decompresses */
	struct archive *tar;         /* owned; reads what `raw` gives */
	struct hash *hash;           /* owned */
	char *chunk;                 /* owned; CHUNK bytes */
	uint64_t packed_bytes, bytes;
	bool at_end;
	struct err cap_err; /* why the stream was cut, if a cap of ours did it */
};

static void reading_release(struct reading *r)
{
	if (r->tar)
		(void)r->lib->read_free(r->tar);
	if (r->raw)
		(void)r->lib->read_free(r->raw);
	hash_freep(&r->hash);
	cleanup_free(&r->chunk);
}

static int malformed(const struct reading *r, struct archive *a, struct err *err)
{
	const char *why = r->lib->error_string(a);
	if (r->cap_err.code) {
		*err = r->cap_err;
		return -err->code;
	}
	return err_set(err, ERR_CALLER, EBADMSG, "%s: not a whole tar archive: %s", r->layer->name,
		       why ? why : "it cannot be read");
}

static int too_much(const struct reading *r, struct err *err, const char *what)
{
	return err_set(err, ERR_CALLER, E2BIG,
		       "%s: %s: refused, since such archives are made to fill disks",
		       r->layer->name, what);
}

/* The next piece of the decompressed stream into the chunk: its length, 0 at the end, -1 with the error in `raw` or cap_err. */
static la_ssize_t read_stream(struct reading *r)
{
	const struct layer_caps *caps = r->layer->caps;
	if (r->at_end)
		return 0;
	la_ssize_t n = r->lib->read_data(r->raw, r->chunk, CHUNK);
	r->at_end = n <= 0;
	if (n <= 0)
		return n < 0 ? -1 : 0;
	hash_add(r->hash, r->chunk, (size_t)n);
	r->bytes += (uint64_t)n;
	if (r->bytes > caps->bytes)
		(void)too_much(r, &r->cap_err, "it unpacks to more than is allowed");
	else if (r->bytes > caps->ratio_from && r->bytes / caps->ratio > r->packed_bytes)
		(void)too_much(r, &r->cap_err, "it unpacks to far more than it was packed to");
	return r->cap_err.code ? -1 : n;
}

/* Called by the second reader. */
static la_ssize_t give_stream(struct archive *tar, void *data, const void **ret)
{
	struct reading *r = data;
	la_ssize_t n = read_stream(r);
	if (n < 0)
		r->lib->set_error(tar, EIO, "%s",
				  r->cap_err.code ? r->cap_err.text
				  : r->lib->error_string(r->raw)
					  ? r->lib->error_string(r->raw)
					  : "the data cannot be decompressed");
	*ret = r->chunk;
	return n;
}

static int open_readers(struct reading *r, struct err *err)
{
	const struct archive_library *lib = r->lib;
	struct archive_entry *ignored = NULL;
	r->raw = lib->read_new();
	r->tar = lib->read_new();
	if (!r->raw || !r->tar)
		return err_set(err, ERR_HOST, ENOMEM, "start libarchive");
	/* ARCHIVE_WARN would mean: by calling a program. */
	if (lib->read_support_filter_gzip(r->raw) != ARCHIVE_OK ||
	    lib->read_support_filter_zstd(r->raw) != ARCHIVE_OK ||
	    lib->read_support_format_empty(r->raw) != ARCHIVE_OK ||
	    lib->read_support_format_raw(r->raw) != ARCHIVE_OK ||
	    lib->read_support_format_tar(r->tar) != ARCHIVE_OK)
		return err_set(err, ERR_HOST, EOPNOTSUPP,
			       "this host's libarchive lacks gzip, zstd or tar");
	if (lib->read_open_fd(r->raw, r->layer->fd, CHUNK) != ARCHIVE_OK)
		return malformed(r, r->raw, err);
	int got = lib->read_next_header(r->raw, &ignored);
	if (got == ARCHIVE_EOF)
		r->at_end = true; /* an empty stream, which is an empty archive */
	else if (got != ARCHIVE_OK && got != ARCHIVE_WARN)
		return malformed(r, r->raw, err);
	if (!r->at_end && lib->read_open(r->tar, r, NULL, give_stream, NULL) != ARCHIVE_OK)
		return malformed(r, r->tar, err);
	return 0;
}

static int reading_begin(struct reading *r, struct err *err)
{
	struct stat st = { 0 };
	if (lseek(r->layer->fd, 0, SEEK_SET) < 0 || fstat(r->layer->fd, &st) < 0)
		return err_errno(err, "read %s", r->layer->name);
	r->packed_bytes = (uint64_t)st.st_size;
	r->hash = hash_new();
	r->chunk = xmalloc(CHUNK);
	return open_readers(r, err);
}

/* 1 and the next entry; 0 at the end. */
static int next_entry(struct reading *r, struct archive_entry **ret, struct err *err)
{
	if (r->bytes == 0 && r->at_end)
		return 0;
	int got = r->lib->read_next_header(r->tar, ret);
	if (got == ARCHIVE_EOF)
		return r->cap_err.code ? malformed(r, r->tar, err) : 0;
	/* A warning: the name is not in this locale's characters. Its bytes are what we want. */
	return got == ARCHIVE_OK || got == ARCHIVE_WARN ? 1 : malformed(r, r->tar, err);
}

/* What stands behind the end mark of the archive belongs to the digest too. */
static int reading_end(struct reading *r, char ret_digest[HASH_HEX], struct err *err)
{
	la_ssize_t n = 0;
	do
		n = read_stream(r);
	while (n > 0);
	if (n < 0)
		return malformed(r, r->raw, err);
	hash_end(r->hash, ret_digest);
	return 0;
}

static int write_data(struct reading *r, int fd, uint64_t size, const char *name, struct err *err)
{
	const void *block = NULL;
	size_t length = 0;
	la_int64_t at = 0;
	for (;;) {
		int got = r->lib->read_data_block(r->tar, &block, &length, &at);
		if (got == ARCHIVE_EOF)
			break;
		if (got != ARCHIVE_OK && got != ARCHIVE_WARN)
			return malformed(r, r->tar, err);
		if (at < 0 || (uint64_t)at > size || length > size - (uint64_t)at)
			return err_set(err, ERR_CALLER, EBADMSG,
				       "%s: '%s' has more data than it says", r->layer->name, name);
		if (length == 0)
			continue;
		if (lseek(fd, (off_t)at, SEEK_SET) < 0)
			return err_errno(err, "write '%s'", name);
		int e = fs_write_all(fd, block, length);
		if (e < 0)
			return err_set(err, ERR_HOST, -e, "write '%s': %s", name,
				       strerrordesc_np(-e));
	}
	return ftruncate(fd, (off_t)size) < 0 ? err_errno(err, "write '%s'", name) : 0;
}

static int make_file(struct reading *r, struct archive_entry *entry, const char *name,
		     struct err *err)
{
	struct layer_counts *counts = r->counts;
	const struct archive_library *lib = r->lib;
	la_int64_t size = lib->entry_size(entry);
	/* Python believes a .pyc only if its source has the time that it remembers. */
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT },
				     { .tv_sec = lib->entry_mtime(entry),
				       .tv_nsec = lib->entry_mtime_nsec(entry) } };
	if (size < 0 || (uint64_t)size > r->layer->caps->bytes - counts->bytes)
		return too_much(r, err, "its files are larger than is allowed");
	counts->bytes += (uint64_t)size;
	counts->files++;
	CLEANUP_FD int fd = entry_make_file(r->root_fd, name, err);
	if (fd < 0)
		return fd;
	int e = write_data(r, fd, (uint64_t)size, name, err);
	if (e < 0)
		return e;
	if (fchmod(fd, lib->entry_perm(entry) & 0111 ? 0755 : 0644) < 0)
		return err_errno(err, "set the mode of '%s'", name);
	(void)futimens(fd, times); /* a time out of range is not worth an image */
	return 0;
}

static int make_link(struct reading *r, struct archive_entry *entry, const char *name,
		     struct err *err)
{
	CLEANUP_FREE char *target = NULL;
	int e = entry_name(r->lib->entry_hardlink(entry), r->layer->caps->depth, &target, err);
	if (e == -EILSEQ || (e >= 0 && !*target))
		return err_set(err, ERR_CALLER, EPERM, "'%s' is a hard link to no file", name);
	return e < 0 ? e : entry_make_link(r->root_fd, name, target, err);
}

/* `name` is clean. */
static int make_entry(struct reading *r, struct archive_entry *entry, const char *name,
		      struct err *err)
{
	const struct archive_library *lib = r->lib;
	if (lib->entry_hardlink(entry))
		return make_link(r, entry, name, err);
	if (lib->entry_perm(entry) & 06000)
		r->counts->set_id++;
	switch (lib->entry_filetype(entry)) {
	case AE_IFREG:
		return make_file(r, entry, name, err);
	case AE_IFDIR:
		return entry_make_dir(r->root_fd, name, err);
	case AE_IFLNK:
		if (!lib->entry_symlink(entry) || !lib->entry_symlink(entry)[0])
			return err_set(err, ERR_CALLER, EBADMSG, "'%s' is a link to nothing", name);
		return entry_make_symlink(r->root_fd, name, lib->entry_symlink(entry), err);
	default:
		r->counts->devices++;
		return 0;
	}
}

/* The clean name of an entry that is to be made; 0 if it is to be left out. */
static int take_entry(struct reading *r, struct archive_entry *entry, char **ret, struct err *err)
{
	const char *said = r->lib->entry_pathname(entry);
	if (++r->counts->entries > r->layer->caps->entries)
		return too_much(r, err, "it has more files than are allowed");
	if (!said)
		return err_set(err, ERR_CALLER, EBADMSG, "%s: an entry has no name",
			       r->layer->name);
	CLEANUP_FREE char *name = NULL;
	int e = entry_name(said, r->layer->caps->depth, &name, err);
	if (e == -EILSEQ) {
		r->counts->odd_names++;
		return 0;
	}
	if (e < 0)
		return e;
	if (!*name && r->lib->entry_filetype(entry) != AE_IFDIR)
		return err_set(err, ERR_CALLER, EPERM, "an entry wants to replace the root itself");
	if (!*name || (r->layer->place != LAYER_PLAIN && str_starts(path_base(name), ".wh.")))
		return 0;
	*ret = take_ptr(name);
	return 1;
}

/* Whiteouts come first, wherever they stand: they are about what is below this layer, never about what is in it. */
static int apply_whiteouts(struct reading *r, struct err *err)
{
	struct archive_entry *entry = NULL;
	uint64_t entries = 0;
	int e = 0;
	while ((e = next_entry(r, &entry, err)) > 0) {
		CLEANUP_FREE char *name = NULL;
		const char *said = r->lib->entry_pathname(entry);
		if (++entries > r->layer->caps->entries)
			return too_much(r, err, "it has more files than are allowed");
		int known = said ? entry_name(said, r->layer->caps->depth, &name, err) : -EILSEQ;
		if (known < 0 && known != -EILSEQ)
			return known;
		int hidden = known >= 0 ? entry_whiteout(r->root_fd, name, err) : 0;
		if (hidden < 0)
			return hidden;
		r->counts->whiteouts += hidden > 0;
	}
	return e;
}

static int make_entries(struct reading *r, struct err *err)
{
	struct archive_entry *entry = NULL;
	int e = 0;
	while ((e = next_entry(r, &entry, err)) > 0) {
		CLEANUP_FREE char *name = NULL;
		int wanted = take_entry(r, entry, &name, err);
		if (wanted > 0)
			wanted = make_entry(r, entry, name, err);
		if (wanted < 0)
			return wanted;
	}
	return e;
}

/* `r` says what is read and where it goes, and is used up. */
static int run_pass(struct reading r, int (*pass)(struct reading *r, struct err *err),
		    char ret_digest[HASH_HEX], struct err *err)
{
	CLEANUP(reading_release) struct reading reading = r;
	int e = reading_begin(&reading, err);
	if (e >= 0)
		e = pass(&reading, err);
	return e < 0 ? e : reading_end(&reading, ret_digest, err);
}

int layer_apply(const struct layer *l, int root_fd, struct layer_counts *counts,
		char ret_digest[HASH_HEX], struct err *err)
{
	CLEANUP_ARCHIVE_LIBRARY struct archive_library lib = { 0 };
	struct reading r = { .layer = l, .lib = &lib, .root_fd = root_fd, .counts = counts };
	int e = archive_load(&lib, err);
	if (e >= 0 && l->place == LAYER_UPPER)
		e = run_pass(r, apply_whiteouts, ret_digest, err);
	return e < 0 ? e : run_pass(r, make_entries, ret_digest, err);
}
