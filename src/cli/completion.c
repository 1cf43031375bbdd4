/* cupel completion SHELL: made from the same rows as help, so it cannot fall behind. */
#include <stdio.h>

#include "base/str.h"
#include "cli/cli.h"

static void print_options(const struct command *c)
{
	for (size_t i = 0; i < c->options->n_rows; i++)
		printf("--%s ", c->options->rows[i].name);
	printf("--help");
}

/* The words of a command that has commands of its own, then the options of each of those. */
static void print_bash_subs(const struct command *c)
{
	printf("\t\t%s) if [ \"$COMP_CWORD\" -eq 2 ]; then plain=1 words=\"", c->name);
	for (size_t i = 0; i < c->n_subs; i++)
		printf("%s ", cli_word(c->subs[i]));
	printf("--help\"\n\t\t\telse case ${COMP_WORDS[2]} in\n");
	for (size_t i = 0; i < c->n_subs; i++) {
		printf("\t\t\t\t%s) words=\"", cli_word(c->subs[i]));
		print_options(c->subs[i]);
		printf("\" ;;\n");
	}
	printf("\t\t\tesac; fi ;;\n");
}

static void print_bash(void)
{
	printf("# bash completion for cupel\n_cupel() {\n\tlocal word=${COMP_WORDS[COMP_CWORD]} words= plain=\n"
	       "\tif [ \"$COMP_CWORD\" -eq 1 ]; then\n\t\tplain=1 words=\"");
	for (size_t i = 0; i < n_commands; i++)
		printf("%s ", commands[i]->name);
	printf("--help --version\"\n\telse case ${COMP_WORDS[1]} in\n");
	for (size_t i = 0; i < n_commands; i++) {
		if (commands[i]->n_subs) {
			print_bash_subs(commands[i]);
			continue;
		}
		printf("\t\t%s) words=\"", commands[i]->name);
		print_options(commands[i]);
		printf("\" ;;\n");
	}
	printf("\tesac; fi\n\tif [[ $word == -* || $plain ]]; then COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
	       "\telse COMPREPLY=($(compgen -f -- \"$word\")); fi\n}\ncomplete -o filenames -F _cupel cupel\n");
}

static void print_zsh_arguments(const struct command *c)
{
	printf("%s) _arguments", cli_word(c));
	for (size_t i = 0; i < c->options->n_rows; i++) {
		const struct option_row *row = &c->options->rows[i];
		printf(" '--%s%s'", row->name, row->metavar ? "=" : "");
	}
	printf(" '--help' '*:file:_files' ;;\n");
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
	printf("#compdef cupel\n_cupel() {\n\tlocal -a commands=(\n");
	for (size_t i = 0; i < n_commands; i++)
		printf("\t\t'%s:%s'\n", commands[i]->name, commands[i]->name);
	printf("\t)\n\tif (( CURRENT == 2 )); then _describe command commands; return; fi\n\tcase $words[2] in\n");
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

static void print_fish_options(const struct command *c, const struct command *parent)
{
	CLEANUP_FREE char *first =
		parent ? xasprintf("__fish_seen_subcommand_from %s; and ", parent->name) : NULL;
	for (size_t i = 0; i < c->options->n_rows; i++) {
		const struct option_row *row = &c->options->rows[i];
		printf("complete -c cupel -n '%s__fish_seen_subcommand_from %s' -l %s%s\n",
		       first ? first : "", cli_word(c), row->name, row->metavar ? " -r" : "");
	}
}

static void print_fish(void)
{
	for (size_t i = 0; i < n_commands; i++) {
		const struct command *c = commands[i];
		printf("complete -c cupel -n __fish_use_subcommand -a %s\n", c->name);
		print_fish_options(c, NULL);
		for (size_t k = 0; k < c->n_subs; k++) {
			printf("complete -c cupel -n '__fish_seen_subcommand_from %s' -a %s\n",
			       c->name, cli_word(c->subs[k]));
			print_fish_options(c->subs[k], c);
		}
	}
}

static int main_completion(const struct command *self, int argc, char **argv)
{
	struct operands rest;
	struct err err = { 0 };
	int r = cli_parse(self, argc, argv, NULL, &rest, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	const char *shell = rest.first < argc ? argv[rest.first] : "";
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
	.options = &cli_no_options,
	.main = main_completion,
};
