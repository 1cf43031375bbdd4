/* Plans: what a box is made of, from values alone; and what is refused before anything is touched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "box/plan.h"

#define WORK "/scratch/cupel-r1"

/* A host, a configuration and an analysis that no machine needs to have. */
struct scene {
	struct config config;
	struct analysis analysis;
	struct runtime runtime;
	struct host host;
	struct limits limits;
	struct strv data_entries;
	struct plan_request request;
	struct plan plan;
	struct err err;
};

static struct host_link *links_of(const char *const rows[][2], size_t n)
{
	struct host_link *links = xcalloc(n, sizeof(*links));
	for (size_t i = 0; i < n; i++)
		links[i] = (struct host_link){ .name = xstrdup(rows[i][0]),
					       .target = rows[i][1] ? xstrdup(rows[i][1]) : NULL };
	return links;
}

static void make_host(struct host *h)
{
	static const char *const top[][2] = { { "bin", "usr/bin" }, { "lib64", NULL } };
	static const char *const etc[][2] = { { "localtime", "/usr/share/zoneinfo/UTC" },
					      { "fonts", NULL } };
	*h = (struct host){ .uid = 5000, .gid = 5000, .landlock_abi = 3, .n_cpus = 4 };
	h->kernel = xstrdup("6.1.0-test");
	h->resolv_conf = xstrdup("/run/resolv/resolv.conf");
	h->links = links_of(top, h->n_links = 2);
	h->etc = links_of(etc, h->n_etc = 2);
	strv_add(&h->devices, "null");
	strv_add(&h->devices, "urandom");
	for (int cpu = 2; cpu < 6; cpu++) /* not from 0: the mask is the host's, not a count */
		CPU_SET(cpu, &h->cpus);
}

static int setup(void **state)
{
	struct scene *s = xcalloc(1, sizeof(*s));
	s->config = (struct config){ .home = xstrdup("/var/lib/cupel"),
				     .work_root = xstrdup("/scratch"),
				     .work_template = xstrdup("cupel-{id}") };
	strv_add(&s->config.protect, "/srv/papers");
	s->runtime = (struct runtime){ .name = xstrdup("base"),
				       .path = xstrdup("/usr/local/bin:/usr/bin") };
	make_host(&s->host);
	assert_int_equal(limits_profile("default", &s->limits), 0);
	limits_set(&s->limits, LIMIT_CPUS, 1500, "--cpus");
	limits_set(&s->limits, LIMIT_MEMORY, 1 << 30, "--memory");
	strv_add(&s->analysis.command, "/bin/true");
	s->request = (struct plan_request){ .id = "r1",
					    .analysis = &s->analysis,
					    .config = &s->config,
					    .runtime = &s->runtime,
					    .host = &s->host,
					    .limits = &s->limits,
					    .data_entries = &s->data_entries };
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	struct scene *s = *state;
	plan_release(&s->plan);
	plan_release(&s->plan); /* twice is fine */
	config_release(&s->config);
	analysis_release(&s->analysis);
	runtime_release(&s->runtime);
	host_release(&s->host);
	strv_release(&s->data_entries);
	free(s);
	return 0;
}

static const struct plan *make(struct scene *s)
{
	plan_release(&s->plan);
	if (plan_make(&s->request, &s->plan, &s->err) < 0)
		fail_msg("%s", s->err.text);
	return &s->plan;
}

/* A plan that fails leaves `ret` alone. */
static void refused(struct scene *s, int code, enum err_kind kind, const char *words)
{
	struct plan untouched = { .n_cpus = 77 };
	s->err = (struct err){ 0 };
	assert_int_equal(plan_make(&s->request, &untouched, &s->err), -code);
	assert_int_equal(s->err.kind, kind);
	assert_int_equal(untouched.n_cpus, 77);
	assert_null(untouched.steps);
	if (!strstr(s->err.text, words))
		fail_msg("'%s' does not say '%s'", s->err.text, words);
}

static void add_input(struct scene *s, const char *path, const char *name)
{
	struct input input = { .path = xstrdup(path),
			       .name = xstrdup(name),
			       .origin = xstrdup("--data") };
	analysis_add_input(&s->analysis, &input);
}

