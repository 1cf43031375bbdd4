/* Analysis files: what a good one becomes, and what each mistake is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "base/str.h"
#include "spec/analysis.h"

static int parse(const char *text, struct analysis *ret, struct err *err)
{
	return analysis_parse("/p/q/a.yaml", text, strlen(text), ret, err);
}

static void a_full_file_is_read(void **state)
{
	CLEANUP_ANALYSIS struct analysis a = { 0 };
	struct err err = { 0 };
	(void)state;

	int r = parse(
		"name: Reads \xe2\x86\x92 variants\nquest: q1\nruntime: single-cell\nid: run-1\n"
		"code: [main.py, ../lib/help.py]\nargs: [--fast, '', 3]\n"
		"inputs:\n  - reads.fq\n  - /d/x.csv:table.csv\n  - {path: 'a:b', name: ab}\n"
		"outputs:\n  - out/*.csv\n"
		"  - {path: out/fig.png, required: true, media_type: image/png}\n"
		"env: {A: 1, B_2: 'x y', EMPTY: ''}\n"
		"limits: {memory: 1.5G, cpus: 1.5, time: 30m, pids: 64, warn: 1m}\n"
		"network: host\nprofile: notebook\nlabels: {team: blue}\nkeep: failed\n"
		"scratch: memory\nwarn_signal: SIGUSR2\nallow_missing: [landlock, disk]\n"
		"checkpoint: saved\ncheckpoint_exit_code: 85\n",
		&a, &err);
	if (r < 0)
		fail_msg("%s", err.text);
	assert_string_equal(a.file, "/p/q/a.yaml");
	assert_string_equal(a.id, "run-1");
	assert_string_equal(a.runtime, "single-cell");
	assert_string_equal(a.runtime_origin, "/p/q/a.yaml:3:10");
	assert_string_equal(a.code.v[0], "/p/q/main.py");
	assert_string_equal(a.code.v[1], "/p/lib/help.py");
	assert_int_equal(a.args.n, 3);
	assert_string_equal(a.args.v[1], "");
	assert_string_equal(a.args.v[2], "3");
	assert_int_equal(a.n_inputs, 3);
	assert_string_equal(a.inputs[0].path, "/p/q/reads.fq");
	assert_string_equal(a.inputs[0].name, "reads.fq");
	assert_string_equal(a.inputs[0].origin, "/p/q/a.yaml:8:5");
	assert_string_equal(a.inputs[1].path, "/d/x.csv");
	assert_string_equal(a.inputs[1].name, "table.csv");
	assert_string_equal(a.inputs[2].path, "/p/q/a:b");
	assert_int_equal(a.n_outputs, 2);
	assert_false(a.outputs[0].required);
	assert_true(a.outputs[1].required);
	assert_string_equal(a.outputs[1].media_type, "image/png");
	assert_string_equal(pairs_get(&a.env, "B_2"), "x y");
	assert_string_equal(pairs_get(&a.env, "EMPTY"), "");
	assert_string_equal(pairs_get(&a.labels, "team"), "blue");
	assert_int_equal(a.limits.at[LIMIT_MEMORY].value, 1536ULL << 20);
	assert_int_equal(a.limits.at[LIMIT_CPUS].value, 1500);
	assert_string_equal(a.limits.at[LIMIT_PIDS].origin, "/p/q/a.yaml:15");
	assert_true(a.network_said && a.network == NETWORK_HOST);
	assert_true(a.keep_said && a.keep == KEEP_FAILED);
	assert_int_equal(a.warn_signal, SIGUSR2);
	assert_true(a.scratch_said && a.scratch == SCRATCH_MEMORY);
	assert_string_equal(a.checkpoint, "saved");
	assert_int_equal(a.checkpoint_exit_code, 85);
	assert_int_equal(a.allow_missing.n, 2);
}

static void commands_have_two_forms(void **state)
{
	CLEANUP_ANALYSIS struct analysis a = { 0 }, b = { 0 };
	(void)state;

	assert_int_equal(parse("command: echo 'a b' | wc\n", &a, NULL), 0);
	assert_int_equal(a.command.n, 1);
	assert_true(a.command_is_text);
	assert_string_equal(a.command.v[0], "echo 'a b' | wc");
	assert_int_equal(a.shell.n, 0);
	assert_int_equal(parse("command: [echo, a b]\n", &b, NULL), 0);
	assert_int_equal(b.command.n, 2);
	assert_string_equal(b.command.v[1], "a b");
	assert_false(b.command_is_text);
}

static void shells(void **state)
{
	static const struct {
		const char *text, *words;
	} good[] = {
		{ "command: x\nshell: sh\n", "/bin/sh -c" },
		{ "command: x\nshell: bash\n", "bash -euo pipefail -c" },
		{ "command: x\nshell: /bin/dash\n", "/bin/dash -c" },
		{ "command: x\nshell: [bash, -c]\n", "bash -c" },
	};
	static const struct {
		const char *text, *words;
	} bad[] = {
		{ "command: [x]\nshell: sh\n", ":2:8: no shell reads a command that is a list" },
		{ "code: /x.py\nshell: sh\n", ":2:8: no shell reads code" },
		{ "command: x\nshell: bash -e\n", ":2:8: 'bash -e' is not the name of a program" },
		{ "command: x\nshell: []\n", ":2:8: the list is empty" },
		{ "command: x\nshell: ['']\n", ":2:8: the first word must name a program" },
		{ "command: x\nshell: {a: b}\n", ":2:8: " },
	};
	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		CLEANUP_ANALYSIS struct analysis a = { 0 };
		CLEANUP_STR struct str words = { 0 };
		assert_int_equal(parse(good[i].text, &a, NULL), 0);
		for (size_t k = 0; k < a.shell.n; k++)
			str_addf(&words, "%s%s", k ? " " : "", a.shell.v[k]);
		assert_string_equal(str_text(&words), good[i].words);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		CLEANUP_ANALYSIS struct analysis a = { 0 };
		struct err err = { 0 };
		if (parse(bad[i].text, &a, &err) >= 0 || !strstr(err.text, bad[i].words))
			fail_msg("%s: %s", bad[i].text, err.text);
	}
}

static void what_nobody_said_is_completed(void **state)
{
	CLEANUP_ANALYSIS struct analysis a = { 0 };
	struct limits limits = { 0 };
	(void)state;

	assert_int_equal(parse("command: [x]\n", &a, NULL), 0);
	assert_int_equal(a.n_outputs, 0);
	limits_set(&limits, LIMIT_WARN, 1000, "test");
	analysis_complete(&a, &limits);
	assert_int_equal(a.n_outputs, 1);
	assert_string_equal(a.outputs[0].pattern, "out/**");
	assert_false(a.outputs[0].required);
	assert_int_equal(a.warn_signal, SIGUSR1);
}

/* X is "command: [x]", so that the mistake is on line 2. */
#define X "command: [x]\n"

