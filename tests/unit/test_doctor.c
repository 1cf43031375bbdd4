/* The doctor's judgement: what held is ok, and each thing that did not hold is found, one at a time. The acts themselves are tried
 * against real hosts elsewhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "doctor/parts.h"

static const char receipt_text[] =
	"{\"namespaces\":{\"user\":{\"own\":true},\"mnt\":{\"own\":true},\"pid\":{\"own\":true},\"net\":{\"own\":true},"
	"\"ipc\":{\"own\":true},\"uts\":{\"own\":true},\"cgroup\":{\"own\":true}},"
	"\"user\":{\"uid_inside\":1000,\"uid_host\":1900000001},\"budget\":{\"mechanism\":\"cgroup2\",\"values\":[]}}";

struct case_of {
	struct diagnosis d;
	struct config config;
	struct examination x;
	struct trial_box t;
	json_t *control;
};

static int setup(void **state)
{
	struct case_of *c = xcalloc(1, sizeof *c);
	c->x = (struct examination){ .config = &c->config, .d = &c->d };
	c->t.act = "layers";
	c->t.verdict = json_pack("{s:s}", "cause", "ok");
	c->t.receipt = json_loads(receipt_text, 0, NULL);
	c->t.said = json_pack("{s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i}",
			      "loopback", 0, "tcp", ECONNREFUSED, "abstract", ECONNREFUSED,
			      "segment", EINVAL, "home", ENOENT, "root", EROFS, "work", 0,
			      "urandom", EACCES, "processes", 2, "privileges", 0, "no_new_privs", 1,
			      "foreign_groups", 0, "core", 0, "call.bpf", EPERM, "call.kcmp",
			      EPERM);
	c->control = json_pack("{s:i,s:i,s:i,s:i,s:i,s:i,s:i}", "tcp", 0, "abstract", 0, "segment",
			       0, "home", 0, "urandom", 0, "call.bpf", EPERM, "call.kcmp", 0);
	*state = c;
	return 0;
}

static int teardown(void **state)
{
	struct case_of *c = *state;
	diagnosis_release(&c->d);
	strv_release(&c->x.allowed);
	trial_box_release(&c->t);
	json_decref(c->control);
	free(c);
	return 0;
}

static enum finding_status status_of(struct case_of *c, const char *name)
{
	struct finding *f = finding_find(&c->d, name);
	assert_non_null(f);
	assert_non_null(f->evidence);
	return f->status;
}

/* Judges anew, with one thing said differently. */
static enum finding_status judged(struct case_of *c, const char *key, int value, const char *layer)
{
	json_t *before = json_incref(json_object_get(c->t.said, key));
	diagnosis_release(&c->d);
	json_object_set_new(c->t.said, key, json_integer(value));
	layers_judge(&c->x, &c->t, c->control);
	json_object_set_new(c->t.said, key, before);
	return status_of(c, layer);
}

static void layers_that_held_are_ok(void **state)
{
	struct case_of *c = *state;
	layers_judge(&c->x, &c->t, c->control);
	assert_true(c->d.can_run);
	for (size_t i = 0; i < c->d.n; i++)
		if (!str_eq(c->d.v[i].name, "landlock")) /* the kernel's own ABI is in it */
			assert_int_equal(c->d.v[i].status, FINDING_OK);
	assert_true(status_of(c, "landlock") <= FINDING_NOTE);
}

static void each_act_that_succeeds_is_found(void **state)
{
	static const struct {
		const char *act;
		int value;
		const char *layer;
	} bad[] = {
		{ "loopback", ENETUNREACH, "net" },
		{ "tcp", 0, "net" },
		{ "abstract", 0, "net" },
		{ "segment", 0, "ipc" },
		{ "home", 0, "mount" },
		{ "root", 0, "mount" },
		{ "work", EROFS, "mount" },
		{ "urandom", 0, "landlock" },
		{ "processes", 90, "pid" },
		{ "privileges", 1, "privileges" },
		{ "no_new_privs", 0, "privileges" },
		{ "foreign_groups", 1, "cgroup" },
		{ "core", 1, "crash" },
		{ "call.bpf", EINVAL, "seccomp" },
		{ "call.kcmp", 0, "seccomp" },
	};
	struct case_of *c = *state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		print_message("%s\n", bad[i].act);
		assert_int_equal(judged(c, bad[i].act, bad[i].value, bad[i].layer),
				 FINDING_MISSING);
	}
}