/* The step at `target` behind `after`; its index, or -1. */
static int step_from(const struct plan *p, int after, enum step_kind kind, const char *target)
{
	for (size_t i = (size_t)(after + 1); i < p->n_steps; i++)
		if (p->steps[i].kind == kind && str_eq(p->steps[i].target, target))
			return (int)i;
	return -1;
}

static const struct step *step_at(const struct plan *p, enum step_kind kind, const char *target)
{
	int i = step_from(p, -1, kind, target);
	if (i < 0)
		fail_msg("no step %s at %s", step_kind_name(kind), target);
	return &p->steps[i];
}

static const char *env_of(const struct plan *p, const char *name)
{
	const char *found = NULL;
	size_t n = strlen(name);
	for (size_t i = 0; i < p->env.n; i++)
		if (strncmp(p->env.v[i], name, n) == 0 && p->env.v[i][n] == '=') {
			assert_null(found); /* once */
			found = p->env.v[i] + n + 1;
		}
	return found;
}

static void steps_stand_in_the_order_they_can_be_done(void **state)
{
	struct scene *s = *state;
	strv_add(&s->analysis.code, "/home/u/a.py");
	add_input(s, "/home/u/x.csv", "x.csv");
	const struct plan *p = make(s);
	assert_int_equal(p->steps[0].kind, STEP_TMPFS);
	assert_string_equal(p->steps[0].target, "/");
	const struct step *last = &p->steps[p->n_steps - 1];
	assert_int_equal(last->kind, STEP_SEAL);
	assert_string_equal(last->target, "/");
	/* A directory's tmpfs, what is put in it, and only then its seal. */
	int work = step_from(p, -1, STEP_WORK, WORK);
	int tmp = step_from(p, -1, STEP_TMPFS, "/tmp");
	assert_true(tmp > 0 && work > tmp);
	int code = step_from(p, work, STEP_TMPFS, WORK "/code");
	int script = step_from(p, code, STEP_BIND, WORK "/code/a.py");
	assert_true(work < code && code < script);
	assert_true(step_from(p, script, STEP_SEAL, WORK "/code") > 0);
	int data = step_from(p, work, STEP_TMPFS, WORK "/data");
	int input = step_from(p, data, STEP_BIND, WORK "/data/x.csv");
	assert_true(work < data && data < input);
	assert_true(step_from(p, input, STEP_SEAL, WORK "/data") > 0);
	int proc = step_from(p, -1, STEP_PROC, "/proc");
	assert_true(step_from(p, proc, STEP_MASK, "/proc/kcore") > proc);
}

/* Only root may map the owners of a file system; what anybody else shows is searched. What the system ships is neither. */
static void inputs_are_data(void **state)
{
	struct scene *s = *state;
	strv_add(&s->analysis.code, "/home/u/a.py");
	add_input(s, "/home/u/x", "x");
	add_input(s, "/home/u/y", "y");
	for (int is_root = 0; is_root < 2; is_root++) {
		s->host.is_root = is_root;
		const struct plan *p = make(s);
		const struct step *x = step_at(p, STEP_BIND, WORK "/data/x");
		assert_int_equal(x->ids, is_root ? IDS_UNMAPPED : IDS_PLAIN);
		assert_true(x->is_searched);
		assert_true(step_at(p, STEP_BIND, WORK "/code/a.py")->is_searched);
		assert_int_equal(step_at(p, STEP_BIND, "/usr")->ids, IDS_PLAIN);
		assert_false(step_at(p, STEP_BIND, "/usr")->is_searched);
	}
	plan_show_as(&s->plan, "/home/u/y", 7, 8);
	plan_show_as(&s->plan, "/usr", 0, 0);
	const struct step *y = step_at(&s->plan, STEP_BIND, WORK "/data/y");
	assert_int_equal(y->ids, IDS_RUN);
	assert_int_equal(y->owner_uid, 7);
	assert_int_equal(y->owner_gid, 8);
	assert_int_equal(step_at(&s->plan, STEP_BIND, WORK "/data/x")->ids, IDS_UNMAPPED);
	assert_int_equal(step_at(&s->plan, STEP_BIND, "/usr")->ids, IDS_PLAIN);
}

