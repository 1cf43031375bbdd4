/* Options as rows, and how those of `run` are laid over an analysis. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/path.h"
#include "base/str.h"
#include "cli/cli.h"

#define WORDS_MAX 64

struct words {
	char *v[WORDS_MAX];
	int n;
};

/* The command's name, then each word of a line (spaces part them). */
static struct words words_of(const char *line)
{
	struct words w = { .n = 1 };
	w.v[0] = xstrdup("run");
	while (*line) {
		size_t n = strcspn(line, " ");
		assert_true(w.n < WORDS_MAX - 1);
		w.v[w.n++] = xstrndup(line, n);
		line += n + (line[n] == ' ');
	}
	return w;
}

static void words_release(struct words *w)
{
	for (int i = 0; i < w->n; i++)
		free(w->v[i]);
}

/* The table of a made-up command. */
struct said {
	char log[200];
};

static int set_any(void *target, const struct option_row *row, const char *value, struct err *err)
{
	struct said *s = target;
	size_t used = strlen(s->log);
	if (value && str_eq(value, "bad"))
		return err_caller(err, "--%s: bad", row->name);
	(void)snprintf(s->log + used, sizeof(s->log) - used, "%s%d=%s ", row->name, row->number,
		       value ? value : "-");
	return 0;
}

static const struct option_row some_rows[] = {
	{ 'm', "memory", "SIZE", "memory", set_any, 1 },
	{ 0, "memory-low", "SIZE", "its name begins like the other's", set_any, 2 },
	{ 'q', "quiet", NULL, "no value", set_any, 3 },
};
static const struct options some = { some_rows, sizeof(some_rows) / sizeof(*some_rows) };

static void values_stand_in_every_usual_place(void **state)
{
	static const struct {
		const char *line, *log;
		int first;
		bool after_dashes;
	} rows[] = {
		{ "", "", 1, false },
		{ "--memory 2G", "memory1=2G ", 3, false },
		{ "--memory=2G", "memory1=2G ", 2, false },
		{ "-m 2G", "memory1=2G ", 3, false },
		{ "-m2G", "memory1=2G ", 2, false },
		{ "--memory-low=1", "memory-low2=1 ", 2, false },
		{ "--memory=a=b", "memory1=a=b ", 2, false },
		{ "--memory=", "memory1= ", 2, false },
		{ "--memory -- x", "memory1=-- ", 3, false }, /* a value is whatever comes */
		{ "-q --quiet x", "quiet3=- quiet3=- ", 3, false },
		{ "x --memory 2G", "", 1, false }, /* the first operand ends the options */
		{ "-q -- --memory 2G", "quiet3=- ", 3, true },
		{ "--", "", 2, true },
		{ "- --memory 2G", "", 1, false }, /* a lone dash is an operand */
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		CLEANUP(words_release) struct words w = words_of(rows[i].line);
		struct said s = { 0 };
		struct operands rest = { 0 };
		struct err err = { 0 };
		if (options_parse(&some, w.n, w.v, &s, &rest, &err) < 0)
			fail_msg("%s: %s", rows[i].line, err.text);
		assert_string_equal(s.log, rows[i].log);
		assert_int_equal(rest.first, rows[i].first);
		assert_int_equal(rest.after_dashes, rows[i].after_dashes);
	}
}

