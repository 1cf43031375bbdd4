/* The collector against a hostile working directory. As root the outputs belong to another uid and the switch of rights is
 * tested too; as an ordinary user they are the caller's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/str.h"
#include "collect/copy.h"
#include "collect/entry.h"
#include "collect/outputs.h"

#define SECRET     "the secret"
#define FOREIGN_ID 54321

struct rig {
	char path[64]; /* holds work/, run/ and the file `secret` */
	int top_fd, work_fd, run_fd;
	uid_t uid;
	gid_t gid;
};

static bool is_root(void)
{
	return geteuid() == 0;
}

static void put(int dir_fd, const char *name, const char *text)
{
	CLEANUP_FD int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static int sub(int dir_fd, const char *name)
{
	assert_int_equal(mkdirat(dir_fd, name, 0755), 0);
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

/* What an ordinary open sees: the control for what the collector must not. */
static bool reads_as(int dir_fd, const char *name, const char *text)
{
	char buffer[64] = { 0 };
	CLEANUP_FD int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && read(fd, buffer, sizeof buffer - 1) >= 0 && str_eq(buffer, text);
}

static bool exists(int dir_fd, const char *name)
{
	return faccessat(dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int setup(void **state)
{
	static struct rig rig;
	(void)umask(022);
	(void)snprintf(rig.path, sizeof rig.path, "/tmp/cupel-test-outputs-XXXXXX");
	assert_non_null(mkdtemp(rig.path));
	rig.top_fd = open(rig.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* Open to all, so that it is never the mode of a parent that keeps a secret. */
	assert_int_equal(fchmod(rig.top_fd, 0755), 0);
	rig.work_fd = sub(rig.top_fd, "work");
	rig.run_fd = sub(rig.top_fd, "run");
	rig.uid = is_root() ? FOREIGN_ID : geteuid();
	rig.gid = is_root() ? FOREIGN_ID : getegid();
	assert_int_equal(fchown(rig.work_fd, rig.uid, rig.gid), 0);
	put(rig.top_fd, "secret", SECRET);
	*state = &rig;
	return 0;
}

static int teardown(void **state)
{
	struct rig *rig = *state;
	cleanup_fd(&rig->work_fd);
	cleanup_fd(&rig->run_fd);
	cleanup_fd(&rig->top_fd);
	return fs_remove_tree(AT_FDCWD, rig->path, NULL, NULL);
}

struct wish {
	const char *pattern, *second;
	uint64_t max_bytes, max_count;
};

static int try_collect(const struct rig *rig, const struct wish *wish, struct manifest *ret)
{
	CLEANUP_FREE char *first = xstrdup(wish->pattern);
	CLEANUP_FREE char *second = xstrdup(wish->second ? wish->second : "");
	struct output outputs[] = { { .pattern = first }, { .pattern = second, .required = true } };
	struct collect_request request = {
		.work_fd = rig->work_fd,
		.run_fd = rig->run_fd,
		.uid = rig->uid,
		.gid = rig->gid,
		.outputs = outputs,
		.n_outputs = wish->second ? 2 : 1,
		.max_bytes = wish->max_bytes ? wish->max_bytes : 1 << 20,
		.max_count = wish->max_count ? wish->max_count : 1000,
	};
	struct err err = { 0 };
	int r = outputs_collect(&request, ret, &err);
	assert_true(r == 0 || (err.code == -r && err.text[0]));
	return r;
}

static struct manifest collect(const struct rig *rig, const char *pattern)
{
	struct manifest m = { 0 };
	assert_int_equal(try_collect(rig, &(struct wish){ .pattern = pattern }, &m), 0);
	return m;
}

static const char *reason(const struct manifest *m, const char *path)
{
	for (size_t i = 0; i < m->n_refused; i++)
		if (str_eq(m->refused[i].path, path))
			return m->refused[i].reason;
	return "(not refused)";
}

static bool took(const struct manifest *m, const char *path)
{
	for (size_t i = 0; i < m->n_files; i++)
		if (str_eq(m->files[i].path, path))
			return true;
	return false;
}

static void takes_what_matches(void **state)
{
	struct rig *rig = *state;
	CLEANUP_FD int out_fd = sub(rig->work_fd, "out");
	CLEANUP_FD int deep_fd = sub(out_fd, "deep");
	put(out_fd, "b.csv", "abc");
	put(deep_fd, "a", "");
	put(rig->work_fd, "stray.csv", "no");
	assert_int_equal(mkdirat(out_fd, "empty", 0755), 0);
	CLEANUP_MANIFEST struct manifest m = collect(rig, "out/**");

	assert_int_equal(m.n_files, 2);
	assert_int_equal(m.n_refused_all, 0);
	assert_int_equal(m.bytes, 3);
	assert_false(m.over_cap);
	assert_null(m.missing);
	assert_string_equal(m.files[0].path, "out/b.csv");
	assert_string_equal(m.files[0].media_type, "text/csv");
	assert_string_equal(m.files[0].sha256,
			    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	assert_string_equal(m.files[1].path, "out/deep/a");
	assert_null(m.files[1].media_type);
	assert_string_equal(m.files[1].sha256,
			    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	assert_true(reads_as(rig->run_fd, "outputs/out/b.csv", "abc"));
	assert_true(reads_as(rig->work_fd, "out/b.csv", "abc")); /* copied, not moved */
	assert_false(exists(rig->run_fd, "outputs/stray.csv"));
	assert_false(exists(rig->run_fd, "outputs/out/empty"));
}

static void set_id_bits_do_not_travel(void **state)
{
	struct rig *rig = *state;
	put(rig->work_fd, "tool", "x");
	assert_int_equal(fchmodat(rig->work_fd, "tool", 06777, 0), 0);
	struct stat st;
	assert_int_equal(fstatat(rig->work_fd, "tool", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 06777); /* control: the bits are really there */
	CLEANUP_MANIFEST struct manifest m = collect(rig, "tool");
	assert_int_equal(m.n_files, 1);
	assert_int_equal(fstatat(rig->run_fd, "outputs/tool", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0444);
	assert_int_equal(st.st_uid, geteuid());
}

static void nothing_makes_nothing(void **state)
{
	struct rig *rig = *state;
	CLEANUP_MANIFEST struct manifest m = { 0 };
	struct wish wish = { .pattern = "out/**", .second = "need/*.csv" };
	assert_int_equal(try_collect(rig, &wish, &m), 0);
	assert_int_equal(m.n_files, 0);
	assert_string_equal(m.missing, "need/*.csv");
	struct fs_removed removed = { 0 };
	assert_int_equal(fs_remove_tree(rig->top_fd, "run", &removed, NULL), 0);
	assert_int_equal(removed.files, 0);
	assert_int_equal(removed.dirs, 1);
}

static void refused_does_not_count_as_found(void **state)
{
	struct rig *rig = *state;
	CLEANUP_FD int need_fd = sub(rig->work_fd, "need");
	put(rig->work_fd, "a", "a");
	assert_int_equal(symlinkat("../a", need_fd, "x.csv"), 0);
	struct wish wish = { .pattern = "a", .second = "need/*.csv" };
	CLEANUP_MANIFEST struct manifest m = { 0 };
	assert_int_equal(try_collect(rig, &wish, &m), 0);
	assert_true(took(&m, "a"));
	assert_string_equal(m.missing, "need/*.csv");
	assert_string_equal(reason(&m, "need/x.csv"), "symbolic link");
	manifest_release(&m);

	assert_int_equal(fs_remove_tree(rig->run_fd, "outputs", NULL, NULL), 0);
	put(need_fd, "y.csv", "y");
	assert_int_equal(try_collect(rig, &wish, &m), 0);
	assert_null(m.missing);
}

static void links_are_not_followed(void **state)
{
	struct rig *rig = *state;
	CLEANUP_FD int out_fd = sub(rig->work_fd, "out");
	assert_int_equal(symlinkat("../../secret", out_fd, "relative"), 0);
	CLEANUP_FREE char *absolute = xasprintf("%s/secret", rig->path);
	assert_int_equal(symlinkat(absolute, out_fd, "absolute"), 0);
	assert_int_equal(symlinkat("/", out_fd, "root"), 0);
	assert_int_equal(symlinkat("loop", out_fd, "loop"), 0);
	assert_int_equal(symlinkat("..", out_fd, "up"), 0);
	assert_int_equal(symlinkat("/proc/self/root", out_fd, "magic"), 0);
	assert_int_equal(symlinkat("nowhere", out_fd, "dangling"), 0);
	put(out_fd, "honest", "yes");
	assert_true(reads_as(out_fd, "relative", SECRET)); /* control */
	assert_true(reads_as(out_fd, "absolute", SECRET));

	CLEANUP_MANIFEST struct manifest m = collect(rig, "out");
	assert_int_equal(m.n_files, 1);
	assert_true(took(&m, "out/honest"));
	assert_int_equal(m.n_refused_all, 7);
	for (size_t i = 0; i < m.n_refused; i++)
		assert_string_equal(m.refused[i].reason, "symbolic link");
	assert_false(exists(rig->run_fd, "outputs/out/relative"));
}

static void link_on_the_way_is_not_followed(void **state)
{
	struct rig *rig = *state;
	CLEANUP_FD int elsewhere_fd = sub(rig->top_fd, "elsewhere");
	put(elsewhere_fd, "secret", SECRET);
	assert_int_equal(symlinkat("../elsewhere", rig->work_fd, "out"), 0);
	assert_true(reads_as(rig->work_fd, "out/secret", SECRET)); /* control */
	CLEANUP_MANIFEST struct manifest m = collect(rig, "out/**");
	assert_int_equal(m.n_files, 0);
	assert_string_equal(reason(&m, "out"), "symbolic link");
}

static void only_regular_files_with_one_name(void **state)
{
	struct rig *rig = *state;
	CLEANUP_FD int out_fd = sub(rig->work_fd, "out");
	assert_int_equal(linkat(rig->top_fd, "secret", out_fd, "linked", 0), 0);
	assert_true(reads_as(out_fd, "linked", SECRET)); /* control */
	assert_int_equal(mkfifoat(out_fd, "fifo", 0666), 0);
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	(void)snprintf(name.sun_path, sizeof name.sun_path, "%s/work/out/socket", rig->path);
	CLEANUP_FD int socket_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(socket_fd, (struct sockaddr *)&name, sizeof name), 0);
	bool has_device = mknodat(out_fd, "device", S_IFCHR | 0666, makedev(1, 5)) == 0;

	CLEANUP_MANIFEST struct manifest m = collect(rig, "out/**");
	assert_int_equal(m.n_files, 0);
	assert_string_equal(reason(&m, "out/linked"), "hard link");
	assert_string_equal(reason(&m, "out/fifo"), "FIFO");
	assert_string_equal(reason(&m, "out/socket"), "socket");
	if (has_device)
		assert_string_equal(reason(&m, "out/device"), "device");
	assert_false(exists(rig->run_fd, "outputs"));
}

static void sparse_size_counts_before_reading(void **state)
{
	struct rig *rig = *state;
	CLEANUP_FD int fd =
		openat(rig->work_fd, "huge", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (ftruncate(fd, 1LL << 40) < 0) {
		print_message("/tmp cannot hold a sparse file of 1 TiB\n");
		skip();
	}
	struct wish wish = { .pattern = "huge", .max_bytes = 1ULL << 30 };
	CLEANUP_MANIFEST struct manifest m = { 0 };
	assert_int_equal(try_collect(rig, &wish, &m), 0);
	assert_true(m.over_cap);
	assert_int_equal(m.n_files, 0);
	assert_false(exists(rig->run_fd, "outputs"));
}

static void caps_leave_a_partial_tree(void **state)
{
	struct rig *rig = *state;
	put(rig->work_fd, "a", "0123456789");
	put(rig->work_fd, "b", "0123456789");
	put(rig->work_fd, "c", "0123456789");
	struct wish wish = { .pattern = "*", .second = "d", .max_bytes = 29 };
	CLEANUP_MANIFEST struct manifest m = { 0 };
	assert_int_equal(try_collect(rig, &wish, &m), 0);
	assert_true(m.over_cap);
	assert_int_equal(m.n_files, 2);
	assert_int_equal(m.bytes, 20);
	assert_null(m.missing);
	CLEANUP_FREE char *copy = xasprintf("outputs/%s", m.files[1].path);
	assert_true(reads_as(rig->run_fd, copy, "0123456789"));
	manifest_release(&m);

	assert_int_equal(fs_remove_tree(rig->run_fd, "outputs", NULL, NULL), 0);
	wish = (struct wish){ .pattern = "*", .max_bytes = 30, .max_count = 3 };
	assert_int_equal(try_collect(rig, &wish, &m), 0); /* control: the caps themselves fit */
	assert_false(m.over_cap);
	assert_int_equal(m.n_files, 3);
}

/* Empty files, but names that cost a hundred times their number to write down. */
static void long_names_meet_a_cap_of_their_own(void **state)
{
	struct rig *rig = *state;
	char name[256] = { 0 };
	memset(name, 1, sizeof name - 1);
	CLEANUP_FD int fd = sub(rig->work_fd, "out");
	for (int i = 0; i < 15; i++) {
		int below_fd = sub(fd, name);
		cleanup_fd(&fd);
		fd = below_fd;
	}
	for (int i = 0; i < 1500; i++) {
		(void)snprintf(name + 200, sizeof name - 200, "%04d", i);
		put(fd, name, "");
	}
	struct wish wish = { .pattern = "out/**", .max_count = 10000 };
	CLEANUP_MANIFEST struct manifest m = { 0 };
	assert_int_equal(try_collect(rig, &wish, &m), 0);
	assert_true(m.over_cap);
	assert_in_range(m.n_files, 1300, 1499);
	CLEANUP_JSON json_t *json = manifest_json(&m);
	CLEANUP_FREE char *text = json_dumps(json, JSON_INDENT(2));
	assert_non_null(text);
	assert_true(strlen(text) < OUTPUT_LISTED_MAX + m.n_files * 1000);
}

static void many_files_meet_the_count_cap(void **state)
{
	struct rig *rig = *state;
	CLEANUP_FD int out_fd = sub(rig->work_fd, "out");
	for (int i = 0; i < 100000; i++) {
		char name[16];
		(void)snprintf(name, sizeof name, "%06d", i);
		CLEANUP_FD int fd =
			openat(out_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		assert_true(fd >= 0);
	}
	struct wish wish = { .pattern = "out/**", .max_count = 20 };
	CLEANUP_MANIFEST struct manifest m = { 0 };
	assert_int_equal(try_collect(rig, &wish, &m), 0);
	assert_true(m.over_cap);
	assert_int_equal(m.n_files, 20);
	for (size_t i = 1; i < m.n_files; i++)
		assert_true(strcmp(m.files[i - 1].path, m.files[i].path) < 0);
}

static void many_refusals_are_counted(void **state)
{
	struct rig *rig = *state;
	for (int i = 0; i < OUTPUT_REFUSED_MAX + 50; i++) {
		char name[16];
		(void)snprintf(name, sizeof name, "%d", i);
		assert_int_equal(symlinkat("x", rig->work_fd, name), 0);
	}
	CLEANUP_MANIFEST struct manifest m = collect(rig, "**");
	assert_int_equal(m.n_refused, OUTPUT_REFUSED_MAX);
	assert_int_equal(m.n_refused_all, OUTPUT_REFUSED_MAX + 50);
}

static void odd_names_stay_what_they_are(void **state)
{
	struct rig *rig = *state;
	CLEANUP_FD int out_fd = sub(rig->work_fd, "out");
	char longest[256] = { 0 };
	memset(longest, 'n', 255);
	const char *names[] = { "\xff\xfe",     "new\nline", "..evil",         "-rf",
				"verdict.json", "outputs",   ".outputs.tmp-0", longest };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		put(out_fd, names[i], names[i][0] == 'n' ? "n" : "x");
	put(rig->run_fd, "verdict.json", "ours");

	CLEANUP_MANIFEST struct manifest m = collect(rig, "out/*");
	assert_int_equal(m.n_files, sizeof names / sizeof *names);
	for (size_t i = 0; i < m.n_files; i++) {
		CLEANUP_FREE char *copy = xasprintf("outputs/%s", m.files[i].path);
		assert_true(exists(rig->run_fd, copy));
	}
	assert_true(reads_as(rig->run_fd, "verdict.json", "ours"));

	CLEANUP_JSON json_t *json = manifest_json(&m);
	const json_t *files = json_object_get(json, "files");
	const json_t *last = json_array_get(files, m.n_files - 1); /* \xff sorts last */
	assert_string_equal(json_string_value(json_object_get(last, "path_hex")), "6f75742ffffe");
	assert_true(str_starts(json_string_value(json_object_get(last, "path")), "out/"));
	assert_null(json_object_get(json_array_get(files, 0), "path_hex"));
	assert_int_equal(json_integer_value(json_object_get(json, "count")), m.n_files);
	assert_true(json_is_null(json_object_get(json, "missing")));
	assert_true(json_is_false(json_object_get(json, "over_cap")));
}

static void make_chain(int start_fd, const char *name, int length)
{
	CLEANUP_FD int fd = fcntl(start_fd, F_DUPFD_CLOEXEC, 3);
	for (int i = 0; i < length; i++) {
		int below = sub(fd, name);
		cleanup_fd(&fd);
		fd = below;
		put(fd, "f", "f");
	}
}

static void depth_is_bounded(void **state)
{
	struct rig *rig = *state;
	make_chain(rig->work_fd, "d", 300);
	CLEANUP_MANIFEST struct manifest m = collect(rig, "**/f");
	assert_int_equal(m.n_files, OUTPUT_DEPTH_MAX);
	assert_int_equal(m.n_refused_all, 1);
	assert_string_equal(m.refused[0].reason, "too deep");
	assert_int_equal(strlen(m.refused[0].path), 2 * (OUTPUT_DEPTH_MAX + 1) - 1);
}

static void path_length_is_bounded(void **state)
{
	struct rig *rig = *state;
	char name[251] = { 0 };
	memset(name, 'p', 250);
	make_chain(rig->work_fd, name, 20);
	CLEANUP_MANIFEST struct manifest m = collect(rig, "**");
	assert_int_equal(m.n_files, 16);
	assert_int_equal(m.n_refused_all, 1);
	assert_string_equal(m.refused[0].reason, "path too long");
}

static void closed_things_are_refused(void **state)
{
	struct rig *rig = *state;
	CLEANUP_FD int out_fd = sub(rig->work_fd, "out");
	CLEANUP_FD int dir_fd = sub(out_fd, "dir");
	put(out_fd, "file", "x");
	put(dir_fd, "inner", "x");
	assert_int_equal(fchownat(out_fd, "file", rig->uid, rig->gid, 0), 0);
	assert_int_equal(fchmodat(out_fd, "file", 0, 0), 0);
	assert_int_equal(fchmod(dir_fd, 0), 0);
	CLEANUP_MANIFEST struct manifest m = collect(rig, "out/**");
	assert_int_equal(m.n_files, 0);
	assert_string_equal(reason(&m, "out/file"), "unreadable");
	assert_string_equal(reason(&m, "out/dir"), "unreadable");
	manifest_release(&m);

	assert_int_equal(fchmodat(out_fd, "file", 0400, 0), 0); /* control */
	assert_int_equal(fchmod(dir_fd, 0755), 0);
	m = collect(rig, "out/**");
	assert_int_equal(m.n_files, 2);
}

static void closed_working_directory_is_refused(void **state)
{
	struct rig *rig = *state;
	put(rig->work_fd, "a", "a");
	assert_int_equal(fchmod(rig->work_fd, 0), 0);
	CLEANUP_MANIFEST struct manifest m = collect(rig, "**");
	assert_int_equal(fchmod(rig->work_fd, 0755), 0);
	assert_int_equal(m.n_files, 0);
	assert_string_equal(reason(&m, "."), "unreadable");
}

static void our_own_directories_are_left_alone(void **state)
{
	struct rig *rig = *state;
	const char *names[] = { "data", "docs", "code", "tmp", "home", "lost+found" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		CLEANUP_FD int fd = sub(rig->work_fd, names[i]);
		put(fd, "x", "x");
	}
	CLEANUP_FD int out_fd = sub(rig->work_fd, "out");
	CLEANUP_FD int data_fd = sub(out_fd, "data");
	put(data_fd, "x", "x");
	CLEANUP_MANIFEST struct manifest m = collect(rig, "**");
	assert_int_equal(m.n_files, 1);
	assert_true(took(&m, "out/data/x"));
	manifest_release(&m);
	assert_int_equal(fs_remove_tree(rig->run_fd, "outputs", NULL, NULL), 0);
	m = collect(rig, "data/**");
	assert_int_equal(m.n_files, 0);
}

/* With root's rights, or the groups of root, these would be read. */
static void rights_are_the_analysis_own(void **state)
{
	struct rig *rig = *state;
	if (!is_root())
		skip();
	put(rig->work_fd, "owner", SECRET);
	put(rig->work_fd, "group", SECRET);
	put(rig->work_fd, "extra", SECRET);
	assert_int_equal(fchmodat(rig->work_fd, "owner", 0600, 0), 0);
	assert_int_equal(fchmodat(rig->work_fd, "group", 0040, 0), 0);
	assert_int_equal(fchmodat(rig->work_fd, "extra", 0040, 0), 0);
	assert_int_equal(fchownat(rig->work_fd, "extra", 0, 777, 0), 0);
	assert_true(reads_as(rig->work_fd, "owner", SECRET)); /* control */
	gid_t before[64];
	int n_before = getgroups(64, before);
	assert_true(n_before >= 0);
	assert_int_equal(setgroups(2, (gid_t[]){ 0, 777 }), 0);

	CLEANUP_MANIFEST struct manifest m = collect(rig, "*");
	gid_t after[64];
	int n_after = getgroups(64, after);
	assert_int_equal(setgroups((size_t)n_before, before), 0);
	assert_int_equal(n_after, 2);
	assert_int_equal(setfsuid((uid_t)-1), 0);
	assert_int_equal(setfsgid((gid_t)-1), getegid());
	assert_true(reads_as(rig->work_fd, "owner", SECRET)); /* capabilities are back */

	assert_int_equal(m.n_files, 0);
	assert_string_equal(reason(&m, "owner"), "unreadable");
	assert_string_equal(reason(&m, "group"), "unreadable");
	assert_string_equal(reason(&m, "extra"), "unreadable");
}

static void ordinary_user_cannot_ask_for_another(void **state)
{
	struct rig *rig = *state;
	put(rig->work_fd, "a", "a");
	struct rig other = *rig;
	struct manifest m = { .bytes = 7 };
	bool root = is_root();
	if (root)
		assert_int_equal(seteuid(65534), 0);
	other.uid = geteuid() + 1;
	int r = try_collect(&other, &(struct wish){ .pattern = "*" }, &m);
	if (root)
		assert_int_equal(seteuid(0), 0);
	assert_int_equal(r, -EPERM);
	assert_int_equal(m.bytes, 7); /* untouched */
}

static void failure_leaves_no_half_tree(void **state)
{
	struct rig *rig = *state;
	put(rig->work_fd, "a", "a");
	CLEANUP_FD int old_fd = sub(rig->run_fd, "outputs");
	put(old_fd, "old", "old");
	struct manifest m = { .bytes = 7 };
	assert_true(try_collect(rig, &(struct wish){ .pattern = "*" }, &m) < 0);
	assert_int_equal(m.bytes, 7);
	assert_true(reads_as(old_fd, "old", "old"));
	struct fs_removed removed = { 0 };
	assert_int_equal(fs_remove_tree(rig->top_fd, "run", &removed, NULL), 0);
	assert_int_equal(removed.files, 1); /* outputs/old, and no temporary tree */
	assert_int_equal(removed.dirs, 2);
}

/* Until killed: the honest directory and file change places with links to the secret. */
static void swap_for_ever(int out_fd)
{
	for (;;) {
		(void)renameat2(out_fd, "dir", out_fd, "dir-link", RENAME_EXCHANGE);
		(void)renameat2(out_fd, "file", out_fd, "file-link", RENAME_EXCHANGE);
	}
}

static void swapping_during_the_open_gains_nothing(void **state)
{
	struct rig *rig = *state;
	CLEANUP_FD int elsewhere_fd = sub(rig->top_fd, "elsewhere");
	put(elsewhere_fd, "x", SECRET);
	CLEANUP_FD int out_fd = sub(rig->work_fd, "out");
	CLEANUP_FD int dir_fd = sub(out_fd, "dir");
	put(dir_fd, "x", "honest");
	put(out_fd, "file", "honest");
	assert_int_equal(symlinkat("../../elsewhere", out_fd, "dir-link"), 0);
	assert_int_equal(symlinkat("../../secret", out_fd, "file-link"), 0);
	assert_true(reads_as(out_fd, "dir-link/x", SECRET)); /* control */
	assert_true(reads_as(out_fd, "file-link", SECRET));
	struct stat file, dir;
	assert_int_equal(fstatat(out_fd, "file", &file, 0), 0);
	assert_int_equal(fstat(dir_fd, &dir), 0);

	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		swap_for_ever(out_fd);
	/* Opens alone, since a round of the collector is mostly fsync: the race needs many tries. */
	CLEANUP_RIGHTS struct rights rights = { 0 };
	assert_int_equal(rights_init(&rights, rig->uid, rig->gid, NULL), 0);
	size_t opened = 0, bad = 0;
	for (int i = 0; i < 50000; i++) {
		CLEANUP_ENTRY struct entry e = { .fd = -1 };
		assert_int_equal(entry_open(&rights, out_fd, i % 2 ? "file" : "dir", &e), 0);
		opened += e.fd >= 0;
		bad += e.fd >= 0 && e.st.st_ino != (i % 2 ? file.st_ino : dir.st_ino);
	}
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(bad, 0);
	assert_true(opened > 0);
}

static const char *copy_after(struct rig *rig, const char *change)
{
	CLEANUP_FD int from_fd =
		openat(rig->work_fd, "f", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	CLEANUP_FD int to_fd =
		openat(rig->run_fd, "f", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_int_equal(pwrite(from_fd, "0123456789", 10, 0), 10);
	struct stat before;
	assert_int_equal(fstat(from_fd, &before), 0);
	if (str_eq(change, "grow"))
		assert_int_equal(pwrite(from_fd, "x", 1, 10), 1);
	if (str_eq(change, "shrink"))
		assert_int_equal(ftruncate(from_fd, 5), 0);
	if (str_eq(change,
		   "rewrite")) /* the clock of the file system is coarse: say the new time */
		assert_int_equal(futimens(from_fd, (struct timespec[]){ { 1, 0 }, { 1, 0 } }), 0);
	CLEANUP_FREE char *buffer = xmalloc(COPY_BUFFER_SIZE);
	CLEANUP_HASH struct hash *hash = hash_new();
	struct copy copy = { from_fd, to_fd, &before, buffer };
	const char *why = NULL;
	assert_int_equal(copy_hashed(&copy, hash, &why), 0);
	struct stat st;
	assert_int_equal(fstat(to_fd, &st), 0);
	assert_true(st.st_size <= 10);
	return why;
}

static void change_while_reading_is_seen(void **state)
{
	struct rig *rig = *state;
	assert_null(copy_after(rig, "nothing"));
	assert_string_equal(copy_after(rig, "grow"), "changed while it was read");
	assert_string_equal(copy_after(rig, "shrink"), "changed while it was read");
	assert_string_equal(copy_after(rig, "rewrite"), "changed while it was read");
}

static void keep_copies_with_the_same_care(void **state)
{
	struct rig *rig = *state;
	CLEANUP_FD int out_fd = sub(rig->work_fd, "out");
	CLEANUP_FD int tmp_fd = sub(rig->work_fd, "tmp");
	put(tmp_fd, "scratch", "kept too");
	put(out_fd, "tool", "x");
	assert_int_equal(fchmodat(out_fd, "tool", 06777, 0), 0);
	put(out_fd, "closed", "x");
	assert_int_equal(fchownat(out_fd, "closed", rig->uid, rig->gid, 0), 0);
	assert_int_equal(fchmodat(out_fd, "closed", 0, 0), 0);
	assert_int_equal(symlinkat("../../secret", out_fd, "link"), 0);
	assert_int_equal(linkat(rig->top_fd, "secret", out_fd, "linked", 0), 0);
	assert_int_equal(mkfifoat(out_fd, "fifo", 0666), 0);
	CLEANUP_FD int sparse_fd =
		openat(out_fd, "sparse", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	assert_int_equal(pwrite(sparse_fd, "tail", 4, 1LL << 36), 4);

	uint64_t files = 0;
	struct err err = { 0 };
	assert_int_equal(outputs_keep(rig->work_fd, rig->run_fd, rig->uid, rig->gid, &files, &err),
			 0);
	assert_int_equal(files, 4); /* scratch, tool, link, sparse */
	assert_true(reads_as(rig->run_fd, "tmp/scratch", "kept too"));
	assert_false(exists(rig->run_fd, "out/closed"));
	assert_false(exists(rig->run_fd, "out/linked"));
	assert_false(exists(rig->run_fd, "out/fifo"));
	struct stat st;
	assert_int_equal(fstatat(rig->run_fd, "out/link", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(fstatat(rig->run_fd, "out/tool", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	assert_int_equal(fstatat(rig->run_fd, "out/sparse", &st, 0), 0);
	assert_int_equal(st.st_size, (1LL << 36) + 4);
	assert_true(st.st_blocks < 1024);
	CLEANUP_FD int copy_fd = openat(rig->run_fd, "out/sparse", O_RDONLY | O_CLOEXEC);
	char tail[5] = { 0 };
	assert_int_equal(pread(copy_fd, tail, 4, 1LL << 36), 4);
	assert_string_equal(tail, "tail");
}

#define RIG_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(takes_what_matches),
		RIG_TEST(set_id_bits_do_not_travel),
		RIG_TEST(nothing_makes_nothing),
		RIG_TEST(refused_does_not_count_as_found),
		RIG_TEST(links_are_not_followed),
		RIG_TEST(link_on_the_way_is_not_followed),
		RIG_TEST(only_regular_files_with_one_name),
		RIG_TEST(sparse_size_counts_before_reading),
		RIG_TEST(caps_leave_a_partial_tree),
		RIG_TEST(many_files_meet_the_count_cap),
		RIG_TEST(long_names_meet_a_cap_of_their_own),
		RIG_TEST(many_refusals_are_counted),
		RIG_TEST(odd_names_stay_what_they_are),
		RIG_TEST(depth_is_bounded),
		RIG_TEST(path_length_is_bounded),
		RIG_TEST(closed_things_are_refused),
		RIG_TEST(closed_working_directory_is_refused),
		RIG_TEST(our_own_directories_are_left_alone),
		RIG_TEST(rights_are_the_analysis_own),
		RIG_TEST(ordinary_user_cannot_ask_for_another),
		RIG_TEST(failure_leaves_no_half_tree),
		RIG_TEST(swapping_during_the_open_gains_nothing),
		RIG_TEST(change_while_reading_is_seen),
		RIG_TEST(keep_copies_with_the_same_care),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