static void a_namespace_that_is_shared_is_found(void **state)
{
	static const char *const spaces[][2] = { { "user", "user" },    { "mnt", "mount" },
						 { "pid", "pid" },      { "net", "net" },
						 { "ipc", "ipc" },      { "uts", "uts" },
						 { "cgroup", "cgroup" } };
	struct case_of *c = *state;
	json_t *receipt = json_object_get(c->t.receipt, "namespaces");
	for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++) {
		json_t *space = json_object_get(receipt, spaces[i][0]);
		diagnosis_release(&c->d);
		json_object_set_new(space, "own", json_false());
		layers_judge(&c->x, &c->t, c->control);
		json_object_set_new(space, "own", json_true());
		assert_int_equal(status_of(c, spaces[i][1]), FINDING_MISSING);
	}
}

/* A refusal proves nothing where the act fails without the box too. */
static void without_a_control_nothing_is_ok(void **state)
{
	static const char *const acts[][2] = { { "tcp", "net" },
					       { "abstract", "net" },
					       { "home", "mount" },
					       { "urandom", "landlock" },
					       { "call.kcmp", "seccomp" } };
	struct case_of *c = *state;
	for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
		diagnosis_release(&c->d);
		json_object_set_new(c->control, acts[i][0], json_integer(EPERM));
		layers_judge(&c->x, &c->t, c->control);
		json_object_set_new(c->control, acts[i][0], json_integer(0));
		assert_true(status_of(c, acts[i][1]) >= FINDING_UNKNOWN);
	}
}

static void a_box_that_ended_early_says_nothing(void **state)
{
	struct case_of *c = *state;
	json_object_set_new(c->t.verdict, "cause", json_string("signal"));
	layers_judge(&c->x, &c->t, c->control);
	assert_int_equal(c->d.n, layer_count);
	for (size_t i = 0; i < c->d.n; i++)
		assert_int_equal(c->d.v[i].status, FINDING_UNKNOWN);
	assert_false(c->d.can_run);
}

/* `verdict` and what the box said as JSON. */
static enum finding_status limiter(struct case_of *c, const char *act, const char *verdict,
				   const char *said)
{
	diagnosis_release(&c->d);
	json_decref(c->t.verdict);
	json_decref(c->t.said);
	c->t.act = act;
	c->t.verdict = json_loads(verdict, 0, NULL);
	c->t.said = json_loads(said, 0, NULL);
	assert_non_null(c->t.verdict);
	assert_non_null(c->t.said);
	struct finding *f = finding_add(&c->d, "limits", act);
	limiter_judge(&c->t, f);
	assert_non_null(f->evidence);
	return f->status;
}

static void limiters_that_held(void **state)
{
	struct case_of *c = *state;
	assert_int_equal(
		limiter(c, "memory", "{\"cause\":\"oom\",\"evidence\":{\"oom_kills\":1}}", "{}"),
		FINDING_OK);
	assert_int_equal(
		limiter(c, "cpu", "{\"cause\":\"ok\",\"evidence\":{\"throttled_usec\":9}}", "{}"),
		FINDING_OK);
	assert_int_equal(limiter(c, "pids", "{\"cause\":\"ok\"}", "{\"fork\":11,\"made\":14}"),
			 FINDING_OK);
	assert_int_equal(limiter(c, "disk", "{\"cause\":\"ok\"}", "{\"write\":28,\"written\":100}"),
			 FINDING_OK);
	assert_int_equal(limiter(c, "disk", "{\"cause\":\"disk\"}", "{}"), FINDING_NOTE);
	assert_int_equal(limiter(c, "time", "{\"cause\":\"deadline\"}", "{}"), FINDING_OK);
}

