/* Recovery: what dead runs left is removed and recorded once; what lives is not touched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/str.h"
#include "collect/outputs.h"
#include "health/gc.h"
#include "keeper/record.h"

struct home {
	char base[64]; /* mkdtemp; holds home/ and the working directories */
	int fd;        /* of home/ */
	struct config config;
	struct record_traces traces;
	char *work_dir; /* owned */
};

static int setup(void **state)
{
	struct home *h = xcalloc(1, sizeof(*h));
	(void)snprintf(h->base, sizeof(h->base), "/tmp/cupel-gc-XXXXXX");
	if (!mkdtemp(h->base))
		return -1;
	h->config = (struct config){ .home = xasprintf("%s/home", h->base),
				     .work_root = xstrdup(h->base),
				     .work_template = xstrdup("work-{id}"),
				     .cgroup_parent = xasprintf("cupel-gc-%d", getpid()) };
	h->work_dir = xasprintf("%s/elsewhere", h->base);
	h->traces = (struct record_traces){ h->work_dir, h->config.cgroup_parent };
	if (record_home(h->config.home, NULL) < 0)
		return -1;
	h->fd = open(h->config.home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = h;
	return 0;
}

static int teardown(void **state)
{
	struct home *h = *state;
	cleanup_fd(&h->fd);
	(void)fs_remove_tree(AT_FDCWD, h->base, NULL, NULL);
	config_release(&h->config);
	free(h->work_dir);
	free(h);
	return 0;
}

static void put(int dir_fd, const char *name, const char *text)
{
	CLEANUP_FD int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(fs_write_all(fd, text, strlen(text)), 0);
}

static void make_work(const char *path, int files)
{
	assert_int_equal(fs_make_dirs(path, 0700, NULL), 0);
	CLEANUP_FD int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < files; i++) {
		CLEANUP_FREE char *name = xasprintf("file%d", i);
		put(fd, name, "x");
	}
}

