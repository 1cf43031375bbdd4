/* fs: what must not be followed is not, what must not block does not, writes replace whole. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/path.h"
#include "place.h"

static void put(int dir_fd, const char *name, const char *text)
{
	CLEANUP_FD int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(fs_write_all(fd, text, strlen(text)), 0);
}

static void beneath_stays_beneath(void **state)
{
	struct place *p = *state;

	assert_int_equal(mkdirat(p->fd, "d", 0755), 0);
	put(p->fd, "d/f", "x");
	assert_int_equal(symlinkat("/etc/passwd", p->fd, "out"), 0);
	assert_int_equal(symlinkat("d", p->fd, "in"), 0);
	CLEANUP_FD int d_fd = fs_open_beneath(p->fd, "d", O_RDONLY | O_DIRECTORY, 0);
	CLEANUP_FD int f_fd = fs_open_beneath(p->fd, "d/f", O_RDONLY, 0);
	assert_true(d_fd >= 0 && f_fd >= 0);
	assert_int_equal(fcntl(f_fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(fs_open_beneath(d_fd, "../d/f", O_RDONLY, 0), -EXDEV);
	assert_int_equal(fs_open_beneath(p->fd, "/etc/passwd", O_RDONLY, 0), -EXDEV);
	assert_int_equal(fs_open_beneath(p->fd, "out", O_RDONLY, 0), -ELOOP);
	assert_int_equal(fs_open_beneath(p->fd, "in/f", O_RDONLY, 0), -ELOOP);
	assert_int_equal(fs_open_beneath(p->fd, "none", O_RDONLY, 0), -ENOENT);
	CLEANUP_FD int new_fd = fs_open_beneath(p->fd, "new", O_WRONLY | O_CREAT | O_EXCL, 0640);
	struct stat st;
	assert_true(new_fd >= 0);
	assert_int_equal(fstat(new_fd, &st), 0);
	assert_int_equal(st.st_mode & 07777 & ~0640, 0);
}

static void reads_are_capped(void **state)
{
	struct place *p = *state;
	CLEANUP_FREE char *text = NULL;
	char *none = NULL;
	size_t length = 99;
	struct err err = { 0 };

	put(p->fd, "f", "12345");
	assert_int_equal(fs_read_capped(p->fd, "f", 5, &text, &length, &err), 0);
	assert_string_equal(text, "12345");
	assert_int_equal(length, 5);
	length = 99;
	assert_int_equal(fs_read_capped(p->fd, "f", 4, &none, &length, &err), -EFBIG);
	assert_int_equal(err.kind, ERR_CALLER);
	assert_null(none);
	assert_int_equal(length, 99);
	assert_int_equal(fs_read_capped(p->fd, "gone", 4, &none, &length, &err), -ENOENT);
	assert_string_equal(err.text, "open 'gone': No such file or directory");
	assert_int_equal(fs_read_capped(p->fd, "gone", 4, &none, &length, NULL), -ENOENT);
	/* procfs says size 0 and gives more */
	assert_int_equal(fs_read_capped(AT_FDCWD, "/proc/self/maps", 10, &none, &length, &err),
			 -EFBIG);
}

static void only_regular_files_are_read(void **state)
{
	struct place *p = *state;
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	CLEANUP_FD int socket_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	static const char *const names[] = { "fifo", "dir", "sock" };
	char *text = NULL;
	struct err err = { 0 };

	assert_int_equal(mkfifoat(p->fd, "fifo", 0644), 0);
	assert_int_equal(mkdirat(p->fd, "dir", 0755), 0);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/sock", p->path);
	assert_int_equal(bind(socket_fd, (struct sockaddr *)&address, sizeof(address)), 0);
	put(p->fd, "f", "x");
	assert_int_equal(symlinkat("f", p->fd, "link"), 0);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(fs_read_capped(p->fd, names[i], 10, &text, NULL, &err), -EINVAL);
		assert_non_null(strstr(err.text, "not a regular file"));
	}
	assert_int_equal(fs_read_capped(p->fd, "link", 10, &text, NULL, &err), -ELOOP);
	assert_null(text);
}

static void small_values(void **state)
{
	struct place *p = *state;
	char buffer[8];

	put(p->fd, "v", "max\n");
	assert_int_equal(fs_read_small(p->fd, "v", buffer, sizeof(buffer)), 3);
	assert_string_equal(buffer, "max");
	put(p->fd, "v", "");
	assert_int_equal(fs_read_small(p->fd, "v", buffer, sizeof(buffer)), 0);
	assert_string_equal(buffer, "");
	put(p->fd, "v", "1234567890");
	assert_int_equal(fs_read_small(p->fd, "v", buffer, sizeof(buffer)), 7);
	assert_string_equal(buffer, "1234567");
	assert_int_equal(fs_read_small(p->fd, "w", buffer, sizeof(buffer)), -ENOENT);
	assert_int_equal(fs_write_small(p->fd, "v", "ab"), 0);
	assert_int_equal(fs_read_small(p->fd, "v", buffer, sizeof(buffer)), 7);
	assert_string_equal(buffer, "ab34567");
	assert_int_equal(fs_write_small(p->fd, "w", "ab"), -ENOENT);
	assert_int_equal(fs_write_small(AT_FDCWD, "/dev/full", "ab"), -ENOSPC);
}

