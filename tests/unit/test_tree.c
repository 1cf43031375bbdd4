/* fs_remove_tree, fs_tree_usage and fs_tree_own on trees as an analysis may leave them: deep, unreadable, with
 * links and mounts. What root passes by its rights is tried as an ordinary user too. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "place.h"

#define NOBODY 65534

static void put(int dir_fd, const char *name, size_t size)
{
	CLEANUP_FREE char *bytes = calloc(1, size + 1);
	CLEANUP_FD int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(fs_write_all(fd, bytes, size), 0);
}

static bool there(int dir_fd, const char *name)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* A chain of `depth` directories "d" below dir_fd, each with a file of ten bytes in it. */
static void make_chain(int dir_fd, unsigned depth)
{
	CLEANUP_FD int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (unsigned i = 0; i < depth; i++) {
		assert_int_equal(mkdirat(fd, "d", 0755), 0);
		int next_fd = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next_fd >= 0);
		(void)close(fd);
		fd = next_fd;
		put(fd, "f", 10);
	}
}

static void ordinary_tree(void **state)
{
	struct place *p = *state;
	struct fs_removed removed = { .remained = 9 };
	struct err err = { 0 };

	assert_int_equal(mkdirat(p->fd, "t", 0755), 0);
	assert_int_equal(mkdirat(p->fd, "t/a", 0755), 0);
	put(p->fd, "t/a/f", 1000);
	put(p->fd, "t/g", 1);
	put(p->fd, "t/bad\xff\n\033name", 1);
	assert_int_equal(mkfifoat(p->fd, "t/fifo", 0600), 0);
	put(p->fd, "beside", 1);
	assert_int_equal(fs_remove_tree(p->fd, "t", &removed, &err), 0);
	assert_int_equal(removed.files, 4);
	assert_int_equal(removed.dirs, 2);
	assert_int_equal(removed.bytes, 1002);
	assert_int_equal(removed.remained, 0);
	assert_false(there(p->fd, "t"));
	assert_true(there(p->fd, "beside"));
	/* a plain file, nothing at all, and names that mean something else */
	assert_int_equal(fs_remove_tree(p->fd, "beside", &removed, &err), 0);
	assert_int_equal(removed.files, 1);
	assert_int_equal(fs_remove_tree(p->fd, "beside", &removed, &err), 0);
	assert_int_equal(removed.files, 0);
	assert_int_equal(fs_remove_tree(p->fd, "no/where", &removed, &err), 0);
	assert_int_equal(fs_remove_tree(p->fd, "..", NULL, &err), -EINVAL);
	assert_int_equal(fs_remove_tree(p->fd, "", NULL, &err), -EINVAL);
	assert_int_equal(fs_remove_tree(p->fd, "a/", NULL, &err), -EINVAL);
}

static void links_are_not_followed(void **state)
{
	struct place *p = *state;
	struct fs_removed removed;
	struct err err = { 0 };

	assert_int_equal(mkdirat(p->fd, "outside", 0755), 0);
	put(p->fd, "outside/precious", 3);
	assert_int_equal(mkdirat(p->fd, "t", 0755), 0);
	assert_int_equal(symlinkat("../outside", p->fd, "t/link"), 0);
	assert_int_equal(symlinkat("..", p->fd, "t/up"), 0);
	assert_int_equal(symlinkat("loop", p->fd, "t/loop"), 0);
	assert_int_equal(symlinkat("outside", p->fd, "root-link"), 0);
	assert_int_equal(fs_remove_tree(p->fd, "t", &removed, &err), 0);
	assert_int_equal(removed.files, 3);
	assert_int_equal(removed.bytes, 0);
	assert_int_equal(fs_remove_tree(p->fd, "root-link", &removed, &err), 0);
	assert_false(there(p->fd, "root-link"));
	assert_true(there(p->fd, "outside/precious"));
}

