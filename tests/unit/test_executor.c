/* What an executor must give a run: everything that is asked for, or what is missing is named before anything starts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "executor/executor.h"

/* An executor that can do everything, and a run that asks for little. */
struct scene {
	struct executor_settings settings;
	struct executor executor;
	struct capability can;
	struct analysis analysis;
	struct plan plan;
	struct job job;
	struct err err;
};

static int setup(void **state)
{
	struct scene *s = xcalloc(1, sizeof *s);
	s->settings.name = xstrdup("node");
	s->executor.settings = &s->settings;
	for (size_t i = 0; i < layer_count; i++)
		s->can.layers[i] = true;
	for (int i = 0; i < LIMIT_COUNT_; i++)
		s->can.limits[i] = true;
	s->can.reattaches = s->can.signals = s->can.checkpoints = s->can.network_host = true;
	s->plan.own_network = true;
	s->job = (struct job){ .analysis = &s->analysis, .plan = &s->plan };
	limits_set(&s->plan.limits, LIMIT_MEMORY, 1 << 30, "test");
	limits_set(&s->plan.limits, LIMIT_TIME, 1 << 30, "test");
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	struct scene *s = *state;
	executor_settings_release(&s->settings);
	analysis_release(&s->analysis);
	strv_release(&s->plan.missing);
	free(s);
	return 0;
}

static int suffices(struct scene *s)
{
	s->err = (struct err){ 0 };
	return executor_suffices(&s->executor, &s->can, &s->job, &s->err);
}

static void accepted(struct scene *s)
{
	if (suffices(s) < 0)
		fail_msg("refused: %s", s->err.text);
}

static void refused(struct scene *s, const char *words)
{
	assert_int_equal(suffices(s), -EINVAL);
	assert_int_equal(s->err.kind, ERR_CALLER);
	if (!strstr(s->err.text, "node") || !strstr(s->err.text, words))
		fail_msg("wanted '%s', got '%s'", words, s->err.text);
}

static size_t layer(const char *name)
{
	for (size_t i = 0; i < layer_count; i++)
		if (str_eq(layer_names[i], name))
			return i;
	fail_msg("no layer %s", name);
	return 0;
}

static void one_that_gives_all_is_enough(void **state)
{
	accepted(*state);
}

static void every_layer_counts(void **state)
{
	struct scene *s = *state;
	for (size_t i = 0; i < layer_count; i++) {
		s->can.layers[i] = false;
		refused(s, layer_names[i]);
		assert_non_null(strstr(s->err.text, "--allow-missing"));
		s->can.layers[i] = true;
	}
	s->can.layers[layer("disk")] = s->can.layers[layer("seccomp")] = false;
	refused(s, "seccomp, disk");
}

static void a_layer_may_be_allowed_to_be_missing(void **state)
{
	struct scene *s = *state;
	s->can.layers[layer("disk")] = false;
	strv_add(&s->settings.allow_missing, "disk"); /* by the host, of this executor */
	accepted(s);
	s->can.layers[layer("landlock")] = false;
	refused(s, "landlock");
	strv_add(&s->plan.missing, "landlock"); /* by the caller */
	accepted(s);
}

static void no_network_of_its_own_is_needed_with_the_hosts(void **state)
{
	struct scene *s = *state;
	s->can.layers[layer("net")] = false;
	refused(s, "net");
	s->plan.own_network = false;
	s->analysis.network = NETWORK_HOST;
	accepted(s);
	s->can.network_host = false;
	refused(s, "the host's network");
}

/* Those that are layers too are refused as these, and can be allowed to be missing. */
static void a_limit_that_is_asked_for_must_be_kept(void **state)
{
	struct scene *s = *state;
	s->can.limits[LIMIT_CPU_TIME] = false;
	accepted(s);
	limits_set(&s->plan.limits, LIMIT_CPU_TIME, 5, "test");
	refused(s, "the limit cpu_time");
	assert_null(strstr(s->err.text, "--allow-missing")); /* nothing allows that */
	s->can.limits[LIMIT_CPU_TIME] = true;
	s->can.limits[LIMIT_MEMORY] = false;
	accepted(s);
}