static bool exists(const struct home *h, const char *name)
{
	struct stat st;
	return fstatat(h->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* What a keeper leaves that was killed after its first event. */
static void leave(const struct home *h, const char *id)
{
	struct record r = RECORD_INIT;
	struct err err = { 0 };
	if (record_claim(h->config.home, id, &h->traces, &r, &err) < 0 ||
	    record_event(&r, "accepted", NULL, &err) < 0)
		fail_msg("%s", err.text);
	struct stat st;
	if (stat(h->work_dir, &st) == 0) {
		CLEANUP_FREE char *mark = xasprintf("made %llu %llu", (unsigned long long)st.st_dev,
						    (unsigned long long)st.st_ino);
		assert_int_equal(record_note(&r, mark, RECORD_NOTE_DURABLE), 0);
	}
	record_release(&r);
}

static struct gc_report sweep(const struct home *h)
{
	struct gc_report report = { .failed = 99 };
	struct err err = { 0 };
	if (gc_sweep(&h->config, &report, &err) < 0)
		fail_msg("%s", err.text);
	if (report.failed)
		fail_msg("could not be cleaned: %s", report.last_error.text);
	return report;
}

static void assert_report(struct gc_report have, uint64_t lost, uint64_t cleared, uint64_t alive)
{
	assert_int_equal(have.lost, lost);
	assert_int_equal(have.cleared, cleared);
	assert_int_equal(have.alive, alive);
}

static char *text_of(const struct home *h, const char *name)
{
	char *text = NULL;
	size_t length;
	struct err err = { 0 };
	if (fs_read_capped(h->fd, name, 1 << 20, &text, &length, &err) < 0)
		fail_msg("%s", err.text);
	return text;
}

static int count(const char *text, const char *word)
{
	int n = 0;
	for (const char *at = strstr(text, word); at; at = strstr(at + 1, word))
		n++;
	return n;
}

static void a_dead_run_is_recorded_as_lost_once(void **state)
{
	struct home *h = *state;
	make_work(h->work_dir, 3);
	leave(h, "r1");
	assert_report(sweep(h), 1, 0, 0);
	assert_int_equal(access(h->work_dir, F_OK), -1);
	assert_false(exists(h, "active/r1"));
	CLEANUP_JSON json_t *verdict = NULL;
	assert_int_equal(json_read_file(h->fd, "runs/r1/verdict.json", 1 << 16, &verdict, NULL), 0);
	assert_string_equal(json_string_value(json_object_get(verdict, "cause")), "lost");
	assert_non_null(strstr(json_string_value(json_object_get(verdict, "completion_notes")),
			       "its working directory (3 files)"));
	CLEANUP_FREE char *events = text_of(h, "runs/r1/events.jsonl");
	assert_int_equal(count(events, "\"event\":\"lost\""), 1);
	assert_int_equal(count(events, "\"event\":\"accepted\""), 1);
}

static void a_second_sweep_changes_nothing(void **state)
{
	struct home *h = *state;
	struct stat before, after;
	leave(h, "r1");
	assert_report(sweep(h), 1, 0, 0);
	CLEANUP_FREE char *events = text_of(h, "runs/r1/events.jsonl");
	assert_int_equal(fstatat(h->fd, "runs/r1/verdict.json", &before, 0), 0);
	assert_report(sweep(h), 0, 0, 0);
	put(h->fd, "boot", "another boot"); /* nor does the full look */
	assert_report(sweep(h), 0, 0, 0);
	CLEANUP_FREE char *again = text_of(h, "runs/r1/events.jsonl");
	assert_string_equal(events, again);
	assert_int_equal(fstatat(h->fd, "runs/r1/verdict.json", &after, 0), 0);
	assert_int_equal(before.st_ino, after.st_ino);
	assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
}

/* Its keeper could not remove everything, and left its entry for that. */
static void what_a_complete_run_left_is_removed(void **state)
{
	struct home *h = *state;
	make_work(h->work_dir, 2);
	leave(h, "r1");
	put(h->fd, "runs/r1/verdict.json", "{}\n");
	assert_report(sweep(h), 0, 1, 0);
	assert_int_equal(access(h->work_dir, F_OK), -1);
	assert_false(exists(h, "active/r1"));
	CLEANUP_FREE char *verdict = text_of(h, "runs/r1/verdict.json");
	assert_string_equal(verdict, "{}\n");
	CLEANUP_FREE char *events = text_of(h, "runs/r1/events.jsonl");
	assert_int_equal(count(events, "\"event\":\"lost\""), 0);
}

static void a_file_that_was_cut_off_is_removed(void **state)
{
	struct home *h = *state;
	leave(h, "r1");
	put(h->fd, "runs/r1/analysis.json", "{\n  \"name\": \"whole\"\n}\n");
	put(h->fd, "runs/r1/plan.json", "{\n  \"work_dir\": {\n    \"a\": 1\n  }\n");
	put(h->fd, "runs/r1/receipt.json", "");
	assert_report(sweep(h), 1, 0, 0);
	assert_true(exists(h, "runs/r1/analysis.json"));
	assert_false(exists(h, "runs/r1/plan.json"));
	assert_false(exists(h, "runs/r1/receipt.json"));
}

static pid_t hold(const struct home *h, const char *id)
{
	int ready[2];
	char byte;
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct record r = RECORD_INIT;
		if (record_claim(h->config.home, id, &h->traces, &r, NULL) < 0)
			_exit(1);
		if (write(ready[1], "x", 1) == 1)
			(void)pause();
		_exit(0);
	}
	(void)close(ready[1]);
	ssize_t n = read(ready[0], &byte, 1);
	(void)close(ready[0]);
	assert_int_equal(n, 1);
	return pid;
}

static void a_live_run_is_left_alone(void **state)
{
	struct home *h = *state;
	pid_t pid = hold(h, "r1");
	make_work(h->work_dir, 1);
	struct gc_report first = { 0 }, second = { 0 };
	(void)gc_sweep(&h->config, &first, NULL); /* the full look of a new boot */
	(void)gc_sweep(&h->config, &second, NULL);
	bool kept = access(h->work_dir, F_OK) == 0 && exists(h, "active/r1") &&
		    !exists(h, "runs/r1/verdict.json");
	(void)kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(kept);
	assert_report(first, 0, 0, 1);
	assert_report(second, 0, 0, 1);
	assert_report(sweep(h), 1, 0, 0); /* the kill ended the lock */
}

static void an_entry_without_a_run_is_cleared(void **state)
{
	struct home *h = *state;
	put(h->fd, "active/r1", "");
	assert_report(sweep(h), 0, 1, 0);
	assert_false(exists(h, "active/r1"));
	assert_false(exists(h, "runs/r1"));
	assert_report(sweep(h), 0, 0, 0);
	leave(h, "r1"); /* the id was never used */
}

/* Somebody removed the record of a dead run: what it had on the host goes all the same, and the entry last. */
static void a_run_whose_directory_is_gone_is_cleared(void **state)
{
	struct home *h = *state;
	make_work(h->work_dir, 3);
	leave(h, "r1");
	assert_int_equal(fs_remove_tree(h->fd, "runs/r1", NULL, NULL), 0);
	assert_report(sweep(h), 0, 1, 0);
	assert_int_equal(access(h->work_dir, F_OK), -1);
	assert_false(exists(h, "active/r1"));
	assert_false(exists(h, "runs/r1"));
	assert_report(sweep(h), 0, 0, 0);
	leave(h, "r1"); /* the id is free again */
}

static void the_entry_of_a_complete_run_is_cleared(void **state)
{
	struct home *h = *state;
	leave(h, "r1");
	CLEANUP_FREE char *events = text_of(h, "runs/r1/events.jsonl");
	put(h->fd, "runs/r1/verdict.json", "{}");
	make_work(h->work_dir, 1); /* kept on purpose: not gc's */
	assert_report(sweep(h), 0, 1, 0);
	assert_false(exists(h, "active/r1"));
	CLEANUP_FREE char *verdict = text_of(h, "runs/r1/verdict.json");
	CLEANUP_FREE char *again = text_of(h, "runs/r1/events.jsonl");
	assert_string_equal(verdict, "{}");
	assert_string_equal(events, again);
	assert_int_equal(access(h->work_dir, F_OK), 0);
}

static void a_new_boot_looks_at_all_runs(void **state)
{
	struct home *h = *state;
	assert_report(sweep(h), 0, 0, 0); /* notes the boot */
	leave(h, "r1");
	assert_int_equal(unlinkat(h->fd, "active/r1", 0), 0); /* lost in the power cut */
	assert_report(sweep(h), 0, 0, 0);                     /* cheap: not even seen */
	assert_false(exists(h, "runs/r1/verdict.json"));
	put(h->fd, "boot", "another boot");
	assert_report(sweep(h), 1, 0, 0);
	assert_true(exists(h, "runs/r1/verdict.json"));
	assert_false(exists(h, "active/r1"));
}

/* The note may be torn by the crash: the configuration tells where the directory would be. */
static void torn_traces_fall_back_to_the_configuration(void **state)
{
	static const char *const notes[] = { "", "/tmp", "\n\n", "relative\ncupel\n",
					     "/x\nparent" };
	struct home *h = *state;
	for (size_t i = 0; i < sizeof(notes) / sizeof(*notes); i++) {
		CLEANUP_FREE char *id = xasprintf("r%zu", i);
		CLEANUP_FREE char *entry = xasprintf("active/%s", id);
		CLEANUP_FREE char *work = xasprintf("%s/work-%s", h->base, id);
		leave(h, id);
		put(h->fd, entry, notes[i]);
		make_work(work, 0);
		assert_report(sweep(h), 1, 0, 0);
		assert_int_equal(access(work, F_OK), -1);
	}
}

static void a_directory_that_the_run_did_not_make_stays(void **state)
{
	struct home *h = *state;
	leave(h, "r1"); /* died before it made anything */
	make_work(h->work_dir, 2);
	assert_report(sweep(h), 1, 0, 0);
	assert_int_equal(access(h->work_dir, F_OK), 0);
}

static void collected_outputs_of_a_lost_run_are_set_aside(void **state)
{
	struct home *h = *state;
	leave(h, "r1");
	assert_int_equal(mkdirat(h->fd, "runs/r1/outputs", 0700), 0);
	put(h->fd, "runs/r1/outputs/result", "x");
	assert_report(sweep(h), 1, 0, 0);
	assert_false(exists(h, "runs/r1/outputs"));
	assert_true(exists(h, "runs/r1/partial/result"));
}

static void half_collected_outputs_are_removed(void **state)
{
	struct home *h = *state;
	leave(h, "r1");
	assert_int_equal(mkdirat(h->fd, "runs/r1/" OUTPUT_TEMP_PREFIX "abc", 0700), 0);
	put(h->fd, "runs/r1/" OUTPUT_TEMP_PREFIX "abc/half", "x");
	put(h->fd, "runs/r1/stdout.log", "said");
	assert_report(sweep(h), 1, 0, 0);
	assert_false(exists(h, "runs/r1/" OUTPUT_TEMP_PREFIX "abc"));
	assert_true(exists(h, "runs/r1/stdout.log"));
}

static void names_that_are_no_ids_are_not_looked_at(void **state)
{
	struct home *h = *state;
	put(h->fd, "active/.hidden", "/\nx\n");
	put(h->fd, "active/a..b", "/\nx\n");
	assert_report(sweep(h), 0, 0, 0);
	assert_true(exists(h, "active/.hidden"));
}

static void no_home_is_nothing_to_do(void **state)
{
	struct home *h = *state;
	free(h->config.home);
	h->config.home = xasprintf("%s/never", h->base);
	assert_report(sweep(h), 0, 0, 0);
	assert_int_equal(access(h->config.home, F_OK), -1);
}

/* While one gc removes, another must find the run taken. POSIX locks end with the first descriptor of the file that their
 * process closes, so reading the entry by its name would end it. */
static void two_sweeps_do_not_meet(void **state)
{
	struct home *h = *state;
	make_work(h->work_dir, 4000);
	leave(h, "r1");
	CLEANUP_FD int watch_fd = inotify_init1(IN_CLOEXEC);
	assert_true(inotify_add_watch(watch_fd, h->work_dir, IN_DELETE) >= 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct gc_report report;
		_exit(gc_sweep(&h->config, &report, NULL) == 0 && report.lost == 1 ? 0 : 1);
	}
	struct pollfd wait = { .fd = watch_fd, .events = POLLIN };
	int seen = poll(&wait, 1, 60000); /* the other one is at it */
	struct record r = RECORD_INIT;
	int adopted = record_adopt(h->config.home, "r1", &r, NULL);
	/* If it was faster than us, it was complete before the lock went. */
	bool complete = adopted >= 0 && exists(h, "runs/r1/verdict.json");
	record_release(&r);
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(seen, 1);
	assert_true(adopted == -EAGAIN || complete);
}

static void many_sweeps_at_once_record_one_loss(void **state)
{
	struct home *h = *state;
	enum { RUNS = 20, SWEEPS = 4 };
	for (int i = 0; i < RUNS; i++) {
		CLEANUP_FREE char *id = xasprintf("r%d", i);
		leave(h, id);
	}
	pid_t pids[SWEEPS];
	for (int i = 0; i < SWEEPS; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			struct gc_report report;
			_exit(gc_sweep(&h->config, &report, NULL) == 0 && !report.failed ? 0 : 1);
		}
	}
	int failures = 0;
	for (int i = 0; i < SWEEPS; i++) {
		int status = 1;
		(void)waitpid(pids[i], &status, 0);
		failures += status != 0;
	}
	assert_int_equal(failures, 0);
	for (int i = 0; i < RUNS; i++) {
		CLEANUP_FREE char *name = xasprintf("runs/r%d/events.jsonl", i);
		CLEANUP_FREE char *events = text_of(h, name);
		assert_int_equal(count(events, "\"event\":\"lost\""), 1);
	}
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ROW(a_dead_run_is_recorded_as_lost_once),
		ROW(a_second_sweep_changes_nothing),
		ROW(what_a_complete_run_left_is_removed),
		ROW(a_file_that_was_cut_off_is_removed),
		ROW(a_live_run_is_left_alone),
		ROW(an_entry_without_a_run_is_cleared),
		ROW(a_run_whose_directory_is_gone_is_cleared),
		ROW(the_entry_of_a_complete_run_is_cleared),
		ROW(a_new_boot_looks_at_all_runs),
		ROW(torn_traces_fall_back_to_the_configuration),
		ROW(a_directory_that_the_run_did_not_make_stays),
		ROW(collected_outputs_of_a_lost_run_are_set_aside),
		ROW(half_collected_outputs_are_removed),
		ROW(names_that_are_no_ids_are_not_looked_at),
		ROW(no_home_is_nothing_to_do),
		ROW(two_sweeps_do_not_meet),
		ROW(many_sweeps_at_once_record_one_loss),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
