/* Keys: each thing that a result depends on changes the key and is named; what it does not depend on changes nothing. */
#include "prefix.h"

#include <time.h>

#include "base/clock.h"
#include "flow/key.h"
#include "runtime/content.h"
#include "runtime/state.h"

struct world {
	struct place place;
	char home[64], prefix[64], entries[64], data[64];
	struct config config;
};

#define ENTRY "name: sc\nversion: 1\nkind: conda\nprefix: ../prefix\ninterpreters: {.py: python}\n"

/* What the host has is read once for all tests, and is then there as if each home had read it. */
static void know_host(const struct world *w)
{
	static char *text;
	CLEANUP_FREE char *path = xasprintf("%s/runtimes/" CONTENT_HOST, w->home);
	char hex[HASH_HEX], tag[HASH_TAG];
	hash_tag("", tag);
	CLEANUP_FREE char *name = xasprintf("content-%s.json", tag);
	CLEANUP_FREE char *file = path_join(path, name);
	if (text) {
		put(path, name, text);
		return;
	}
	assert_int_equal(host_content(&w->config, NULL, hex, NULL), 0);
	assert_int_equal(fs_read_capped(AT_FDCWD, file, 65536, &text, NULL, NULL), 0);
}

static int set_up(void **state)
{
	static struct world w;
	void *place = NULL;
	if (place_set_up(&place) < 0)
		return -1;
	w = (struct world){ .place = *(struct place *)place };
	(void)snprintf(w.home, sizeof w.home, "%s/home", w.place.path);
	(void)snprintf(w.prefix, sizeof w.prefix, "%s/prefix", w.place.path);
	(void)snprintf(w.entries, sizeof w.entries, "%s/runtimes.d", w.place.path);
	(void)snprintf(w.data, sizeof w.data, "%s/d", w.place.path);
	w.config = (struct config){ .home = xstrdup(w.home), .default_runtime = xstrdup("sc") };
	strv_add(&w.config.runtime_dirs, w.entries);
	strv_add(&w.config.env_pass, "CUPEL_TEST_PASSED");
	(void)unsetenv("CUPEL_TEST_PASSED");
	if (mkdirat(w.place.fd, "home", 0711) < 0 || mkdirat(w.place.fd, "home/cache", 0700) < 0)
		return -1;
	know_host(&w);
	make_conda(w.prefix);
	if (fchmodat(w.place.fd, "prefix/bin/python", 0755, 0) < 0) /* or `base` would be chosen */
		return -1;
	put(w.entries, "sc.yaml", ENTRY);
	put(w.data, "align.py", "print(1)\n");
	put(w.data, "lib.py", "x = 1\n");
	put(w.data, "reads", "ACGT\n");
	put(w.data, "tree/a", "a\n");
	put(w.data, "tree/deep/b", "b\n");
	*state = &w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;
	void *place = &w->place;
	config_release(&w->config);
	return place_tear_down(&place);
}

static void add_input(const struct world *w, struct analysis *a, const char *file, const char *name)
{
	struct input input = { .path = path_join(w->data, file),
			       .name = xstrdup(name),
			       .origin = xstrdup("test") };
	analysis_add_input(a, &input);
}

static struct analysis asked(const struct world *w)
{
	struct analysis a = { .runtime = xstrdup("sc"),
			      .parameters = xstrdup("{\"q\":1}"),
			      .id = xstrdup("one") };
	strv_take(&a.code, path_join(w->data, "align.py"));
	strv_take(&a.code, path_join(w->data, "lib.py"));
	strv_add(&a.args, "--fast");
	strv_add(&a.args, "x");
	add_input(w, &a, "reads", "reads.fq");
	add_input(w, &a, "tree", "tree");
	pairs_set(&a.env, "LANG", "C");
	analysis_add_output(&a, "out/x", NULL, true);
	return a;
}

static int try_key(const struct world *w, struct analysis *a, struct err *err)
{
	CLEANUP_KEY_MAKER struct key_maker *m = NULL;
	int r = key_maker_new(&w->config, NULL, &m, err);
	return r < 0 ? r : key_make(m, a, err);
}

