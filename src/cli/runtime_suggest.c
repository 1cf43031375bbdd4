/* cupel runtime suggest: which runtime a script would get, by which rule, and why not another. Runs nothing. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/path.h"
#include "cli/runtime.h"
#include "cli/simple.h"
#include "runtime/select.h"

static int read_operand(const char *operand, struct analysis *ret, struct err *err)
{
	if (str_ends(operand, ".yaml") || str_ends(operand, ".yml")) {
		int r = analysis_read(operand, ret, err);
		if (r < 0 || !ret->code.n)
			return r;
	} else {
		strv_add(&ret->code, operand);
	}
	/* As `run` does it: links are followed once. */
	for (size_t i = 0; i < ret->code.n; i++) {
		char *real = path_real(ret->code.v[i]);
		if (!real)
			return err_set(err, ERR_CALLER, errno, "the script %s: %s", ret->code.v[i],
				       strerrordesc_np(errno));
		free(ret->code.v[i]);
		ret->code.v[i] = real;
	}
	return 0;
}

static void print_line(const char *key, const char *text)
{
	CLEANUP_FREE char *shown = str_visible(text);
	printf("%-10s%s\n", key, shown);
}

static void print_selection(const struct selection *s)
{
	print_line("runtime", s->name);
	print_line("rule", select_rule_names[s->rule]);
	print_line("why", s->why);
	for (size_t i = 0; i < s->requires.n; i++)
		print_line(i ? "" : "requires", s->requires.v[i]);
	for (int i = 0; i < LIMIT_COUNT_; i++) {
		char value[64];
		if (s->limits.at[i].value)
			printf("%-10s%s %s\n", "limit", limit_infos[i].key,
			       limit_write(i, s->limits.at[i].value, value, sizeof value));
	}
	for (size_t i = 0; i < s->n_considered; i++) {
		CLEANUP_FREE char *name = str_visible(s->considered[i].name);
		CLEANUP_FREE char *why = str_visible(s->considered[i].why_not);
		printf("%-10s%-16s %s\n", i ? "" : "not", name, why);
	}
}

static int main_suggest(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config config = { 0 };
	CLEANUP_ANALYSIS struct analysis analysis = { 0 };
	CLEANUP_SELECTION struct selection selection = { 0 };
	struct simple_args args = { 0 };
	struct runtime_words words = { 0 };
	struct err err = { 0 };
	struct runtime_begin how = { .self = self, .target = &args, .min = 1, .max = 1 };
	int r = runtime_begin(&how, argc, argv, &words, &config, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	r = read_operand(words.v[0], &analysis, &err);
	if (r >= 0)
		r = runtime_suggest(&config, &analysis, &selection, &err);
	if (r < 0)
		return cli_fail(&err);
	if (!args.json) {
		print_selection(&selection);
		return 0;
	}
	runtime_print_json(selection_json(&selection));
	return 0;
}

const struct command command_runtime_suggest = {
	.name = "runtime suggest",
	.usage = "[--json] (SCRIPT | ANALYSIS.yaml)",
	.summary = "which runtime this would run in, by which rule, and why not in another",
	.options = &simple_options,
	.main = main_suggest,
};