static void deep_tree_with_few_descriptors(void **state)
{
	struct place *p = *state;
	struct rlimit before;
	struct rlimit few;
	struct fs_removed removed;
	struct err err = { 0 };

	assert_int_equal(mkdirat(p->fd, "t", 0755), 0);
	CLEANUP_FD int t_fd = openat(p->fd, "t", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	make_chain(t_fd, 3000);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	few.rlim_cur = 100;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	uint64_t bytes = 0;
	uint64_t inodes = 0;
	int usage = fs_tree_usage(t_fd, 0, 0, &bytes, &inodes);
	int r = fs_remove_tree(p->fd, "t", &removed, &err);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);

	assert_int_equal(usage, 0);
	assert_int_equal(inodes, 6000);
	if (r < 0)
		fail_msg("%s", err.text);
	assert_int_equal(removed.dirs, 3001);
	assert_int_equal(removed.files, 3000);
	assert_int_equal(removed.bytes, 30000);
	assert_false(there(p->fd, "t"));
}

/* At the depth where the stack ends there are many directories, not one. */
static void deep_and_wide_tree(void **state)
{
	struct place *p = *state;
	struct fs_removed removed;
	struct err err = { 0 };
	CLEANUP_FD int fd = -1;

	assert_int_equal(mkdirat(p->fd, "t", 0755), 0);
	fd = openat(p->fd, "t", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int level = 0; level < 130; level++) {
		for (int i = 0; i < 20; i++) {
			char name[16];
			(void)snprintf(name, sizeof(name), "%d", i);
			assert_int_equal(mkdirat(fd, name, 0755), 0);
		}
		int next_fd = openat(fd, "7", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next_fd >= 0);
		(void)close(fd);
		fd = next_fd;
	}
	assert_int_equal(fs_remove_tree(p->fd, "t", &removed, &err), 0);
	assert_int_equal(removed.dirs, 130 * 20 + 1);
	assert_int_equal(removed.remained, 0);
}

static void many_files(void **state)
{
	struct place *p = *state;
	struct fs_removed removed;
	uint64_t bytes = 0;
	uint64_t inodes = 0;
	struct err err = { 0 };

	assert_int_equal(mkdirat(p->fd, "t", 0755), 0);
	CLEANUP_FD int fd = openat(p->fd, "t", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < 100000; i++) {
		char name[32];
		(void)snprintf(name, sizeof(name), "file-%d", i);
		assert_int_equal(mknodat(fd, name, S_IFREG | 0600, 0), 0);
	}
	assert_int_equal(fs_tree_usage(p->fd, 0, 0, &bytes, &inodes), 0);
	assert_int_equal(inodes, 100001);
	assert_int_equal(fs_tree_usage(p->fd, 0, 500, &bytes, &inodes), -E2BIG);
	assert_int_equal(inodes, 501);
	assert_int_equal(fs_remove_tree(p->fd, "t", &removed, &err), 0);
	assert_int_equal(removed.files, 100000);
}

static void make_unusable_dirs(int dir_fd)
{
	static const mode_t modes[] = { 0000, 0100, 0200, 0300, 0400, 0500, 0600 };

	assert_int_equal(mkdirat(dir_fd, "t", 0755), 0);
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		char name[16];
		char file[24];
		char inner[24];

		(void)snprintf(name, sizeof(name), "t/%zu", i);
		(void)snprintf(file, sizeof(file), "%s/f", name);
		(void)snprintf(inner, sizeof(inner), "%s/d", name);
		assert_int_equal(mkdirat(dir_fd, name, 0755), 0);
		put(dir_fd, file, 10);
		assert_int_equal(mkdirat(dir_fd, inner, 0), 0);
		assert_int_equal(fchmodat(dir_fd, name, modes[i], 0), 0);
	}
	assert_int_equal(fchmodat(dir_fd, "t", 0, 0), 0);
}