static void key_of(const struct world *w, struct analysis *a)
{
	struct err err = { 0 };
	if (try_key(w, a, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(strlen(a->key.sha256), HASH_HEX - 1);
	for (size_t i = 0; i < a->key.parts.n; i++)
		assert_int_equal(strlen(a->key.parts.v[i].value), HASH_HEX - 1);
}

/* The names of parts that differ, sorted, with commas. */
static char *difference(const struct analysis *a, const struct analysis *b)
{
	CLEANUP_STRV struct strv names = { 0 };
	CLEANUP_STR struct str text = { 0 };
	for (size_t i = 0; i < a->key.parts.n; i++)
		if (!str_eq(pairs_get(&b->key.parts, a->key.parts.v[i].key),
			    a->key.parts.v[i].value))
			strv_add(&names, a->key.parts.v[i].key);
	for (size_t i = 0; i < b->key.parts.n; i++)
		if (!pairs_get(&a->key.parts, b->key.parts.v[i].key))
			strv_add(&names, b->key.parts.v[i].key);
	strv_sort(&names);
	for (size_t i = 0; i < names.n; i++)
		str_addf(&text, "%s%s", i ? ", " : "", names.v[i]);
	return xstrdup(str_text(&text));
}

/* Version 0.1 gave a text to /bin/sh -c and said no more of it. */
static void the_shell_of_a_text_is_what_is_new(void **state)
{
	const struct world *w = *state;
	static const char text[] = "sort data/reads | gzip > out/x";
	CLEANUP_ANALYSIS struct analysis before = asked(w), now = asked(w), sh = asked(w);
	CLEANUP_ANALYSIS struct analysis again = asked(w);
	struct analysis *const all[] = { &before, &now, &sh, &again };
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		strv_release(&all[i]->code);
		strv_release(&all[i]->args);
	}
	shell_words("sh", &before.command);
	strv_add(&before.command, text);
	shell_words("sh", &sh.shell);
	for (size_t i = 1; i < sizeof all / sizeof *all; i++) {
		strv_add(&all[i]->command, text);
		all[i]->command_is_text = true;
	}
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		key_of(w, all[i]);
	CLEANUP_FREE char *first = difference(&before, &now), *second = difference(&now, &sh);
	CLEANUP_FREE char *third = difference(&before, &sh);
	assert_string_equal(first, "shell");
	assert_string_equal(second, "shell");
	assert_string_equal(third, "shell");
	assert_string_equal(now.key.sha256, again.key.sha256);
}

/* A part is recorded: without the key of the home nobody can try values against it. */
static void secrets_are_keyed(void **state)
{
	const struct world *w = *state;
	CLEANUP_ANALYSIS struct analysis a = asked(w), b = asked(w), c = asked(w);
	pairs_set(&a.env, "API_TOKEN", "x");
	pairs_set(&b.env, "API_TOKEN", "x");
	pairs_set(&c.env, "API_TOKEN", "x");
	key_of(w, &a);
	key_of(w, &b);
	assert_string_equal(a.key.sha256, b.key.sha256);
	CLEANUP_FREE char *key = path_join(w->home, "secret.key");
	assert_int_equal(unlink(key), 0);
	key_of(w, &c);
	CLEANUP_FREE char *changed = difference(&a, &c);
	assert_string_equal(changed, "env API_TOKEN");
}

static void all_parts_have_names(void **state)
{
	const struct world *w = *state;
	static const char *const names[] = {
		"arch",
		"args",
		"code align.py",
		"code lib.py",
		"env LANG",
		"input data/reads.fq",
		"input data/tree",
		"network",
		"output out/x",
		"parameter q",
		"runtime sc",
		"schema",
		"script",
	};
	CLEANUP_ANALYSIS struct analysis a = asked(w);
	key_of(w, &a);
	assert_int_equal(a.key.parts.n, sizeof names / sizeof *names);
	for (size_t i = 0; i < a.key.parts.n; i++)
		assert_string_equal(a.key.parts.v[i].key, names[i]);
	assert_string_equal(a.inputs[0].contents.sha256,
			    "a4b0723993d3751f3d530e3c20da4c24ccdd32e65820fba897cc5f119e85ca55");
	assert_int_equal(a.code_contents[1].bytes, 6);
}

static void reset(char **field, const char *text)
{
	free(*field);
	*field = text ? xstrdup(text) : NULL;
}

static void change_command(const struct world *w, struct analysis *a)
{
	strv_release(&a->code);
	strv_add(&a->command, "ls");
}
static void change_args(const struct world *w, struct analysis *a)
{
	reset(&a->args.v[1], "y");
}
/* "--fast" "x" and "--fastx" "" have the same bytes. */
static void shift_args(const struct world *w, struct analysis *a)
{
	reset(&a->args.v[0], "--fastx");
	reset(&a->args.v[1], "");
}
static void change_order_of_args(const struct world *w, struct analysis *a)
{
	reset(&a->args.v[0], "x");
	reset(&a->args.v[1], "--fast");
}
static void change_script(const struct world *w, struct analysis *a)
{
	char *first = a->code.v[0];
	a->code.v[0] = a->code.v[1];
	a->code.v[1] = first;
}
static void change_code(const struct world *w, struct analysis *a)
{
	put(w->data, "lib.py", "x = 2\n");
}
static void change_input(const struct world *w, struct analysis *a)
{
	put(w->data, "reads", "ACGA\n");
}
static void change_input_name(const struct world *w, struct analysis *a)
{
	reset(&a->inputs[0].name, "other.fq");
}
static void change_input_mode(const struct world *w, struct analysis *a)
{
	assert_int_equal(chmod(a->inputs[0].path, 0755), 0);
}
static void change_tree(const struct world *w, struct analysis *a)
{
	put(w->data, "tree/deep/b", "c\n");
}
static void add_to_tree(const struct world *w, struct analysis *a)
{
	put(w->data, "tree/deep/c", "");
}
static void change_tree_mode(const struct world *w, struct analysis *a)
{
	CLEANUP_FREE char *path = path_join(w->data, "tree/a");
	assert_int_equal(chmod(path, 0755), 0);
}
static void change_kind(const struct world *w, struct analysis *a)
{
	add_input(w, a, "tree/a", "a");
	free(a->inputs[1].path);
	a->inputs[1].path = path_join(w->data, "tree/a");
}
static void change_env(const struct world *w, struct analysis *a)
{
	pairs_set(&a->env, "LANG", "de");
}
static void add_env(const struct world *w, struct analysis *a)
{
	pairs_set(&a->env, "X", "");
}
static void add_secret(const struct world *w, struct analysis *a)
{
	pairs_set(&a->env, "API_TOKEN", "x");
}
static void pass_env(const struct world *w, struct analysis *a)
{
	assert_int_equal(setenv("CUPEL_TEST_PASSED", "1", 1), 0);
}
static void change_parameters(const struct world *w, struct analysis *a)
{
	reset(&a->parameters, "{\"q\":2}");
}
static void drop_parameters(const struct world *w, struct analysis *a)
{
	reset(&a->parameters, NULL);
}
static void change_output(const struct world *w, struct analysis *a)
{
	reset(&a->outputs[0].pattern, "out/y");
}
static void change_required(const struct world *w, struct analysis *a)
{
	a->outputs[0].required = false;
}
static void change_check(const struct world *w, struct analysis *a)
{
	a->outputs[0].check = OUTPUT_CHECK_OFF;
}
static void change_media_type(const struct world *w, struct analysis *a)
{
	reset(&a->outputs[0].media_type, "text/csv");
}
static void change_network(const struct world *w, struct analysis *a)
{
	a->network = NETWORK_HOST;
}
static void change_runtime_file(const struct world *w, struct analysis *a)
{
	put(w->prefix, "conda-meta/state", "{\"env_vars\": {\"A\": \"2\"}}");
}
static void change_runtime_entry(const struct world *w, struct analysis *a)
{
	put(w->entries, "sc.yaml", ENTRY "env: {A: \"1\"}\n");
}
static void change_interpreter(const struct world *w, struct analysis *a)
{
	put(w->entries, "sc.yaml",
	    "name: sc\nversion: 1\nkind: conda\nprefix: ../prefix\ninterpreters: {.py: [python, -I]}\n");
}
static void change_runtime(const struct world *w, struct analysis *a)
{
	put(w->entries, "two.yaml", "name: two\nversion: 1\nkind: conda\nprefix: ../prefix\n");
	reset(&a->runtime, "two");
}

static void each_dependency_changes_it(void **state)
{
	static const struct {
		void (*change)(const struct world *w, struct analysis *a);
		const char *parts;
	} all[] = {
		{ change_command, "code align.py, code lib.py, command, script" },
		{ change_args, "args" },
		{ shift_args, "args" },
		{ change_order_of_args, "args" },
		{ change_script, "script" },
		{ change_code, "code lib.py" },
		{ change_input, "input data/reads.fq" },
		{ change_input_name, "input data/other.fq, input data/reads.fq" },
		{ change_input_mode, "input data/reads.fq" },
		{ change_tree, "input data/tree" },
		{ add_to_tree, "input data/tree" },
		{ change_tree_mode, "input data/tree" },
		{ change_kind, "input data/a, input data/tree" },
		{ change_env, "env LANG" },
		{ add_env, "env X" },
		{ add_secret, "env API_TOKEN" },
		{ pass_env, "env CUPEL_TEST_PASSED" },
		{ change_parameters, "parameter q" },
		{ drop_parameters, "parameter q" },
		{ change_output, "output out/x, output out/y" },
		{ change_required, "output out/x" },
		{ change_check, "output out/x" },
		{ change_media_type, "output out/x" },
		{ change_network, "network" },
		{ change_runtime_file, "runtime sc" },
		{ change_runtime_entry, "runtime sc" },
		{ change_interpreter, "runtime sc" },
		{ change_runtime, "runtime sc, runtime two" },
	};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		const struct world *w = *state;
		CLEANUP_ANALYSIS struct analysis before = asked(w);
		CLEANUP_ANALYSIS struct analysis after = asked(w);
		key_of(w, &before);
		all[i].change(w, &after);
		key_of(w, &after);
		CLEANUP_FREE char *found = difference(&before, &after);
		assert_string_equal(found, all[i].parts);
		assert_string_not_equal(before.key.sha256, after.key.sha256);
		assert_int_equal(tear_down(state), 0);
		assert_int_equal(set_up(state), 0);
	}
}

