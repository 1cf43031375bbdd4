/* cupel COMMAND ... */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "base/terminal.h"
#include "cli/cli.h"
#include "cli/foreign.h"

/* In the order of use: make runs, look at them, hand them on, what they run in, what keeps all of it sound. */
const struct command *const commands[] = {
	&command_run,     &command_plan,   &command_resume, &command_why,     &command_rerun,
	&command_submit,  &command_wait,   &command_cancel, &command_ps,      &command_top,
	&command_list,    &command_show,   &command_logs,   &command_outputs, &command_diff,
	&command_export,  &command_report, &command_audit,  &command_runtime, &command_executor,
	&command_config,  &command_doctor, &command_health, &command_verify,  &command_protect,
	&command_ledger,  &command_gc,     &command_serve,  &command_token,   &command_completion,
	&command_version,
};
const size_t n_commands = sizeof commands / sizeof *commands;

int cli_fail(const struct err *err)
{
	log_error("%s", err->text[0] ? err->text : "unknown error");
	return err->kind == ERR_CALLER ? 2 : 125;
}

const char *cli_word(const struct command *c)
{
	const char *space = strrchr(c->name, ' ');
	return space ? space + 1 : c->name;
}

void cli_help(const struct command *c)
{
	printf("usage: cupel %s %s\n\n%s\n", c->name, c->usage, c->summary);
	for (size_t i = 0; i < c->n_subs; i++)
		printf("%s  %-12s %s\n", i ? "" : "\n", cli_word(c->subs[i]), c->subs[i]->summary);
	if (c->details)
		printf("\n%s\n", c->details);
	printf("\noptions:\n");
	options_print(c->options);
}

int cli_parse(const struct command *c, int argc, char **argv, void *target, struct operands *ret,
	      struct err *err)
{
	return c->ends_options || c->subs
		       ? options_parse(c->options, argc, argv, target, ret, err)
		       : options_parse_mixed(c->options, argc, argv, target, ret, err);
}

int cli_stop(const struct command *c, int r, const struct err *err)
{
	if (r != -ECANCELED)
		return cli_fail(err);
	cli_help(c);
	return 0;
}

const struct options cli_no_options = { NULL, 0 };

static int no_sub(const struct command *self, const char *word)
{
	CLEANUP_STR struct str all = { 0 };
	CLEANUP_FREE const char **words = xcalloc(self->n_subs, sizeof *words);
	struct err err = { 0 };
	for (size_t i = 0; i < self->n_subs; i++) {
		words[i] = cli_word(self->subs[i]);
		str_addf(&all, "%s%s", i ? ", " : "", words[i]);
	}
	const char *nearest = word ? str_nearest(word, words, self->n_subs) : NULL;
	if (nearest)
		(void)err_caller(
			&err,
			"there is no command '%s %.60s'; did you mean '%s'? `cupel %s --help` lists them",
			self->name, word, nearest, self->name);
	else if (word)
		(void)err_caller(&err,
				 "there is no command '%s %.60s'; `cupel %s --help` lists them",
				 self->name, word, self->name);
	else
		(void)err_caller(&err, "cupel %s needs a command: %s; `cupel %s --help` tells more",
				 self->name, str_text(&all), self->name);
	return cli_fail(&err);
}

int cli_main_subs(const struct command *self, int argc, char **argv)
{
	struct operands rest = { 0 };
	struct err err = { 0 };
	int r = cli_parse(self, argc, argv, NULL, &rest, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	const char *word = rest.first < argc ? argv[rest.first] : NULL;
	for (size_t i = 0; word && i < self->n_subs; i++)
		if (str_eq(word, cli_word(self->subs[i])))
			return self->subs[i]->main(self->subs[i], argc - rest.first,
						   argv + rest.first);
	return no_sub(self, word);
}

static void overview(FILE *out)
{
	fprintf(out,
		"cupel runs scientific analyses in named runtimes, each inside a box, on a budget,\n"
		"and leaves behind a log, a verdict and its outputs with their digests.\n\nusage: cupel COMMAND ...\n\n");
	for (size_t i = 0; i < n_commands; i++)
		fprintf(out, "  %-12s %s\n", commands[i]->name, commands[i]->summary);
	fprintf(out, "\n`cupel help COMMAND` tells more; so does `man cupel`.\n");
}

static int unknown_command(const char *name)
{
	const char *names[sizeof commands / sizeof *commands];
	struct err err = { 0 };
	const char *here = foreign_command(name);
	if (here) {
		(void)err_caller(&err, "there is no command '%.60s': %s", name, here);
		return cli_fail(&err);
	}
	for (size_t i = 0; i < n_commands; i++)
		names[i] = commands[i]->name;
	const char *nearest = str_nearest(name, names, n_commands);
	(void)err_caller(&err, "there is no command '%.60s'%s%s%s `cupel --help` lists them", name,
			 nearest ? "; did you mean '" : ";", nearest ? nearest : "",
			 nearest ? "'?" : "");
	return cli_fail(&err);
}

/* cupel help COMMAND [WORD]: what --help behind them prints. */
static int help_for(int argc, char **argv)
{
	const struct command *found = NULL;
	for (size_t i = 0; i < n_commands && !found; i++)
		if (str_eq(argv[0], commands[i]->name))
			found = commands[i];
	if (!found)
		return unknown_command(argv[0]);
	if (argc > 1 && found->n_subs) {
		for (size_t i = 0; i < found->n_subs; i++)
			if (str_eq(argv[1], cli_word(found->subs[i]))) {
				cli_help(found->subs[i]);
				return 0;
			}
		return no_sub(found, argv[1]);
	}
	cli_help(found);
	return 0;
}

/* What a careless caller may have left us: closed standard streams, whose numbers our own files would then get, an ignored
 * SIGCHLD, with which no child could be waited for, and a umask that denies us our own files. */
static void tidy_inheritance(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO)
		fd = open("/dev/null", O_RDWR); /* stays open: it stands for the missing stream */
	if (fd >= 0)
		(void)close(fd);
	(void)signal(SIGCHLD, SIG_DFL);
	(void)umask(umask(077) & 077);
}

/* What was printed is the answer: a full disk must not look like an empty one. A reader that has enough ends us by SIGPIPE, or does not
 * mind. */
static int finish(int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	if (errno != EPIPE && status != 125) /* it has been said */
		log_error("the output could not be written: %s", strerrordesc_np(errno));
	return status ? status : 125;
}

int main(int argc, char **argv)
{
	tidy_inheritance();
	terminal_guard();
	if (argc < 2) {
		overview(stderr);
		return 2;
	}
	if (str_eq(argv[1], "help") && argc > 2)
		return finish(help_for(argc - 2, argv + 2));
	if (str_eq(argv[1], "--help") || str_eq(argv[1], "-h") || str_eq(argv[1], "help")) {
		overview(stdout);
		return finish(0);
	}
	if (str_eq(argv[1], "--version"))
		return finish(command_version.main(&command_version, 1, argv + 1));
	for (size_t i = 0; i < n_commands; i++)
		if (str_eq(argv[1], commands[i]->name))
			return finish(commands[i]->main(commands[i], argc - 1, argv + 1));
	return unknown_command(argv[1]);
}