static void root_holds_what_programs_need_and_no_more(void **state)
{
	struct scene *s = *state;
	const struct plan *p = make(s);
	assert_string_equal(step_at(p, STEP_BIND, "/usr")->source, "/usr");
	assert_string_equal(step_at(p, STEP_LINK, "/bin")->source, "usr/bin");
	assert_string_equal(step_at(p, STEP_BIND, "/lib64")->source, "/lib64");
	assert_string_equal(step_at(p, STEP_LINK, "/etc/localtime")->source,
			    "/usr/share/zoneinfo/UTC");
	assert_string_equal(step_at(p, STEP_BIND, "/etc/fonts")->source, "/etc/fonts");
	assert_string_equal(step_at(p, STEP_FILE, "/etc/resolv.conf")->source, "");
	assert_non_null(strstr(step_at(p, STEP_FILE, "/etc/passwd")->source,
			       "analysis:x:1000:1000:analysis:" WORK "/home:"));
	assert_string_equal(step_at(p, STEP_FILE, "/etc/hostname")->source, "cupel\n");
	assert_string_equal(step_at(p, STEP_DEVICE, "/dev/null")->source, "/dev/null");
	assert_int_equal(step_from(p, -1, STEP_DEVICE, "/dev/zero"), -1); /* the host has none */
	const struct step *shm = step_at(p, STEP_TMPFS, "/dev/shm");
	assert_int_equal(shm->size_bytes, 1 << 30);
	assert_int_equal(shm->inodes, s->limits.at[LIMIT_INODES].value);
	assert_int_equal(shm->mode, 01777);
	for (size_t i = 0; i < p->n_steps; i++) /* nothing of the host's is writable */
		assert_false(p->steps[i].kind == STEP_BIND && p->steps[i].writable);
	assert_string_equal(p->work_dir, WORK);
	assert_string_equal(p->cwd, WORK);
	assert_int_equal(p->work_dirs.n, 6);
	assert_true(strv_has(&p->work_dirs, "out"));
}

static void every_writable_mount_has_a_rule_and_nothing_else_has(void **state)
{
	const struct plan *p = make(*state);
	static const struct rule want[] = {
		{ (char *)"/", ACCESS_READ },           { (char *)WORK, ACCESS_WRITE },
		{ (char *)"/tmp", ACCESS_WRITE },       { (char *)"/dev/shm", ACCESS_WRITE },
		{ (char *)"/dev/null", ACCESS_DEVICE }, { (char *)"/dev/zero", ACCESS_DEVICE },
		{ (char *)"/dev/full", ACCESS_DEVICE },
	};
	assert_int_equal(p->n_rules, sizeof(want) / sizeof(*want));
	for (size_t i = 0; i < p->n_rules; i++) {
		assert_string_equal(p->rules[i].path, want[i].path);
		assert_int_equal(p->rules[i].access, want[i].access);
	}
}

static void inputs_stand_beside_the_projects_data(void **state)
{
	struct scene *s = *state;
	s->config.project_data = xstrdup("/proj/data");
	s->config.project_docs = xstrdup("/proj/docs");
	const struct plan *p = make(s); /* without inputs: the directory as it is */
	assert_string_equal(step_at(p, STEP_BIND, WORK "/data")->source, "/proj/data");
	assert_string_equal(step_at(p, STEP_BIND, WORK "/docs")->source, "/proj/docs");
	strv_add(&s->data_entries, "old.csv");
	add_input(s, "/home/u/new.csv", "new.csv");
	p = make(s);
	assert_int_equal(step_from(p, -1, STEP_BIND, WORK "/data"), -1);
	assert_string_equal(step_at(p, STEP_BIND, WORK "/data/old.csv")->source,
			    "/proj/data/old.csv");
	assert_string_equal(step_at(p, STEP_BIND, WORK "/data/new.csv")->source, "/home/u/new.csv");
	add_input(s, "/home/u/other.csv", "old.csv");
	refused(s, EINVAL, ERR_CALLER, "already has 'old.csv'");
}