static void operands_may_stand_among_options(void **state)
{
	static const struct {
		const char *line, *log, *operands;
		bool after_dashes;
	} cases[] = {
		{ "", "", "", false },
		{ "a b", "", "a b ", false },
		{ "a -q b --memory 1 d", "quiet3=- memory1=1 ", "a b d ", false },
		{ "-q a", "quiet3=- ", "a ", false },
		{ "a -m2", "memory1=2 ", "a ", false },
		{ "a -q -- b -q", "quiet3=- ", "a b -q ", true },
		{ "a -- -q", "", "a -q ", true },
		{ "-- a", "", "a ", true },
		{ "a --", "", "a ", true },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		CLEANUP(words_release) struct words w = words_of(cases[i].line);
		struct said said = { 0 };
		struct operands rest = { 0 };
		struct err err = { 0 };
		char *v[WORDS_MAX];
		char seen[100] = "";
		memcpy(v, w.v, sizeof(*v) * (size_t)w.n);
		assert_int_equal(options_parse_mixed(&some, w.n, v, &said, &rest, &err), 0);
		for (int k = rest.first; k < w.n; k++)
			(void)snprintf(seen + strlen(seen), sizeof(seen) - strlen(seen), "%s ",
				       v[k]);
		for (int k = 0; k < w.n; k++) { /* each word is still there, once */
			int times = 0;
			for (int j = 0; j < w.n; j++)
				times += v[j] == w.v[k];
			assert_int_equal(times, 1);
		}
		assert_string_equal(said.log, cases[i].log);
		assert_string_equal(seen, cases[i].operands);
		assert_int_equal(rest.after_dashes, cases[i].after_dashes);
	}
}

static void mistakes_are_named(void **state)
{
	static const struct {
		const char *line, *words;
	} rows[] = {
		{ "--memry 2G", "did you mean --memory?" },
		{ "--memry=2G", "did you mean --memory?" },
		{ "--mem 2G", "no option --mem" }, /* no abbreviations */
		{ "--zzzzzzzz", "no option --zzzzzzzz; --help" },
		{ "-z", "no option -z" },
		{ "--memory", "--memory needs a value: SIZE" },
		{ "-m", "--memory needs a value: SIZE" },
		{ "--quiet=yes", "--quiet takes no value" },
		{ "-qm", "--quiet takes no value" },
		{ "--memory bad", "--memory: bad" },
		{ "--=x", "no option --=x" },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		CLEANUP(words_release) struct words w = words_of(rows[i].line);
		struct said s = { 0 };
		struct operands rest = { .first = 77 };
		struct err err = { 0 };
		assert_int_equal(options_parse(&some, w.n, w.v, &s, &rest, &err), -EINVAL);
		assert_int_equal(err.kind, ERR_CALLER);
		assert_int_equal(rest.first, 77);
		if (!strstr(err.text, rows[i].words))
			fail_msg("%s: %s", rows[i].line, err.text);
	}
}

static void help_is_asked_for_in_the_options_only(void **state)
{
	static const struct {
		const char *line;
		int result;
	} rows[] = { { "--help", -ECANCELED }, { "-h", -ECANCELED }, { "-q --help", -ECANCELED },
		     { "--memory --help", 0 }, { "x --help", 0 },    { "-- --help", 0 } };
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		CLEANUP(words_release) struct words w = words_of(rows[i].line);
		struct said s = { 0 };
		struct operands rest;
		assert_int_equal(options_parse(&some, w.n, w.v, &s, &rest, NULL), rows[i].result);
	}
}

/* The rows of `run`: each can be found, none twice, and every limit has one. */
static void the_table_of_run_is_whole(void **state)
{
	bool limits[LIMIT_COUNT_] = { 0 };
	assert_true(run_options.n_rows <= 64); /* what a mistake's message can compare with */
	for (size_t i = 0; i < run_options.n_rows; i++) {
		const struct option_row *row = &run_options.rows[i];
		assert_non_null(row->set);
		assert_true(row->help && *row->help);
		for (size_t j = 0; j < i; j++) {
			assert_string_not_equal(row->name, run_options.rows[j].name);
			assert_false(row->letter && row->letter == run_options.rows[j].letter);
		}
		assert_true(row->letter != 'h');
		CLEANUP_FREE char *key = xstrdup(row->name);
		for (char *c = key; *c; c++)
			*c = *c == '-' ? '_' : *c;
		int id = limit_find(key);
		if (id >= 0) {
			limits[id] = true;
			assert_int_equal(row->number, id);
		}
	}
	for (int id = 0; id < LIMIT_COUNT_; id++)
		if (!limits[id])
			fail_msg("no option for the limit %s", limit_infos[id].key);
}

