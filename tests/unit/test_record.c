/* The run directory: one claim an id, a chain of events that can be recomputed, the verdict last. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/str.h"
#include "keeper/record.h"

static const struct record_traces traces = { "/tmp/no-such-work", "cupel-test-none" };

struct home {
	char path[64];
	int fd;
	struct record record;
	struct err err;
};

static int setup(void **state)
{
	struct home *h = xcalloc(1, sizeof(*h));
	(void)snprintf(h->path, sizeof(h->path), "/tmp/cupel-record-XXXXXX");
	if (!mkdtemp(h->path) || record_home(h->path, NULL) < 0)
		return -1;
	h->fd = open(h->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	h->record = (struct record)RECORD_INIT;
	*state = h;
	return 0;
}

static int teardown(void **state)
{
	struct home *h = *state;
	record_release(&h->record);
	record_release(&h->record); /* twice is fine */
	cleanup_fd(&h->fd);
	(void)fs_remove_tree(AT_FDCWD, h->path, NULL, NULL);
	free(h);
	return 0;
}

static void claim(struct home *h, const char *id)
{
	if (record_claim(h->path, id, &traces, &h->record, &h->err) < 0)
		fail_msg("%s", h->err.text);
}

static void event(struct home *h, const char *name, json_t *data)
{
	if (record_event(&h->record, name, data, &h->err) < 0)
		fail_msg("%s", h->err.text);
}