static void scripts_of_one_name_collide(void **state)
{
	struct scene *s = *state;
	strv_add(&s->analysis.code, "/home/u/a/run.py");
	strv_add(&s->analysis.code, "/home/u/b/run.py");
	refused(s, EINVAL, ERR_CALLER, "same name");
}

static void protected_paths_are_shown_in_no_way(void **state)
{
	static const char *const bad[] = { "/srv/papers", "/srv/papers/2024/x.csv", "/srv", "/" };
	static const char *const good[] = { "/srv/papers2", "/srv/pap", "/srv/other/papers" };
	struct scene *s = *state;
	add_input(s, "/dummy", "x");
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		free(s->analysis.inputs[0].path);
		s->analysis.inputs[0].path = xstrdup(bad[i]);
		refused(s, EPERM, ERR_CALLER, "protected path /srv/papers");
	}
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		free(s->analysis.inputs[0].path);
		s->analysis.inputs[0].path = xstrdup(good[i]);
		(void)make(s);
	}
}

static void protected_paths_are_shown_by_no_other_key(void **state)
{
	struct scene *s = *state;
	s->config.project_docs = xstrdup("/srv");
	refused(s, EPERM, ERR_CALLER, "project.docs");
	cleanup_free(&s->config.project_docs);
	s->config.project_data = xstrdup("/srv/papers/data");
	refused(s, EPERM, ERR_CALLER, "project.data");
	cleanup_free(&s->config.project_data);
	strv_add(&s->analysis.code, "/srv/papers/a.py");
	refused(s, EPERM, ERR_CALLER, "code");
}

static void cupels_records_are_shown_only_as_outputs(void **state)
{
	static const char *const bad[] = {
		"/var/lib/cupel",
		"/var/lib",
		"/",
		"/var/lib/cupel/runs",
		"/var/lib/cupel/runs/r0",
		"/var/lib/cupel/runs/r0/events.jsonl",
		"/var/lib/cupel/active/outputs",
		"/var/lib/cupel/runs/outputs", /* a run of that name */
		"/var/lib/cupel/runs/outputs/events.jsonl",
		"/var/lib/cupel/runs/r0/outputs-not",
	};
	static const char *const good[] = { "/var/lib/cupel/runs/r0/outputs",
					    "/var/lib/cupel/runs/r0/outputs/out/x.csv",
					    "/var/lib/cupel2" };
	struct scene *s = *state;
	strv_release(&s->config.protect);
	add_input(s, "/dummy", "x");
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		free(s->analysis.inputs[0].path);
		s->analysis.inputs[0].path = xstrdup(bad[i]);
		refused(s, EPERM, ERR_CALLER, "own records");
	}
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		free(s->analysis.inputs[0].path);
		s->analysis.inputs[0].path = xstrdup(good[i]);
		(void)make(s);
	}
	free(s->config.home);
	s->config.home = xstrdup("/data/outputs/cupel"); /* the word is in the home itself */
	free(s->analysis.inputs[0].path);
	s->analysis.inputs[0].path = xstrdup("/data/outputs/cupel/runs/r0/events.jsonl");
	refused(s, EPERM, ERR_CALLER, "own records");
}

static void landlock_is_missed_only_where_that_is_allowed(void **state)
{
	struct scene *s = *state;
	assert_int_equal(make(s)->landlock_abi, 3);
	s->host.landlock_abi = 0;
	refused(s, EOPNOTSUPP, ERR_HOST, "--allow-missing landlock");
	assert_string_equal(s->err.layer, "landlock");
	assert_non_null(strstr(s->err.text, "6.1.0-test"));
	strv_add(&s->analysis.allow_missing, "seccomp"); /* another layer does not help */
	refused(s, EOPNOTSUPP, ERR_HOST, "landlock");
	strv_add(&s->analysis.allow_missing, "landlock");
	const struct plan *p = make(s);
	assert_int_equal(p->landlock_abi, 0);
	assert_true(plan_may_miss(p, "landlock"));
	assert_false(plan_may_miss(p, "user"));
	assert_int_equal(p->warnings.n, 2);
	assert_non_null(strstr(p->warnings.v[1], "'landlock'"));
}