static void rename_place(const struct world *w, struct analysis *a)
{
	CLEANUP_FREE char *moved = xasprintf("%s/elsewhere", w->place.path);
	assert_int_equal(rename(w->data, moved), 0);
	struct world other = *w;
	(void)snprintf(other.data, sizeof other.data, "%s", moved);
	analysis_release(a);
	*a = asked(&other);
}
static void touch(const struct world *w, struct analysis *a)
{
	const struct timespec times[2] = { { .tv_sec = 1 }, { .tv_sec = 2 } };
	CLEANUP_FREE char *b = path_join(w->data, "tree/deep/b");
	assert_int_equal(utimensat(AT_FDCWD, a->inputs[0].path, times, 0), 0);
	assert_int_equal(utimensat(AT_FDCWD, a->code.v[0], times, 0), 0);
	assert_int_equal(utimensat(AT_FDCWD, b, times, 0), 0);
}
static void write_again(const struct world *w, struct analysis *a)
{
	drop(w->data, "reads");
	put(w->data, "reads", "ACGT\n");
}
static void link_input(const struct world *w, struct analysis *a)
{
	put_link(w->data, "link", "reads");
	free(a->inputs[0].path);
	a->inputs[0].path = path_join(w->data, "link");
}
static void change_order_of_inputs(const struct world *w, struct analysis *a)
{
	struct input first = a->inputs[0];
	a->inputs[0] = a->inputs[1];
	a->inputs[1] = first;
}
static void say_other_things(const struct world *w, struct analysis *a)
{
	reset(&a->id, "two");
	reset(&a->name, "a name");
	reset(&a->quest, "q");
	reset(&a->profile, "large");
	reset(&a->place.pipeline, "p");
	reset(&a->place.step, "s");
	reset(&a->file, "/x.yaml");
	a->place.attempt = 7;
	a->keep = KEEP_ALWAYS;
	a->keep_said = a->network_said = true;
	a->scratch = SCRATCH_MEMORY;
	a->scratch_said = true;
	a->warn_signal = 10;
	a->limits.at[LIMIT_MEMORY].value = 1 << 30;
	pairs_set(&a->labels, "a", "b");
	strv_add(&a->allow_missing, "landlock");
}
static void choose_by_default(const struct world *w, struct analysis *a)
{
	reset(&a->runtime, NULL);
}
static void set_what_is_passed(const struct world *w, struct analysis *a)
{
	assert_int_equal(setenv("LANG", "C", 1), 0);
	strv_add((struct strv *)&w->config.env_pass, "LANG");
}
static void change_runtime_limits(const struct world *w, struct analysis *a)
{
	put(w->entries, "sc.yaml", ENTRY "limits: {memory: 4G}\nsummary: other words\n");
}
static void compile_python(const struct world *w, struct analysis *a)
{
	put(w->prefix, SITE "/numpy/__pycache__/core.cpython-311.pyc", "compiled");
}

