/* Plans for each kind of runtime, from values alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/path.h"
#include "box/plan.h"
#include "runtime/rootfs.h"

#define WORK "/scratch/cupel-r1"

struct scene {
	struct config config;
	struct analysis analysis;
	struct runtime runtime;
	struct host host;
	struct limits limits;
	struct strv no_entries;
	struct plan plan;
};

static int setup(void **state)
{
	struct scene *s = xcalloc(1, sizeof *s);
	s->config = (struct config){ .home = xstrdup("/var/lib/cupel"),
				     .work_root = xstrdup("/scratch"),
				     .work_template = xstrdup("cupel-{id}") };
	strv_add(&s->config.protect, "/srv/papers");
	s->runtime = (struct runtime){ .name = xstrdup("x"),
				       .origin = xstrdup("x.yaml:1"),
				       .path = xstrdup("/usr/bin") };
	s->host = (struct host){ .landlock_abi = 3, .n_cpus = 1, .kernel = xstrdup("6.1") };
	s->host.links = xcalloc(1, sizeof *s->host.links);
	s->host.links[0] =
		(struct host_link){ .name = xstrdup("bin"), .target = xstrdup("usr/bin") };
	s->host.n_links = 1;
	CPU_SET(0, &s->host.cpus);
	assert_int_equal(limits_profile("default", &s->limits), 0);
	strv_add(&s->analysis.command, "/bin/true");
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
	free(s);
	return 0;
}

static int make(struct scene *s, struct err *err)
{
	const struct plan_request q = { .id = "r1",
					.analysis = &s->analysis,
					.config = &s->config,
					.runtime = &s->runtime,
					.host = &s->host,
					.limits = &s->limits,
					.data_entries = &s->no_entries };
	plan_release(&s->plan);
	return plan_make(&q, &s->plan, err);
}

static const struct plan *made(struct scene *s)
{
	struct err err = { 0 };
	if (make(s, &err) < 0)
		fail_msg("%s", err.text);
	return &s->plan;
}

static void refused(struct scene *s, const char *words)
{
	struct err err = { 0 };
	assert_true(make(s, &err) < 0);
	assert_int_equal(err.kind, ERR_CALLER);
	if (!strstr(err.text, words))
		fail_msg("'%s' does not say '%s'", err.text, words);
}

static int step_of(const struct plan *p, enum step_kind kind, const char *target)
{
	for (size_t i = 0; i < p->n_steps; i++)
		if (p->steps[i].kind == kind && str_eq(p->steps[i].target, target))
			return (int)i;
	return -1;
}

static bool has_env(const struct plan *p, const char *text)
{
	return strv_has(&p->env, text);
}

static void list_add(struct rootfs_list *l, const char *name, const char *target)
{
	l->v = xreallocarray(l->v, l->n + 1, sizeof *l->v);
	l->v[l->n++] = (struct rootfs_entry){ .name = xstrdup(name),
					      .target = target ? xstrdup(target) : NULL };
}

static struct rootfs *tree_of(struct scene *s, bool is_mounted)
{
	struct rootfs *tree = xcalloc(1, sizeof *tree);
	tree->fd = -1;
	tree->is_mounted = is_mounted;
	s->runtime.kind = RUNTIME_ROOTFS;
	s->runtime.prefix = xstrdup("/roots/x");
	if (!is_mounted)
		s->runtime.root = xstrdup("/roots/x");
	s->runtime.tree = tree;
	static const char *const top[] = { "usr", "etc", "var",  "dev", "proc",    "sys",
					   "tmp", "run", "home", "opt", "scratch", "root" };
	for (size_t i = 0; i < sizeof top / sizeof *top; i++)
		list_add(&tree->top, top[i], NULL);
	list_add(&tree->top, "bin", "usr/bin");
	list_add(&tree->top, "evil", "/etc/shadow");
	list_add(&tree->etc, "passwd", NULL);
	list_add(&tree->etc, "hosts", "/run/hosts");
	list_add(&tree->etc, "app", NULL);
	list_add(&tree->etc, "link", "../usr/x");
	list_add(&tree->var, "lib", NULL);
	list_add(&tree->var, "tmp", NULL);
	list_add(&tree->var, "run", "../run");
	return tree;
}

static void prefixes_lie_over_the_hosts_usr(void **state)
{
	struct scene *s = *state;
	s->runtime.kind = RUNTIME_CONDA;
	pairs_set(&s->runtime.shown, "/opt/env", "/srv/env");
	pairs_set(&s->runtime.shown, "/tmp/place/env", "/tmp/place/env");
	pairs_set(&s->runtime.env, "CONDA_PREFIX", "/srv/env");
	strv_add(&s->runtime.unset, "LANG");
	const struct plan *p = made(s);
	int prefix = step_of(p, STEP_BIND, "/opt/env");
	assert_true(prefix > 0);
	assert_string_equal(p->steps[prefix].source, "/srv/env");
	assert_false(p->steps[prefix].writable);
	assert_true(step_of(p, STEP_BIND, "/usr") >= 0);
	assert_true(step_of(p, STEP_BIND, "/tmp/place/env") > step_of(p, STEP_TMPFS, "/tmp"));
	assert_true(step_of(p, STEP_WORK, WORK) > prefix);
	assert_true(has_env(p, "CONDA_PREFIX=/srv/env"));
	assert_true(has_env(p, "PATH=/usr/bin"));
	assert_false(has_env(p, "LANG=C.UTF-8"));
	strv_release(&s->runtime.unset);
	assert_true(has_env(made(s), "LANG=C.UTF-8")); /* the control */
}

