/* Runtimes that cupel made: what an interrupted create or remove leaves is found and cleared, and nothing that is alive. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/path.h"
#include "health/gc_runtimes.h"
#include "health/use.h"
#include "keeper/record.h"
#include "place.h"
#include "runtime/made.h"

struct scene {
	struct place *place;
	struct config config;
	char home[64], entry[64];
	pid_t run; /* a live one */
};

static int scene_set_up(void **state)
{
	static struct scene s;

	s = (struct scene){ 0 };
	if (place_set_up((void **)&s.place) < 0)
		return -1;
	(void)snprintf(s.home, sizeof(s.home), "%s/home", s.place->path);
	(void)snprintf(s.entry, sizeof(s.entry), "%s/sc.yaml", s.place->path);
	s.config.home = s.home;
	*state = &s;
	return record_home(s.home, NULL);
}

static void end_run(struct scene *s)
{
	if (s->run <= 0)
		return;
	(void)kill(s->run, SIGKILL);
	(void)waitpid(s->run, NULL, 0);
	s->run = 0;
}

static int scene_tear_down(void **state)
{
	struct scene *s = *state;

	end_run(s);
	return place_tear_down((void **)&s->place);
}

static void make_generation(struct scene *s, const char *generation)
{
	CLEANUP_FREE char *path = xasprintf("%s/runtimes/sc/%s/env/bin", s->home, generation);

	assert_int_equal(fs_make_dirs(path, 0755, NULL), 0);
}

static bool has_generation(struct scene *s, const char *generation)
{
	CLEANUP_FREE char *path = xasprintf("%s/runtimes/sc/%s", s->home, generation);

	return access(path, F_OK) == 0;
}

static bool has_note(struct scene *s)
{
	CLEANUP_STRV struct strv names = { 0 };

	making_names(s->home, &names);
	return names.n > 0;
}

static void write_entry(struct scene *s, const char *generation)
{
	CLEANUP_FREE char *text =
		xasprintf("name: sc\nprefix: \"%s/runtimes/sc/%s/env\"\n", s->home, generation);

	assert_int_equal(fs_write_atomic(AT_FDCWD, s->entry, text, strlen(text), 0644, NULL), 0);
}

/* What a process leaves that was killed after its note. */
static void note(struct scene *s, enum making_act act, const char *generation)
{
	CLEANUP_MAKING struct making m = MAKING_INIT;
	struct err err = { 0 };

	if (making_lock(s->home, "sc", &m, &err) < 0 ||
	    making_note(&m, act, generation, s->entry, &err) < 0)
		fail_msg("%s", err.text);
}

static void sweep(struct scene *s)
{
	struct gc_report report = { 0 };

	gc_runtimes(&s->config, &report);
	if (report.failed)
		fail_msg("%s", report.last_error.text);
}

/* A process that holds a run as a keeper does; `runtime` NULL: it has not said yet what it runs in. */
static void start_run(struct scene *s, const char *runtime)
{
	int ready[2];
	char byte = 0;
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	s->run = fork();
	if (s->run == 0) {
		struct record r = RECORD_INIT;
		struct record_traces traces = { "/nonexistent", "none" };
		int e = record_claim(s->home, "r1", &traces, &r, NULL);
		if (e >= 0 && runtime)
			e = record_file(&r, "analysis.json",
					json_pack("{s:{s:s}}", "runtime", "name", runtime), NULL);
		(void)!write(ready[1], e < 0 ? "n" : "y", 1);
		for (;;)
			(void)pause();
	}
	(void)close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	(void)close(ready[0]);
	assert_int_equal(byte, 'y');
}

static void a_name_is_one_process_s_at_a_time(void **state)
{
	struct scene *s = *state;
	CLEANUP_MAKING struct making first = MAKING_INIT, second = MAKING_INIT, other = MAKING_INIT;
	struct err err = { 0 };
	assert_int_equal(making_lock(s->home, "sc", &first, &err), 0);
	assert_int_equal(making_lock(s->home, "sc", &second, &err), -EAGAIN);
	assert_int_equal(making_lock(s->home, "other", &other, &err), 0);
	making_done(&first);
	assert_int_equal(making_lock(s->home, "sc", &second, &err), 0);
	assert_int_equal(making_lock(s->home, "../sc", &first, &err), -EINVAL);
}

static void what_never_got_an_entry_is_removed(void **state)
{
	struct scene *s = *state;
	make_generation(s, "g-old");
	make_generation(s, "g-new");
	write_entry(s, "g-old");
	note(s, MAKING_CREATE, "g-new");
	sweep(s);
	assert_true(has_generation(s, "g-old"));
	assert_false(has_generation(s, "g-new"));
	assert_false(has_note(s));
}

