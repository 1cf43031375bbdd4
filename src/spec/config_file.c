/* Finding and trusting configuration files. Whom a file belongs to is asked of the descriptor that
 * is then read, so that nobody swaps the file in between. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/path.h"
#include "spec/config_layer.h"
#include "spec/show.h"

#define PROJECT_FILE "cupel.yaml"

void config_layer_release(struct config_layer *layer)
{
	free(layer->file);
	free(layer->directory);
	free(layer->text);
	free(layer->project_root);
	free(layer->project_data);
	free(layer->project_docs);
	strv_release(&layer->protect);
	strv_release(&layer->protect_at);
	strv_release(&layer->protect_levels);
	*layer = (struct config_layer){ 0 };
}

static int trust_check(const char *path, const struct stat *st, struct err *err)
{
	if (!S_ISREG(st->st_mode))
		return err_caller(err, "%s: not a regular file; remove it or replace it", path);
	if (st->st_uid != geteuid() && st->st_uid != 0)
		return err_caller(err,
				  "%s: belongs to user %u, neither to you (%u) nor to root, so it "
				  "is not trusted; read it, then make it yours with chown, or work "
				  "elsewhere",
				  path, st->st_uid, geteuid());
	bool others = (st->st_mode & S_IWOTH) ||
		      ((st->st_mode & S_IWGRP) && st->st_gid != 0 && st->st_gid != getegid());
	if (others)
		return err_caller(err, "%s: others may write it; correct it with chmod go-w", path);
	if (st->st_size > YAML_BYTES_MAX)
		return err_caller(err, "%s: larger than %d bytes, which no configuration is", path,
				  YAML_BYTES_MAX);
	return 0;
}

static int read_whole(int fd, const char *path, char **ret_text, size_t *ret_length,
		      struct err *err)
{
	CLEANUP_FREE char *text = xmalloc(YAML_BYTES_MAX + 1);
	size_t length = 0;

	while (length <= YAML_BYTES_MAX) {
		ssize_t got = read(fd, text + length, YAML_BYTES_MAX + 1 - length);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_errno(err, "read %s", path);
		if (got == 0)
			break;
		length += (size_t)got;
	}
	*ret_text = take_ptr(text);
	*ret_length = length; /* one that has grown past the cap is refused by the parser */
	return 0;
}

int config_text(const char *path, enum config_source source, char **ret_text, size_t *ret_length,
		struct err *err)
{
	/* People keep their own files as links; in a project a link may be a stranger's trap. */
	int follow = source == CONFIG_PROJECT ? O_NOFOLLOW : 0;
	CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | follow);
	struct stat st;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (fd < 0 && errno == ELOOP)
		return err_caller(
			err, "%s: a symbolic link is not trusted; put the file itself there", path);
	if (fd < 0)
		return err_set(err, ERR_CALLER, errno, "open %s: %s", path, strerror(errno));
	if (fstat(fd, &st) < 0)
		return err_errno(err, "look at %s", path);
	int r = trust_check(path, &st, err);
	if (r < 0)
		return r;
	r = read_whole(fd, path, ret_text, ret_length, err);
	return r < 0 ? r : 1;
}

int config_file_load(const char *path, enum config_source source, struct config_layer *ret,
		     struct err *err)
{
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;
	int r = config_text(path, source, &text, &length, err);

	if (r <= 0)
		return r;
	*ret = (struct config_layer){ .source = source,
				      .file = xstrdup(path),
				      .directory = path_parent(path),
				      .text = take_ptr(text),
				      .length = length };
	return 1;
}

static bool same_file(const char *a, const char *b)
{
	struct stat one, other;

	return a && b && stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_dev == other.st_dev &&
	       one.st_ino == other.st_ino;
}

int config_project_load(const char *start_dir, const char *system_file, const char *user_file,
			struct config_layer *ret, struct err *err)
{
	CLEANUP_FREE char *directory = xstrdup(start_dir);

	for (;;) {
		CLEANUP_FREE char *file = path_join(directory, PROJECT_FILE);
		if (!same_file(file, system_file) && !same_file(file, user_file)) {
			int r = config_file_load(file, CONFIG_PROJECT, ret, err);
			if (r != 0)
				return r;
		}
		if (str_eq(directory, "/"))
			return 0;
		char *parent = path_parent(directory);
		free(directory);
		directory = parent;
	}
}
