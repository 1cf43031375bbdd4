/* cupel completion SHELL: made from the same rows as help, so it cannot fall behind. Names of runs, runtimes and executors are asked for when
 * they are wanted: `cupel completion --names KIND`. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "runtime/catalog.h"
#include "spec/id.h"
#include "view/pipeline_view.h"
#include "view/runs_query.h"

#define NAMES_MAX 500 /* of runs, the newest */

static const char *const kind_names[COMPLETE_COUNT_] = {
	[COMPLETE_RUNS] = "runs",
	[COMPLETE_RUNTIMES] = "runtimes",
	[COMPLETE_EXECUTORS] = "executors",
};

/* A shell expands the words that bash's compgen is given, and a project can have files of any name. */
static void print_name(const char *name)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+";
	if (name && *name && *name != '-' && strspn(name, plain) == strlen(name))
		printf("%s\n", name);
}

static void print_ids(const json_t *rows)
{
	size_t i;
	json_t *row;
	json_array_foreach(rows, i, row)
	{
		print_name(json_string_value(json_object_get(row, "id")));
	}
}

static int print_runs(const struct config *c, struct err *err)
{
	const struct runs_query wanted = { .limit = NAMES_MAX };
	const struct pipelines_query newest = { .viewer = &viewer_all, .limit = NAMES_MAX };
	CLEANUP_RUNS struct runs *runs = NULL;
	CLEANUP_JSON json_t *pipelines = NULL;
	int r = runs_open(c, &wanted, &runs, err);
	for (bool is_over = false; r >= 0 && !is_over;) {
		CLEANUP_JSON json_t *page = NULL;
		r = runs_next(runs, &page, err);
		is_over = r < 0 || !json_array_size(page);
		print_ids(page);
	}
	if (r >= 0)
		r = pipelines_json(c, &newest, &pipelines, err);
	print_ids(pipelines);
	return r;
}

static int print_runtimes(const struct config *c, struct err *err)
{
	CLEANUP_CATALOG struct catalog catalog = { 0 };
	int r = catalog_read(c, &catalog, err);
	for (size_t i = 0; r >= 0 && i < catalog.n; i++)
		print_name(catalog.v[i].name);
	return r;
}

/* Whoever presses a key wants no message: what cannot be told is left out. */
static int print_names(const char *kind)
{
	CLEANUP_CONFIG struct config c = { 0 };
	struct err unused = { 0 };
	if (config_read(&(struct config_where){ 0 }, &c, &unused) < 0)
		return 1;
	if (str_eq(kind, kind_names[COMPLETE_RUNS]))
		return print_runs(&c, &unused) < 0;
	if (str_eq(kind, kind_names[COMPLETE_RUNTIMES]))
		return print_runtimes(&c, &unused) < 0;
	print_name("local");
	for (size_t i = 0; i < c.n_executors; i++)
		print_name(c.executors[i].name);
	return 0;
}

/* What the value of an option names. */
static enum complete value_of(const struct option_row *row)
{
	if (!row->metavar)
		return COMPLETE_NOTHING;
	if (str_eq(row->name, "runtime"))
		return COMPLETE_RUNTIMES;
	if (str_eq(row->name, "executor"))
		return COMPLETE_EXECUTORS;
	if (str_eq(row->name, "after"))
		return COMPLETE_RUNS;
	return COMPLETE_FILES;
}

static void print_options(const struct command *c)
{
	for (size_t i = 0; i < c->options->n_rows; i++)
		printf("--%s ", c->options->rows[i].name);
	printf("--help");
}

/* Of one command: its options, what its operands name, and what the values of its options do. */
static void print_bash_words(const struct command *c, const char *indent)
{
	printf("words=\"");
	print_options(c);
	printf("\"");
	if (c->operands != COMPLETE_FILES)
		printf(" kind=%s",
		       c->operands == COMPLETE_NOTHING ? "nothing" : kind_names[c->operands]);
	bool is_first = true;
	for (size_t i = 0; i < c->options->n_rows; i++) {
		const struct option_row *row = &c->options->rows[i];
		enum complete value = value_of(row);
		if (value == COMPLETE_NOTHING)
			continue;
		printf("%s--%s", is_first ? "; case $option in " : " ", row->name);
		if (row->letter)
			printf("|-%c", row->letter);
		printf(") kind=%s;;", value == COMPLETE_FILES ? "files" : kind_names[value]);
		is_first = false;
	}
	printf("%s ;;\n%s", is_first ? "" : " esac", indent);
}