static void nothing_else_changes_it(void **state)
{
	static void (*const all[])(const struct world *w, struct analysis *a) = {
		rename_place,       touch,
		write_again,        link_input,
		say_other_things,   choose_by_default,
		set_what_is_passed, change_order_of_inputs,
		compile_python,     change_runtime_limits,
	};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		const struct world *w = *state;
		CLEANUP_ANALYSIS struct analysis before = asked(w);
		CLEANUP_ANALYSIS struct analysis after = asked(w);
		key_of(w, &before);
		all[i](w, &after);
		key_of(w, &after);
		CLEANUP_FREE char *found = difference(&before, &after);
		assert_string_equal(found, "");
		assert_string_equal(before.key.sha256, after.key.sha256);
		assert_int_equal(tear_down(state), 0);
		assert_int_equal(set_up(state), 0);
	}
}

/* One maker, and no time between an edit and the next key: what was looked at a moment ago proves nothing. */
static void edits_at_once_are_seen(void **state)
{
	const struct world *w = *state;
	CLEANUP_KEY_MAKER struct key_maker *m = NULL;
	char last[HASH_HEX] = "";
	struct err err = { 0 };
	assert_int_equal(key_maker_new(&w->config, NULL, &m, &err), 0);
	for (int i = 0; i < 20; i++) {
		CLEANUP_ANALYSIS struct analysis a = asked(w);
		CLEANUP_ANALYSIS struct analysis again = asked(w);
		char text[8];
		(void)snprintf(text, sizeof text, "%05d\n", i);
		put(w->data, i % 2 ? "reads" : "lib.py", text); /* the same length, in place */
		assert_int_equal(key_make(m, &a, &err), 0);
		assert_int_equal(key_make(m, &again, &err), 0);
		assert_string_equal(a.key.sha256, again.key.sha256);
		assert_string_not_equal(a.key.sha256, last);
		memcpy(last, a.key.sha256, HASH_HEX);
	}
}

