/* Activation of a conda prefix, and what two dumps of an environment differ in. The scripts themselves are run by a real shell in
 * tests/e2e/test_activate.py. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/path.h"
#include "place.h"
#include "runtime/activate.h"

static void make_dir(const char *root, const char *path)
{
	CLEANUP_FREE char *whole = path_join(root, path);
	assert_int_equal(fs_make_dirs(whole, 0755, NULL), 0);
}

static void make_file(const char *root, const char *path, const char *text)
{
	CLEANUP_FREE char *whole = path_join(root, path);
	CLEANUP_FREE char *parent = path_parent(whole);
	assert_int_equal(fs_make_dirs(parent, 0755, NULL), 0);
	CLEANUP_FD int fd = open(whole, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(fs_write_all(fd, text, strlen(text)), 0);
}

/* PLACE/PATH as a prefix; the caller owns it. */
static char *make_prefix(const struct place *p, const char *path)
{
	char *prefix = path_join(p->path, path);
	make_dir(prefix, "conda-meta");
	return prefix;
}

static struct activation activate(const char *prefix)
{
	struct activation a = { 0 };
	struct err err = { 0 };
	if (conda_activation(prefix, &a, &err) < 0)
		fail_msg("refused: %s", err.text);
	return a;
}

static void is_set(const struct activation *a, const char *name, const char *value)
{
	if (!str_eq(pairs_get(&a->env, name), value))
		fail_msg("%s is '%s', wanted '%s'", name, pairs_get(&a->env, name), value);
}

static void alone(void **state)
{
	CLEANUP_FREE char *prefix = make_prefix(*state, "alone");
	CLEANUP_FREE char *bin = path_join(prefix, "bin");
	CLEANUP_FREE char *prompt = xasprintf("(%s) ", prefix);
	CLEANUP_ACTIVATION struct activation a = activate(prefix);

	assert_string_equal(a.path, bin);
	is_set(&a, "CONDA_PREFIX", prefix);
	is_set(&a, "CONDA_SHLVL", "1");
	is_set(&a, "CONDA_DEFAULT_ENV", prefix);
	is_set(&a, "CONDA_PROMPT_MODIFIER", prompt);
	assert_int_equal(a.env.n, 4);
	assert_int_equal(a.scripts.n, 0);
}

static void of_an_installation(void **state)
{
	const struct place *p = *state;
	CLEANUP_FREE char *base = make_prefix(p, "base");
	CLEANUP_FREE char *env = make_prefix(p, "base/envs/sc");
	make_file(base, "bin/conda", "");
	make_file(base, "condabin/conda", "");
	/* An environment may hold a conda of its own, which is not the one that activates it. */
	make_file(env, "bin/conda", "");
	make_file(env, "condabin/conda", "");
	CLEANUP_FREE char *exe = path_join(base, "bin/conda");
	CLEANUP_FREE char *python = path_join(base, "bin/python");

	CLEANUP_ACTIVATION struct activation a = activate(env);
	CLEANUP_FREE char *path = xasprintf("%s/bin:%s/condabin", env, base);
	assert_string_equal(a.path, path);
	is_set(&a, "CONDA_DEFAULT_ENV", "sc");
	is_set(&a, "CONDA_PROMPT_MODIFIER", "(sc) ");
	is_set(&a, "CONDA_EXE", exe);
	is_set(&a, "_CONDA_EXE", exe);
	is_set(&a, "CONDA_PYTHON_EXE", python);
	is_set(&a, "_CONDA_ROOT", base);
	is_set(&a, "_CE_M", ""); /* as conda: there, without a value */
	is_set(&a, "_CE_CONDA", "");

	CLEANUP_ACTIVATION struct activation b = activate(base);
	CLEANUP_FREE char *base_path = xasprintf("%s/bin:%s/condabin", base, base);
	assert_string_equal(b.path, base_path);
	is_set(&b, "CONDA_DEFAULT_ENV", "base");
	is_set(&b, "CONDA_PREFIX", base);
	is_set(&b, "CONDA_EXE", exe);
}

