/* The private root: the plan of an analysis on this host, carried out in a mount namespace of the test's own. */
#include "child.h"

#include <dirent.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "../skip.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/path.h"
#include "base/str.h"
#include "box/enter.h"
#include "box/mount.h"

#define MEMORY (8 << 20)

struct scene {
	char base[64];
	char *input; /* owned; BASE/input, with the file `shown` */
	struct config config;
	struct analysis analysis;
	struct runtime runtime;
	struct host host;
	struct limits limits;
	struct strv no_entries;
	struct plan plan;
	struct root_request request;
	struct root_work work;
};

static void make_dir(const char *directory, const char *name)
{
	CLEANUP_FREE char *path = path_join(directory, name);
	assert_int_equal(mkdir(path, 0755), 0);
}

static int errno_of_create(const char *directory, const char *name)
{
	CLEANUP_FREE char *path = path_join(directory, name);
	CLEANUP_FD int fd = open(path, O_CREAT | O_WRONLY | O_EXCL | O_CLOEXEC, 0644);
	return fd < 0 ? errno : 0;
}

static void plan(struct scene *s)
{
	struct err err = { 0 };
	const struct plan_request q = { .id = "r1",
					.analysis = &s->analysis,
					.config = &s->config,
					.runtime = &s->runtime,
					.host = &s->host,
					.limits = &s->limits,
					.data_entries = &s->no_entries };
	if (plan_make(&q, &s->plan, &err) < 0)
		fail_msg("%s", err.text);
	for (size_t i = 0; i < s->plan.work_dirs.n; i++)
		make_dir(s->plan.work_dir, s->plan.work_dirs.v[i]);
}

static int take_work(void *data, enum step_kind which, struct root_work *ret, struct err *err)
{
	*ret = *(struct root_work *)data;
	return 0;
}

static int setup(void **state)
{
	struct scene *s = xcalloc(1, sizeof(*s));
	struct err err = { 0 };
	struct stat st;
	(void)snprintf(s->base, sizeof(s->base), "/tmp/cupel-root-XXXXXX");
	if (!mkdtemp(s->base))
		return -1;
	make_dir(s->base, "work-r1");
	make_dir(s->base, "input");
	s->input = path_join(s->base, "input");
	assert_int_equal(errno_of_create(s->input, "shown"), 0);
	s->config = (struct config){ .home = xasprintf("%s/home", s->base),
				     .work_root = xstrdup(s->base),
				     .work_template = xstrdup("work-{id}") };
	strv_add(&s->config.allow_missing, "landlock");
	strv_add(&s->analysis.command, "/bin/true");
	struct input input = { .path = xstrdup(s->input),
			       .name = xstrdup("given"),
			       .origin = xstrdup("test") };
	analysis_add_input(&s->analysis, &input);
	assert_int_equal(limits_profile("default", &s->limits), 0);
	limits_set(&s->limits, LIMIT_MEMORY, MEMORY, "test");
	runtime_system(&s->config, &s->runtime);
	if (host_read(&s->host, &err) < 0)
		return -1;
	plan(s);
	assert_int_equal(stat(s->plan.work_dir, &st), 0);
	s->work = (struct root_work){ .mount_fd = -1, .dev = st.st_dev, .ino = st.st_ino };
	s->request =
		(struct root_request){ .plan = &s->plan, .take_work = take_work, .data = &s->work };
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	struct scene *s = *state;
	plan_release(&s->plan);
	config_release(&s->config);
	analysis_release(&s->analysis);
	runtime_release(&s->runtime);
	host_release(&s->host);
	(void)fs_remove_tree(AT_FDCWD, s->base, NULL, NULL);
	free(s->input);
	free(s);
	return 0;
}

struct inside {
	child_body *body;
	void *data;
};

/* A procfs shows the pid namespace of whoever mounts it, so the body is a process of the new one. */
static void in_namespaces(void *data)
{
	struct inside *i = data;
	int status = -1;
	EXPECT(ERRNO_OF(unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC)), 0);
	pid_t pid = fork();
	if (pid == 0) {
		(void)alarm(120);
		i->body(i->data);
		_exit(0);
	}
	EXPECT(waitpid(pid, &status, 0), pid);
	EXPECT(status, 0);
}

static void in_box(child_body *body, void *data)
{
	struct inside i = { body, data };
	in_child(in_namespaces, &i);
}

static struct root make(const struct scene *s)
{
	struct root root = { .root_fd = -1, .proc_fd = -1 };
	struct err err = { 0 };
	EXPECT_OK(root_make(&s->request, &root, &err), &err);
	return root;
}

