/* Configuration: files over built-ins, who is trusted with what, and what a run gets of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/path.h"
#include "base/str.h"
#include "spec/config.h"

/* A host in a directory: etc.yaml, user.yaml, and p/cupel.yaml seen from p/deep/er. */
struct host {
	char dir[64];
	char *etc, *user, *project, *start; /* owned */
	struct config_where where;
};

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	(void)close(fd);
}

static int setup(void **state)
{
	struct host *h = xcalloc(1, sizeof(*h));

	memcpy(h->dir, "/tmp/cupel-test-config-XXXXXX", 30);
	assert_non_null(mkdtemp(h->dir));
	h->etc = path_join(h->dir, "etc.yaml");
	h->user = path_join(h->dir, "user.yaml");
	h->project = path_join(h->dir, "p/cupel.yaml");
	h->start = path_join(h->dir, "p/deep/er");
	assert_int_equal(fs_make_dirs(h->start, 0755, NULL), 0);
	h->where = (struct config_where){ .system_file = h->etc,
					  .user_file = h->user,
					  .start_dir = h->start,
					  .home = "/h/cupel" };
	(void)unsetenv("CUPEL_HOME");
	(void)unsetenv("CUPEL_CONFIG");
	*state = h;
	return 0;
}

static int teardown(void **state)
{
	struct host *h = *state;

	(void)fs_remove_tree(AT_FDCWD, h->dir, NULL, NULL);
	free(h->etc);
	free(h->user);
	free(h->project);
	free(h->start);
	free(h);
	return 0;
}

static void read_ok(struct host *h, struct config *c)
{
	struct err err = { 0 };

	if (config_read(&h->where, c, &err) < 0)
		fail_msg("refused: %s", err.text);
}

static void refused(struct host *h, const char *place, const char *words)
{
	struct config c = { .uid_count = 7 };
	struct err err = { 0 };

	assert_true(config_read(&h->where, &c, &err) < 0);
	assert_int_equal(err.kind, ERR_CALLER);
	assert_int_equal(c.uid_count, 7);
	if (!strstr(err.text, place) || !strstr(err.text, words))
		fail_msg("wanted '%s' and '%s', got '%s'", place, words, err.text);
}

static const struct config_value *value(const struct config *c, const char *key)
{
	for (size_t i = 0; i < c->n_values; i++) {
		if (str_eq(c->values[i].key, key))
			return &c->values[i];
	}
	fail_msg("no value '%s'", key);
	return NULL;
}

static void assert_value(const struct config *c, const char *key, const char *text,
			 const char *origin)
{
	assert_string_equal(value(c, key)->text, text);
	assert_string_equal(value(c, key)->origin, origin);
}

static void built_in_values_stand_alone(void **state)
{
	struct host *h = *state;
	CLEANUP_CONFIG struct config c = { 0 };

	read_ok(h, &c);
	assert_string_equal(c.home, "/h/cupel");
	assert_null(c.project_root);
	assert_string_equal(c.work_root, "/tmp");
	assert_int_equal(c.uid_first, 1900000000);
	assert_false(c.network_host_allowed);
	assert_int_equal(c.aggregate.at[LIMIT_PIDS].value, 16384);
	assert_true(c.aggregate.at[LIMIT_MEMORY].value > 0);
	assert_int_equal(c.aggregate.at[LIMIT_MEMORY].value % (1 << 20), 0);
	assert_int_equal(c.aggregate.at[LIMIT_CPUS].value, sysconf(_SC_NPROCESSORS_ONLN) * 900);
	assert_value(&c, "home", "/h/cupel", "environment CUPEL_HOME");
	assert_value(&c, "project.root", "none", "built-in");
	assert_value(&c, "protect", "none", "built-in");
	assert_value(&c, "profiles.default.memory", "2G", "built-in");
	assert_value(&c, "profiles.notebook.time", "10m", "built-in");
	assert_value(&c, "work.template", "scidex-analysis-{id}", "built-in");
	assert_value(&c, "uids.count", "65536", "built-in");
	assert_value(&c, "cpu_weight", "10", "built-in");
	assert_value(&c, "defaults.env_pass", "LANG, LC_ALL, TZ", "built-in");
	assert_value(&c, "policy.network", "none", "built-in");
	assert_value(&c, "cgroup.manager", "auto", "built-in");
	assert_value(&c, "disk.mechanism", "auto", "built-in");
	CLEANUP_FREE char *work = config_work_dir(&c, "run-1");
	assert_string_equal(work, "/tmp/scidex-analysis-run-1");
	CLEANUP_FREE char *aside = config_work_dir_aside(&c, "run-1");
	assert_string_equal(aside, "/tmp/.scidex-analysis-run-1");
}

