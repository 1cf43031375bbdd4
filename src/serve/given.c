/* Beneath the run's directory, no links, and nothing but a file: no device, no FIFO. */
#include "serve/given.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/str.h"
#include "collect/fetch.h"
#include "serve/preview.h"
#include "serve/rows.h"

void given_release(struct given *o)
{
	cleanup_fd(&o->fd);
	cleanup_free(&o->type);
}

int given_open_file(int dir_fd, const char *place, struct given *ret, struct err *err)
{
	struct stat st = { 0 };
	CLEANUP_FD int fd = fs_open_beneath(
		dir_fd, place, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC, 0);
	if (fd < 0)
		return err_set(err, ERR_CALLER, fd == -ENOENT ? ENOENT : EACCES,
			       "'%.200s' can't be opened: %s", place, strerrordesc_np(-fd));
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(err, ERR_CALLER, EACCES, "'%.200s' is no file", place);
	ret->size = (uint64_t)st.st_size;
	ret->fd = take_fd(&fd);
	return 0;
}

int given_open(const struct config *c, const char *id, const char *path, struct given *ret,
	       struct err *err)
{
	CLEANUP_JSON json_t *manifest = NULL;
	size_t i;
	json_t *file;
	CLEANUP_FD int run_fd = rows_open_run(c, id, err);
	int r = run_fd < 0 ? run_fd : fetch_manifest(run_fd, &manifest, err);
	if (r < 0)
		return r;
	json_array_foreach(json_object_get(manifest, "files"), i, file)
	{
		CLEANUP_FREE char *found = fetch_path(file);
		const char *sha256 = json_string_value(json_object_get(file, "sha256"));
		const char *type = json_string_value(json_object_get(file, "media_type"));
		if (!str_eq(found, path))
			continue;
		bool is_partial = json_is_true(json_object_get(manifest, "partial"));
		CLEANUP_FREE char *place =
			xasprintf("%s/%s", is_partial ? "partial" : "outputs", path);
		(void)snprintf(ret->etag, sizeof ret->etag, "%s", sha256 ? sha256 : "unknown");
		ret->type = xstrdup(preview_media_type(path, type));
		return given_open_file(run_fd, place, ret, err);
	}
	return err_set(err, ERR_CALLER, ENOENT, "the run '%s' has no output '%.200s'", id, path);
}