static const struct {
	const char *text, *place, *words;
} mistakes[] = {
	{ "", "", "nothing to run" },
	{ "name: a\n", ":1:1: ", "nothing to run" },
	{ "- a\n", ":1:1: ", "expected a map" },
	{ X "code: a.py\n", ":2:7: ", "both code and command" },
	{ X "args: [a]\n", ":2:7: ", "arguments of code" },
	{ X "comand: [y]\n", ":2:1: ", "did you mean 'command'?" },
	{ X X, ":2:1: ", "first at line 1 column 1" },
	{ X "name:\n", ":2:1: ", "is empty" },
	{ X "name: null\n", ":2:1: ", "is empty" },
	{ X "name: ''\n", ":2:7: ", "1 to 256 bytes" },
	{ X "name: \"a\\nb\"\n", ":2:7: ", "control characters" },
	{ X "quest: \"a\\u009bb\"\n", ":2:8: ", "control characters" },
	{ X "quest: [a]\n", ":2:8: ", "found a list" },
	{ X "runtime: ../../etc\n", ":2:10: ", "not the name of a runtime" },
	{ X "runtime: ..\n", ":2:10: ", "not the name of a runtime" },
	{ X "profile: a/b\n", ":2:10: ", "not the name of a profile" },
	{ X "id: ../../etc/passwd\n", ":2:5: ", "not allowed" },
	{ X "id: \"a\\nb\"\n", ":2:5: ", "not allowed" },
	{ X "id: r\xd1\x83n\n", ":2:5: ", "not allowed" },
	{ "code: []\n", ":1:7: ", "list is empty" },
	{ "code: {a: b}\n", ":1:7: ", "found a map" },
	{ "code: ''\n", ":1:7: ", "not a usable path" },
	{ "code: /\n", ": ", "no usable file name" },
	{ "code: ../../../../x.py\n", ":1:7: ", "not a usable path" },
	{ "code: [a.py, d/a.py]\n", ": ", "two files of code" },
	{ "command: []\n", ":1:10: ", "list is empty" },
	{ "command: ['', a]\n", ": ", "command is empty" },
	{ "command: ''\n", ":1:10: ", "command is empty" },
	{ "command: [a, {b: c}]\n", ":1:14: ", "found a map" },
	{ "command: \"a\\0b\"\n", ":1:10: ", "NUL" },
	{ X "inputs: a\n", ":2:9: ", "expected a list" },
	{ X "inputs: ['']\n", ":2:10: ", "no path" },
	{ X "inputs: [':n']\n", ":2:10: ", "no path" },
	{ X "inputs: ['a:']\n", ":2:10: ", "no usable name" },
	{ X "inputs: ['a:..']\n", ":2:10: ", "no usable name" },
	{ X "inputs: ['/etc:../../x']\n", ":2:10: ", "no usable name" },
	{ X "inputs: [\"a:b\\nc\"]\n", ":2:10: ", "no usable name" },
	{ X "inputs: [/]\n", ":2:10: ", "no usable name" },
	{ X "inputs: [../../../..]\n", ":2:10: ", "not a usable path" },
	{ X "inputs: [a/x, b/x]\n", "", "taken already by /p/q/a.yaml:2:10" },
	{ X "inputs: [{name: x}]\n", ":2:10: ", "needs a path" },
	{ X "inputs: [{path: x, name: a/b}]\n", ":2:26: ", "one path component" },
	{ X "inputs: [{path: x, nmae: b}]\n", ":2:20: ", "did you mean 'name'?" },
	{ X "outputs: [/etc/passwd]\n", ":2:11: ", "relative" },
	{ X "outputs: [out/../../x]\n", ":2:11: ", "'..'" },
	{ X "outputs: ['..']\n", ":2:11: ", "'..'" },
	{ X "outputs: [./x]\n", ":2:11: ", "'.'" },
	{ X "outputs: [out/]\n", ":2:11: ", "component" },
	{ X "outputs: ['']\n", ":2:11: ", "empty" },
	{ X "outputs: [{required: true}]\n", ":2:11: ", "needs a path" },
	{ X "outputs: [{path: x, required: yes}]\n", ":2:31: ", "true or false" },
	{ X "outputs: [{path: x, media_type: csv}]\n", ":2:33: ", "media type" },
	{ X "env: [A=b]\n", ":2:6: ", "expected a map" },
	{ X "env: {1A: b}\n", ":2:7: ", "not the name of a variable" },
	{ X "env: {A=B: b}\n", ":2:7: ", "not the name of a variable" },
	{ X "env: {'': b}\n", ":2:7: ", "not the name of a variable" },
	{ X "env: {\xd0\x90: b}\n", ":2:7: ", "not the name of a variable" },
	{ X "env: {CUPEL_RUN_ID: b}\n", ":2:7: ", "reserved" },
	{ X "env: {A: ~}\n", ":2:10: ", "is empty" },
	{ X "env: {A: [b]}\n", ":2:10: ", "found a list" },
	{ X "labels: {a: \"\\e[2J\"}\n", ":2:13: ", "control characters" },
	{ X "limits: {memory: 0}\n", ":2:18: ", "memory: " },
	{ X "limits: {memory: -1G}\n", ":2:18: ", "memory: " },
	{ X "limits: {memory: .nan}\n", ":2:18: ", "memory: " },
	{ X "limits: {cpus: NaN}\n", ":2:16: ", "cpus: " },
	{ X "limits: {time: .inf}\n", ":2:16: ", "time: " },
	{ X "limits: {pids: 99999999999999999999}\n", ":2:16: ", "pids: " },
	{ X "limits: {memory: 99999999999999G}\n", ":2:18: ", "memory: " },
	{ X "limits: {mem: 1G}\n", ":2:10: ", "unknown limit 'mem'" },
	{ X "limits: [memory]\n", ":2:9: ", "map of limits" },
	{ X "network: all\n", ":2:10: ", "known: none, host" },
	{ X "keep: alway\n", ":2:7: ", "did you mean 'always'?" },
	{ X "scratch: ram\n", ":2:10: ", "memory" },
	{ X "warn_signal: SIGKILL\n", ":2:14: ", "not a warning signal" },
	{ X "warn_signal: 9\n", ":2:14: ", "not a warning signal" },
	{ X "checkpoint: a/b\n", ":2:13: ", "no '/'" },
	{ X "checkpoint: ..\n", ":2:13: ", "not the name" },
	{ X "checkpoint: data\n", ":2:13: ", "something else" },
	{ X "checkpoint: [a]\n", ":2:13: ", "found a list" },
	{ X "checkpoint_exit_code: 85\n", ": ", "without a checkpoint" },
	{ X "checkpoint: a\ncheckpoint_exit_code: 0\n", ":3:23: ", "1 to 125" },
	{ X "checkpoint: a\ncheckpoint_exit_code: 126\n", ":3:23: ", "1 to 125" },
	{ X "checkpoint: a\noutputs: [a/x]\n", ": ", "nothing is collected" },
	{ X "allow_missing: landlock\n", ":2:16: ", "expected a list" },
	{ X "allow_missing: [mount]\n", ":2:17: ", "never optional" },
	{ X "allow_missing: [disk, pid]\n", ":2:23: ", "never optional" },
	{ X "allow_missing: [landlok]\n", ":2:17: ", "did you mean 'landlock'?" },
	{ X "name: &a [*a]\n", ":2:11: ", "inside what it refers to" },
	{ X "name: !!str x\n", ":2:7: ", "tag" },
};