static void outputs_by_default_and_in_order(void **state)
{
	const struct world *w = *state;
	CLEANUP_ANALYSIS struct analysis none = { 0 };
	CLEANUP_ANALYSIS struct analysis all = { 0 };
	CLEANUP_ANALYSIS struct analysis one = { 0 };
	CLEANUP_ANALYSIS struct analysis other = { 0 };
	struct analysis *const every[] = { &none, &all, &one, &other };
	analysis_add_output(&all, "out/**", NULL, false);
	analysis_add_output(&one, "out/a", NULL, false);
	analysis_add_output(&one, "out/*", "text/csv", false);
	analysis_add_output(&other, "out/*", "text/csv", false);
	analysis_add_output(&other, "out/a", NULL, false);
	for (size_t i = 0; i < 4; i++) {
		strv_add(&every[i]->command, "ls");
		key_of(w, every[i]);
	}
	assert_string_equal(none.key.sha256, all.key.sha256);
	CLEANUP_FREE char *found = difference(&one, &other);
	assert_string_equal(found, "order of outputs");
}

/* Two names that a person can't tell apart are two parts. */
static void names_that_look_alike(void **state)
{
	const struct world *w = *state;
	CLEANUP_ANALYSIS struct analysis a = { 0 };
	CLEANUP_ANALYSIS struct analysis b = { 0 };
	strv_add(&a.command, "ls");
	strv_add(&b.command, "ls");
	add_input(w, &a, "reads", "x\xff");
	add_input(w, &a, "align.py", "x\xfe");
	add_input(w, &b, "reads", "x\xfe");
	add_input(w, &b, "align.py", "x\xff");
	key_of(w, &a);
	key_of(w, &b);
	assert_non_null(pairs_get(&a.key.parts, "input data/x?"));
	assert_non_null(pairs_get(&a.key.parts, "input data/x? (2)"));
	assert_string_not_equal(a.key.sha256, b.key.sha256);
}

static void a_projects_data_count(void **state)
{
	struct world *w = *state;
	CLEANUP_ANALYSIS struct analysis a = asked(w);
	CLEANUP_ANALYSIS struct analysis b = asked(w);
	CLEANUP_ANALYSIS struct analysis c = asked(w);
	key_of(w, &a);
	w->config.project_data = path_join(w->data, "tree");
	key_of(w, &b);
	CLEANUP_FREE char *added = difference(&a, &b);
	assert_string_equal(added, "project data");
	free(w->config.project_data);
	w->config.project_data = path_join(w->data, "tree/deep");
	key_of(w, &c);
	CLEANUP_FREE char *changed = difference(&b, &c);
	assert_string_equal(changed, "project data");
}

