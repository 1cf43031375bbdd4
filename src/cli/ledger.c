/* cupel ledger: the database of runs. */
#include <errno.h>
#include <stdio.h>

#include "base/json.h"
#include "base/str.h"
#include "cli/simple.h"
#include "ledger/ledger.h"

/* Options, no operands, and the configuration. */
static const char *text_of(const json_t *o, const char *key, const char *otherwise)
{
	const char *text = json_string_value(json_object_get(o, key));
	return text ? text : otherwise;
}

static long long number_of(const json_t *o, const char *key)
{
	return (long long)json_integer_value(json_object_get(o, key));
}

static void print_status(const json_t *o)
{
	const json_t *schema = json_object_get(o, "schema");
	printf("ledger   %s\n", text_of(o, "url", "?"));
	if (schema)
		printf("schema   %lld of %lld%s\n", number_of(schema, "found"),
		       number_of(schema, "known"),
		       number_of(schema, "found") < number_of(schema, "known")
			       ? ": cupel ledger migrate"
			       : "");
	if (text_of(o, "error", NULL))
		printf("error    %s\n", text_of(o, "error", ""));
	else
		printf("runs     %lld\n", number_of(o, "runs"));
	printf("owed     %lld%s\n", number_of(o, "owed"),
	       json_is_true(json_object_get(o, "delivering")) ? ", being delivered" : "");
	if (text_of(o, "last_try", NULL))
		printf("last     %s %s\n", text_of(o, "last_try", ""),
		       text_of(o, "last_error", "went well"));
}

static int main_status(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config c = { 0 };
	CLEANUP_JSON json_t *status = NULL;
	struct simple_args args = { 0 };
	struct err err = { 0 };
	int r = simple_begin(self, argc, argv, &args, &c, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	if (ledger_status(&c, &status, &err) < 0)
		return cli_fail(&err);
	if (args.json)
		json_print(status);
	else
		print_status(status);
	return 0;
}

static void print_delivery(const struct ledger_delivery *d, const struct simple_args *args,
			   bool aside)
{
	CLEANUP_JSON json_t *o = json_pack(
		"{s:o,s:o,s:o,s:o,s:b}", "entered", json_u64(d->entered), "gone", json_u64(d->gone),
		"waiting", json_u64(d->waiting), "failed", json_u64(d->failed), "set_aside", aside);
	if (args->json) {
		json_print(o);
		return;
	}
	if (aside)
		printf("the damaged ledger is set aside as cupel.db.broken\n");
	printf("%lld runs entered, %lld gone, %lld not complete yet, %lld could not be read\n",
	       number_of(o, "entered"), number_of(o, "gone"), number_of(o, "waiting"),
	       number_of(o, "failed"));
}

static int main_rebuild(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config c = { 0 };
	struct simple_args args = { 0 };
	struct ledger_delivery d = { 0 };
	struct err err = { 0 };
	bool aside = false;
	int r = simple_begin(self, argc, argv, &args, &c, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	if (ledger_rebuild(&c, &d, &aside, &err) < 0)
		return cli_fail(&err);
	print_delivery(&d, &args, aside);
	return d.failed ? cli_fail(&d.last_error) : 0;
}

static void print_audit(const struct ledger_audit *a, const struct simple_args *args)
{
	json_t *names = json_array();
	for (size_t i = 0; i < a->names.n; i++)
		json_array_append_new(names, json_text(a->names.v[i]));
	CLEANUP_JSON json_t *o =
		json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "runs", json_u64(a->runs), "missing",
			  json_u64(a->missing), "different", json_u64(a->different), "extra",
			  json_u64(a->extra), "unreadable", json_u64(a->unreadable), "totals",
			  json_u64(a->totals), "first", names);
	if (args->json) {
		json_print(o);
		return;
	}
	printf("%lld runs: %lld not in the ledger, %lld other than there, %lld in the ledger only, %lld could not be read\n",
	       number_of(o, "runs"), number_of(o, "missing"), number_of(o, "different"),
	       number_of(o, "extra"), number_of(o, "unreadable"));
	if (a->totals)
		printf("%lld sums are not what their runs add up to: cupel ledger rebuild\n",
		       number_of(o, "totals"));
	for (size_t i = 0; i < a->names.n; i++) {
		CLEANUP_FREE char *shown = str_visible(a->names.v[i]);
		printf("  %s\n", shown);
	}
}

/* What is owed is no fault of the ledger: it is delivered first. */
static int main_check(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config c = { 0 };
	CLEANUP_LEDGER_AUDIT struct ledger_audit a = { 0 };
	struct simple_args args = { 0 };
	struct ledger_delivery d = { 0 };
	struct err err = { 0 };
	int r = simple_begin(self, argc, argv, &args, &c, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	r = ledger_deliver(&c, LEDGER_WAIT, &d, &err);
	if (r >= 0)
		r = ledger_check(&c, &a, &err);
	if (r < 0)
		return cli_fail(&err);
	print_audit(&a, &args);
	return a.missing || a.different || a.extra || a.unreadable || a.totals ? 1 : 0;
}

static int main_migrate(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config c = { 0 };
	struct simple_args args = { 0 };
	struct ledger_versions v = { 0 };
	struct err err = { 0 };
	int r = simple_begin(self, argc, argv, &args, &c, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	if (ledger_migrate(&c, &v, &err) < 0)
		return cli_fail(&err);
	CLEANUP_JSON json_t *o =
		json_pack("{s:o,s:o}", "found", json_u64(v.found), "known", json_u64(v.known));
	if (args.json)
		json_print(o);
	else
		printf("schema %lld of %lld\n", number_of(o, "found"), number_of(o, "known"));
	return 0;
}

static const struct command command_status = {
	.name = "ledger status",
	.usage = "[--json]",
	.operands = COMPLETE_NOTHING,
	.summary =
		"which database, what it has, what is owed to it, and how the last delivery went",
	.options = &simple_options,
	.main = main_status,
};
static const struct command command_check = {
	.name = "ledger check",
	.usage = "[--json]",
	.operands = COMPLETE_NOTHING,
	.summary =
		"deliver what is owed, then compare every value with the run directories; 1 if something differs",
	.options = &simple_options,
	.main = main_check,
};
static const struct command command_rebuild = {
	.name = "ledger rebuild",
	.usage = "[--json]",
	.operands = COMPLETE_NOTHING,
	.summary = "make the ledger again from the run directories",
	.options = &simple_options,
	.main = main_rebuild,
};
static const struct command command_migrate = {
	.name = "ledger migrate",
	.usage = "[--json]",
	.operands = COMPLETE_NOTHING,
	.summary = "bring an older ledger's tables to what this cupel writes",
	.options = &simple_options,
	.main = main_migrate,
};

static const struct command *const subs[] = { &command_status, &command_check, &command_rebuild,
					      &command_migrate };
#define N_SUBS (sizeof subs / sizeof *subs)

const struct command command_ledger = {
	.name = "ledger",
	.usage = "(status | check | rebuild | migrate) [--json]",
	.summary = "the database of runs, which is made from their directories",
	.options = &cli_no_options,
	.subs = subs,
	.n_subs = N_SUBS,
	.main = cli_main_subs,
};