/* Parses a line of `run` and puts the analysis together. */
static int parse(const char *line, struct analysis *ret, struct err *err)
{
	CLEANUP(words_release) struct words w = words_of(line);
	CLEANUP(run_args_release) struct run_args args = { 0 };
	struct operands rest = { 0 };
	int r = options_parse(&run_options, w.n, w.v, &args, &rest, err);
	return r < 0 ? r : run_args_analysis(&args, w.n, w.v, &rest, ret, err);
}

static void parse_ok(const char *line, struct analysis *ret)
{
	struct err err = { 0 };
	if (parse(line, ret, &err) < 0)
		fail_msg("%s: %s", line, err.text);
}

static void a_command_stands_behind_dashes(void **state)
{
	CLEANUP_ANALYSIS struct analysis a = { 0 };
	parse_ok("-m 2G -- prog.yaml --memory 1G", &a);
	assert_int_equal(a.code.n, 0);
	assert_int_equal(a.command.n, 3);
	assert_string_equal(a.command.v[0], "prog.yaml"); /* no file is read */
	assert_string_equal(a.command.v[2], "1G");
	assert_int_equal(a.limits.at[LIMIT_MEMORY].value, 2ULL << 30);
	assert_string_equal(a.limits.at[LIMIT_MEMORY].origin, "--memory");
}

static void a_script_takes_the_words_behind_it(void **state)
{
	CLEANUP_ANALYSIS struct analysis a = { 0 };
	CLEANUP_FREE char *cwd = path_cwd();
	CLEANUP_FREE char *script = path_join(cwd, "b.py");
	parse_ok("-q ./x/../b.py --memory 1G", &a);
	assert_int_equal(a.command.n, 0);
	assert_int_equal(a.code.n, 1);
	assert_string_equal(a.code.v[0], script);
	assert_int_equal(a.args.n, 2);
	assert_string_equal(a.args.v[0], "--memory");
	assert_int_equal(a.limits.at[LIMIT_MEMORY].value, 0);
}

static void each_option_sets_what_it_says(void **state)
{
	CLEANUP_ANALYSIS struct analysis a = { 0 };
	parse_ok(
		"--id r1 --name N --quest Q --profile tool --runtime base --label a=b=c --env X= "
		"--data /d/f.csv:g.csv -o out/*.csv -o r.txt --keep failed --network host "
		"--allow-missing landlock,disk --scratch memory --warn-signal HUP --warn 10s --cpus 1.5 -t 90s -- x",
		&a);
	assert_string_equal(a.id, "r1");
	assert_string_equal(a.name, "N");
	assert_string_equal(a.quest, "Q");
	assert_string_equal(a.profile, "tool");
	assert_string_equal(a.runtime, "base");
	assert_string_equal(a.runtime_origin, "--runtime");
	assert_string_equal(pairs_get(&a.labels, "a"), "b=c");
	assert_string_equal(pairs_get(&a.env, "X"), "");
	assert_int_equal(a.n_inputs, 1);
	assert_string_equal(a.inputs[0].path, "/d/f.csv");
	assert_string_equal(a.inputs[0].name, "g.csv");
	assert_int_equal(a.n_outputs, 2);
	assert_string_equal(a.outputs[1].pattern, "r.txt");
	assert_false(a.outputs[1].required);
	assert_true(a.keep_said && a.keep == KEEP_FAILED);
	assert_true(a.network_said && a.network == NETWORK_HOST);
	assert_int_equal(a.allow_missing.n, 2);
	assert_string_equal(a.allow_missing.v[1], "disk");
	assert_true(a.scratch_said && a.scratch == SCRATCH_MEMORY);
	assert_int_equal(a.warn_signal, SIGHUP);
	assert_int_equal(a.limits.at[LIMIT_CPUS].value, 1500);
	assert_int_equal(a.limits.at[LIMIT_TIME].value, 90000000000ULL);
}