static void assert_no_key(const struct world *w, struct analysis *a, int code, const char *words)
{
	struct err err = { 0 };
	assert_int_equal(try_key(w, a, &err), code);
	assert_string_equal(a->key.sha256, "");
	assert_int_equal(a->key.parts.n, 0);
	if (!strstr(err.text, words))
		fail_msg("'%s' lacks '%s'", err.text, words);
}

static void what_has_no_key_says_why(void **state)
{
	const struct world *w = *state;
	CLEANUP_ANALYSIS struct analysis fifo = asked(w), gone = asked(w), base = asked(w);
	CLEANUP_ANALYSIS struct analysis post = asked(w), none = asked(w);
	CLEANUP_FREE char *pipe = path_join(w->data, "pipe");
	assert_int_equal(mkfifo(pipe, 0600), 0);
	add_input(w, &fifo, "pipe", "pipe");
	assert_no_key(w, &fifo, -ENOTSUP, "neither a file nor a directory");
	add_input(w, &gone, "nothing", "nothing");
	assert_no_key(w, &gone, -ENOENT, "No such file");
	base.db_snapshot = xstrdup("/x.db");
	assert_no_key(w, &base, -ENOTSUP, "db_snapshot");
	post.post_process = xstrdup("load");
	assert_no_key(w, &post, -ENOTSUP, "post_process");
	reset(&none.runtime, "nowhere");
	assert_no_key(w, &none, -ENOENT, "nowhere");
}

static void a_broken_runtime_is_named(void **state)
{
	const struct world *w = *state;
	CLEANUP_ANALYSIS struct analysis a = asked(w);
	CLEANUP_RUNTIME struct runtime r = { 0 };
	struct runtime_state s = { .health = HEALTH_DEGRADED };
	struct err err = { 0 };
	r = (struct runtime){ .name = xstrdup("sc"),
			      .kind = RUNTIME_CONDA,
			      .prefix = xstrdup(w->prefix) };
	key_of(w, &a);
	s.fingerprint = taken(&r, DEPTH_IDENTITY);
	assert_int_equal(state_write(&w->config, "sc", &s, &err), 0);
	assert_no_key(w, &a, -ESTALE, "'sc' is degraded");
	a.allow_drift = true;
	key_of(w, &a);
}

/* Content remembered: how often it was read is seen by what is in the file beside the state. */
static char *content_of(const struct world *w, const char *name)
{
	CLEANUP_FREE char *directory = xasprintf("%s/runtimes/%s", w->home, name);
	CLEANUP_DIR DIR *dir = opendir(directory);
	for (const struct dirent *d; dir && (d = readdir(dir));)
		if (str_starts(d->d_name, "content-"))
			return path_join(directory, d->d_name);
	return NULL;
}

static char *content_file(const struct world *w)
{
	return content_of(w, "sc");
}

static char *content_text(const struct world *w, const char *key)
{
	CLEANUP_FREE char *path = content_file(w);
	CLEANUP_JSON json_t *o = NULL;
	assert_int_equal(json_read_file(AT_FDCWD, path, 65536, &o, NULL), 0);
	return xstrdup(json_string_value(json_object_get(o, key)));
}

static void content_set(const struct world *w, const char *key, const char *value)
{
	CLEANUP_FREE char *path = content_file(w);
	CLEANUP_JSON json_t *o = NULL;
	assert_int_equal(json_read_file(AT_FDCWD, path, 65536, &o, NULL), 0);
	json_object_set_new(o, key, json_string(value));
	assert_int_equal(json_write_file(AT_FDCWD, path, o, NULL), 0);
}

static char *runtime_value(const struct world *w)
{
	CLEANUP_ANALYSIS struct analysis a = asked(w);
	key_of(w, &a);
	return xstrdup(pairs_get(&a.key.parts, "runtime sc"));
}