static void the_hosts_policy_may_allow_a_layer_to_be_missing(void **state)
{
	struct scene *s = *state;
	s->host.landlock_abi = 0;
	strv_add(&s->config.allow_missing, "landlock");
	strv_add(&s->analysis.allow_missing, "landlock"); /* said twice, counted once */
	assert_int_equal(make(s)->missing.n, 1);
}

static void the_hosts_network_needs_the_policy(void **state)
{
	struct scene *s = *state;
	assert_true(make(s)->own_network);
	s->analysis.network = NETWORK_HOST;
	refused(s, EPERM, ERR_CALLER, "policy");
	s->config.network_host_allowed = true;
	const struct plan *p = make(s);
	assert_false(p->own_network);
	assert_string_equal(step_at(p, STEP_BIND, "/etc/resolv.conf")->source,
			    "/run/resolv/resolv.conf");
	cleanup_free(&s->host.resolv_conf);
	p = make(s);
	assert_int_equal(step_from(p, -1, STEP_BIND, "/etc/resolv.conf"), -1);
}

static void cpus_are_whole_and_of_the_hosts_set(void **state)
{
	static const struct {
		uint64_t milli;
		int want;
		const char *online;
	} rows[] = { { 10, 1, "0\n" },     { 1000, 1, "0\n" },   { 1001, 2, "0-1\n" },
		     { 3500, 4, "0-3\n" }, { 4000, 4, "0-3\n" }, { 64000, 4, "0-3\n" } };
	struct scene *s = *state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		limits_set(&s->limits, LIMIT_CPUS, rows[i].milli, "test");
		for (char id[] = "a"; id[0] <= 'z'; id[0]++) {
			cpu_set_t both;
			s->request.id = id;
			const struct plan *p = make(s);
			assert_int_equal(p->n_cpus, rows[i].want);
			assert_int_equal(CPU_COUNT(&p->cpus), rows[i].want);
			CPU_AND(&both, &p->cpus, &s->host.cpus);
			assert_true(CPU_EQUAL(&both, &p->cpus));
		}
		assert_string_equal(
			step_at(&s->plan, STEP_FILE, "/sys/devices/system/cpu/online")->source,
			rows[i].online);
	}
}

static void small_runs_are_spread_over_the_cpus(void **state)
{
	struct scene *s = *state;
	cpu_set_t seen;
	CPU_ZERO(&seen);
	limits_set(&s->limits, LIMIT_CPUS, 1000, "test");
	for (char id[] = "a"; id[0] <= 'z'; id[0]++) {
		s->request.id = id;
		CPU_OR(&seen, &seen, &make(s)->cpus);
	}
	assert_true(CPU_EQUAL(&seen, &s->host.cpus));
}

static void environment_is_built_from_nothing(void **state)
{
	struct scene *s = *state;
	(void)setenv("CUPEL_TEST_SECRET", "leaks", 1);
	pairs_set(&s->runtime.env, "PYTHONUNBUFFERED", "1");
	const struct plan *p = make(s);
	assert_null(env_of(p, "CUPEL_TEST_SECRET"));
	assert_string_equal(env_of(p, "PATH"), "/usr/local/bin:/usr/bin");
	assert_string_equal(env_of(p, "HOME"), WORK "/home");
	assert_string_equal(env_of(p, "TMPDIR"), WORK "/tmp");
	assert_string_equal(env_of(p, "USER"), "analysis");
	assert_string_equal(env_of(p, "LANG"), "C.UTF-8");
	assert_string_equal(env_of(p, "PYTHONUNBUFFERED"), "1");
	static const char *const threads[] = { "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS",
					       "MKL_NUM_THREADS", "PYTHON_CPU_COUNT",
					       "GOMAXPROCS",      "POLARS_MAX_THREADS" };
	for (size_t i = 0; i < sizeof(threads) / sizeof(*threads); i++)
		assert_string_equal(env_of(p, threads[i]), "2"); /* 1.5 cpus */
	assert_string_equal(env_of(p, "CUPEL_RUN_ID"), "r1");
	assert_string_equal(env_of(p, "CUPEL_CPUS"), "1.5");
	assert_string_equal(env_of(p, "CUPEL_MEMORY_BYTES"), "1073741824");
	assert_string_equal(env_of(p, "CUPEL_OUT_DIR"), WORK "/out");
	assert_null(env_of(p, "CUPEL_DEADLINE"));
	s->request.deadline_unix = 1700000000;
	assert_string_equal(env_of(make(s), "CUPEL_DEADLINE"), "1700000000");
}