static void powers_are_asked_for_by_name(void **state)
{
	struct scene *s = *state;
	s->can.checkpoints = s->can.signals = false;
	accepted(s);
	s->analysis.checkpoint = xstrdup("saved");
	refused(s, "checkpoint");
	s->can.checkpoints = true;
	s->analysis.warn_signal = SIGUSR1;
	accepted(s); /* when, is not said */
	limits_set(&s->plan.limits, LIMIT_WARN, 5, "test");
	refused(s, "the warning signal");
	s->can.signals = true;
	s->analysis.db_snapshot = xstrdup("/x.db");
	accepted(s);
	s->can.staging = STAGING_COPY;
	refused(s, "a snapshot of a database");
}

/* What a submitter names would be read with the rights of whoever runs it there. */
static void another_users_run_needs_his_rights_there(void **state)
{
	struct scene *s = *state;
	struct config config = { .caller = { .is_set = true, .uid = geteuid() + 1, .gid = 1 } };
	s->can.judging = JUDGING_THERE;
	s->can.submitters = false;
	accepted(s); /* nobody is said */
	s->job.config = &config;
	refused(s, "submitters");
	assert_null(strstr(s->err.text, "--allow-missing")); /* nothing allows that */
	config.caller.uid = geteuid();
	accepted(s);
	config.caller.uid++;
	s->can.judging = JUDGING_HERE; /* read here, and shown as data */
	accepted(s);
	s->can.judging = JUDGING_THERE;
	s->can.submitters = true;
	accepted(s);
}

static void what_it_can_do_is_written_and_read(void **state)
{
	struct scene *s = *state;
	struct capability read = { 0 };
	for (int i = 0; i < 2; i++) {
		s->can.submitters = i;
		CLEANUP_JSON json_t *o = capability_json(&s->can);
		assert_int_equal(capability_read(o, &read), 0);
		assert_int_equal(read.submitters, i);
		assert_true(read.network_host && read.layers[0] && read.limits[LIMIT_MEMORY]);
		assert_int_equal(json_object_del(o, "submitters"), 0);
		assert_int_equal(capability_read(o, &read), 0);
		assert_false(read.submitters); /* not said is not given */
	}
}

static void names_are_looked_up(void **state)
{
	struct executor_settings known = { .name = (char *)"away", .kind = EXECUTOR_PROGRAM };
	struct executor_settings here = { .name = (char *)"crun", .kind = EXECUTOR_OCI };
	struct executor_settings all[] = { known, here };
	struct config config = { .executors = all, .n_executors = 2 };
	struct executor *x = (struct executor *)&config;
	struct err err = { 0 };
	assert_int_equal(executor_open(&config, "local", &x, &err), 0);
	assert_null(x); /* a keeper on this host */
	assert_int_equal(executor_open(&config, "crun", &x, &err), 0);
	assert_null(x);
	assert_int_equal(executor_open(&config, "a\033b", &x, &err), -EINVAL);
	assert_non_null(strstr(err.text, "known: local, away, crun"));
	assert_null(strchr(err.text, '\033'));
	assert_int_equal(executor_open(&config, "away", &x, &err), 0);
	assert_non_null(x);
	assert_ptr_equal(x->settings, &all[0]);
	executor_release(&x);
	assert_null(x);
	executor_release(&x); /* twice is fine */
}

/* Two homes may each have a run of that id. */
static void a_job_has_a_name_of_its_home(void **state)
{
	CLEANUP_FREE char *one = executor_job_name("/tmp", "r1");
	CLEANUP_FREE char *again = executor_job_name("/tmp", "r1");
	CLEANUP_FREE char *other = executor_job_name("/usr", "r1");
	assert_string_equal(one, again);
	assert_string_not_equal(one, other);
	assert_true(str_starts(one, "cupel-") && str_ends(one, "-r1"));
}

int main(void)
{
#define WITH(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		WITH(one_that_gives_all_is_enough),
		WITH(every_layer_counts),
		WITH(a_layer_may_be_allowed_to_be_missing),
		WITH(no_network_of_its_own_is_needed_with_the_hosts),
		WITH(a_limit_that_is_asked_for_must_be_kept),
		WITH(powers_are_asked_for_by_name),
		WITH(another_users_run_needs_his_rights_there),
		WITH(what_it_can_do_is_written_and_read),
		cmocka_unit_test(names_are_looked_up),
		cmocka_unit_test(a_job_has_a_name_of_its_home),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