static void content_is_remembered(void **state)
{
	static const char other[] =
		"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
	const struct world *w = *state;
	CLEANUP_FREE char *first = runtime_value(w);
	CLEANUP_FREE char *content = content_text(w, "content");
	struct stat st = { 0 };
	CLEANUP_FREE char *file = content_file(w);
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_mode & 022, 0);
	/* Taken as it was: another value in the file is believed while nothing says otherwise. */
	content_set(w, "content", other);
	CLEANUP_FREE char *believed = runtime_value(w);
	assert_string_not_equal(believed, first);
	/* Not looked at for long: the stat depth is the same, so it is still believed, and was looked at. */
	content_set(w, "looked", "2026-01-01T00:00:00.000Z");
	CLEANUP_FREE char *old = runtime_value(w);
	assert_string_equal(old, believed);
	CLEANUP_FREE char *looked = content_text(w, "looked");
	assert_string_not_equal(looked, "2026-01-01T00:00:00.000Z");
	/* From another time to come: not believed to be recent; a stat depth that differs means reading it all. */
	content_set(w, "looked", "2126-01-01T00:00:00.000Z");
	content_set(w, "stat", other);
	CLEANUP_FREE char *again = runtime_value(w);
	assert_string_equal(again, first);
	CLEANUP_FREE char *now = content_text(w, "content");
	assert_string_equal(now, content);
	/* Another identity: all is read. */
	content_set(w, "content", other);
	content_set(w, "identity", other);
	content_set(w, "stat", other);
	CLEANUP_FREE char *identity = runtime_value(w);
	assert_string_equal(identity, first);
}

static void a_file_that_no_package_has_counts_after_a_look(void **state)
{
	const struct world *w = *state;
	CLEANUP_FREE char *first = runtime_value(w);
	put(w->prefix, SITE "/local.py", "patched\n");
	CLEANUP_FREE char *at_once = runtime_value(w); /* ten minutes, as the header says */
	assert_string_equal(at_once, first);
	content_set(w, "looked", "2026-01-01T00:00:00.000Z");
	CLEANUP_FREE char *later = runtime_value(w);
	assert_string_not_equal(later, first);
	/* Forged times are found by the ctime. */
	forge(w->prefix, SITE "/local.py", "Patched\n");
	content_set(w, "looked", "2026-01-01T00:00:00.000Z");
	CLEANUP_FREE char *forged = runtime_value(w);
	assert_string_not_equal(forged, later);
}

/* A conda prefix has no C library and no sort of its own. */
static void what_the_host_has_counts(void **state)
{
	const struct world *w = *state;
	CLEANUP_FREE char *first = runtime_value(w);
	CLEANUP_FREE char *path = content_of(w, CONTENT_HOST);
	CLEANUP_JSON json_t *o = NULL;
	assert_int_equal(json_read_file(AT_FDCWD, path, 65536, &o, NULL), 0);
	json_object_set(o, "content", json_object_get(o, "stat"));
	assert_int_equal(json_write_file(AT_FDCWD, path, o, NULL), 0);
	CLEANUP_FREE char *second = runtime_value(w);
	assert_string_not_equal(first, second);
}

static void a_torn_or_foreign_file_is_none(void **state)
{
	static const char *const texts[] = { "", "{", "{}", "[]",
					     "{\"format\": \"cupel-content 1\"}" };
	const struct world *w = *state;
	CLEANUP_FREE char *first = runtime_value(w);
	CLEANUP_FREE char *file = content_file(w);
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		CLEANUP_FD int fd = open(file, O_WRONLY | O_TRUNC | O_CLOEXEC);
		assert_int_equal(fs_write_all(fd, texts[i], strlen(texts[i])), 0);
		CLEANUP_FREE char *again = runtime_value(w);
		assert_string_equal(again, first);
	}
	content_set(w, "content",
		    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	content_set(w, "place", "/elsewhere");
	CLEANUP_FREE char *foreign = runtime_value(w);
	assert_string_equal(foreign, first);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(all_parts_have_names),
		TEST(the_shell_of_a_text_is_what_is_new),
		TEST(secrets_are_keyed),
		TEST(each_dependency_changes_it),
		TEST(nothing_else_changes_it),
		TEST(edits_at_once_are_seen),
		TEST(outputs_by_default_and_in_order),
		TEST(names_that_look_alike),
		TEST(a_projects_data_count),
		TEST(what_has_no_key_says_why),
		TEST(a_broken_runtime_is_named),
		TEST(content_is_remembered),
		TEST(a_file_that_no_package_has_counts_after_a_look),
		TEST(what_the_host_has_counts),
		TEST(a_torn_or_foreign_file_is_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