static void the_analysis_overrides_all_but_cupels_own(void **state)
{
	struct scene *s = *state;
	pairs_set(&s->runtime.env, "A", "runtime");
	pairs_set(&s->runtime.env, "B", "runtime");
	pairs_set(&s->analysis.env, "A", "analysis");
	pairs_set(&s->analysis.env, "PATH", "/opt/bin");
	pairs_set(&s->analysis.env, "OMP_NUM_THREADS", "1");
	pairs_set(&s->analysis.env, "CUPEL_RUN_ID", "another");
	const struct plan *p = make(s);
	assert_string_equal(env_of(p, "A"), "analysis");
	assert_string_equal(env_of(p, "B"), "runtime");
	assert_string_equal(env_of(p, "PATH"), "/opt/bin");
	assert_string_equal(env_of(p, "OMP_NUM_THREADS"), "1");
	assert_string_equal(env_of(p, "CUPEL_RUN_ID"), "r1");
}

static uint64_t rlimit_of(const struct plan *p, int resource)
{
	for (size_t i = 0; i < p->n_rlimits; i++)
		if (p->rlimits[i].resource == resource)
			return p->rlimits[i].value;
	fail_msg("no limit %d", resource);
	return 0;
}

static void rlimits_follow_the_limits(void **state)
{
	struct scene *s = *state;
	limits_set(&s->limits, LIMIT_DISK, 5 << 20, "test");
	s->limits.at[LIMIT_FILE_SIZE].value = 0;
	const struct plan *p = make(s);
	assert_int_equal(p->n_rlimits, 6);
	assert_int_equal(rlimit_of(p, RLIMIT_CORE), 1);
	assert_int_equal(rlimit_of(p, RLIMIT_RTPRIO), 0);
	assert_int_equal(rlimit_of(p, RLIMIT_NOFILE), s->limits.at[LIMIT_OPEN_FILES].value);
	assert_int_equal(rlimit_of(p, RLIMIT_FSIZE), 5 << 20); /* no file is larger than the disk */
	limits_set(&s->limits, LIMIT_FILE_SIZE, 1 << 20, "test");
	assert_int_equal(rlimit_of(make(s), RLIMIT_FSIZE), 1 << 20);
}

static void work_directories_stand_clear_of_the_boxs_own(void **state)
{
	static const char *const bad[] = {
		"/usr", "/usr/local/work", "/etc", "/dev/shm", "/proc/x", "/sys", "/run",
		"/bin", "/lib/work"
	};
	struct scene *s = *state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		free(s->config.work_root);
		s->config.work_root = xstrdup(bad[i]);
		refused(s, EINVAL, ERR_CALLER, "work.root");
	}
	free(s->config.work_root);
	s->config.work_root = xstrdup("/srv/papers/work");
	refused(s, EINVAL, ERR_CALLER, "protected path /srv/papers");
	free(s->config.work_root);
	s->config.work_root = xstrdup("/usrlocal");
	assert_string_equal(make(s)->work_dir, "/usrlocal/cupel-r1");
}

static void the_script_is_called_as_it_is_seen_inside(void **state)
{
	struct scene *s = *state;
	char path[] = "/tmp/cupel-plan-XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	strv_release(&s->analysis.command);
	strv_add(&s->analysis.code, path);
	strv_add(&s->analysis.args, "--fast");
	struct plan p = { 0 };
	int not_executable = plan_make(&s->request, &p, &s->err);
	assert_int_equal(fchmod(fd, 0700), 0);
	int r = plan_make(&s->request, &s->plan, &s->err);
	(void)close(fd);
	(void)unlink(path);
	assert_int_equal(not_executable, -EINVAL);
	assert_int_equal(r, 0);
	CLEANUP_FREE char *inside = xasprintf(WORK "/code/%s", path + strlen("/tmp/"));
	assert_int_equal(s->plan.argv.n, 2);
	assert_string_equal(s->plan.argv.v[0], inside);
	assert_string_equal(s->plan.argv.v[1], "--fast");
	refused(s, ENOENT, ERR_CALLER, path); /* now it is gone */
}