/* A root of micromamba has condabin at most; of the shell's initialisation nothing is set. */
static void of_micromamba_and_pixi(void **state)
{
	const struct place *p = *state;
	CLEANUP_FREE char *env = make_prefix(p, "mamba/envs/x");
	make_dir(p->path, "mamba/condabin");
	CLEANUP_FREE char *path = xasprintf("%s/bin:%s/mamba/condabin", env, p->path);
	CLEANUP_ACTIVATION struct activation a = activate(env);
	assert_string_equal(a.path, path);
	is_set(&a, "CONDA_DEFAULT_ENV", "x");
	is_set(&a, "CONDA_EXE", NULL);
	is_set(&a, "MAMBA_ROOT_PREFIX", NULL);

	CLEANUP_FREE char *pixi = make_prefix(p, "project/.pixi/envs/default");
	CLEANUP_FREE char *project = path_join(p->path, "project");
	CLEANUP_FREE char *manifest = path_join(p->path, "project/pixi.toml");
	CLEANUP_FREE char *bin = path_join(pixi, "bin");
	make_file(project, "pixi.toml", "");
	CLEANUP_ACTIVATION struct activation b = activate(pixi);
	assert_string_equal(b.path, bin);
	is_set(&b, "CONDA_DEFAULT_ENV", "default");
	is_set(&b, "PIXI_PROJECT_ROOT", project);
	is_set(&b, "PIXI_ENVIRONMENT_NAME", "default");
	is_set(&b, "PIXI_PROJECT_MANIFEST", manifest);
	is_set(&a, "PIXI_PROJECT_ROOT", NULL);
}

static void own_variables(void **state)
{
	CLEANUP_FREE char *prefix = make_prefix(*state, "vars");
	make_file(prefix, "etc/conda/env_vars.d/b.json", "{\"TWICE\": \"b\", \"B\": \"b\"}");
	make_file(
		prefix, "etc/conda/env_vars.d/a.json",
		"{\"TWICE\": \"a\", \"A\": \"a\", \"GONE\": \"x\", \"NULLED\": \"x\", \"FROM\": \"package\"}");
	make_file(prefix, "etc/conda/env_vars.d/no-ending", "{\"READ\": \"too\"}");
	make_file(
		prefix, "conda-meta/state",
		"{\"version\": 1, \"env_vars\": {\"FROM\": \"state\", \"GONE\": \"***unset***\", \"NULLED\": null,"
		"\"QUOTES\": \"it's \\\"so\\\" $HOME `x` \\\\\", \"LINES\": \"a\\nb\\n\", \"EQUALS\": \"a=b=c\","
		"\"EMPTY\": \"\", \"lower_1\": \"l\", \"NUMBER\": 7, \"FLAG\": true, \"UTF\": \"\\u00e9\","
		"\"PATH\": \"/first\", \"path\": \"/second\", \"REAL\": 1.5, \"WHOLE\": 2.0, \"SMALL\": 1e-7, \"TENTH\": 0.1, \"LARGE\": 1e16,"
		"\"LIST\": [1, \"it's\", null, true, {\"k\": [\"a\\n\"]}], \"NONE\": [], \"CUPEL_ID\": \"x\", \"1X\": \"x\", \"A-B\": \"x\", \"\": \"x\","
		"\"A B\": \"x\", \"A=B\": \"x\", \"\\u00e9\": \"x\", \"X;id\": \"x\","
		"\"CONDA_SHLVL\": \"9\"}}");
	CLEANUP_ACTIVATION struct activation a = activate(prefix);

	is_set(&a, "TWICE", "b");
	is_set(&a, "A", "a");
	is_set(&a, "B", "b");
	is_set(&a, "READ", "too");
	is_set(&a, "FROM", "state");
	is_set(&a, "GONE", NULL);
	is_set(&a, "NULLED", "");
	is_set(&a, "QUOTES", "it's \"so\" $HOME `x` \\");
	is_set(&a, "LINES", "a\nb\n");
	is_set(&a, "EQUALS", "a=b=c");
	is_set(&a, "EMPTY", "");
	is_set(&a, "LOWER_1", "l");
	is_set(&a, "lower_1", NULL);
	is_set(&a, "NUMBER", "7");
	is_set(&a, "FLAG", "True");
	is_set(&a, "UTF", "\xc3\xa9");
	is_set(&a, "REAL", "1.5");
	is_set(&a, "WHOLE", "2.0");
	is_set(&a, "SMALL", "1e-07");
	is_set(&a, "TENTH", "0.1");
	is_set(&a, "LARGE", "1e+16");
	is_set(&a, "LIST", "[1, \"it's\", None, True, {'k': ['a\\n']}]");
	is_set(&a, "NONE", "[]");
	is_set(&a, "PATH", NULL);
	assert_string_equal(a.path, "/second");
	assert_true(a.path_is_whole);
	/* conda's own come before these, so that they can be replaced; those of its installation come after. */
	is_set(&a, "CONDA_SHLVL", "9");
	/* Nothing else; CONDA_SHLVL is one of conda's four. */
	assert_int_equal(a.env.n, 4 + 21);
}