static size_t entries(const char *path)
{
	CLEANUP_DIR DIR *dir = opendir(path);
	size_t n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	return n - 2;
}

static void atomic_write_replaces_whole(void **state)
{
	struct place *p = *state;
	char buffer[64];
	char name[NAME_MAX + 1];
	struct stat st;
	struct err err = { 0 };

	assert_int_equal(fs_write_atomic(p->fd, "f", "first and longer", 16, 0600, &err), 0);
	CLEANUP_FD int old_fd = openat(p->fd, "f", O_RDONLY | O_CLOEXEC);
	assert_int_equal(fs_write_atomic(p->fd, "f", "second", 6, 0640, &err), 0);
	assert_int_equal(fs_read_small(p->fd, "f", buffer, sizeof(buffer)), 6);
	assert_string_equal(buffer, "second");
	assert_int_equal(read(old_fd, buffer, sizeof(buffer)), 16); /* who has it open keeps it */
	assert_int_equal(fstatat(p->fd, "f", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777 & ~0640, 0);
	/* a link in the place of the name is replaced, not followed */
	put(p->fd, "target", "untouched");
	assert_int_equal(symlinkat("target", p->fd, "link"), 0);
	assert_int_equal(fs_write_atomic(p->fd, "link", "x", 1, 0600, &err), 0);
	assert_int_equal(fs_read_small(p->fd, "target", buffer, sizeof(buffer)), 9);
	/* the longest name, an O_PATH directory, a path */
	memset(name, 'n', NAME_MAX);
	name[NAME_MAX] = '\0';
	CLEANUP_FD int path_fd = open(p->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(fs_write_atomic(path_fd, name, "", 0, 0600, &err), 0);
	CLEANUP_FREE char *whole = path_join(p->path, "by-path");
	assert_int_equal(fs_write_atomic(AT_FDCWD, whole, "x", 1, 0600, &err), 0);
	assert_int_equal(entries(p->path), 5);
}

static void atomic_write_leaves_nothing_on_failure(void **state)
{
	struct place *p = *state;
	struct err err = { 0 };

	assert_int_equal(mkdirat(p->fd, "d", 0755), 0);
	assert_int_equal(fs_write_atomic(p->fd, "d", "x", 1, 0600, &err), -EISDIR);
	assert_string_equal(err.text, "write 'd': Is a directory");
	assert_int_equal(fs_write_atomic(p->fd, "none/x", "x", 1, 0600, &err), -ENOENT);
	assert_int_equal(fs_write_atomic(p->fd, "..", "x", 1, 0600, &err), -EINVAL);
	assert_int_equal(fs_write_atomic(p->fd, "", "x", 1, 0600, &err), -EINVAL);
	assert_int_equal(entries(p->path), 1);
}

static void dirs_are_made(void **state)
{
	struct place *p = *state;
	CLEANUP_FREE char *deep = path_join(p->path, "a//b/./c/");
	CLEANUP_FREE char *file = path_join(p->path, "f");
	CLEANUP_FREE char *below = path_join(p->path, "f/x");
	CLEANUP_FREE char *link = path_join(p->path, "l");
	CLEANUP_FREE char *through = path_join(p->path, "l/new");
	struct stat st;
	struct err err = { 0 };

	assert_int_equal(fs_make_dirs(deep, 0700, &err), 0);
	assert_int_equal(fs_make_dirs(deep, 0755, &err), 0);
	assert_int_equal(fstatat(p->fd, "a/b/c", &st, 0), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	put(p->fd, "f", "");
	assert_int_equal(fs_make_dirs(file, 0700, &err), -ENOTDIR);
	assert_int_equal(fs_make_dirs(below, 0700, &err), -ENOTDIR);
	assert_int_equal(fs_make_dirs("relative", 0700, &err), -EINVAL);
	assert_int_equal(fs_make_dirs("/", 0700, &err), 0);
	assert_int_equal(symlinkat("a", p->fd, "l"), 0);
	assert_int_equal(fs_make_dirs(link, 0700, &err), -ENOTDIR);
	assert_int_equal(fs_make_dirs(through, 0700, &err), 0);
	assert_int_equal(fstatat(p->fd, "a/new", &st, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(beneath_stays_beneath, place_set_up,
						place_tear_down),
		cmocka_unit_test_setup_teardown(reads_are_capped, place_set_up, place_tear_down),
		cmocka_unit_test_setup_teardown(only_regular_files_are_read, place_set_up,
						place_tear_down),
		cmocka_unit_test_setup_teardown(small_values, place_set_up, place_tear_down),
		cmocka_unit_test_setup_teardown(atomic_write_replaces_whole, place_set_up,
						place_tear_down),
		cmocka_unit_test_setup_teardown(atomic_write_leaves_nothing_on_failure,
						place_set_up, place_tear_down),
		cmocka_unit_test_setup_teardown(dirs_are_made, place_set_up, place_tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