static void json_has_every_part(void **state)
{
	static const char *const keys[] = { "id",       "work_dir",  "cwd",
					    "argv",     "env",       "hostname",
					    "user",     "steps",     "landlock",
					    "limits",   "rlimits",   "landlock_abi",
					    "cpus",     "network",   "allowed_missing",
					    "warnings", "cpu_weight" };
	struct scene *s = *state;
	strv_add(&s->analysis.command, "bad \xff byte");
	strv_add(&s->analysis.allow_missing, "disk");
	add_input(s, "/home/u/x.csv", "x.csv");
	const struct plan *p = make(s);
	CLEANUP_JSON json_t *o = plan_json(p);
	assert_non_null(o);
	assert_int_equal(json_object_size(o), sizeof(keys) / sizeof(*keys));
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		assert_non_null(json_object_get(o, keys[i]));
	assert_int_equal(json_array_size(json_object_get(o, "steps")), p->n_steps);
	assert_int_equal(json_array_size(json_object_get(o, "env")), p->env.n);
	assert_int_equal(json_array_size(json_object_get(o, "landlock")), p->n_rules);
	assert_int_equal(json_array_size(json_object_get(o, "cpus")), 2);
	assert_int_equal(json_object_size(json_object_get(o, "rlimits")), p->n_rlimits);
	assert_string_equal(json_string_value(json_object_get(o, "network")), "none");
	json_t *memory = json_object_get(json_object_get(o, "limits"), "memory");
	assert_int_equal(json_integer_value(json_object_get(memory, "raw")), 1 << 30);
	CLEANUP_FREE char *text = json_dumps(o, 0);
	assert_non_null(text);
	CLEANUP_JSON json_t *again = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	assert_true(json_equal(o, again));
	for (int kind = STEP_TMPFS; kind <= STEP_SEAL; kind++)
		assert_non_null(step_kind_name((enum step_kind)kind));
}

static const struct step *placed(const struct plan *p, const char *target)
{
	for (size_t i = 0; i < p->n_steps; i++)
		if (str_eq(p->steps[i].target, target))
			return &p->steps[i];
	return NULL;
}

static void a_snapshot_is_shown_read_only(void **state)
{
	struct scene *s = *state;
	s->analysis.db_snapshot = xstrdup("/srv/platform.db");
	s->analysis.db_snapshot_origin = xstrdup("a.yaml:1:2");
	s->request.snapshot = "/var/lib/cupel/runs/r1/copy";
	const struct plan *p = make(s);
	const struct step *shown = placed(p, "/run/cupel/snapshot.db");
	assert_non_null(shown);
	assert_string_equal(shown->source, "/var/lib/cupel/runs/r1/copy");
	assert_false(shown->writable);
	assert_true(strv_has(&p->env, "CUPEL_DB_PATH=/run/cupel/snapshot.db"));
	free(s->analysis.db_snapshot);
	s->analysis.db_snapshot = xstrdup("/srv/papers/x.db");
	refused(s, EPERM, ERR_CALLER, "/srv/papers");
}

static void a_checkpoint_is_in_the_working_directory(void **state)
{
	struct scene *s = *state;
	const struct plan *p = make(s);
	assert_null(p->checkpoint);
	assert_int_equal(p->n_rules, 7);
	s->analysis.checkpoint = xstrdup("saved");
	s->request.home = "/var/lib/cupel";
	p = make(s);
	const struct step *shown = placed(p, WORK "/saved");
	assert_non_null(shown);
	assert_int_equal(shown->kind, STEP_CHECKPOINT);
	assert_true(shown > placed(p, WORK));
	assert_string_equal(shown->source, "/var/lib/cupel/checkpoints/{key}/files");
	assert_true(strv_has(&p->env, "CUPEL_CHECKPOINT_DIR=" WORK "/saved"));
	assert_int_equal(p->n_rules, 8);
	assert_false(strv_has(&p->work_dirs,
			      "saved")); /* or each name would have a template of its own */
	plan_set_checkpoint(&s->plan, "/h", "0123");
	assert_string_equal(placed(&s->plan, WORK "/saved")->source, "/h/checkpoints/0123/files");
}