static void limiters_that_did_not_hold(void **state)
{
	struct case_of *c = *state;
	/* exit 137 alone is no oom */
	assert_int_equal(limiter(c, "memory", "{\"cause\":\"signal\",\"signal\":9}", "{}"),
			 FINDING_MISSING);
	assert_int_equal(limiter(c, "memory", "{\"cause\":\"ok\"}", "{\"touched\":1}"),
			 FINDING_MISSING);
	assert_int_equal(
		limiter(c, "memory", "{\"cause\":\"oom\",\"evidence\":{\"oom_kills\":0}}", "{}"),
		FINDING_MISSING);
	assert_int_equal(
		limiter(c, "cpu",
			"{\"cause\":\"ok\",\"usage\":{\"cpu_usec\":9000,\"wall_usec\":9100}}",
			"{}"),
		FINDING_MISSING);
	/* too busy to tell */
	assert_int_equal(
		limiter(c, "cpu",
			"{\"cause\":\"ok\",\"usage\":{\"cpu_usec\":9000,\"wall_usec\":900000}}",
			"{}"),
		FINDING_UNKNOWN);
	assert_int_equal(limiter(c, "pids", "{\"cause\":\"ok\"}", "{\"made\":64}"),
			 FINDING_MISSING);
	assert_int_equal(limiter(c, "pids", "{\"cause\":\"ok\"}", "{\"fork\":11,\"made\":40}"),
			 FINDING_MISSING);
	assert_int_equal(limiter(c, "disk", "{\"cause\":\"ok\"}", "{\"written\":25165824}"),
			 FINDING_MISSING);
	assert_int_equal(limiter(c, "time", "{\"cause\":\"ok\"}", "{}"), FINDING_MISSING);
	assert_int_equal(limiter(c, "time", "{\"cause\":\"lost\"}", "{}"), FINDING_UNKNOWN);
}

static void what_a_box_left_is_found(void **state)
{
	struct case_of *c = *state;
	char base[] = "/tmp/cupel-doctor-XXXXXX";
	assert_non_null(mkdtemp(base));
	c->x.trials = (struct config){ .work_root = base,
				       .work_template = (char *)"{id}",
				       .cgroup_parent = (char *)"cupel-unit-none" };
	c->t.id = xstrdup("a");
	CLEANUP_FREE char *left = xasprintf("%s/a", base);
	removal_judge(&c->x, &c->t, 1);
	assert_int_equal(status_of(c, "removal"), FINDING_OK);
	diagnosis_release(&c->d);
	assert_int_equal(mkdir(left, 0700), 0);
	removal_judge(&c->x, &c->t, 1);
	assert_int_equal(status_of(c, "removal"), FINDING_MISSING);
	assert_non_null(finding_find(&c->d, "removal")->remedy);
	(void)rmdir(left);
	(void)rmdir(base);
}

static void refused(struct case_of *c, const char *text, const char *evidence, const char *remedy,
		    bool as_root)
{
	struct finding *f = finding_add(&c->d, "box", "x");
	finding_refused(f, text);
	assert_int_equal(f->status, FINDING_MISSING);
	assert_string_equal(f->evidence, evidence);
	if (remedy)
		assert_string_equal(f->remedy, remedy);
	else
		assert_null(f->remedy);
	assert_int_equal(f->remedy_as_root, as_root);
}

static void remedies_are_told_from_evidence(void **state)
{
	struct case_of *c = *state;
	refused(c, "no tree. Remedy, as root: mount it", "no tree", "mount it", true);
	refused(c, "refused: EPERM. Remedy: as root: sysctl -w a=1", "refused: EPERM",
		"sysctl -w a=1", true);
	refused(c, "no library. Remedy: apt-get install x", "no library", "apt-get install x",
		false);
	refused(c, "none here; boot 5.13, or allow it to be missing: --allow-missing y",
		"none here", "boot 5.13", false);
	refused(c, "it failed", "it failed", NULL, false);
}

static void the_worst_counts(void **state)
{
	struct case_of *c = *state;
	assert_int_equal(diagnosis_status(&c->d), FINDING_OK);
	finding_is(finding_add(&c->d, "box", "a"), FINDING_NOTE, "%s", "a");
	assert_int_equal(diagnosis_status(&c->d), FINDING_OK);
	finding_is(finding_add(&c->d, "box", "b"), FINDING_UNKNOWN, "%s", "b");
	assert_int_equal(diagnosis_status(&c->d), FINDING_UNKNOWN);
	finding_is(finding_add(&c->d, "box", "c"), FINDING_MISSING, "%s", "c");
	finding_is(finding_add(&c->d, "box", "d"), FINDING_WEAK, "%s", "d");
	assert_int_equal(diagnosis_status(&c->d), FINDING_MISSING);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(layers_that_held_are_ok),
		TEST(each_act_that_succeeds_is_found),
		TEST(a_namespace_that_is_shared_is_found),
		TEST(without_a_control_nothing_is_ok),
		TEST(a_box_that_ended_early_says_nothing),
		TEST(limiters_that_held),
		TEST(limiters_that_did_not_hold),
		TEST(what_a_box_left_is_found),
		TEST(remedies_are_told_from_evidence),
		TEST(the_worst_counts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