static void later_files_override_earlier_ones(void **state)
{
	struct host *h = *state;
	CLEANUP_CONFIG struct config c = { 0 };

	put(h->etc, "work: {root: /scratch, template: 'a-{id}.d'}\n"
		    "defaults: {runtime: sys, keep: failed, env_pass: [LANG], limits: {pids: 99}}\n"
		    "profiles: {big: {memory: 8G}}\npolicy: {network: [none, host]}\n"
		    "cgroup: {parent: a.slice/cupel, manager: v1}\ndisk: {mechanism: watched}\n"
		    "uids: {first: 700000, count: 10}\nprotect: [/var/db]\n");
	put(h->user, "defaults:\n  runtime: mine\npolicy: {allow_missing: [landlock]}\n"
		     "profiles: {big: {time: 2h}}\nhome: /u/cupel\n");
	put(h->project, "defaults: {runtime: theirs}\nprotect: [site, /var/db, /x]\n");
	h->where.home = NULL;
	read_ok(h, &c);
	CLEANUP_FREE char *at = xasprintf("%s:1", h->project);
	CLEANUP_FREE char *user_at = xasprintf("%s:5", h->user);
	CLEANUP_FREE char *etc_at = xasprintf("%s:1", h->etc);
	assert_value(&c, "defaults.runtime", "theirs", at);
	assert_value(&c, "home", "/u/cupel", user_at);
	assert_value(&c, "work.root", "/scratch", etc_at);
	assert_string_equal(c.work_template, "a-{id}.d");
	assert_int_equal(c.keep, KEEP_FAILED);
	assert_int_equal(c.env_pass.n, 1);
	assert_int_equal(c.n_profiles, 1);
	assert_string_equal(value(&c, "profiles.big.memory")->text, "8G");
	assert_string_equal(value(&c, "profiles.big.time")->text, "2h");
	assert_string_equal(value(&c, "profiles.big.pids")->origin, "built-in");
	assert_true(c.network_host_allowed);
	assert_true(strv_has(&c.allow_missing, "landlock"));
	assert_int_equal(c.cgroup_manager, CGROUP_V1);
	assert_string_equal(c.cgroup_parent, "a.slice/cupel");
	assert_int_equal(c.disk, DISK_WATCHED);
	assert_int_equal(c.uid_first, 700000);
	/* what the host protects is never dropped, and nothing stands there twice */
	CLEANUP_FREE char *site = path_join(h->dir, "p/site");
	assert_int_equal(c.protect.n, 3);
	assert_string_equal(c.protect.v[0], "/var/db");
	assert_string_equal(c.protect.v[1], site);
	assert_string_equal(value(&c, "protect.1")->text, site);
	/* what a project names is kept from being shown, not watched */
	assert_int_equal(c.watch.n, 1);
	assert_string_equal(c.watch.v[0], "/var/db");
}

static void databases_are_protected_by_the_host(void **state)
{
	struct host *h = *state;
	CLEANUP_CONFIG struct config c = { 0 };

	put(h->etc,
	    "protect: ['sqlite:/a/b.db', 'postgresql://u:secret@h/d']\ngc: {partial: 2d, checkpoint: never}\n");
	read_ok(h, &c);
	assert_int_equal(c.watch.n, 2);
	assert_string_equal(c.watch.v[1], "postgresql://u:secret@h/d");
	assert_int_equal(c.protect.n, 1);
	assert_string_equal(c.protect.v[0], "/a/b.db");
	assert_string_equal(value(&c, "protect.2")->text, "postgresql://u:***@h/d");
	assert_string_equal(value(&c, "gc.partial")->text, "2d");
	assert_string_equal(value(&c, "gc.checkpoint")->text, "never");
	assert_int_equal(c.checkpoint_age_ns, 0);
}

