/* `executors:` in configuration files: what each kind can be told, and where a mistake is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/path.h"
#include "spec/config.h"

struct host {
	char dir[64];
	char *etc, *user, *project; /* owned */
	struct config_where where;
	struct config config;
};

static void put(const char *path, const char *text)
{
	assert_int_equal(fs_write_atomic(AT_FDCWD, path, text, strlen(text), 0644, NULL), 0);
}

static int setup(void **state)
{
	struct host *h = xcalloc(1, sizeof *h);
	memcpy(h->dir, "/tmp/cupel-test-executors-XXXXXX", 33);
	assert_non_null(mkdtemp(h->dir));
	h->etc = path_join(h->dir, "etc.yaml");
	h->user = path_join(h->dir, "user.yaml");
	h->project = path_join(h->dir, "cupel.yaml");
	h->where = (struct config_where){
		.system_file = h->etc, .user_file = h->user, .start_dir = h->dir, .home = "/h/cupel"
	};
	(void)unsetenv("CUPEL_HOME");
	(void)unsetenv("CUPEL_CONFIG");
	*state = h;
	return 0;
}

static int teardown(void **state)
{
	struct host *h = *state;
	(void)fs_remove_tree(AT_FDCWD, h->dir, NULL, NULL);
	config_release(&h->config);
	free(h->etc);
	free(h->user);
	free(h->project);
	free(h);
	return 0;
}

static void read_ok(struct host *h)
{
	struct err err = { 0 };
	config_release(&h->config);
	h->config = (struct config){ 0 };
	if (config_read(&h->where, &h->config, &err) < 0)
		fail_msg("refused: %s", err.text);
}

static void refused(struct host *h, const char *text, const char *place, const char *words)
{
	struct config c = { 0 };
	struct err err = { 0 };
	put(h->etc, text);
	assert_true(config_read(&h->where, &c, &err) < 0);
	assert_int_equal(err.kind, ERR_CALLER);
	CLEANUP_FREE char *where = xasprintf("etc.yaml:%s: ", place);
	if (!strstr(err.text, where) || !strstr(err.text, words))
		fail_msg("wanted '%s' and '%s', got '%s'", where, words, err.text);
}

static void each_kind_has_its_keys(void **state)
{
	struct host *h = *state;
	put(h->etc,
	    "executors:\n"
	    "  crun: {kind: oci, program: /usr/bin/crun, flags: [--debug]}\n"
	    "  podman: {kind: engine, socket: run/podman.sock, patience: 90s}\n"
	    "  cluster: {kind: slurm, stage: /shared, partition: long, allow_missing: [disk, landlock]}\n"
	    "  mine: {kind: program, command: [/opt/mine, --fast, '']}\n"
	    "defaults: {executor: cluster}\n");
	read_ok(h);
	const struct config *c = &h->config;
	assert_int_equal(c->n_executors, 4);
	assert_string_equal(c->default_executor, "cluster");
	const struct executor_settings *s = config_executor(c, "crun");
	assert_int_equal(s->kind, EXECUTOR_OCI);
	assert_string_equal(pairs_get(&s->options, "program"), "/usr/bin/crun");
	assert_string_equal(s->words.v[0], "--debug");
	assert_int_equal(s->patience_ns, 600 * NS_PER_SEC);
	s = config_executor(c, "podman");
	assert_int_equal(s->kind, EXECUTOR_ENGINE);
	assert_int_equal(s->patience_ns, 90 * NS_PER_SEC);
	CLEANUP_FREE char *socket = path_join(h->dir, "run/podman.sock"); /* beside the file */
	assert_string_equal(pairs_get(&s->options, "socket"), socket);
	s = config_executor(c, "cluster");
	assert_int_equal(s->kind, EXECUTOR_SLURM);
	assert_string_equal(pairs_get(&s->options, "partition"), "long");
	assert_true(strv_has(&s->allow_missing, "disk") && strv_has(&s->allow_missing, "landlock"));
	s = config_executor(c, "mine");
	assert_int_equal(s->kind, EXECUTOR_PROGRAM);
	assert_int_equal(s->words.n, 3);
	assert_string_equal(s->words.v[2], "");
	assert_null(config_executor(c, "local"));
	assert_null(config_executor(c, "other"));
}

