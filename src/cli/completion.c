/* cupel completion SHELL: made from the same rows as help, so it cannot fall behind. */
#include <stdio.h>

#include "base/str.h"
#include "cli/cli.h"

static const struct options no_options = { NULL, 0 };

static void print_bash(void)
{
	printf("# bash completion for cupel\n_cupel() {\n\tlocal word=${COMP_WORDS[COMP_CWORD]} words=\n\tif [ \"$COMP_CWORD\" -eq 1 ]; then\n"
	       "\t\twords=\"");
	for (size_t i = 0; i < n_commands; i++)
		printf("%s ", commands[i]->name);
	printf("--help --version\"\n\telse case ${COMP_WORDS[1]} in\n");
	for (size_t i = 0; i < n_commands; i++) {
		printf("\t\t%s) words=\"", commands[i]->name);
		for (size_t j = 0; j < commands[i]->options->n_rows; j++)
			printf("--%s ", commands[i]->options->rows[j].name);
		printf("--help\" ;;\n");
	}
	printf("\tesac; fi\n\tif [[ $word == -* || $COMP_CWORD -eq 1 ]]; then COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
	       "\telse COMPREPLY=($(compgen -f -- \"$word\")); fi\n}\ncomplete -o filenames -F _cupel cupel\n");
}

static void print_zsh(void)
{
	printf("#compdef cupel\n_cupel() {\n\tlocal -a commands=(\n");
	for (size_t i = 0; i < n_commands; i++)
		printf("\t\t'%s:%s'\n", commands[i]->name, commands[i]->name);
	printf("\t)\n\tif (( CURRENT == 2 )); then _describe command commands; return; fi\n\tcase $words[2] in\n");
	for (size_t i = 0; i < n_commands; i++) {
		printf("\t\t%s) _arguments", commands[i]->name);
		for (size_t j = 0; j < commands[i]->options->n_rows; j++) {
			const struct option_row *row = &commands[i]->options->rows[j];
			printf(" '--%s%s'", row->name, row->metavar ? "=" : "");
		}
		printf(" '--help' '*:file:_files' ;;\n");
	}
	printf("\tesac\n}\n_cupel \"$@\"\n");
}

static void print_fish(void)
{
	for (size_t i = 0; i < n_commands; i++) {
		printf("complete -c cupel -n __fish_use_subcommand -a %s\n", commands[i]->name);
		for (size_t j = 0; j < commands[i]->options->n_rows; j++) {
			const struct option_row *row = &commands[i]->options->rows[j];
			printf("complete -c cupel -n '__fish_seen_subcommand_from %s' -l %s%s\n",
			       commands[i]->name, row->name, row->metavar ? " -r" : "");
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
	.options = &no_options,
	.main = main_completion,
};