static void remove_unusable_dirs(int dir_fd)
{
	struct fs_removed removed;
	struct err err = { 0 };

	make_unusable_dirs(dir_fd);
	if (fs_remove_tree(dir_fd, "t", &removed, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(removed.dirs, 15);
	assert_int_equal(removed.files, 7);
	assert_false(there(dir_fd, "t"));
}

static void unusable_dirs(void **state)
{
	struct place *p = *state;

	remove_unusable_dirs(p->fd);
}

/* Runs `act` in a child as an ordinary user who owns the place; 0 if it returned true. */
static int as_nobody(struct place *p, bool (*act)(struct place *p))
{
	int status = 0;

	if (geteuid() == 0)
		assert_int_equal(fchown(p->fd, NOBODY, NOBODY), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (geteuid() == 0 && (setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
				       setresuid(NOBODY, NOBODY, NOBODY) < 0))
			_exit(3);
		_exit(act(p) ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

/* Made by the user as well: only what is one's own can be chmod'ed. */
static bool nobody_removes_unusable(struct place *p)
{
	struct fs_removed removed;
	struct err err = { 0 };

	make_unusable_dirs(p->fd);
	/* the control: without new rights it cannot be read */
	int fd = openat(p->fd, "t", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0 || errno != EACCES)
		return false;
	if (fs_remove_tree(p->fd, "t", &removed, &err) < 0)
		print_error("%s\n", err.text);
	return removed.dirs == 15 && removed.files == 7 && removed.remained == 0 &&
	       !there(p->fd, "t");
}

static void unusable_dirs_as_a_user(void **state)
{
	assert_int_equal(as_nobody(*state, nobody_removes_unusable), 0);
}

/* Deep and without rights: what is moved to the top must be writable for that. */
static bool nobody_removes_deep_unusable(struct place *p)
{
	struct fs_removed removed;
	struct err err = { 0 };
	int fds[150];

	fds[0] = openat(p->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 1; i < 150; i++) {
		if (mkdirat(fds[i - 1], "d", 0755) < 0)
			return false;
		fds[i] = openat(fds[i - 1], "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	for (int i = 149; i > 0; i--) {
		if (fchmod(fds[i], 0) < 0)
			return false;
		(void)close(fds[i]);
	}
	(void)close(fds[0]);
	if (fs_remove_tree(p->fd, "d", &removed, &err) < 0)
		print_error("%s\n", err.text);
	return removed.dirs == 149 && removed.remained == 0;
}

static void deep_unusable_dirs_as_a_user(void **state)
{
	assert_int_equal(as_nobody(*state, nobody_removes_deep_unusable), 0);
}

/* A directory that may be read but not searched ends neither the walk nor the count of what is beside it. */
static bool nobody_counts_beside_unsearchable(struct place *p)
{
	struct fs_usage use = { 0 };

	(void)mkdirat(p->fd, "a", 0755);
	put(p->fd, "a/f", 1);
	(void)mkdirat(p->fd, "b", 0755);
	put(p->fd, "b/f", 1);
	put(p->fd, "b/g", 1);
	if (fchmodat(p->fd, "a", 0400, 0) < 0)
		return false;
	int r = fs_tree_measure(p->fd, 0, 0, &use);
	if (fchmodat(p->fd, "a", 0700, 0) < 0)
		return false;
	return r == 0 && use.unread == 1 && use.moved == 0 && use.inodes == 4;
}

static void unsearchable_dirs_as_a_user(void **state)
{
	assert_int_equal(as_nobody(*state, nobody_counts_beside_unsearchable), 0);
}

static bool nobody_meets_what_is_not_theirs(struct place *p)
{
	struct fs_removed removed = { 0 };
	struct err err = { 0 };
	uint64_t bytes = 0;
	uint64_t inodes = 0;

	int usage = fs_tree_usage(p->fd, 0, 0, &bytes, &inodes);
	int r = fs_remove_tree(p->fd, "t", &removed, &err);
	/* the file beside goes; the directory of another, and so t, stay and are counted */
	return usage == 1 && inodes == 3 && r == -EACCES && removed.files == 1 &&
	       removed.remained == 2 && strstr(err.text, "'theirs'") && there(p->fd, "t/theirs");
}

static void what_cannot_go_is_said(void **state)
{
	struct place *p = *state;

	if (geteuid() != 0)
		skip();
	assert_int_equal(mkdirat(p->fd, "t", 0755), 0);
	assert_int_equal(fchownat(p->fd, "t", NOBODY, NOBODY, 0), 0);
	put(p->fd, "t/f", 1);
	assert_int_equal(mkdirat(p->fd, "t/theirs", 0700), 0);
	put(p->fd, "t/theirs/f", 1);
	assert_int_equal(as_nobody(p, nobody_meets_what_is_not_theirs), 0);
}

/* In a mount namespace of its own, so that nothing is left mounted whatever happens. */
static int in_mount_namespace(struct place *p, int (*act)(struct place *p))
{
	int status = 0;

	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (unshare(CLONE_NEWNS) < 0 ||
		    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
			_exit(77);
		_exit(act(p));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

/* A bind mount of the same file system has the same st_dev: only openat2 tells. */
static int removal_meets_mounts(struct place *p)
{
	struct fs_removed removed = { 0 };
	struct err err = { 0 };
	uint64_t bytes = 0;
	uint64_t inodes = 0;

	/* p->fd belongs to the old namespace, where nothing may be mounted from here */
	p->fd = open(p->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fchdir(p->fd) < 0 || mount("outside", "t/bound", NULL, MS_BIND, NULL) < 0 ||
	    mount("tmpfs", "t/fresh", "tmpfs", 0, NULL) < 0)
		return 77;
	put(p->fd, "t/fresh/f", 1);
	if (fs_tree_usage(p->fd, 0, 0, &bytes, &inodes) != 0 || inodes != 4)
		return 1; /* outside, outside/precious, t, t/f */
	if (fs_remove_tree(p->fd, "t", &removed, &err) != -EXDEV)
		return 2;
	if (removed.remained != 3 || removed.files != 1) /* bound, fresh, t itself */
		return 3;
	return there(p->fd, "outside/precious") && there(p->fd, "t/fresh/f") ? 0 : 4;
}

static void mounts_are_not_crossed(void **state)
{
	struct place *p = *state;

	assert_int_equal(mkdirat(p->fd, "outside", 0755), 0);
	put(p->fd, "outside/precious", 3);
	assert_int_equal(mkdirat(p->fd, "t", 0755), 0);
	put(p->fd, "t/f", 3);
	assert_int_equal(mkdirat(p->fd, "t/bound", 0755), 0);
	assert_int_equal(mkdirat(p->fd, "t/fresh", 0755), 0);
	int r = in_mount_namespace(p, removal_meets_mounts);
	if (r == 77)
		skip();
	assert_int_equal(r, 0);
}

static void usage_counts_blocks_and_links_once(void **state)
{
	struct place *p = *state;
	uint64_t bytes = 0;
	uint64_t inodes = 0;
	struct stat st;

	assert_int_equal(fs_tree_usage(p->fd, 0, 0, &bytes, &inodes), 0);
	assert_int_equal(bytes, 0);
	assert_int_equal(inodes, 0);
	put(p->fd, "f", 100000);
	for (int i = 0; i < 300; i++) {
		char name[16];
		(void)snprintf(name, sizeof(name), "l%d", i);
		assert_int_equal(linkat(p->fd, "f", p->fd, name, 0), 0);
	}
	assert_int_equal(fstatat(p->fd, "f", &st, 0), 0);
	assert_int_equal(fs_tree_usage(p->fd, 0, 0, &bytes, &inodes), 0);
	assert_int_equal(inodes, 1);
	assert_int_equal(bytes, (uint64_t)st.st_blocks * 512);
	/* a sparse file takes what it takes, not what it says */
	CLEANUP_FD int fd = openat(p->fd, "sparse", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(ftruncate(fd, 1LL << 40), 0);
	assert_int_equal(fs_tree_usage(p->fd, 1 << 20, 2, &bytes, &inodes), 0);
	assert_int_equal(inodes, 2);
	assert_int_equal(fs_tree_usage(p->fd, 1, 0, &bytes, &inodes), -E2BIG);
	assert_true(bytes > 1);
}

/* Several hundred links make the table of those seen grow. */
static void usage_of_many_linked_files(void **state)
{
	struct place *p = *state;
	uint64_t bytes = 0;
	uint64_t inodes = 0;

	assert_int_equal(mkdirat(p->fd, "a", 0755), 0);
	assert_int_equal(mkdirat(p->fd, "b", 0755), 0);
	for (int i = 0; i < 1000; i++) {
		char a[16];
		char b[16];
		(void)snprintf(a, sizeof(a), "a/%d", i);
		(void)snprintf(b, sizeof(b), "b/%d", i);
		put(p->fd, a, 0);
		assert_int_equal(linkat(p->fd, a, p->fd, b, 0), 0);
	}
	assert_int_equal(fs_tree_usage(p->fd, 0, 0, &bytes, &inodes), 0);
	assert_int_equal(inodes, 1002);
}

static void change_for_ever(int dir_fd)
{
	for (unsigned i = 0;; i++) {
		char name[24];

		(void)snprintf(name, sizeof(name), "t/%u", i % 50);
		if (mkdirat(dir_fd, name, 0755) < 0 && unlinkat(dir_fd, name, AT_REMOVEDIR) < 0)
			(void)mkdirat(dir_fd, "t", 0755);
		if (symlinkat("/etc", dir_fd, name) == 0)
			(void)unlinkat(dir_fd, name, 0);
	}
}

/* A child makes and removes entries all the while; the walk neither fails on what vanished nor
 * stays for ever. The child is gone when the last removal is judged. */
static void tree_that_changes(void **state)
{
	struct place *p = *state;
	struct err err = { 0 };
	uint64_t bytes = 0;
	uint64_t inodes = 0;

	assert_int_equal(mkdirat(p->fd, "t", 0755), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		change_for_ever(p->fd);
	for (int i = 0; i < 60; i++) {
		(void)fs_remove_tree(p->fd, "t", NULL, &err);
		int r = fs_tree_usage(p->fd, 0, 0, &bytes, &inodes);
		assert_true(r == 0 || r == -EAGAIN);
	}
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(fs_remove_tree(p->fd, "t", NULL, &err), 0);
	assert_false(there(p->fd, "t"));
	assert_true(there(AT_FDCWD, "/etc/passwd"));
}

static uid_t owner(int dir_fd, const char *name)
{
	struct stat st = { 0 };

	assert_int_equal(fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
	return st.st_uid;
}

static void a_tree_is_given_away_without_its_links(void **state)
{
	struct place *p = *state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(mkdirat(p->fd, "t", 0755), 0);
	CLEANUP_FD int fd = openat(p->fd, "t", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	put(p->fd, "outside", 1);
	assert_int_equal(symlinkat("../outside", fd, "link"), 0);
	assert_int_equal(symlinkat("..", fd, "up"), 0);
	assert_int_equal(mkfifoat(fd, "fifo", 0), 0);
	assert_int_equal(mkdirat(fd, "none", 0), 0);
	make_chain(fd, 2000);
	assert_int_equal(fs_tree_own(fd, NOBODY, NOBODY), 0);
	static const char *const names[] = { "link", "up",  "fifo",    "none",
					     "d",    "d/f", "d/d/d/f", "." };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_int_equal(owner(fd, names[i]), NOBODY);
	assert_int_equal(owner(p->fd, "outside"), 0);
	assert_int_equal(owner(p->fd, "."), 0);
	/* With the top its owner's, it has been done. */
	assert_int_equal(fchownat(fd, "fifo", 7, 7, 0), 0);
	assert_int_equal(fs_tree_own(fd, NOBODY, NOBODY), 0);
	assert_int_equal(owner(fd, "fifo"), 7);
	assert_int_equal(fs_tree_own(fd, 8, 8), 0);
	assert_int_equal(owner(fd, "fifo"), 8);
}

#define TREE_TEST(name) cmocka_unit_test_setup_teardown(name, place_set_up, place_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TREE_TEST(ordinary_tree),
		TREE_TEST(links_are_not_followed),
		TREE_TEST(deep_tree_with_few_descriptors),
		TREE_TEST(deep_and_wide_tree),
		TREE_TEST(many_files),
		TREE_TEST(unusable_dirs),
		TREE_TEST(unusable_dirs_as_a_user),
		TREE_TEST(deep_unusable_dirs_as_a_user),
		TREE_TEST(unsearchable_dirs_as_a_user),
		TREE_TEST(what_cannot_go_is_said),
		TREE_TEST(mounts_are_not_crossed),
		TREE_TEST(usage_counts_blocks_and_links_once),
		TREE_TEST(usage_of_many_linked_files),
		TREE_TEST(tree_that_changes),
		TREE_TEST(a_tree_is_given_away_without_its_links),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