static int count_entries(const char *path)
{
	int n = 0;
	CLEANUP_DIR DIR *dir = opendir(path);
	while (dir && readdir(dir))
		n++;
	return dir ? n - 2 : -1;
}

static void writes_body(void *data)
{
	const struct scene *s = data;
	CLEANUP_FREE char *shown = xasprintf("%s/data/given", s->plan.work_dir);
	CLEANUP_FREE char *data_dir = xasprintf("%s/data", s->plan.work_dir);
	EXPECT(errno_of_create(s->input, "control"), 0);
	EXPECT(ERRNO_OF(access("/usr", W_OK)), 0);
	struct root root = make(s);
	static const char *const sealed[] = { "/",        "/etc",  "/dev",        "/run",
					      "/var/lib", "/home", "/sys/devices" };
	for (size_t i = 0; i < sizeof(sealed) / sizeof(*sealed); i++)
		EXPECT(errno_of_create(sealed[i], "cupel-was-here"), EROFS);
	/* The host's own: asked, not tried, so that a failure leaves nothing there. */
	EXPECT(ERRNO_OF(access("/usr", W_OK)), EROFS);
	EXPECT(ERRNO_OF(access("/usr/bin", W_OK)), EROFS);
	EXPECT(errno_of_create(shown, "x"), EROFS);
	EXPECT(errno_of_create(data_dir, "x"), EROFS);
	EXPECT(ERRNO_OF(open("/proc/sys/kernel/hostname", O_WRONLY | O_CLOEXEC)), EROFS);
	EXPECT(ERRNO_OF(open("/etc/passwd", O_WRONLY | O_CLOEXEC)), EROFS);
	EXPECT(errno_of_create(s->plan.work_dir, "x"), 0);
	EXPECT(errno_of_create("/tmp", "x"), 0);
	EXPECT(errno_of_create("/var/tmp", "y"), 0); /* the same */
	EXPECT(errno_of_create("/dev/shm", "x"), 0);
	EXPECT(fs_write_small(root.proc_fd, "self/oom_score_adj", "500"), 0); /* for set-up only */
}

static void only_a_few_places_can_be_written(void **state)
{
	SKIP_UNLESS(geteuid() == 0, "root", "to mount");
	in_box(writes_body, *state);
	assert_int_equal(errno_of_create(((struct scene *)*state)->input, "after"), 0);
}

static void old_root_body(void *data)
{
	const struct scene *s = data;
	CLEANUP_FREE char *given = xasprintf("%s/data/given/shown", s->plan.work_dir);
	CLEANUP_FREE char *mounts = xcalloc(1, 65536);
	EXPECT(ERRNO_OF(access(s->input, F_OK)), 0);
	EXPECT(ERRNO_OF(access("/var/log", F_OK)), 0);
	(void)make(s);
	EXPECT(ERRNO_OF(access(s->input, F_OK)), ENOENT);
	EXPECT(ERRNO_OF(access(given, R_OK)), 0);
	EXPECT(ERRNO_OF(access("/root", F_OK)), ENOENT);
	EXPECT(ERRNO_OF(access("/var/log", F_OK)), ENOENT);
	EXPECT(ERRNO_OF(access("/etc/shadow", F_OK)), ENOENT);
	EXPECT(ERRNO_OF(access("/usr/bin/env", X_OK)), 0);
	EXPECT(ERRNO_OF(access("/bin/sh", X_OK)), 0);
	char cwd[64];
	EXPECT(getcwd(cwd, sizeof(cwd)) != NULL, 1);
	EXPECT(strcmp(cwd, "/"), 0);
	EXPECT(ERRNO_OF(chdir("/../../..")), 0); /* up from the root is the root */
	EXPECT(ERRNO_OF(access("usr/bin/env", F_OK)), 0);
	EXPECT(ERRNO_OF(access("root", F_OK)), ENOENT);
	/* No mount of the host is left below or beside: what is the root is a tmpfs of four megabytes. */
	EXPECT(fs_read_small(AT_FDCWD, "/proc/self/mountinfo", mounts, 65536) > 0, 1);
	EXPECT(strstr(mounts, " / / ro,nosuid,nodev") != NULL, 1);
	EXPECT(strstr(mounts, "/sys/fs/cgroup") == NULL, 1);
	EXPECT(getpid(), 1);
	EXPECT(ERRNO_OF(access("/proc/1/status", F_OK)), 0);
}

static void the_old_root_is_gone(void **state)
{
	SKIP_UNLESS(geteuid() == 0, "root", "to mount");
	in_box(old_root_body, *state);
}