/* The words of a command that has commands of its own, then the options of each of those. */
static void print_bash_subs(const struct command *c)
{
	printf("\t\t%s) if [ \"$COMP_CWORD\" -eq 2 ]; then plain=1 words=\"", c->name);
	for (size_t i = 0; i < c->n_subs; i++)
		printf("%s ", cli_word(c->subs[i]));
	printf("--help\"\n\t\t\telse case ${COMP_WORDS[2]} in\n");
	for (size_t i = 0; i < c->n_subs; i++) {
		printf("\t\t\t\t%s) ", cli_word(c->subs[i]));
		print_bash_words(c->subs[i], "");
	}
	printf("\t\t\tesac; fi ;;\n");
}

static void print_bash(void)
{
	/* An option and its value may have '=' between them, which bash makes a word of. */
	printf("# bash completion for cupel\n_cupel() {\n"
	       "\tlocal word=${COMP_WORDS[COMP_CWORD]} words= plain= kind= option=\n"
	       "\t[ \"$COMP_CWORD\" -gt 1 ] && option=${COMP_WORDS[COMP_CWORD-1]}\n"
	       "\t[[ $word == = ]] && word=\n"
	       "\t[[ $option == = ]] && option=${COMP_WORDS[COMP_CWORD-2]}\n"
	       "\tif [ \"$COMP_CWORD\" -eq 1 ]; then\n\t\tplain=1 words=\"");
	for (size_t i = 0; i < n_commands; i++)
		printf("%s ", commands[i]->name);
	printf("help --help --version\"\n\telse case ${COMP_WORDS[1]} in\n\t\thelp) plain=1 words=\"");
	for (size_t i = 0; i < n_commands; i++)
		printf("%s ", commands[i]->name);
	printf("\" ;;\n");
	for (size_t i = 0; i < n_commands; i++) {
		if (commands[i]->n_subs) {
			print_bash_subs(commands[i]);
			continue;
		}
		printf("\t\t%s) ", commands[i]->name);
		print_bash_words(commands[i], "");
	}
	printf("\tesac; fi\n"
	       "\tif [[ $word == -* || $plain ]]; then COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
	       "\telif [[ $kind == nothing ]]; then COMPREPLY=()\n"
	       "\telif [[ $kind && $kind != files ]]; then\n"
	       "\t\tCOMPREPLY=($(compgen -W \"$(\"${COMP_WORDS[0]}\" completion --names \"$kind\" 2>/dev/null)\" -- \"$word\"))\n"
	       "\telse compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- \"$word\")); fi\n}\n"
	       "complete -F _cupel cupel\n");
}

/* The action of _arguments for what is named. */
static void print_zsh_action(enum complete what)
{
	if (what == COMPLETE_NOTHING)
		printf(": ");
	else if (what == COMPLETE_FILES)
		printf("_files");
	else
		printf("_cupel_names %s", kind_names[what]);
}

static void print_zsh_arguments(const struct command *c)
{
	printf("%s) _arguments", cli_word(c));
	for (size_t i = 0; i < c->options->n_rows; i++) {
		const struct option_row *row = &c->options->rows[i];
		if (!row->metavar) {
			printf(" '--%s'", row->name);
			continue;
		}
		printf(" '--%s=:%s:", row->name, row->name);
		print_zsh_action(value_of(row));
		printf("'");
		if (row->letter && value_of(row) != COMPLETE_FILES) {
			printf(" '-%c+:%s:", row->letter, row->name);
			print_zsh_action(value_of(row));
			printf("'");
		}
	}
	printf(" '--help' '*:operand:");
	print_zsh_action(c->operands);
	printf("' ;;\n");
}

/* _arguments counts from the words of the command itself, so those before it are taken away. */
static void print_zsh_subs(const struct command *c)
{
	printf("\t\t%s) if (( CURRENT == 3 )); then compadd", c->name);
	for (size_t i = 0; i < c->n_subs; i++)
		printf(" %s", cli_word(c->subs[i]));
	printf("; return; fi\n\t\t\tshift words; (( CURRENT-- )); case $words[2] in\n");
	for (size_t i = 0; i < c->n_subs; i++) {
		printf("\t\t\t\t");
		print_zsh_arguments(c->subs[i]);
	}
	printf("\t\t\tesac ;;\n");
}