/* Of two spellings of one name the one that stands later in conda's dictionary wins, where a replaced key keeps its place. */
static void spellings_of_one_name(void **state)
{
	CLEANUP_FREE char *prefix = make_prefix(*state, "case");
	make_file(prefix, "etc/conda/env_vars.d/a.json", "{\"foo\": \"1\", \"FOO\": \"2\"}");
	make_file(prefix, "conda-meta/state", "{\"env_vars\": {\"foo\": \"3\"}}");
	CLEANUP_ACTIVATION struct activation a = activate(prefix);

	is_set(&a, "FOO", "2");
}

static void refused(const char *prefix, const char *words)
{
	struct activation a = { 0 };
	struct err err = { 0 };
	assert_true(conda_activation(prefix, &a, &err) < 0);
	if (!strstr(err.text, words))
		fail_msg("wanted '%s', got '%s'", words, err.text);
	assert_null(a.path);
}

static void broken_prefixes(void **state)
{
	const struct place *p = *state;
	static const struct {
		const char *file, *text, *words;
	} cases[] = {
		{ "conda-meta/state", "{", "conda-meta/state:1:" },
		{ "conda-meta/state", "[]", "no JSON object" },
		{ "conda-meta/state", "{\"env_vars\": []}", "no JSON object" },
		{ "conda-meta/state", "{\"env_vars\": {\"A\": \"x\\u0000y\"}}", "state:1:" },
		{ "etc/conda/env_vars.d/x.json", "not json", "x.json:1:" },
		{ "etc/conda/env_vars.d/x.json", "\"A\"", "x.json" },
		{ "etc/conda/env_vars.d/x.json/y", "", "regular file" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char name[32];
		(void)snprintf(name, sizeof name, "broken%zu", i);
		CLEANUP_FREE char *prefix = make_prefix(p, name);
		struct activation whole = activate(prefix); /* the control: it is fine until then */
		activation_release(&whole);
		make_file(prefix, cases[i].file, cases[i].text);
		refused(prefix, cases[i].words);
	}
	CLEANUP_FREE char *none = path_join(p->path, "none");
	make_dir(p->path, "none/bin");
	struct activation a = { 0 };
	assert_int_equal(conda_activation(none, &a, NULL), -ENOENT);
}

static void scripts_are_found(void **state)
{
	const struct place *p = *state;
	CLEANUP_FREE char *prefix = make_prefix(p, "scripts");
	static const char *const names[] = { "b.sh",  "B.sh",       "10.sh",
					     "9.sh",  ".hidden.sh", "with space '\".sh",
					     "x.csh", "x.sh.bak",   "sh",
					     "y.fish" };
	static const char *const wanted[] = {
		".hidden.sh", "10.sh", "9.sh", "B.sh", "b.sh", "linked.sh", "with space '\".sh"
	};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		CLEANUP_FREE char *path = xasprintf("etc/conda/activate.d/%s", names[i]);
		make_file(prefix, path, "");
	}
	make_dir(prefix, "etc/conda/activate.d/directory.sh");
	CLEANUP_FREE char *fifo = path_join(prefix, "etc/conda/activate.d/fifo.sh");
	CLEANUP_FREE char *link = path_join(prefix, "etc/conda/activate.d/linked.sh");
	CLEANUP_FREE char *dangling = path_join(prefix, "etc/conda/activate.d/nowhere.sh");
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(symlink("b.sh", link), 0);
	assert_int_equal(symlink("nothing", dangling), 0);
	CLEANUP_ACTIVATION struct activation a = activate(prefix);

	assert_int_equal(a.scripts.n, sizeof wanted / sizeof *wanted);
	for (size_t i = 0; i < a.scripts.n; i++)
		assert_string_equal(path_base(a.scripts.v[i]), wanted[i]);
	assert_true(str_starts(a.scripts.v[0], prefix));
}