static void without_a_word_runs_are_local(void **state)
{
	struct host *h = *state;
	put(h->etc, "{}\n");
	read_ok(h);
	assert_string_equal(h->config.default_executor, "local");
	assert_int_equal(h->config.n_executors, 0);
}

/* As a whole: nothing of the earlier one is left in it. */
static void a_later_file_takes_the_place_of_an_earlier(void **state)
{
	struct host *h = *state;
	put(h->etc, "executors:\n  a: {kind: slurm, stage: /s, qos: high, allow_missing: [disk]}\n"
		    "  b: {kind: program, command: [/b]}\n");
	put(h->user, "executors:\n  a: {kind: program, command: [/mine]}\n");
	read_ok(h);
	const struct executor_settings *a = config_executor(&h->config, "a");
	assert_int_equal(h->config.n_executors, 2);
	assert_int_equal(a->kind, EXECUTOR_PROGRAM);
	assert_null(pairs_get(&a->options, "qos"));
	assert_int_equal(a->allow_missing.n, 0);
	assert_non_null(strstr(a->origin, "user.yaml:2"));
	assert_non_null(config_executor(&h->config, "b"));
}

static void a_mistake_has_a_place(void **state)
{
	struct host *h = *state;
	refused(h, "executors: [a]\n", "1:12", "expected a map of executors");
	refused(h, "executors:\n  local: {kind: program, command: [x]}\n", "2:3", "cupel's own");
	refused(h, "executors:\n  'a/b': {kind: program, command: [x]}\n", "2:3", "a/b");
	refused(h, "executors:\n  a: {command: [x]}\n", "2:6", "needs 'kind:'");
	refused(h, "executors:\n  a: program\n", "2:6", "needs 'kind:'");
	refused(h, "executors:\n  a: {kind: podman, socket: /s}\n", "2:13", "podman");
	refused(h, "executors:\n  a: {kind: local}\n", "2:13", "local");
	refused(h, "executors:\n  a: {kind: program}\n", "2:6", "needs 'command: [PROGRAM, ...]'");
	refused(h, "executors:\n  a: {kind: slurm}\n", "2:6", "needs 'stage: PATH'");
	refused(h, "executors:\n  a: {kind: engine, socket: /s, stage: /t}\n", "2:33",
		"kind engine has no 'stage'; it has: kind, allow_missing, patience, socket");
	refused(h, "executors:\n  a:\n    kind: program\n    command: []\n", "4:14", "empty");
	refused(h, "executors:\n  a: {kind: engine, socket: ''}\n", "2:29", "");
	refused(h, "executors:\n  a: {kind: slurm, stage: /s, account: \"a\\nb\"}\n", "2:40",
		"several lines");
	refused(h, "executors:\n  a: {kind: program, command: [x], patience: soon}\n", "2:46",
		"soon");
	refused(h, "executors:\n  a: {kind: program, command: [x], allow_missing: [disk, walls]}\n",
		"2:58", "walls");
	refused(h, "executors:\n  a: {kind: program, command: [x], command: [y]}\n", "2:36",
		"command");
}

/* It would run programs of its choice, as whoever uses the project. */
static void it_is_not_a_projects_to_say(void **state)
{
	struct host *h = *state;
	struct config c = { 0 };
	struct err err = { 0 };
	put(h->project, "executors:\n  a: {kind: program, command: [./evil]}\n");
	assert_true(config_read(&h->where, &c, &err) < 0);
	assert_non_null(strstr(err.text, "cupel.yaml:1:1: 'executors' is the host's to say"));
}

int main(void)
{
#define WITH(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		WITH(each_kind_has_its_keys),
		WITH(without_a_word_runs_are_local),
		WITH(a_later_file_takes_the_place_of_an_earlier),
		WITH(a_mistake_has_a_place),
		WITH(it_is_not_a_projects_to_say),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