static ssize_t bytes_of(const char *path)
{
	char bytes[256];
	CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	return fd < 0 ? -errno : read(fd, bytes, sizeof(bytes));
}

static void masks_body(void *data)
{
	static const char *const files[] = { "/proc/kallsyms", "/proc/modules", "/proc/timer_list",
					     "/proc/cmdline",  "/proc/keys",    "/proc/kcore",
					     "/proc/swaps",    "/proc/slabinfo" };
	static const char *const dirs[] = { "/proc/irq", "/proc/bus", "/proc/fs", "/proc/sysvipc" };
	bool was[sizeof(files) / sizeof(*files)];
	int told = 0, entries = 0;
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		was[i] = access(files[i], F_OK) == 0;
		told += bytes_of(files[i]) > 0;
	}
	for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs); i++)
		entries += count_entries(dirs[i]) > 0;
	EXPECT(told > 0 && entries > 0, 1); /* the host tells something */
	(void)make(data);
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		if (was[i])
			EXPECT(bytes_of(files[i]), 0);
	for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs); i++)
		EXPECT(count_entries(dirs[i]) <= 0, 1);
	if (access("/proc/sysrq-trigger", F_OK) == 0)
		EXPECT(ERRNO_OF(open("/proc/sysrq-trigger", O_WRONLY | O_CLOEXEC)), EROFS);
	EXPECT(bytes_of("/proc/meminfo") > 0, 1); /* what programs need is there */
}

static void masks_hide_the_kernels_views(void **state)
{
	SKIP_UNLESS(geteuid() == 0, "root", "to mount");
	in_box(masks_body, *state);
}

/* The receipt's own look at the mounts finds nothing weaker than planned. */
static void mounts_body(void *data)
{
	const struct scene *s = data;
	struct box_facts facts;
	struct err err = { 0 };
	(void)make(s);
	EXPECT_OK(facts_read(&s->plan, &facts, &err), &err);
	if (facts.odd_mount[0])
		(void)dprintf(2, "odd: %s\n", facts.odd_mount);
	EXPECT(facts.odd_mount[0], 0);
	EXPECT(facts.n_writable, 3); /* work, /tmp, /dev/shm */
	/* And it would: a mount that may be written and was not planned. */
	EXPECT(ERRNO_OF(mount("none", "/home", "tmpfs", MS_NOSUID | MS_NODEV, NULL)), 0);
	EXPECT_OK(facts_read(&s->plan, &facts, &err), &err);
	EXPECT(strncmp(facts.odd_mount, "/home ", 6), 0);
	EXPECT(ERRNO_OF(mount(NULL, "/home", NULL, MS_REMOUNT | MS_RDONLY | MS_NODEV, NULL)), 0);
	EXPECT_OK(facts_read(&s->plan, &facts, &err), &err);
	EXPECT(strncmp(facts.odd_mount, "/home ", 6), 0); /* set-id programs would work there */
}

static void every_mount_is_as_planned(void **state)
{
	SKIP_UNLESS(geteuid() == 0, "root", "to mount");
	in_box(mounts_body, *state);
}

static void sizes_body(void *data)
{
	static char block[1 << 20];
	(void)make(data);
	static const char *const files[] = { "/tmp/big", "/dev/shm/big" };
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		CLEANUP_FD int fd = open(files[i], O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		EXPECT(ERRNO_OF(fd), 0);
		for (int mib = 0; mib < MEMORY >> 20; mib++)
			EXPECT(write(fd, block, sizeof(block)), sizeof(block));
		EXPECT(ERRNO_OF(write(fd, block, sizeof(block))), ENOSPC);
	}
}

static void tmpfs_are_no_larger_than_the_memory(void **state)
{
	SKIP_UNLESS(geteuid() == 0, "root", "to mount");
	in_box(sizes_body, *state);
}

static void devices_body(void *data)
{
	char byte = 1;
	(void)make(data);
	CLEANUP_FD int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	EXPECT(write(null_fd, "x", 1), 1);
	CLEANUP_FD int zero_fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	EXPECT(read(zero_fd, &byte, 1), 1);
	EXPECT(byte, 0);
	EXPECT(ERRNO_OF(access("/dev/tty", F_OK)), ENOENT);
	EXPECT(ERRNO_OF(access("/dev/kmsg", F_OK)), ENOENT);
	EXPECT(ERRNO_OF(access("/dev/ptmx", F_OK)), ENOENT);
	/* A device that is made in the box, even by root, is none. */
	EXPECT(ERRNO_OF(mknod("/tmp/null", S_IFCHR | 0666, 1 << 8 | 3)), 0);
	EXPECT(ERRNO_OF(open("/tmp/null", O_RDONLY | O_CLOEXEC)), EACCES);
}