/* A step of the host's has outputs, its database, and nothing of a project; its secret is in no record. */
static void a_step_is_granted_its_database(void **state)
{
	struct scene *s = *state;
	CLEANUP_STRV struct strv others = { 0 };
	strv_add(&others, "other.txt");
	struct plan_grant grant = { .run_id = "parent",
				    .outputs = "/var/lib/cupel/runs/parent/outputs",
				    .database_dir = "/srv/db",
				    .others = &others,
				    .url = "sqlite:/run/cupel/database/p.db" };
	s->config.project_data = xstrdup("/project/data");
	s->request.grant = &grant;
	const struct plan *p = make(s);
	assert_true(placed(p, "/run/cupel/database")->writable);
	assert_false(placed(p, "/run/cupel/outputs")->writable);
	assert_int_equal(placed(p, "/run/cupel/database/other.txt")->kind, STEP_MASK);
	assert_null(placed(p, WORK "/data"));
	assert_true(strv_has(&p->env, "CUPEL_RUN_ID=parent"));
	assert_true(strv_has(&p->env, "CUPEL_DATABASE_URL=sqlite:/run/cupel/database/p.db"));
	grant = (struct plan_grant){ .run_id = "parent",
				     .socket = "/run/pg/.s.PGSQL.7",
				     .socket_name = ".s.PGSQL.7",
				     .pgpass = "a-secret-word",
				     .url = "postgresql://u@/d" };
	p = make(s);
	assert_int_equal(placed(p, "/run/cupel/database/.s.PGSQL.7")->kind, STEP_SOCKET);
	assert_int_equal(placed(p, "/run/cupel/pgpass")->mode, 0400);
	assert_int_equal(placed(p, "/run/cupel/outputs")->kind, STEP_DIR);
	CLEANUP_JSON json_t *json = plan_json(p);
	CLEANUP_FREE char *text = json_dumps(json, 0);
	assert_null(strstr(text, "a-secret-word"));
	assert_non_null(strstr(text, "/run/cupel/pgpass"));
	s->request.grant = NULL; /* an analysis has none of it */
	p = make(s);
	assert_null(placed(p, "/run/cupel/database"));
	assert_non_null(placed(p, WORK "/data"));
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ROW(steps_stand_in_the_order_they_can_be_done),
		ROW(inputs_are_data),
		ROW(root_holds_what_programs_need_and_no_more),
		ROW(every_writable_mount_has_a_rule_and_nothing_else_has),
		ROW(inputs_stand_beside_the_projects_data),
		ROW(scripts_of_one_name_collide),
		ROW(protected_paths_are_shown_in_no_way),
		ROW(protected_paths_are_shown_by_no_other_key),
		ROW(cupels_records_are_shown_only_as_outputs),
		ROW(landlock_is_missed_only_where_that_is_allowed),
		ROW(the_hosts_policy_may_allow_a_layer_to_be_missing),
		ROW(the_hosts_network_needs_the_policy),
		ROW(cpus_are_whole_and_of_the_hosts_set),
		ROW(small_runs_are_spread_over_the_cpus),
		ROW(environment_is_built_from_nothing),
		ROW(the_analysis_overrides_all_but_cupels_own),
		ROW(rlimits_follow_the_limits),
		ROW(work_directories_stand_clear_of_the_boxs_own),
		ROW(the_script_is_called_as_it_is_seen_inside),
		ROW(json_has_every_part),
		ROW(a_snapshot_is_shown_read_only),
		ROW(a_checkpoint_is_in_the_working_directory),
		ROW(a_step_is_granted_its_database),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