static void every_mistake_has_its_place(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
		CLEANUP_FREE char *place = xasprintf("/p/q/a.yaml%s", mistakes[i].place);
		struct analysis a = { .n_inputs = 77 };
		struct err err = { 0 };
		if (parse(mistakes[i].text, &a, &err) != -EINVAL)
			fail_msg("accepted: %s", mistakes[i].text);
		if (!str_starts(err.text, place) || !strstr(err.text, mistakes[i].words))
			fail_msg("%s: got '%s'", mistakes[i].text, err.text);
		assert_int_equal(err.kind, ERR_CALLER);
		assert_null(strpbrk(err.text, "\x1b\n"));
		assert_int_equal(a.n_inputs, 77); /* untouched on failure */
	}
}

static void refused_list(const char *head, const char *format, int n, const char *words)
{
	CLEANUP_STR struct str text = { 0 };
	struct analysis a = { 0 };
	struct err err = { 0 };

	str_add(&text, head);
	for (int i = 0; i < n; i++) {
		str_add(&text, format);
		str_addf(&text, "%d\n", i);
	}
	assert_int_equal(parse(str_text(&text), &a, &err), -EINVAL);
	if (!strstr(err.text, words))
		fail_msg("%s: got '%s'", head, err.text);
}

static void lists_are_capped(void **state)
{
	(void)state;
	refused_list(X "inputs:\n", " - f", ANALYSIS_INPUTS_MAX + 1, "at most 4000");
	refused_list(X "outputs:\n", " - f", ANALYSIS_OUTPUTS_MAX + 1, "at most 1000");
	refused_list("code: x\nargs:\n", " - ", ANALYSIS_ARGS_MAX + 1, "at most 4096");
	refused_list("code:\n", " - f", ANALYSIS_ARGS_MAX + 1, "at most 4096");
}

