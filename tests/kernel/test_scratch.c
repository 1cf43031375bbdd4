/* The working directory's disk: limits that hold with ENOSPC, and a removal that leaves no mount, loop device or directory. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/str.h"
#include "budget/scratch.h"
#include "spec/config.h"

#define MIB (1024ULL * 1024)

struct fixture {
	char base[64]; /* mkdtemp; holds home/ and the working directories */
	char home[80];
	char path[80];
};

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));
	(void)snprintf(f->base, sizeof(f->base), "/tmp/cupel-scratch-XXXXXX");
	if (!mkdtemp(f->base))
		return -1;
	(void)snprintf(f->home, sizeof(f->home), "%s/home", f->base);
	(void)snprintf(f->path, sizeof(f->path), "%s/work", f->base);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	(void)umount2(f->path, MNT_DETACH | UMOUNT_NOFOLLOW); /* of a test that failed */
	(void)fs_remove_tree(AT_FDCWD, f->base, NULL, NULL);
	free(f);
	return 0;
}

static struct scratch_request request_of(const struct fixture *f, uint64_t mib, uint64_t inodes)
{
	return (struct scratch_request){ .home = f->home,
					 .path = f->path,
					 .limit_bytes = mib * MIB,
					 .limit_inodes = inodes,
					 .owner_uid = 12345,
					 .owner_gid = 12346,
					 .mechanism = DISK_IMAGE };
}

static struct scratch create(const struct scratch_request *request)
{
	struct scratch s = { 0 };
	struct err err = { 0 };
	if (scratch_create(request, &s, &err) < 0)
		fail_msg("%s", err.text);
	return s;
}

/* Loop devices whose backing file was in our home (it has no name any more: "... (deleted)"). */
static int loops_of(const struct fixture *f)
{
	CLEANUP_DIR DIR *dir = opendir("/sys/block");
	assert_non_null(dir);
	int n = 0;
	for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
		CLEANUP_FREE char *name = xasprintf("%s/loop/backing_file", e->d_name);
		char text[512];
		if (str_starts(e->d_name, "loop") &&
		    fs_read_small(dirfd(dir), name, text, sizeof(text)) > 0 &&
		    strstr(text, f->base))
			n++;
	}
	return n;
}

static bool is_mounted(const char *path)
{
	CLEANUP_FILE FILE *file = fopen("/proc/self/mountinfo", "re");
	char line[4096];
	while (file && fgets(line, sizeof(line), file))
		if (strstr(line, path))
			return true;
	return false;
}

static void assert_nothing_left(const struct fixture *f)
{
	struct stat st;
	assert_int_equal(lstat(f->path, &st), -1);
	assert_int_equal(errno, ENOENT);
	assert_false(is_mounted(f->path));
	/* The kernel frees the device in its own time after the last reference. */
	for (int i = 0; i < 500 && loops_of(f) > 0; i++)
		(void)poll(NULL, 0, 10);
	assert_int_equal(loops_of(f), 0);
	CLEANUP_FREE char *tmp = xasprintf("%s/tmp", f->home);
	CLEANUP_DIR DIR *dir = opendir(tmp);
	for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir))
		assert_true(str_eq(e->d_name, ".") || str_eq(e->d_name, ".."));
}