static void projects_have_data_and_docs(void **state)
{
	struct host *h = *state;
	CLEANUP_CONFIG struct config c = { 0 }, named = { 0 };
	CLEANUP_FREE char *root = path_join(h->dir, "p"), *data = path_join(h->dir, "p/data");
	CLEANUP_FREE char *deep = path_join(h->dir, "p/deep");

	put(h->project, "");
	assert_int_equal(mkdir(data, 0755), 0);
	read_ok(h, &c);
	assert_string_equal(c.project_root, root);
	assert_string_equal(c.project_data, data);
	assert_null(c.project_docs);
	assert_value(&c, "project.data", data, h->project);
	put(h->project, "project: {root: deep, docs: er}\n");
	read_ok(h, &named);
	assert_string_equal(named.project_root, deep);
	assert_null(named.project_data);
	assert_string_equal(named.project_docs, h->start);
	put(h->project, "project: {data: gone}\n");
	refused(h, "cupel.yaml:1", "is not a directory");
	put(h->project, "project: {root: gone}\n");
	refused(h, "cupel.yaml:1", "is not a directory");
}

static void projects_say_nothing_of_the_host(void **state)
{
	static const char *const texts[] = { "home: /x\n",
					     "aggregate: {memory: 1G}\n",
					     "uids: {first: 70000}\n",
					     "policy: {network: [host]}\n",
					     "cgroup: {parent: x}\n",
					     "disk: {mechanism: watched}\n",
					     "work: {root: /x}\n" };
	struct host *h = *state;
	CLEANUP_CONFIG struct config c = { 0 };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		put(h->project, texts[i]);
		refused(h, "cupel.yaml:1:1: ", "the host's to say");
		/* the same is fine in the host's file */
		CLEANUP_CONFIG struct config good = { 0 };
		put(h->project, "");
		put(h->etc, texts[i]);
		read_ok(h, &good);
		put(h->etc, "");
	}
	put(h->etc, "ceilings: {memory: 4G, pids: 100}\n");
	put(h->project, "ceilings: {memory: 2G, pids: 200, time: 1h}\n");
	read_ok(h, &c);
	assert_int_equal(c.ceilings.at[LIMIT_MEMORY].value, 2ULL << 30);
	assert_int_equal(c.ceilings.at[LIMIT_PIDS].value, 100);
	assert_int_equal(c.ceilings.at[LIMIT_TIME].value, 3600 * NS_PER_SEC);
}

static void strangers_files_are_refused(void **state)
{
	struct host *h = *state;

	put(h->project, "");
	assert_int_equal(chmod(h->project, 0666), 0);
	refused(h, h->project, "chmod go-w");
	(void)unlink(h->project);
	assert_int_equal(symlink("/etc/passwd", h->project), 0);
	refused(h, h->project, "symbolic link");
	(void)unlink(h->project);
	assert_int_equal(mkfifo(h->project, 0600), 0);
	refused(h, h->project, "not a regular file"); /* and does not block */
	(void)unlink(h->project);
	assert_int_equal(mkdir(h->project, 0700), 0);
	refused(h, h->project, "not a regular file");
	(void)rmdir(h->project);
	put(h->project, "");
	assert_int_equal(truncate(h->project, 10LL << 30), 0);
	refused(h, h->project, "larger than");
	if (geteuid() != 0)
		skip(); /* only root can make a stranger's file */
	put(h->project, "");
	assert_int_equal(chown(h->project, 12345, 12345), 0);
	refused(h, h->project, "belongs to user 12345");
	(void)unlink(h->project);
	put(h->user, "");
	assert_int_equal(chown(h->user, 12345, 12345), 0);
	refused(h, h->user, "belongs to user 12345");
}

static void the_environment_names_files(void **state)
{
	struct host *h = *state;
	CLEANUP_CONFIG struct config c = { 0 };

	h->where.system_file = NULL;
	h->where.home = NULL;
	put(h->etc, "work: {root: /from-env}\nhome: /from-file\n");
	assert_int_equal(setenv("CUPEL_CONFIG", h->etc, 1), 0);
	assert_int_equal(setenv("CUPEL_HOME", "/from/env/../home", 1), 0);
	read_ok(h, &c);
	assert_string_equal(c.work_root, "/from-env");
	assert_value(&c, "home", "/from/home", "environment CUPEL_HOME");
	assert_int_equal(setenv("CUPEL_HOME", "relative", 1), 0);
	refused(h, "CUPEL_HOME", "absolute");
	assert_int_equal(setenv("CUPEL_HOME", "/..", 1), 0);
	refused(h, "CUPEL_HOME", "absolute");
	assert_int_equal(setenv("CUPEL_HOME", "//", 1), 0);
	refused(h, "CUPEL_HOME", "cannot be '/'");
	(void)unlink(h->etc);
	refused(h, h->etc, "no such file");
	(void)unsetenv("CUPEL_CONFIG");
	(void)unsetenv("CUPEL_HOME");
}

