/* cupel serve: becomes cupel-serve, the one program that needs the libraries of a service. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/path.h"
#include "base/str.h"
#include "cli/cli.h"

struct serve_args {
	bool waits;
};

static int set_waits(void *target, const struct option_row *row, const char *value, struct err *err)
{
	((struct serve_args *)target)->waits = true;
	return 0;
}

static const struct option_row rows[] = {
	{ 0, "drain-wait", NULL, "when asked to end, wait for what runs; else it goes on alone",
	  set_waits, 0 },
};
static const struct options serve_options = { rows, sizeof rows / sizeof *rows };

static int serve_main(const struct command *self, int argc, char **argv)
{
	struct serve_args args = { 0 };
	struct operands rest = { 0 };
	struct err err = { 0 };
	int r = cli_parse(self, argc, argv, &args, &rest, &err);
	if (r >= 0 && rest.first < argc)
		r = err_caller(&err, "'cupel %s' takes no '%.60s'", self->name, argv[rest.first]);
	if (r < 0)
		return cli_stop(self, r, &err);
	/* The one of this build, or that of the installation. */
	CLEANUP_FREE char *self_path = path_real("/proc/self/exe");
	CLEANUP_FREE char *directory = self_path ? path_parent(self_path) : NULL;
	CLEANUP_FREE char *beside = directory ? path_join(directory, "cupel-serve") : NULL;
	CLEANUP_STRV struct strv words = { 0 };
	strv_add(&words, "cupel-serve");
	if (args.waits)
		strv_add(&words, "--drain-wait");
	if (beside)
		(void)execv(beside, strv_argv(&words));
	(void)execv(LIBEXECDIR "/cupel-serve", strv_argv(&words));
	(void)err_set(
		&err, ERR_HOST, errno,
		"start %s/cupel-serve: %s; was cupel built with libmicrohttpd and libsystemd?",
		LIBEXECDIR, strerrordesc_np(errno));
	return cli_fail(&err);
}

const struct command command_serve = {
	.name = "serve",
	.usage = "[OPTION]...",
	.operands = COMPLETE_NOTHING,
	.summary = "take analyses from programs and people, queue them, run them",
	.options = &serve_options,
	.main = serve_main,
};