/* A package that was installed as a link is a package. */
static void linked_variables(void **state)
{
	CLEANUP_FREE char *prefix = make_prefix(*state, "links");
	CLEANUP_FREE char *link = path_join(prefix, "etc/conda/env_vars.d/l.json");
	make_file(prefix, "pkgs/real.json", "{\"A\": \"1\"}");
	make_dir(prefix, "etc/conda/env_vars.d");
	assert_int_equal(symlink("../../../pkgs/real.json", link), 0);
	CLEANUP_ACTIVATION struct activation a = activate(prefix);
	is_set(&a, "A", "1");
}

/* What a box would not show of the host does not come into it as a variable either: read by us, with our rights, through a link. */
static void variables_of_others(void **state)
{
	const struct place *p = *state;
	static const char *const files[] = { "etc/conda/env_vars.d/l.json", "conda-meta/state" };
	make_file(p->path, "secret.json", "{\"TOKEN\": \"x\", \"env_vars\": {\"TOKEN\": \"x\"}}");
	make_file(p->path, "secrets/s.json", "{\"TOKEN\": \"x\"}");
	for (size_t i = 0; i < 3; i++) {
		CLEANUP_FREE char *name = xasprintf("stranger%zu", i);
		CLEANUP_FREE char *prefix = make_prefix(p, name);
		CLEANUP_FREE char *secret = path_join(p->path, "secret.json");
		CLEANUP_FREE char *secrets = path_join(p->path, "secrets");
		CLEANUP_FREE char *link =
			path_join(prefix, i < 2 ? files[i] : "etc/conda/env_vars.d");
		struct activation a = { 0 };
		struct err err = { 0 };
		make_dir(prefix, i < 2 ? "etc/conda/env_vars.d" : "etc/conda");
		assert_int_equal(symlink(i < 2 ? secret : secrets, link), 0);
		assert_int_equal(conda_activation(prefix, &a, &err), -EPERM);
		assert_non_null(strstr(err.text, "out of the prefix"));
	}
}

static void nothing_of_the_caller(void **state)
{
	CLEANUP_FREE char *prefix = make_prefix(*state, "caller");
	assert_int_equal(setenv("CONDA_SHLVL", "5", 1), 0);
	assert_int_equal(setenv("CONDA_PREFIX", "/elsewhere", 1), 0);
	assert_int_equal(setenv("CONDA_EXE", "/elsewhere/bin/conda", 1), 0);
	CLEANUP_ACTIVATION struct activation a = activate(prefix);
	is_set(&a, "CONDA_SHLVL", "1");
	is_set(&a, "CONDA_PREFIX", prefix);
	is_set(&a, "CONDA_PREFIX_5", NULL);
	is_set(&a, "CONDA_EXE", NULL);
}

#define DUMP(text) text, sizeof(text) - 1

static struct env_change difference(const char *before, size_t n, const char *after, size_t m)
{
	struct env_change c = { 0 };
	struct err err = { 0 };
	if (env_difference(before, n, after, m, &c, &err) < 0)
		fail_msg("refused: %s", err.text);
	return c;
}