static void remove_all(const struct fixture *f, struct scratch *s)
{
	struct fs_removed removed = { 0 };
	struct err err = { 0 };
	if (scratch_remove(s, &removed, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(removed.remained, 0);
	scratch_release(s);
	scratch_release(s); /* twice is allowed */
	assert_nothing_left(f);
}

static void test_image_is_private_and_owned(void **state)
{
	const struct fixture *f = *state;
	struct scratch_request request = request_of(f, 16, 1000);
	struct scratch s = create(&request);
	assert_string_equal(s.mechanism, "image");
	assert_int_equal(loops_of(f), 1);
	struct stat st, inside;
	assert_int_equal(stat(f->path, &st), 0);
	assert_int_equal(fstat(s.dir_fd, &inside), 0);
	assert_true(st.st_dev == inside.st_dev && st.st_ino == inside.st_ino);
	assert_int_equal(st.st_uid, 12345);
	assert_int_equal(st.st_gid, 12346);
	assert_int_equal(st.st_mode & 07777, 0700);
	struct statvfs flags;
	assert_int_equal(fstatvfs(s.dir_fd, &flags), 0);
	assert_true(flags.f_flag & ST_NOSUID);
	assert_true(flags.f_flag & ST_NODEV);
	assert_int_equal(faccessat(s.dir_fd, "lost+found", F_OK, 0), -1);

	struct scratch_use use = { 0 };
	assert_int_equal(scratch_measure(&s, &use), 0);
	assert_int_equal(use.inodes, 0);
	assert_false(use.full);
	remove_all(f, &s);
}

/* Whether the template has them or not, and whatever the mask of the caller. */
static void test_directories_that_were_asked_for(void **state)
{
	const struct fixture *f = *state;
	mode_t mask = umask(0077);
	for (int mechanism = DISK_IMAGE; mechanism <= DISK_WATCHED; mechanism++) {
		CLEANUP_STRV struct strv dirs = { 0 };
		struct scratch_request request = request_of(f, 8, 100);
		struct stat st = { 0 };
		struct err err = { 0 };
		request.mechanism = mechanism;
		request.dirs = &dirs;
		strv_add(&dirs, "out");
		strv_add(&dirs, "with blank");
		struct scratch s = create(&request);
		assert_int_equal(scratch_make_dirs(&s, &request, &err), 0);
		for (size_t i = 0; i < dirs.n; i++) {
			assert_int_equal(fstatat(s.dir_fd, dirs.v[i], &st, AT_SYMLINK_NOFOLLOW), 0);
			assert_int_equal(st.st_mode & 07777, 0755);
			assert_int_equal(st.st_uid, request.owner_uid);
			assert_int_equal(st.st_gid, request.owner_gid);
		}
		strv_add(&dirs, "../up");
		assert_int_equal(scratch_make_dirs(&s, &request, &err),
				 mechanism == DISK_IMAGE ? -EINVAL : -EEXIST);
		remove_all(f, &s);
	}
	(void)umask(mask);
}

/* Writes until it fails; returns the bytes and the errno. */
static uint64_t fill(int dir_fd, int *ret_errno)
{
	static char block[65536];
	memset(block, 'x', sizeof(block));
	CLEANUP_FD int fd = openat(dir_fd, "big", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	uint64_t bytes = 0;
	for (;;) {
		ssize_t n = write(fd, block, sizeof(block));
		if (n < 0) {
			*ret_errno = errno;
			return bytes;
		}
		bytes += (uint64_t)n;
	}
}

static void test_image_full_is_enospc(void **state)
{
	const struct fixture *f = *state;
	const uint64_t sizes[] = { 1, 4, 33, 200 };
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		/* Many inodes: their tables must not eat the bytes. */
		struct scratch_request request = request_of(f, sizes[i], 20000);
		struct scratch s = create(&request);
		int code = 0;
		uint64_t bytes = fill(s.dir_fd, &code);
		assert_int_equal(code, ENOSPC);
		assert_true(bytes <= sizes[i] * MIB);
		assert_true(bytes + 65536 >= sizes[i] * MIB * 97 / 100); /* less one write */
		struct scratch_use use = { 0 };
		assert_int_equal(scratch_measure(&s, &use), 0);
		assert_true(use.full);
		assert_true(use.bytes >= bytes && use.bytes <= sizes[i] * MIB);
		assert_true(s.peak_bytes == use.bytes);
		remove_all(f, &s);
	}
}

static void test_image_inodes_are_limited(void **state)
{
	const struct fixture *f = *state;
	struct scratch_request request = request_of(f, 16, 300);
	struct scratch s = create(&request);
	int made = 0, fd = -1;
	for (;; made++) {
		char name[32];
		(void)snprintf(name, sizeof(name), "f%d", made);
		fd = openat(s.dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0)
			break;
		(void)close(fd);
	}
	assert_int_equal(errno, ENOSPC);
	assert_int_equal(made, 300);
	struct scratch_use use = { 0 };
	assert_int_equal(scratch_measure(&s, &use), 0);
	assert_true(use.full);
	assert_int_equal(use.inodes, made);
	struct fs_removed removed = { 0 };
	assert_int_equal(scratch_remove(&s, &removed, NULL), 0);
	assert_int_equal(removed.files, made);
	assert_int_equal(removed.remained, 0);
	scratch_release(&s);
	assert_nothing_left(f);
}

static void test_existing_path_is_refused(void **state)
{
	const struct fixture *f = *state;
	struct scratch_request request = request_of(f, 16, 100);
	struct scratch s = { 0 };
	struct err err = { 0 };
	assert_int_equal(mkdir(f->path, 0755), 0);
	assert_int_equal(scratch_create(&request, &s, &err), -EEXIST);
	assert_int_equal(err.kind, ERR_CALLER);
	assert_int_equal(rmdir(f->path), 0); /* still there, and still empty */

	CLEANUP_FREE char *target = xasprintf("%s/target", f->base);
	assert_int_equal(mkdir(target, 0755), 0);
	assert_int_equal(symlink("target", f->path), 0);
	for (int mechanism = DISK_AUTO; mechanism <= DISK_WATCHED; mechanism++) {
		request.mechanism = mechanism;
		assert_int_equal(scratch_create(&request, &s, &err), -EEXIST);
	}
	struct stat st;
	assert_int_equal(stat(target, &st), 0);
	assert_int_equal(st.st_uid, 0);
	assert_int_equal(unlink(f->path), 0);
	assert_int_equal(rmdir(target), 0);
	assert_null(s.path);
	assert_nothing_left(f);
}

static void test_failure_leaves_nothing(void **state)
{
	const struct fixture *f = *state;
	struct scratch_request request = request_of(f, 16, 100);
	struct scratch s = { 0 };
	struct err err = { 0 };
	request.home = "/proc/self/no-such-home"; /* no image can be made there */
	assert_int_equal(scratch_create(&request, &s, &err), -EOPNOTSUPP);
	assert_string_equal(err.layer, "disk");
	assert_non_null(strstr(err.text, "Remedy"));
	assert_nothing_left(f);
	request.may_miss = true;
	s = create(&request);
	assert_string_equal(s.mechanism, "watched");
	remove_all(f, &s);
	request.may_miss = false;
	request.limit_bytes = SCRATCH_IMAGE_MIN_BYTES - 1;
	assert_int_equal(scratch_create(&request, &s, &err), -EINVAL);
	assert_nothing_left(f);
}

static void test_watched_measures(void **state)
{
	const struct fixture *f = *state;
	struct scratch_request request = request_of(f, 1, 10);
	request.mechanism = DISK_WATCHED;
	struct scratch s = create(&request);
	assert_string_equal(s.mechanism, "watched");
	assert_false(is_mounted(f->path));
	struct stat st;
	assert_int_equal(fstat(s.dir_fd, &st), 0);
	assert_int_equal(st.st_uid, 12345);
	assert_int_equal(st.st_mode & 07777, 0700);
	struct scratch_use use = { 0 };
	assert_int_equal(scratch_measure(&s, &use), 0);
	assert_false(use.full);

	static char bytes[256 * 1024];
	memset(bytes, 'y', sizeof(bytes));
	for (int i = 0; i < 6; i++) {
		char name[16];
		(void)snprintf(name, sizeof(name), "w%d", i);
		CLEANUP_FD int fd = openat(s.dir_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		assert_int_equal(fs_write_all(fd, bytes, sizeof(bytes)), 0);
		assert_int_equal(scratch_measure(&s, &use), 0);
		assert_int_equal(use.full, i >= 3);
	}
	assert_true(s.peak_bytes >= MIB);
	remove_all(f, &s);
}

static void test_sweep_finds_mounted_and_plain(void **state)
{
	const struct fixture *f = *state;
	struct fs_removed removed = { 0 };
	struct err err = { 0 };
	struct scratch_mark mark = { 0 };
	struct scratch_dead dead = { .path = f->path, .home = f->home, .mark = &mark };
	assert_int_equal(scratch_sweep(&dead, &removed, &err), 0);
	for (int mechanism = DISK_IMAGE; mechanism <= DISK_WATCHED; mechanism++) {
		struct scratch_request request = request_of(f, 8, 100);
		request.mechanism = mechanism;
		struct scratch s = create(&request);
		assert_int_equal(mkdirat(s.dir_fd, "out", 0700), 0);
		assert_int_equal(scratch_mark(&s, &mark), 0);
		scratch_release(&s); /* what a dead keeper leaves */
		int r = scratch_sweep(&dead, &removed, &err);
		if (r < 0)
			fail_msg("%s", err.text);
		assert_int_equal(r, 1);
		assert_int_equal(removed.remained, 0);
		assert_nothing_left(f);
	}
}

/* Somebody else's directory or another home's image at the path of a dead run is left as it is. */
static void test_sweep_leaves_what_others_made(void **state)
{
	const struct fixture *f = *state;
	struct fs_removed removed = { 0 };
	struct err err = { 0 };
	struct scratch_mark mark = { 0 };
	struct scratch_dead dead = { .path = f->path, .home = f->home };
	for (int mechanism = DISK_IMAGE; mechanism <= DISK_WATCHED; mechanism++) {
		struct scratch_request request = request_of(f, 8, 100);
		request.mechanism = mechanism;
		struct scratch s = create(&request);
		assert_int_equal(mkdirat(s.dir_fd, "out", 0700), 0);
		dead.home = "/another/home";
		dead.mark = &mark; /* of nothing that is there */
		assert_int_equal(scratch_sweep(&dead, &removed, &err), 0);
		dead.mark = NULL;
		assert_int_equal(scratch_sweep(&dead, &removed, &err), 0);
		assert_int_equal(faccessat(s.dir_fd, "out", F_OK, 0), 0);
		remove_all(f, &s);
	}
	assert_int_equal(mkdir(f->path, 0700), 0); /* an empty directory of ours goes */
	assert_int_equal(scratch_sweep(&dead, &removed, &err), 1);
	assert_nothing_left(f);
}

static void test_creators_of_one_template(void **state)
{
	const struct fixture *f = *state;
	for (int i = 0; i < 6; i++)
		if (fork() == 0) { /* all at once, and the template is not there yet */
			CLEANUP_FREE char *path = xasprintf("%s-%d", f->path, i);
			struct scratch_request request = request_of(f, 12, 777);
			struct scratch s = { 0 };
			struct err err = { 0 };
			request.path = path;
			int r = scratch_create(&request, &s, &err);
			if (r >= 0)
				r = scratch_remove(&s, NULL, &err);
			if (r < 0)
				(void)fprintf(stderr, "creator: %s\n", err.text);
			_exit(r < 0);
		}
	for (int status, i = 0; i < 6; i++) {
		assert_true(waitpid(-1, &status, 0) > 0);
		assert_int_equal(status, 0);
	}
	CLEANUP_FREE char *cache = xasprintf("%s/cache", f->home);
	CLEANUP_DIR DIR *dir = opendir(cache);
	assert_non_null(dir);
	int n = 0;
	for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
		assert_false(e->d_name[0] == '.' && e->d_name[1] == 's'); /* no temporary file */
		n += strstr(e->d_name, "-787-") != NULL;
	}
	assert_int_equal(n, 1);
	assert_nothing_left(f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	if (geteuid() != 0) {
		(void)fprintf(stderr, "skipped: needs root to mount\n");
		return 77;
	}
	const struct CMUnitTest tests[] = {
		TEST(test_image_is_private_and_owned),
		TEST(test_image_full_is_enospc),
		TEST(test_directories_that_were_asked_for),
		TEST(test_image_inodes_are_limited),
		TEST(test_existing_path_is_refused),
		TEST(test_failure_leaves_nothing),
		TEST(test_watched_measures),
		TEST(test_sweep_finds_mounted_and_plain),
		TEST(test_sweep_leaves_what_others_made),
		TEST(test_creators_of_one_template),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