static void what_got_an_entry_is_alive_and_the_old_one_goes(void **state)
{
	struct scene *s = *state;
	make_generation(s, "g-old");
	make_generation(s, "g-new");
	write_entry(s, "g-new");
	note(s, MAKING_CREATE, "g-new");
	sweep(s);
	assert_false(has_generation(s, "g-old"));
	assert_true(has_generation(s, "g-new"));
	assert_false(has_note(s));
}

static void the_old_one_stays_as_long_as_a_run_is_in_it(void **state)
{
	struct scene *s = *state;
	make_generation(s, "g-old");
	make_generation(s, "g-new");
	write_entry(s, "g-new");
	note(s, MAKING_CREATE, "g-new");
	start_run(s, "sc");
	sweep(s);
	assert_true(has_generation(s, "g-old"));
	assert_true(has_note(s));
	end_run(s);
	sweep(s);
	assert_false(has_generation(s, "g-old"));
	assert_false(has_note(s));
}

static void what_somebody_is_at_work_on_is_left_alone(void **state)
{
	struct scene *s = *state;
	CLEANUP_MAKING struct making m = MAKING_INIT;
	make_generation(s, "g-new");
	assert_int_equal(making_lock(s->home, "sc", &m, NULL), 0);
	assert_int_equal(making_note(&m, MAKING_CREATE, "g-new", s->entry, NULL), 0);
	sweep(s);
	assert_true(has_generation(s, "g-new"));
	making_release(&m);
	sweep(s);
	assert_false(has_generation(s, "g-new"));
}

static void a_removal_is_finished_or_has_not_begun(void **state)
{
	struct scene *s = *state;
	make_generation(s, "g-one");
	write_entry(s, "g-one");
	note(s, MAKING_REMOVE, NULL);
	sweep(s);
	assert_true(has_generation(s, "g-one"));
	assert_false(has_note(s));
	note(s, MAKING_REMOVE, NULL);
	assert_int_equal(unlink(s->entry), 0);
	sweep(s);
	assert_false(has_generation(s, "g-one"));
	assert_false(has_note(s));
}

static void a_torn_note_harms_nothing(void **state)
{
	struct scene *s = *state;
	static const char *const notes[] = { "",
					     "create",
					     "create\ng-one",
					     "create\n../..\n/x\n",
					     "create\n-\n-\n",
					     "sing\ng-one\n/x\n" };
	make_generation(s, "g-one");
	write_entry(s, "g-one");
	for (size_t i = 0; i < sizeof(notes) / sizeof(*notes); i++) {
		CLEANUP_FREE char *path = xasprintf("%s/runtimes/.making/sc", s->home);
		note(s, MAKING_NOTHING, NULL);
		assert_int_equal(
			fs_write_atomic(AT_FDCWD, path, notes[i], strlen(notes[i]), 0600, NULL), 0);
		sweep(s);
		assert_true(has_generation(s, "g-one"));
		assert_false(has_note(s));
	}
}

static void a_live_run_uses_its_runtime_and_no_other(void **state)
{
	struct scene *s = *state;
	char id[ID_MAX + 1] = "";
	assert_int_equal(runtime_in_use(&s->config, "sc", id, NULL), 0);
	start_run(s, "sc");
	assert_int_equal(runtime_in_use(&s->config, "sc", id, NULL), 1);
	assert_string_equal(id, "r1");
	assert_int_equal(runtime_in_use(&s->config, "other", id, NULL), 0);
	end_run(s);
	assert_int_equal(runtime_in_use(&s->config, "sc", id, NULL), 0);
}

static void a_run_that_has_not_said_yet_may_use_any(void **state)
{
	struct scene *s = *state;
	char id[ID_MAX + 1] = "";
	start_run(s, NULL);
	assert_int_equal(runtime_in_use(&s->config, "sc", id, NULL), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scene_set_up, scene_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_name_is_one_process_s_at_a_time),
		TEST(what_never_got_an_entry_is_removed),
		TEST(what_got_an_entry_is_alive_and_the_old_one_goes),
		TEST(the_old_one_stays_as_long_as_a_run_is_in_it),
		TEST(what_somebody_is_at_work_on_is_left_alone),
		TEST(a_removal_is_finished_or_has_not_begun),
		TEST(a_torn_note_harms_nothing),
		TEST(a_live_run_uses_its_runtime_and_no_other),
		TEST(a_run_that_has_not_said_yet_may_use_any),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