static void differences(void **state)
{
	CLEANUP_ENV_CHANGE struct env_change c = difference(
		DUMP("A=1\0B=2\0GONE=x\0SHLVL=1\0PWD=/\0_=x\0SAME=s\0"),
		DUMP("SAME=s\0B=3\0NEW=a=b\nc\0A=1\0SHLVL=2\0PWD=/tmp\0OLDPWD=/\0_=y\0PATH=/a\0"
		     "__cupel_now=x\0CUPEL_ID=x\0EMPTY=\0BYTES=\xff'\"\0AB=1\0"));
	static const char *const wanted[] = { "AB", "B", "BYTES", "EMPTY", "NEW", "PATH" };
	(void)state;

	assert_int_equal(c.set.n, 6);
	for (size_t i = 0; i < c.set.n; i++)
		assert_string_equal(c.set.v[i].key, wanted[i]);
	assert_string_equal(pairs_get(&c.set, "B"), "3");
	assert_string_equal(pairs_get(&c.set, "NEW"), "a=b\nc");
	assert_string_equal(pairs_get(&c.set, "EMPTY"), "");
	assert_string_equal(pairs_get(&c.set, "BYTES"), "\xff'\"");
	assert_int_equal(c.unset.n, 1);
	assert_string_equal(c.unset.v[0], "GONE");

	CLEANUP_ENV_CHANGE struct env_change none = difference(DUMP("A=1\0"), DUMP("A=1\0"));
	assert_int_equal(none.set.n + none.unset.n, 0);
	/* Said twice, the later one counts. */
	CLEANUP_ENV_CHANGE struct env_change twice =
		difference(DUMP("X=1\0"), DUMP("X=1\0A=1\0A=2\0"));
	assert_string_equal(pairs_get(&twice.set, "A"), "2");
	assert_int_equal(twice.set.n, 1);
}

static void what_is_no_dump(void **state)
{
	struct env_change c = { 0 };
	struct err err = { 0 };
	(void)state;

	assert_int_equal(env_difference(DUMP("A=1\0"), DUMP(""), &c, &err), -EINVAL);
	assert_int_equal(env_difference(DUMP(""), DUMP("A=1\0"), &c, &err), -EINVAL);
	assert_int_equal(env_difference(DUMP("A=1\0"), "A=1\0B", 5, &c, &err), -EINVAL);
	assert_int_equal(env_difference(DUMP("A=1\0"), DUMP("A\0"), &c, &err), -EINVAL);
	assert_int_equal(env_difference(DUMP("A=1\0"), DUMP("=x\0"), &c, &err), -EINVAL);
	assert_int_equal(env_difference(DUMP("A=1\0"), DUMP("\0"), &c, &err), -EINVAL);
	CLEANUP_STR struct str many = { 0 }, longer = { 0 };
	for (int i = 0; i < 5000; i++) {
		str_addf(&many, "V%d=1", i);
		str_add_n(&many, "", 1);
	}
	assert_int_equal(env_difference(DUMP("A=1\0"), many.text, many.length, &c, &err), -E2BIG);
	str_add(&longer, "A=");
	for (int i = 0; i < 140000; i++)
		str_add(&longer, "x");
	str_add_n(&longer, "", 1);
	assert_int_equal(env_difference(DUMP("A=1\0"), longer.text, longer.length, &c, &err),
			 -E2BIG);
	assert_int_equal(c.set.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(alone, place_set_up, place_tear_down),
		cmocka_unit_test_setup_teardown(of_an_installation, place_set_up, place_tear_down),
		cmocka_unit_test_setup_teardown(of_micromamba_and_pixi, place_set_up,
						place_tear_down),
		cmocka_unit_test_setup_teardown(own_variables, place_set_up, place_tear_down),
		cmocka_unit_test_setup_teardown(spellings_of_one_name, place_set_up,
						place_tear_down),
		cmocka_unit_test_setup_teardown(broken_prefixes, place_set_up, place_tear_down),
		cmocka_unit_test_setup_teardown(scripts_are_found, place_set_up, place_tear_down),
		cmocka_unit_test_setup_teardown(linked_variables, place_set_up, place_tear_down),
		cmocka_unit_test_setup_teardown(variables_of_others, place_set_up, place_tear_down),
		cmocka_unit_test_setup_teardown(nothing_of_the_caller, place_set_up,
						place_tear_down),
		cmocka_unit_test(differences),
		cmocka_unit_test(what_is_no_dump),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
