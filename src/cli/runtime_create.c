/* cupel runtime create, cupel runtime remove */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "cli/runtime.h"
#include "run/create.h"
#include "view/create_view.h"
#include "view/status.h"

struct create_args {
	struct create_request q;
	bool kind_said;
	bool json;
};

enum text_option {
	TEXT_REQUIREMENTS,
	TEXT_WHEELS,
	TEXT_PYTHON,
	TEXT_SUITE,
	TEXT_FILE,
	TEXT_LAYOUT,
	TEXT_TO,
	TEXT_SUMMARY,
	TEXT_VERSION
};
enum flag_option { FLAG_SITE, FLAG_SQUASHFS, FLAG_REPLACE, FLAG_JSON };

static int set_text(void *target, const struct option_row *row, const char *value, struct err *err)
{
	struct create_request *q = &((struct create_args *)target)->q;
	const char **const at[] = { &q->requirements, &q->wheels, &q->python,  &q->suite,  &q->file,
				    &q->layout,       &q->to,     &q->summary, &q->version };
	if (!*value)
		return err_caller(err, "--%s needs a value: %s", row->name, row->metavar);
	*at[row->number] = value;
	return 0;
}

static int set_flag(void *target, const struct option_row *row, const char *value, struct err *err)
{
	struct create_args *a = target;
	bool *const at[] = { &a->q.system_site_packages, &a->q.squashfs, &a->q.replace, &a->json };
	*at[row->number] = true;
	return 0;
}

static int set_kind(void *target, const struct option_row *row, const char *value, struct err *err)
{
	struct create_args *a = target;
	for (int i = 0; i < RUNTIME_KIND_COUNT_; i++)
		if (str_eq(value, runtime_kind_names[i])) {
			a->q.kind = (enum runtime_kind)i;
			a->kind_said = true;
			return 0;
		}
	return err_caller(err, "--kind: there is no kind '%.60s'; there are %s", value,
			  row->metavar);
}

static int set_packages(void *target, const struct option_row *row, const char *value,
			struct err *err)
{
	struct create_request *q = &((struct create_args *)target)->q;
	return row->number ? create_read_packages(q, value, err)
			   : create_add_packages(q, value, err);
}

static int set_list(void *target, const struct option_row *row, const char *value, struct err *err)
{
	struct create_request *q = &((struct create_args *)target)->q;
	if (!*value || *value == '-')
		return err_caller(err, "--%s: '%.60s' is no %s", row->name, value, row->metavar);
	strv_add(row->number ? &q->channels : &q->mirrors, value);
	return 0;
}

static const struct option_row create_rows[] = {
	{ 0, "kind", "venv|rootfs|conda|image", "what to make", set_kind, 0 },
	{ 0, "requirements", "FILE", "venv: install what this pip file lists", set_text,
	  TEXT_REQUIREMENTS },
	{ 0, "wheels", "DIR",
	  "venv: install from this directory only, without an index; all of it if no FILE is said",
	  set_text, TEXT_WHEELS },
	{ 0, "python", "PROGRAM", "venv: its base interpreter (/usr/bin/python3)", set_text,
	  TEXT_PYTHON },
	{ 0, "system-site-packages", NULL, "venv: see the base interpreter's packages too",
	  set_flag, FLAG_SITE },
	{ 0, "packages", "A,B,...", "rootfs, conda: packages to install", set_packages, 0 },
	{ 0, "packages-file", "FILE", "rootfs, conda: the same from a file", set_packages, 1 },
	{ 0, "suite", "NAME", "rootfs: the Debian release (this host's)", set_text, TEXT_SUITE },
	{ 0, "mirror", "URL",
	  "rootfs: where to fetch from, or a whole line of sources.list (this host's sources)",
	  set_list, 0 },
	{ 0, "squashfs", NULL, "rootfs: pack it into one file", set_flag, FLAG_SQUASHFS },
	{ 0, "file", "FILE", "conda: environment.yml or an explicit list", set_text, TEXT_FILE },
	{ 0, "channel", "NAME", "conda: a channel to search", set_list, 1 },
	{ 0, "layout", "PATH", "image: an OCI layout, or a .tar of one", set_text, TEXT_LAYOUT },
	{ 0, "to", "DIR", "where the catalog entry goes (your runtimes.d)", set_text, TEXT_TO },
	{ 0, "summary", "TEXT", "one line about it, for the entry", set_text, TEXT_SUMMARY },
	{ 0, "version", "TEXT", "its version, for the entry (1)", set_text, TEXT_VERSION },
	{ 0, "replace", NULL,
	  "make an existing one anew; the old one stays until the new one is whole", set_flag,
	  FLAG_REPLACE },
	{ 0, "json", NULL, "print JSON", set_flag, FLAG_JSON },
};
static const struct options create_options = { create_rows,
					       sizeof(create_rows) / sizeof(create_rows[0]) };