static void devices_are_those_planned(void **state)
{
	SKIP_UNLESS(geteuid() == 0, "root", "to mount");
	in_box(devices_body, *state);
}

static void stale_body(void *data)
{
	const struct scene *s = data;
	struct root_request other = s->request;
	struct root root = { .root_fd = -1, .proc_fd = -1 };
	struct err err = { 0 };
	struct root_work elsewhere = s->work;
	elsewhere.ino++;
	other.data = &elsewhere;
	EXPECT(root_make(&other, &root, &err), -ESTALE);
	EXPECT(strstr(err.text, s->plan.work_dir) != NULL, 1);
	EXPECT(root.root_fd, -1);
}

static void another_directory_in_its_place_is_refused(void **state)
{
	SKIP_UNLESS(geteuid() == 0, "root", "to mount");
	in_box(stale_body, *state);
}

static void link_body(void *data)
{
	const struct scene *s = data;
	CLEANUP_FREE char *moved = xasprintf("%s/moved", s->base);
	struct root root = { .root_fd = -1, .proc_fd = -1 };
	struct err err = { 0 };
	EXPECT(ERRNO_OF(rename(s->input, moved)), 0);
	EXPECT(ERRNO_OF(symlink(moved, s->input)), 0);
	EXPECT(root_make(&s->request, &root, &err), -ELOOP);
	EXPECT(strstr(err.text, s->input) != NULL, 1);
}

static void an_input_that_became_a_link_is_refused(void **state)
{
	SKIP_UNLESS(geteuid() == 0, "root", "to mount");
	in_box(link_body, *state);
}

/* A runtime's tree is somebody's, and changes while a box is set up: a place in it that became a link leads nowhere on the host. */
static void tree_link_body(void *data)
{
	struct scene *s = data;
	struct root root = { .root_fd = -1, .proc_fd = -1 };
	struct err err = { 0 };
	CLEANUP_FREE char *prefix = path_join(s->base, "prefix");
	CLEANUP_FREE char *outside = path_join(s->base, "outside");
	CLEANUP_FREE char *link = path_join(prefix, "link");
	CLEANUP_FREE char *below = path_join(link, "made");
	CLEANUP_FREE char *made = path_join(outside, "made");
	const struct plan_request q = { .id = "r1",
					.analysis = &s->analysis,
					.config = &s->config,
					.runtime = &s->runtime,
					.host = &s->host,
					.limits = &s->limits,
					.data_entries = &s->no_entries };
	EXPECT(ERRNO_OF(mkdir(prefix, 0755)), 0);
	EXPECT(ERRNO_OF(mkdir(outside, 0755)), 0);
	EXPECT(ERRNO_OF(symlink(outside, link)), 0);
	pairs_set(&s->runtime.shown, prefix, prefix);
	pairs_set(&s->runtime.shown, below, s->input);
	plan_release(&s->plan);
	EXPECT_OK(plan_make(&q, &s->plan, &err), &err);
	EXPECT(root_make(&s->request, &root, &err), -ENOENT);
	EXPECT(strstr(err.text, below) != NULL, 1);
	EXPECT(ERRNO_OF(access(made, F_OK)), ENOENT);
}

static void a_place_is_never_reached_through_the_host(void **state)
{
	SKIP_UNLESS(geteuid() == 0, "root", "to mount");
	in_box(tree_link_body, *state);
}

static char *mounts_of_host(void)
{
	struct str all = { 0 };
	CLEANUP_FILE FILE *file = fopen("/proc/self/mountinfo", "re");
	char line[4096];
	while (file && fgets(line, sizeof(line), file))
		if (strstr(line, "cupel-root-"))
			str_add(&all, line);
	str_add(&all, "");
	return str_take(&all);
}

static void nothing_is_mounted_on_the_host(void **state)
{
	SKIP_UNLESS(geteuid() == 0, "root", "to mount");
	in_box(writes_body, *state);
	CLEANUP_FREE char *after = mounts_of_host();
	assert_string_equal(after, "");
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ROW(only_a_few_places_can_be_written),
		ROW(the_old_root_is_gone),
		ROW(masks_hide_the_kernels_views),
		ROW(every_mount_is_as_planned),
		ROW(tmpfs_are_no_larger_than_the_memory),
		ROW(devices_are_those_planned),
		ROW(another_directory_in_its_place_is_refused),
		ROW(an_input_that_became_a_link_is_refused),
		ROW(a_place_is_never_reached_through_the_host),
		ROW(nothing_is_mounted_on_the_host),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