static void many_variables_are_refused(void **state)
{
	CLEANUP_STR struct str text = { 0 };
	struct analysis a = { 0 };
	struct err err = { 0 };
	(void)state;

	str_add(&text, X "env:\n");
	for (int i = 0; i <= ANALYSIS_ENV_MAX; i++)
		str_addf(&text, "  V%d: x\n", i);
	assert_int_equal(parse(str_text(&text), &a, &err), -EINVAL);
	assert_non_null(strstr(err.text, "at most 1000"));
}

static void long_texts_are_refused(void **state)
{
	CLEANUP_FREE char *big = xmalloc(ANALYSIS_STRING_MAX + 1);
	static const char *const heads[] = { X "name: ", X "id: ", X "runtime: ", X "inputs:\n - ",
					     X "outputs:\n - " };
	(void)state;

	memset(big, 'a', ANALYSIS_STRING_MAX);
	big[5000] = '\0';
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		CLEANUP_FREE char *text = xasprintf("%s%s\n", heads[i], big);
		struct analysis a = { 0 };
		struct err err = { 0 };
		assert_int_equal(parse(text, &a, &err), -EINVAL);
		assert_true(strlen(err.text) < 400);
	}
	/* at the kernel's own edge: NAME=VALUE and its NUL no longer fit */
	big[5000] = 'a';
	big[ANALYSIS_STRING_MAX - 3] = '\0';
	struct analysis a = { 0 };
	strv_add(&a.command, "x");
	pairs_set(&a.env, "A", big);
	assert_int_equal(analysis_check(&a, NULL), 0);
	pairs_set(&a.env, "A", "short");
	pairs_set(&a.env, "AB", big);
	assert_int_equal(analysis_check(&a, NULL), -EINVAL);
	analysis_release(&a);
}