static void devices_have_a_rule(void **state)
{
	struct scene *s = *state;
	strv_add(&s->runtime.devices, "/dev/nvidia0");
	const struct plan *p = made(s);
	int device = step_of(p, STEP_DEVICE, "/dev/nvidia0");
	assert_true(device > 0 && p->steps[device].any_kind);
	bool has_rule = false;
	for (size_t i = 0; i < p->n_rules; i++)
		has_rule |= str_eq(p->rules[i].path, "/dev/nvidia0") &&
			    p->rules[i].access == ACCESS_DEVICE;
	assert_true(has_rule);
}

static void a_tree_takes_the_place_of_the_host(void **state)
{
	struct scene *s = *state;
	(void)tree_of(s, false);
	const struct plan *p = made(s);
	int usr = step_of(p, STEP_BIND, "/usr");
	assert_string_equal(p->steps[usr].source, "/roots/x/usr");
	assert_string_equal(p->steps[step_of(p, STEP_LINK, "/bin")].source, "usr/bin");
	assert_string_equal(p->steps[step_of(p, STEP_LINK, "/evil")].source, "/etc/shadow");
	assert_string_equal(p->steps[step_of(p, STEP_BIND, "/etc/app")].source, "/roots/x/etc/app");
	assert_true(step_of(p, STEP_LINK, "/etc/link") > 0);
	assert_true(step_of(p, STEP_BIND, "/var/lib") > 0);
	assert_true(step_of(p, STEP_LINK, "/var/run") > 0);
	/* What the box has of its own stays its own. */
	static const char *const own[] = { "/etc",        "/var",       "/dev",  "/proc",
					   "/sys",        "/tmp",       "/run",  "/scratch",
					   "/etc/passwd", "/etc/hosts", "/home", "/var/tmp" };
	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		assert_int_equal(step_of(p, STEP_BIND, own[i]), -1);
	assert_int_equal(step_of(p, STEP_LINK, "/etc/hosts"), -1);
	assert_true(step_of(p, STEP_FILE, "/etc/passwd") > 0);
	assert_string_equal(p->steps[step_of(p, STEP_LINK, "/var/tmp")].source, "../tmp");
}

/* Whatever a tree's links say, no later step has a path that leads through one of them. */
static void nothing_is_reached_through_a_tree(void **state)
{
	struct scene *s = *state;
	(void)tree_of(s, true);
	pairs_set(&s->runtime.shown, "/opt/data", "/srv/data");
	const struct plan *p = made(s);
	assert_int_equal(step_of(p, STEP_BIND, "/opt"), -1); /* ours */
	for (size_t i = 0; i < p->n_steps; i++) {
		bool foreign = p->steps[i].inside ||
			       (p->steps[i].kind == STEP_LINK &&
				i > (size_t)step_of(p, STEP_IMAGE, "/run/cupel/root"));
		for (size_t k = i + 1; foreign && k < p->n_steps; k++)
			assert_false(path_within(p->steps[k].target, p->steps[i].target));
	}
}