static void print_zsh(void)
{
	printf("#compdef cupel\n_cupel_names() {\n"
	       "\tlocal -a names=(${(f)\"$(cupel completion --names $1 2>/dev/null)\"})\n\tcompadd -a names\n}\n"
	       "_cupel() {\n\tlocal -a commands=(\n\t\t'help:help'\n");
	for (size_t i = 0; i < n_commands; i++)
		printf("\t\t'%s:%s'\n", commands[i]->name, commands[i]->name);
	printf("\t)\n\tif (( CURRENT == 2 )); then _describe command commands; return; fi\n"
	       "\tcase $words[2] in\n\t\thelp) _describe command commands ;;\n");
	for (size_t i = 0; i < n_commands; i++) {
		if (commands[i]->n_subs) {
			print_zsh_subs(commands[i]);
			continue;
		}
		printf("\t\t");
		print_zsh_arguments(commands[i]);
	}
	printf("\tesac\n}\n_cupel \"$@\"\n");
}

static void print_fish_values(enum complete what)
{
	if (what == COMPLETE_NOTHING)
		printf(" -f");
	else if (what != COMPLETE_FILES)
		printf(" -f -a '(cupel completion --names %s)'", kind_names[what]);
}

static void print_fish_command(const struct command *c, const struct command *parent)
{
	CLEANUP_FREE char *first =
		parent ? xasprintf("__fish_seen_subcommand_from %s; and ", parent->name) : NULL;
	CLEANUP_FREE char *seen =
		xasprintf("%s__fish_seen_subcommand_from %s", first ? first : "", cli_word(c));
	for (size_t i = 0; i < c->options->n_rows; i++) {
		const struct option_row *row = &c->options->rows[i];
		printf("complete -c cupel -n '%s' -l %s", seen, row->name);
		if (row->letter)
			printf(" -s %c", row->letter);
		if (row->metavar) {
			printf(" -r");
			print_fish_values(value_of(row));
		}
		printf("\n");
	}
	if (!c->n_subs && c->operands != COMPLETE_FILES) {
		printf("complete -c cupel -n '%s'", seen);
		print_fish_values(c->operands);
		printf("\n");
	}
}

static void print_fish(void)
{
	printf("complete -c cupel -n __fish_use_subcommand -a help\n");
	for (size_t i = 0; i < n_commands; i++) {
		const struct command *c = commands[i];
		printf("complete -c cupel -n __fish_use_subcommand -a %s\n", c->name);
		printf("complete -c cupel -n '__fish_seen_subcommand_from help' -f -a %s\n",
		       c->name);
		print_fish_command(c, NULL);
		for (size_t k = 0; k < c->n_subs; k++) {
			printf("complete -c cupel -n '__fish_seen_subcommand_from %s' -a %s\n",
			       c->name, cli_word(c->subs[k]));
			print_fish_command(c->subs[k], c);
		}
	}
}

static int set_names(void *target, const struct option_row *row, const char *value, struct err *err)
{
	for (int i = 0; i < COMPLETE_COUNT_; i++)
		if (kind_names[i] && str_eq(value, kind_names[i])) {
			*(const char **)target = value;
			return 0;
		}
	return err_caller(err, "--names takes runs, runtimes or executors, not '%.60s'", value);
}

static const struct option_row rows[] = {
	{ 0, "names", "KIND", "print names for a script: runs, runtimes or executors", set_names,
	  0 },
};
static const struct options completion_options = { rows, sizeof rows / sizeof *rows, NULL };

static int main_completion(const struct command *self, int argc, char **argv)
{
	struct operands rest;
	struct err err = { 0 };
	const char *names = NULL;
	int r = cli_parse(self, argc, argv, &names, &rest, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	const char *shell = rest.first < argc ? argv[rest.first] : "";
	if (names)
		return print_names(names);
	if (str_eq(shell, "bash"))
		print_bash();
	else if (str_eq(shell, "zsh"))
		print_zsh();
	else if (str_eq(shell, "fish"))
		print_fish();
	else {
		(void)err_caller(&err, "name the shell: cupel completion bash, zsh or fish");
		return cli_fail(&err);
	}
	return 0;
}

const struct command command_completion = {
	.name = "completion",
	.usage = "(bash | zsh | fish)",
	.summary = "print the completion script of a shell",
	.operands = COMPLETE_NOTHING,
	.options = &completion_options,
	.main = main_completion,
};