static void files_are_read_relative_to_themselves(void **state)
{
	char dir[] = "/tmp/cupel-test-analysis-XXXXXX";
	CLEANUP_ANALYSIS struct analysis a = { 0 };
	struct err err = { 0 };
	(void)state;

	assert_non_null(mkdtemp(dir));
	CLEANUP_FREE char *file = path_join(dir, "a.yaml"), *link = path_join(dir, "l.yaml");
	CLEANUP_FREE char *fifo = path_join(dir, "fifo"), *code = path_join(dir, "m.py");
	int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "code: m.py\n", 11), 11);
	assert_int_equal(symlink("a.yaml", link), 0);
	assert_int_equal(mkfifo(fifo, 0600), 0);

	assert_int_equal(analysis_read(link, &a, &err), 0);
	assert_string_equal(a.code.v[0], code);
	assert_true(analysis_read(fifo, &a, &err) < 0); /* and does not block */
	assert_int_equal(err.kind, ERR_CALLER);
	assert_true(analysis_read(dir, &a, &err) < 0);
	assert_int_equal(ftruncate(fd, ANALYSIS_FILE_MAX + 1), 0);
	assert_int_equal(analysis_read(file, &a, &err), -EFBIG);
	assert_int_equal(ftruncate(fd, 100LL << 30), 0); /* sparse: costs nothing to make */
	assert_int_equal(analysis_read(file, &a, &err), -EFBIG);
	assert_int_equal(err.kind, ERR_CALLER);
	(void)close(fd);
	(void)unlink(file);
	(void)unlink(link);
	(void)unlink(fifo);
	assert_int_equal(analysis_read(file, &a, &err), -ENOENT);
	assert_int_equal(err.kind, ERR_CALLER);
	(void)rmdir(dir);
}

static void pairs_replace_equal_keys(void **state)
{
	struct pairs pairs = { 0 };
	(void)state;

	pairs_set(&pairs, "a", "1");
	pairs_set(&pairs, "b", "2");
	pairs_set(&pairs, "a", pairs_get(&pairs, "a"));
	pairs_set(&pairs, "a", "3");
	assert_int_equal(pairs.n, 2);
	assert_string_equal(pairs_get(&pairs, "a"), "3");
	assert_null(pairs_get(&pairs, "c"));
	pairs_release(&pairs);
	pairs_release(&pairs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_full_file_is_read),
		cmocka_unit_test(commands_have_two_forms),
		cmocka_unit_test(shells),
		cmocka_unit_test(what_nobody_said_is_completed),
		cmocka_unit_test(every_mistake_has_its_place),
		cmocka_unit_test(lists_are_capped),
		cmocka_unit_test(many_variables_are_refused),
		cmocka_unit_test(long_texts_are_refused),
		cmocka_unit_test(files_are_read_relative_to_themselves),
		cmocka_unit_test(pairs_replace_equal_keys),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