static void mistakes_have_their_place(void **state)
{
	static const struct {
		const char *text, *place, *words;
	} cases[] = {
		{ "hmoe: /x\n", ":1:1: ", "did you mean 'home'?" },
		{ "home: x\n", ":1:7: ", "absolute" },
		{ "home: [x]\n", ":1:7: ", "found a list" },
		{ "work: {root: tmp}\n", ":1:14: ", "absolute" },
		{ "work: {template: x}\n", ":1:18: ", "{id} exactly once" },
		{ "work: {template: '{id}{id}'}\n", ":1:18: ", "{id} exactly once" },
		{ "work: {template: '../{id}'}\n", ":1:18: ", "one path component" },
		{ "work: {template: \"a\\n{id}\"}\n", ":1:18: ", "one path component" },
		{ "uids: {first: 1000}\n", ":1:15: ", "65536" },
		{ "uids: {first: -1}\n", ":1:15: ", "65536" },
		{ "uids: {count: 0}\n", ":1:15: ", "from 1" },
		{ "uids: {first: 4294967295}\n", ":1:15: ", "4294967294" },
		{ "uids: {first: 4294967290, count: 100}\n", ":1:7: ", "ends above" },
		{ "cgroup: {parent: ../x}\n", ":1:18: ", "not a usable group" },
		{ "cgroup: {parent: /x}\n", ":1:18: ", "not a usable group" },
		{ "cgroup: {parent: x/}\n", ":1:18: ", "not a usable group" },
		{ "cgroup: {parent: a/../b}\n", ":1:18: ", "not a usable group" },
		{ "cgroup: {manager: v3}\n", ":1:19: ", "unknown word 'v3'" },
		{ "disk: {mechanism: quota}\n", ":1:19: ", "known: auto, image, watched" },
		{ "policy: {network: host}\n", ":1:19: ", "expected a list" },
		{ "policy: {network: [lan]}\n", ":1:20: ", "known: none, host" },
		{ "policy: {allow_missing: [mount]}\n", ":1:26: ", "never optional" },
		{ "cpu_weight: 0\n", ":1:13: ", "from 1 to 10000" },
		{ "cpu_weight: 10001\n", ":1:13: ", "CPU weight" },
		{ "cpu_weight: low\n", ":1:13: ", "CPU weight" },
		{ "defaults: {env_pass: [CUPEL_X]}\n", ":1:23: ", "reserved" },
		{ "defaults: {keep: maybe}\n", ":1:18: ", "known: never" },
		{ "defaults: {profile: a/b}\n", ":1:21: ", "name of a profile" },
		{ "defaults: {limits: {memory: 0}}\n", ":1:29: ", "memory: " },
		{ "profiles: {a/b: {memory: 1G}}\n", ":1:12: ", "name of a profile" },
		{ "profiles: {a: 3}\n", ":1:15: ", "map of limits" },
		{ "ceilings: {memory: nan}\n", ":1:20: ", "memory: " },
		{ "aggregate: {time: 3h}\n", ":1:12: ", "only memory, cpus and pids" },
		{ "protect: [/../..]\n", ":1: ", "not usable" },
		{ "protect: ['sqlite:b.db']\n", ":1:11: ", "absolute" },
		{ "gc: {partial: soon}\n", ":1:15: ", "never" },
		{ "gc: {checkpoint: soon}\n", ":1:18: ", "never" },
		{ "project: {data: x}\n", ": ", "need project.root" },
		{ "home: /a\nhome: /b\n", ":2:1: ", "first at line 1" },
	};
	struct host *h = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CLEANUP_FREE char *place = xasprintf("%s%s", h->etc, cases[i].place);
		put(h->etc, cases[i].text);
		refused(h, place, cases[i].words);
	}
}