static void an_image_is_attached_and_let_go(void **state)
{
	struct scene *s = *state;
	(void)tree_of(s, true);
	const struct plan *p = made(s);
	int image = step_of(p, STEP_IMAGE, "/run/cupel/root");
	int usr = step_of(p, STEP_BIND, "/usr");
	int drop = step_of(p, STEP_DROP, "/run/cupel/root");
	assert_true(0 < image && image < usr && usr < drop);
	assert_string_equal(p->steps[image].source, "/roots/x");
	assert_true(p->steps[usr].inside);
	assert_string_equal(p->steps[usr].source, "/run/cupel/root/usr");
	assert_int_equal(p->steps[p->n_steps - 1].kind, STEP_SEAL);
}

static void what_must_not_be_seen_is_refused(void **state)
{
	static const char *const rows[][2] = {
		{ "/srv", "protected path" },
		{ "/srv/papers/a", "protected path" },
		{ "/var/lib/cupel", "own records" },
		{ "/var/lib/cupel/runs/r0", "own records" },
		{ "/", "protected path" },
		{ "/etc/ssl", "can't be shown there" },
		{ "/run/x", "can't be shown there" },
		{ "/scratch", "can't be shown there" },
		{ "/dev/x", "can't be shown there" },
	};
	struct scene *s = *state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		pairs_release(&s->runtime.shown);
		pairs_set(&s->runtime.shown, rows[i][0], rows[i][0]);
		refused(s, rows[i][1]);
	}
	static const char *const allowed[] = { "/var/lib/cupel/runtimes/x/env", "/srv/other",
					       "/var/lib/cupel/cache/squashfs/x" };
	for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
		pairs_release(&s->runtime.shown);
		pairs_set(&s->runtime.shown, allowed[i], allowed[i]);
		(void)made(s);
	}
	(void)tree_of(s, false);
	pairs_set(&s->runtime.shown, "/usr/share/x", "/usr/share/x");
	refused(s, "can't be shown there");
}

static void a_refused_plan_has_no_steps(void **state)
{
	struct scene *s = *state;
	const struct plan_request q = {
		.id = "r1", .analysis = &s->analysis, .config = &s->config, .limits = &s->limits
	};
	plan_refused(&q, &s->plan);
	assert_int_equal(s->plan.n_steps, 0);
	assert_string_equal(s->plan.work_dir, WORK);
	assert_string_equal(s->plan.argv.v[0], "/bin/true");
	CLEANUP_JSON json_t *o = plan_json(&s->plan);
	assert_non_null(o);
}

/* What an activation takes away was the runtime's: neither the analysis's own variables nor cupel's. */
static void an_activation_takes_away_its_own(void **state)
{
	struct scene *s = *state;
	static const char *const names[] = { "OMP_NUM_THREADS", "TERM", "LANG", "CUPEL_RUN_ID" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		strv_add(&s->runtime.unset, names[i]);
	pairs_set(&s->analysis.env, "OMP_NUM_THREADS", "7");
	pairs_set(&s->analysis.env, "LANG",
		  "de_DE"); /* passed on: the caller's, not the analysis's */
	strv_add(&s->config.env_pass, "LANG");
	const struct plan *p = made(s);
	assert_true(has_env(p, "OMP_NUM_THREADS=7"));
	assert_true(has_env(p, "CUPEL_RUN_ID=r1"));
	assert_false(has_env(p, "TERM=dumb"));
	assert_false(has_env(p, "LANG=de_DE"));
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ROW(prefixes_lie_over_the_hosts_usr),    ROW(devices_have_a_rule),
		ROW(a_tree_takes_the_place_of_the_host), ROW(nothing_is_reached_through_a_tree),
		ROW(an_image_is_attached_and_let_go),    ROW(what_must_not_be_seen_is_refused),
		ROW(a_refused_plan_has_no_steps),        ROW(an_activation_takes_away_its_own),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