static bool exists(const struct home *h, const char *name)
{
	struct stat st;
	return fstatat(h->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
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

/* A child that holds the id until it is told to end; how it ends, the lock ends with it. */
static pid_t hold(struct home *h, const char *id)
{
	int ready[2];
	char byte = 0;
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct record r = RECORD_INIT;
		if (record_claim(h->path, id, &traces, &r, NULL) < 0)
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

static void let_go(pid_t pid)
{
	int status;
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

/* Every line names the hash of the line before, as it stands in the file; returns the number of lines. */
static size_t check_chain(const struct home *h, const char *name, char ret_last[HASH_HEX])
{
	CLEANUP_FREE char *text = text_of(h, name);
	char prev[HASH_HEX];
	size_t n = 0;
	memset(prev, '0', HASH_HEX - 1);
	prev[HASH_HEX - 1] = 0;
	for (char *line = text, *end; *line; line = end + 1, n++) {
		end = strchr(line, '\n');
		assert_non_null(end); /* every line is closed */
		*end = 0;
		CLEANUP_JSON json_t *o = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
		if (o) { /* a torn line is no JSON, but part of the chain */
			assert_string_equal(json_string_value(json_object_get(o, "prev")), prev);
			assert_int_equal(json_integer_value(json_object_get(o, "n")), n + 1);
		}
		hash_bytes(line, strlen(line), prev);
	}
	memcpy(ret_last, prev, HASH_HEX);
	return n;
}

static void home_is_made_once_and_private(void **state)
{
	struct home *h = *state;
	struct stat st;
	assert_int_equal(record_home(h->path, &h->err), 0);
	static const char *const names[] = { "runs", "active", "cache", "tmp" };
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		assert_int_equal(fstatat(h->fd, names[i], &st, AT_SYMLINK_NOFOLLOW), 0);
		assert_true(S_ISDIR(st.st_mode));
		assert_int_equal(st.st_mode & 0777, 0700);
	}
}

static void claim_takes_the_id_and_notes_its_traces(void **state)
{
	struct home *h = *state;
	struct stat st;
	claim(h, "r1");
	CLEANUP_FREE char *noted = text_of(h, "active/r1");
	assert_string_equal(noted, "/tmp/no-such-work\ncupel-test-none\n");
	assert_int_equal(fstatat(h->fd, "runs/r1", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	assert_int_equal(fstatat(h->fd, "runs/r1/events.jsonl", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(fcntl(h->record.events_fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(h->record.active_fd, F_GETFD), FD_CLOEXEC);
}

static void chain_can_be_recomputed(void **state)
{
	struct home *h = *state;
	char last[HASH_HEX];
	claim(h, "r1");
	event(h, "accepted", NULL);
	event(h, "started", json_pack("{s:s}", "text", "line\nbreak \"quoted\""));
	event(h, "ended", json_pack("{s:i}", "status", 0));
	assert_int_equal(record_sync(&h->record, &h->err), 0);
	assert_int_equal(check_chain(h, "runs/r1/events.jsonl", last), 3);
	assert_string_equal(last, h->record.chain);
	assert_int_equal(h->record.n_events, 3);
	/* The check above sees a changed byte: the line in the middle no longer fits the next one. */
	CLEANUP_FREE char *text = text_of(h, "runs/r1/events.jsonl");
	char *second = strchr(text, '\n') + 1;
	char *third = strchr(second, '\n');
	char hash[HASH_HEX];
	*strstr(second, "started") = 'S';
	*third = 0;
	hash_bytes(second, strlen(second), hash);
	assert_null(strstr(third + 1, hash));
}

static void an_id_in_use_is_refused(void **state)
{
	struct home *h = *state;
	struct record untouched = RECORD_INIT;
	pid_t pid = hold(h, "r1");
	int claimed = record_claim(h->path, "r1", &traces, &untouched, &h->err);
	int adopted = record_adopt(h->path, "r1", &untouched, NULL);
	let_go(pid);
	assert_int_equal(claimed, -EEXIST);
	assert_int_equal(h->err.kind, ERR_CALLER);
	assert_non_null(strstr(h->err.text, "going on"));
	assert_int_equal(adopted, -EAGAIN);
	assert_null(untouched.id);
	assert_int_equal(untouched.active_fd, -1);
}

static void an_id_stays_used(void **state)
{
	struct home *h = *state;
	let_go(hold(h, "r1"));
	assert_int_equal(record_claim(h->path, "r1", &traces, &h->record, &h->err), -EEXIST);
	assert_int_equal(h->err.kind, ERR_CALLER);
	assert_non_null(strstr(h->err.text, "used before"));
	assert_true(exists(h, "active/r1")); /* gc must still find the dead run */
	claim(h, "r2");                      /* another is free */
}

static void a_complete_run_leaves_no_entry_behind(void **state)
{
	struct home *h = *state;
	claim(h, "r1");
	assert_int_equal(record_finish(&h->record, json_pack("{s:s}", "cause", "ok"), &h->err), 0);
	record_release(&h->record);
	assert_false(exists(h, "active/r1"));
	assert_int_equal(record_claim(h->path, "r1", &traces, &h->record, &h->err), -EEXIST);
	assert_false(exists(h, "active/r1"));
}

static void a_dead_run_is_adopted_and_its_chain_goes_on(void **state)
{
	struct home *h = *state;
	char last[HASH_HEX];
	claim(h, "r1");
	event(h, "accepted", NULL);
	event(h, "started", NULL);
	record_release(&h->record);
	assert_int_equal(record_adopt(h->path, "r1", &h->record, &h->err), 0);
	assert_int_equal(h->record.n_events, 2);
	event(h, "lost", NULL);
	assert_int_equal(check_chain(h, "runs/r1/events.jsonl", last), 3);
	assert_string_equal(last, h->record.chain);
}

static void an_adopted_run_is_locked(void **state)
{
	struct home *h = *state;
	let_go(hold(h, "r1"));
	assert_int_equal(record_adopt(h->path, "r1", &h->record, &h->err), 0);
	pid_t pid = fork();
	if (pid == 0) {
		struct record r = RECORD_INIT;
		_exit(record_adopt(h->path, "r1", &r, NULL) == -EAGAIN ? 0 : 1);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void a_torn_last_line_is_closed(void **state)
{
	struct home *h = *state;
	char last[HASH_HEX];
	claim(h, "r1");
	event(h, "accepted", NULL);
	assert_int_equal(fs_write_all(h->record.events_fd, "{\"n\":2,\"ti", 10), 0);
	record_release(&h->record);
	assert_int_equal(record_adopt(h->path, "r1", &h->record, &h->err), 0);
	event(h, "lost", NULL);
	assert_int_equal(check_chain(h, "runs/r1/events.jsonl", last), 3);
	assert_string_equal(last, h->record.chain);
	CLEANUP_FREE char *text = text_of(h, "runs/r1/events.jsonl");
	assert_non_null(strstr(text, "\n{\"n\":2,\"ti\n{\"n\":3,"));
}

/* The disk is full in the middle of a line, and later has room again. */
static void a_line_that_does_not_fit_leaves_no_trace(void **state)
{
	struct home *h = *state;
	char last[HASH_HEX];
	struct stat st;
	struct rlimit all, little;
	claim(h, "r1");
	event(h, "accepted", NULL);
	assert_int_equal(fstat(h->record.events_fd, &st), 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &all), 0);
	little = (struct rlimit){ (rlim_t)st.st_size + 20, all.rlim_max };
	void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
	int r = record_event(&h->record, "started", NULL, &h->err);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
	(void)signal(SIGXFSZ, before);
	assert_int_equal(r, -EFBIG);
	assert_non_null(strstr(h->err.text, "started"));
	event(h, "ended", NULL);
	assert_int_equal(check_chain(h, "runs/r1/events.jsonl", last), 2);
	assert_string_equal(last, h->record.chain);
	CLEANUP_FREE char *text = text_of(h, "runs/r1/events.jsonl");
	assert_non_null(strstr(text, "\n{\"n\":2,"));
	assert_non_null(strstr(text, "\"ended\""));
}

/* The same where nobody could act on it: the line is not lost, it comes later. */
static void a_line_that_nobody_waits_for_goes_with_the_next(void **state)
{
	struct home *h = *state;
	char last[HASH_HEX];
	struct stat st;
	struct rlimit all, little;
	claim(h, "r1");
	event(h, "accepted", NULL);
	assert_int_equal(fstat(h->record.events_fd, &st), 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &all), 0);
	little = (struct rlimit){ (rlim_t)st.st_size + 20, all.rlim_max };
	void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
	(void)record_event(&h->record, "ended", NULL, NULL);
	(void)record_event(&h->record, "collected", NULL, NULL);
	int r = record_sync(&h->record, &h->err);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
	(void)signal(SIGXFSZ, before);
	assert_int_equal(r, -EFBIG);
	assert_int_equal(check_chain(h, "runs/r1/events.jsonl", last), 1);
	event(h, "removed", NULL);
	assert_int_equal(check_chain(h, "runs/r1/events.jsonl", last), 4);
	assert_string_equal(last, h->record.chain);
}

static void a_run_that_never_was_is_not_adopted(void **state)
{
	struct home *h = *state;
	assert_int_equal(record_adopt(h->path, "r1", &h->record, NULL), -ENOENT);
	/* Nor does asking make a trace of it. */
	assert_false(exists(h, "active/r1"));
	assert_false(exists(h, "runs/r1"));
	claim(h, "r1");
}

static void files_are_written_once(void **state)
{
	struct home *h = *state;
	claim(h, "r1");
	assert_int_equal(record_file(&h->record, "plan.json", json_pack("{s:i}", "a", 1), &h->err),
			 0);
	assert_int_equal(record_file(&h->record, "plan.json", json_pack("{s:i}", "a", 2), &h->err),
			 -EEXIST);
	assert_non_null(strstr(h->err.text, "plan.json"));
	CLEANUP_JSON json_t *value = NULL;
	assert_int_equal(json_read_file(h->fd, "runs/r1/plan.json", 4096, &value, &h->err), 0);
	assert_int_equal(json_integer_value(json_object_get(value, "a")), 1);
}

/* Whoever sees the verdict sees a complete record: it comes after all else, and the entry goes last. */
static void the_verdict_comes_last(void **state)
{
	struct home *h = *state;
	claim(h, "r1");
	assert_int_equal(record_file(&h->record, "plan.json", json_object(), &h->err), 0);
	event(h, "ended", NULL);
	assert_false(exists(h, "runs/r1/verdict.json"));
	assert_true(exists(h, "active/r1"));
	assert_int_equal(record_finish(&h->record, json_pack("{s:s}", "cause", "ok"), &h->err), 0);
	assert_false(exists(h, "active/r1"));
	CLEANUP_JSON json_t *value = NULL;
	assert_int_equal(json_read_file(h->fd, "runs/r1/verdict.json", 4096, &value, &h->err), 0);
	assert_string_equal(json_string_value(json_object_get(value, "cause")), "ok");
}

/* A verdict that can't be written leaves the entry: the run is not complete, and gc finds it. */
static void without_a_verdict_the_entry_stays(void **state)
{
	struct home *h = *state;
	claim(h, "r1");
	assert_int_equal(mkdirat(h->fd, "runs/r1/verdict.json", 0700), 0);
	assert_true(record_finish(&h->record, json_pack("{s:s}", "cause", "ok"), &h->err) < 0);
	assert_true(exists(h, "active/r1"));
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ROW(home_is_made_once_and_private),
		ROW(claim_takes_the_id_and_notes_its_traces),
		ROW(chain_can_be_recomputed),
		ROW(an_id_in_use_is_refused),
		ROW(an_id_stays_used),
		ROW(a_complete_run_leaves_no_entry_behind),
		ROW(a_dead_run_is_adopted_and_its_chain_goes_on),
		ROW(an_adopted_run_is_locked),
		ROW(a_torn_last_line_is_closed),
		ROW(a_line_that_does_not_fit_leaves_no_trace),
		ROW(a_line_that_nobody_waits_for_goes_with_the_next),
		ROW(a_run_that_never_was_is_not_adopted),
		ROW(files_are_written_once),
		ROW(the_verdict_comes_last),
		ROW(without_a_verdict_the_entry_stays),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