static void limits_rise_in_priority(void **state)
{
	struct host *h = *state;
	CLEANUP_CONFIG struct config c = { 0 };
	CLEANUP_ANALYSIS struct analysis a = { 0 };
	struct limits runtime = { 0 }, l = { 0 };
	struct err err = { 0 };

	put(h->etc, "profiles: {big: {memory: 8G, disk: 9G, pids: 11, log: 1M}}\n"
		    "defaults: {profile: big, limits: {pids: 13, log: 3M}}\n");
	read_ok(h, &c);
	limits_set(&runtime, LIMIT_DISK, 5ULL << 30, "runtime");
	limits_set(&runtime, LIMIT_PIDS, 12, "runtime");
	limits_set(&a.limits, LIMIT_LOG, 4096, "--log");
	assert_int_equal(config_limits(&c, &runtime, &a, &l, &err), 0);
	assert_int_equal(l.at[LIMIT_MEMORY].value, 8ULL << 30);
	assert_int_equal(l.at[LIMIT_DISK].value, 5ULL << 30);
	assert_int_equal(l.at[LIMIT_PIDS].value, 13);
	assert_int_equal(l.at[LIMIT_LOG].value, 4096);
	assert_int_equal(l.at[LIMIT_TIME].value, 1800 * NS_PER_SEC); /* big starts from default */
	a.profile = xstrdup("notebook");
	assert_int_equal(config_limits(&c, NULL, &a, &l, &err), 0);
	assert_int_equal(l.at[LIMIT_TIME].value, 600 * NS_PER_SEC);
	free(a.profile);
	a.profile = NULL; /* a notebook has its own where nobody says one */
	strv_add(&a.code, "/d/a.ipynb");
	assert_int_equal(config_limits(&c, NULL, &a, &l, &err), 0);
	assert_int_equal(l.at[LIMIT_TIME].value,
			 1800 * NS_PER_SEC); /* the configuration said one */
	free(c.default_profile);
	c.default_profile = xstrdup("default");
	assert_int_equal(config_limits(&c, NULL, &a, &l, &err), 0);
	assert_int_equal(l.at[LIMIT_TIME].value, 600 * NS_PER_SEC);
	a.profile = xstrdup("no\nbody");
	assert_int_equal(config_limits(&c, NULL, &a, &l, &err), -EINVAL);
	assert_non_null(strstr(err.text, "known: default, notebook, tool, post_process, big"));
	assert_null(strchr(err.text, '\n'));
}

static void ceilings_hold(void **state)
{
	struct host *h = *state;
	CLEANUP_CONFIG struct config c = { 0 };
	CLEANUP_ANALYSIS struct analysis a = { 0 };
	struct limits l = { 0 };
	struct err err = { 0 };

	put(h->etc, "ceilings: {memory: 1G, cpu_time: 5m}\n");
	read_ok(h, &c);
	/* nobody asked: lowered, and no limit at all becomes the ceiling */
	assert_int_equal(config_limits(&c, NULL, &a, &l, &err), 0);
	assert_int_equal(l.at[LIMIT_MEMORY].value, 1ULL << 30);
	assert_true(str_ends(l.at[LIMIT_MEMORY].origin, "etc.yaml:1"));
	assert_int_equal(l.at[LIMIT_CPU_TIME].value, 300 * NS_PER_SEC);
	/* asked for: refused */
	limits_set(&a.limits, LIMIT_MEMORY, 2ULL << 30, "--memory");
	assert_int_equal(config_limits(&c, NULL, &a, &l, &err), -EPERM);
	assert_non_null(strstr(err.text, "--memory"));
	assert_int_equal(l.at[LIMIT_MEMORY].value, 1ULL << 30);
	limits_set(&a.limits, LIMIT_MEMORY, 1ULL << 20, "--memory");
	limits_set(&a.limits, LIMIT_WARN, 1800 * NS_PER_SEC, "--warn");
	assert_int_equal(config_limits(&c, NULL, &a, &l, &err), -EINVAL);
	assert_non_null(strstr(err.text, "shorter than time"));
}

#define ON_HOST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_HOST(built_in_values_stand_alone),
		ON_HOST(later_files_override_earlier_ones),
		ON_HOST(databases_are_protected_by_the_host),
		ON_HOST(projects_have_data_and_docs),
		ON_HOST(projects_say_nothing_of_the_host),
		ON_HOST(strangers_files_are_refused),
		ON_HOST(the_environment_names_files),
		ON_HOST(mistakes_have_their_place),
		ON_HOST(limits_rise_in_priority),
		ON_HOST(ceilings_hold),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
