/* Acts on paths. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "probe.h"

static int read_file(const char *a, const char *b)
{
	char byte;
	int fd = open(a, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ssize_t n = read(fd, &byte, 1);
	if (n == 0)
		say("empty");
	return answer(n);
}

static int open_write(const char *a, const char *b)
{
	return answer_fd(open(a, O_WRONLY | O_NONBLOCK | O_CLOEXEC));
}

static int open_append(const char *a, const char *b)
{
	return answer_fd(open(a, O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC));
}

static int open_path(const char *a, const char *b)
{
	return answer_fd(open(a, O_PATH | O_CLOEXEC));
}

/* A file that is made is unmade: the control leaves nothing behind. */
static int create(const char *a, const char *b)
{
	int r = answer_fd(open(a, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
	if (r == 0)
		(void)unlink(a);
	return r;
}

static int truncate_file(const char *a, const char *b)
{
	return answer(truncate(a, 1));
}

static int unlink_file(const char *a, const char *b)
{
	return answer(unlink(a));
}

static int rename_file(const char *a, const char *b)
{
	return answer(rename(a, b));
}

static int link_file(const char *a, const char *b)
{
	return answer(link(a, b));
}

static int symlink_file(const char *a, const char *b)
{
	return answer(symlink(a, b));
}

static int make_dir(const char *a, const char *b)
{
	int r = answer(mkdir(a, 0700));
	if (r == 0)
		(void)rmdir(a);
	return r;
}

static int make_node(const char *a, const char *b)
{
	int r = answer(mknod(a, S_IFCHR | 0600, makedev(1, 3)));
	if (r == 0)
		(void)unlink(a);
	return r;
}

static int make_block(const char *a, const char *b)
{
	int r = answer(mknod(a, S_IFBLK | 0600, makedev(7, 0)));
	if (r == 0)
		(void)unlink(a);
	return r;
}

static int chmod_file(const char *a, const char *b)
{
	return answer(chmod(a, 0755));
}

static int chown_file(const char *a, const char *b)
{
	return answer(chown(a, getuid(), getgid()));
}

static int chown_root(const char *a, const char *b)
{
	return answer(chown(a, 0, 0));
}

static int touch(const char *a, const char *b)
{
	return answer(utimes(a, NULL));
}

static int set_attribute(const char *a, const char *b)
{
	return answer(setxattr(a, "user.probe", "1", 1, 0));
}

static int list_dir(const char *a, const char *b)
{
	char names[2048] = "";
	DIR *dir = opendir(a);
	if (!dir)
		return -errno;
	for (struct dirent *e; (e = readdir(dir));) {
		size_t used = strlen(names);
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			(void)snprintf(names + used, sizeof names - used, "%s%s", used ? " " : "",
				       e->d_name);
	}
	say("[%s]", names);
	return 0;
}

static int read_link(const char *a, const char *b)
{
	char target[1024];
	ssize_t n = readlink(a, target, sizeof target);
	if (n < 0)
		return -errno;
	say("%.*s", (int)n, target);
	return 0;
}

/* The first bytes, what is not printable as dots. */
static int show_file(const char *a, const char *b)
{
	char text[2048];
	int fd = open(a, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ssize_t n = read(fd, text, sizeof text);
	if (n < 0)
		return -errno;
	for (ssize_t i = 0; i < n; i++)
		if (text[i] < ' ' || text[i] > '~')
			text[i] = '.';
	say("'%.*s'", (int)n, text);
	return 0;
}

static int change_root(const char *a, const char *b)
{
	return answer(chroot(a));
}

static int change_dir(const char *a, const char *b)
{
	return answer(chdir(a));
}

static int execute(const char *a, const char *b)
{
	(void)execl(a, a, b, (char *)NULL);
	return -errno;
}

/* The handle of the root directory of most file systems is guessable: inode 2, generation 0. The classic
 * way out of an early container (2014, open_by_handle_at with CAP_DAC_READ_SEARCH). */
static int open_by_handle(const char *a, const char *b)
{
	struct {
		struct file_handle h;
		unsigned char bytes[8];
	} handle = { .h = { .handle_bytes = 8, .handle_type = 1 }, .bytes = { 2 } };
	int at = open(a, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (at < 0)
		return -errno;
	return answer_fd(open_by_handle_at(at, &handle.h, O_RDONLY | O_CLOEXEC));
}

static int name_to_handle(const char *a, const char *b)
{
	struct {
		struct file_handle h;
		unsigned char bytes[MAX_HANDLE_SZ];
	} handle = { .h = { .handle_bytes = MAX_HANDLE_SZ } };
	int mount_id;
	return answer(name_to_handle_at(AT_FDCWD, a, &handle.h, &mount_id, 0));
}

const struct act file_acts[] = {
	{ "read", read_file },
	{ "write", open_write },
	{ "append", open_append },
	{ "open-path", open_path },
	{ "create", create },
	{ "truncate", truncate_file },
	{ "unlink", unlink_file },
	{ "rename", rename_file },
	{ "link", link_file },
	{ "symlink", symlink_file },
	{ "mkdir", make_dir },
	{ "mknod", make_node },
	{ "mknod-block", make_block },
	{ "chmod", chmod_file },
	{ "chown", chown_file },
	{ "chown-root", chown_root },
	{ "touch", touch },
	{ "setxattr", set_attribute },
	{ "list", list_dir },
	{ "readlink", read_link },
	{ "show", show_file },
	{ "chroot", change_root },
	{ "chdir", change_dir },
	{ "exec", execute },
	{ "open-by-handle", open_by_handle },
	{ "name-to-handle", name_to_handle },
	{ NULL, NULL },
};