static void bad_values_name_their_option(void **state)
{
	static const struct {
		const char *line, *words;
	} rows[] = {
		{ "--memory 2X -- x", "--memory" },
		{ "--memory -1 -- x", "--memory" },
		{ "--memory= -- x", "--memory" },
		{ "--time 0 -- x", "--time" },
		{ "--id= -- x", "--id is empty" },
		{ "--env =v -- x", "NAME=VALUE" },
		{ "--env novalue -- x", "novalue=VALUE" },
		{ "--label k -- x", "--label" },
		{ "--keep sometimes -- x", "never, failed or always" },
		{ "--network all -- x", "none or host" },
		{ "--allow-missing lndlock -- x", "--allow-missing" },
		{ "--allow-missing landlock,,disk -- x", "--allow-missing" },
		{ "--out ../x -- x", "--out" },
		{ "--out /x -- x", "--out" },
		{ "--warn-signal KILL -- x", "" },
		{ "", "nothing to run" },
		{ "--", "nothing to run" },
		{ "-q --", "nothing to run" },
		{ "a.yaml x", "after the analysis file" },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct analysis untouched = { .n_inputs = 77 };
		struct err err = { 0 };
		int r = parse(rows[i].line, &untouched, &err);
		if (r >= 0 || err.kind != ERR_CALLER || !strstr(err.text, rows[i].words))
			fail_msg("'%s': %d: %s", rows[i].line, r, err.text);
		assert_int_equal(untouched.n_inputs, 77);
	}
}

static void options_win_over_the_file(void **state)
{
	static const char text[] = "id: from-file\nname: file\nruntime: other\n"
				   "command: [prog]\n"
				   "limits: {memory: 1G, pids: 10}\n"
				   "inputs: [/d/a.csv]\n"
				   "outputs: [out/file.csv, out/more.csv]\n"
				   "env: {A: file, B: file}\n"
				   "keep: always\n";
	char dir[] = "/tmp/cupel-options-XXXXXX";
	assert_non_null(mkdtemp(dir));
	CLEANUP_FREE char *path = path_join(dir, "a.yaml");
	CLEANUP_FREE char *line = xasprintf("-m 2G --id r1 -r base -d /d/b.csv -o x.txt -e A=o "
					    "--keep never %s",
					    path);
	CLEANUP_ANALYSIS struct analysis a = { 0 };
	struct err err = { 0 };
	int wrote = fs_write_atomic(AT_FDCWD, path, text, sizeof(text) - 1, 0600, &err);
	int r = parse(line, &a, &err);
	(void)fs_remove_tree(AT_FDCWD, dir, NULL, NULL);
	if (wrote < 0 || r < 0)
		fail_msg("%s", err.text);
	assert_string_equal(a.file, path);
	assert_string_equal(a.id, "r1");
	assert_string_equal(a.name, "file"); /* what was not said stays */
	assert_string_equal(a.runtime, "base");
	assert_string_equal(a.runtime_origin, "--runtime");
	assert_int_equal(a.limits.at[LIMIT_MEMORY].value, 2ULL << 30);
	assert_int_equal(a.limits.at[LIMIT_PIDS].value, 10);
	assert_int_equal(a.n_inputs, 2); /* added to */
	assert_string_equal(a.inputs[1].path, "/d/b.csv");
	assert_int_equal(a.n_outputs, 1); /* replaced */
	assert_string_equal(a.outputs[0].pattern, "x.txt");
	assert_string_equal(pairs_get(&a.env, "A"), "o");
	assert_string_equal(pairs_get(&a.env, "B"), "file");
	assert_int_equal(a.keep, KEEP_NEVER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_stand_in_every_usual_place),
		cmocka_unit_test(operands_may_stand_among_options),
		cmocka_unit_test(mistakes_are_named),
		cmocka_unit_test(help_is_asked_for_in_the_options_only),
		cmocka_unit_test(the_table_of_run_is_whole),
		cmocka_unit_test(a_command_stands_behind_dashes),
		cmocka_unit_test(a_script_takes_the_words_behind_it),
		cmocka_unit_test(each_option_sets_what_it_says),
		cmocka_unit_test(bad_values_name_their_option),
		cmocka_unit_test(options_win_over_the_file),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