/* The one name. */
static int parse_name(const struct command *c, int argc, char **argv, void *target,
		      const char **ret, struct err *err)
{
	struct operands rest = { 0 };
	int r = cli_parse(c, argc, argv, target, &rest, err);
	if (r >= 0 && argc - rest.first != 1)
		r = err_caller(err, "usage: cupel %s %s", c->name, c->usage);
	if (r >= 0)
		*ret = argv[rest.first];
	return r;
}

static int create_exit(const struct command *self, int r, const struct err *err)
{
	int status = cli_stop(self, r == -ECANCELED && err->code ? -EIO : r, err);
	return err->code == ECANCELED ? 128 + SIGINT : status;
}

static int main_create(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config config = { 0 };
	struct create_args args = { 0 };
	CLEANUP(create_result_release) struct create_result result = { 0 };
	struct create_line line = { .shown = status_wanted() };
	struct create_viewer viewer = { .data = &line, .tell = create_line_tell };
	struct err err = { 0 };
	strv_add(&args.q.said, "cupel");
	strv_add(&args.q.said, "runtime");
	for (int i = 0; i < argc; i++) /* before its words are put in order */
		if (!str_eq(argv[i], "--json") && !str_eq(argv[i], "--replace"))
			strv_add(&args.q.said, argv[i]);
	int r = parse_name(self, argc, argv, &args, &args.q.name, &err);
	if (r >= 0 && !args.kind_said)
		r = err_caller(&err, "say what to make: --kind %s", create_rows[0].metavar);
	if (r >= 0)
		r = config_read(&(struct config_where){ 0 }, &config, &err);
	if (r >= 0) {
		args.q.viewer = &viewer;
		r = runtime_create(&config, &args.q, &result, &err);
	}
	create_line_clear(&line);
	int status = r < 0 ? create_exit(self, r, &err) : 0;
	if (r >= 0 && args.json)
		create_print_json(&args.q, &result);
	else if (r >= 0)
		create_print(&args.q, &result);
	create_request_release(&args.q);
	return status;
}

const struct command command_runtime_create = {
	.name = "runtime create",
	.usage = "NAME --kind KIND [OPTIONS]",
	.operands = COMPLETE_NOTHING,
	.summary =
		"make a runtime and its catalog entry: a venv, a root of Debian packages, a conda prefix, or an image",
	.details =
		"The packages' own build and install steps run as you, with your network and outside any box: make runtimes only of what you\n"
		"trust. Nothing is left if it fails or is interrupted, but the log: HOME/runtimes/NAME/create.log.",
	.options = &create_options,
	.main = main_create,
};

struct remove_args {
	enum remove_how how;
	bool json;
};

static int set_remove(void *target, const struct option_row *row, const char *value,
		      struct err *err)
{
	struct remove_args *a = target;
	if (row->number)
		a->json = true;
	else
		a->how = REMOVE_DRY_RUN;
	return 0;
}

static const struct option_row remove_rows[] = {
	{ 0, "dry-run", NULL, "only say what would be removed", set_remove, 0 },
	{ 0, "json", NULL, "print JSON", set_remove, 1 },
};
static const struct options remove_options = { remove_rows,
					       sizeof(remove_rows) / sizeof(remove_rows[0]) };

static int main_remove(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config config = { 0 };
	CLEANUP(remove_result_release) struct remove_result result = { 0 };
	struct remove_args args = { .how = REMOVE_REALLY };
	const char *name = NULL;
	struct err err = { 0 };
	int r = parse_name(self, argc, argv, &args, &name, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	r = config_read(&(struct config_where){ 0 }, &config, &err);
	if (r >= 0)
		r = runtime_remove(&config, name, args.how, &result, &err);
	if (r < 0)
		return cli_fail(&err);
	if (args.json)
		remove_print_json(name, args.how, &result);
	else
		remove_print(name, args.how, &result);
	return 0;
}

const struct command command_runtime_remove = {
	.name = "runtime remove",
	.usage = "NAME [--dry-run] [--json]",
	.operands = COMPLETE_RUNTIMES,
	.summary = "remove a runtime's catalog entry, and what `cupel runtime create` made for it",
	.details =
		"Refused while a run is going on in it. A prefix or root that cupel did not make is never touched.",
	.options = &remove_options,
	.main = main_remove,
};
