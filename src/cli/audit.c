/* cupel audit verify: are the records what was recorded? */
#include <errno.h>
#include <stdio.h>

#include "base/json.h"
#include "base/log.h"
#include "cli/cli.h"
#include "health/audit.h"
#include "ledger/chain.h"

struct audit_args {
	bool json, fast;
};

enum { SET_JSON, SET_OUTPUTS, SET_FAST };

static int set(void *target, const struct option_row *row, const char *value, struct err *err)
{
	struct audit_args *a = target;
	a->json |= row->number == SET_JSON;
	if (row->number == SET_OUTPUTS || row->number == SET_FAST)
		a->fast = row->number == SET_FAST;
	return 0;
}

static const struct option_row rows[] = {
	{ 0, "fast", NULL, "do not read outputs: compare their names and sizes only", set,
	  SET_FAST },
	{ 0, "outputs", NULL, "read outputs and compare their checksums (default)", set,
	  SET_OUTPUTS },
	{ 0, "json", NULL, "print JSON", set, SET_JSON },
};
static const struct options verify_options = { rows, sizeof rows / sizeof *rows };

static void print_json(const struct audit_report *r)
{
	CLEANUP_JSON json_t *o = json_pack(
		"{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:O}", "runs", json_u64(r->runs), "events",
		json_u64(r->events), "files", json_u64(r->files), "torn", json_u64(r->torn),
		"unfinished", json_u64(r->unfinished), "broken", json_u64(r->broken), "chained",
		json_u64(r->chained), "uncompared",
		r->uncompared ? json_text(r->uncompared) : json_null(), "links", r->links);
	json_print(o);
}

static void print_words(const struct audit_report *r)
{
	size_t i;
	json_t *link;
	json_array_foreach(r->links, i, link)
	{
		const char *run = NULL, *file = NULL, *reason = NULL;
		char place[32] = "";
		run = json_string_value(json_object_get(link, "run"));
		(void)json_unpack(link, "{s:s,s:s}", "file", &file, "reason", &reason);
		if (json_is_integer(json_object_get(link, "line")))
			(void)snprintf(
				place, sizeof place, ":%lld",
				(long long)json_integer_value(json_object_get(link, "line")));
		CLEANUP_FREE char *name = str_visible(file ? file : "?");
		CLEANUP_FREE char *why = str_visible(reason ? reason : "?");
		bool is_chain = str_eq(file, CHAIN_FILE); /* it is beside the runs, not in one */
		printf("broken: %s%s%s%s: %s\n", run && !is_chain ? run : "",
		       run && !is_chain ? "/" : "", name, place, why);
	}
	if (r->uncompared)
		printf("the chain of runs was not held against the ledger: %s\n", r->uncompared);
	printf("%llu runs, %llu events, %llu files: %llu broken, %llu not finished, %llu torn lines; %llu links of the chain of runs\n",
	       (unsigned long long)r->runs, (unsigned long long)r->events,
	       (unsigned long long)r->files, (unsigned long long)r->broken,
	       (unsigned long long)r->unfinished, (unsigned long long)r->torn,
	       (unsigned long long)r->chained);
}

static int main_verify(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config config = { 0 };
	CLEANUP_AUDIT_REPORT struct audit_report report = { 0 };
	struct audit_args args = { 0 };
	struct operands rest = { 0 };
	struct err err = { 0 };
	int r = cli_parse(self, argc, argv, &args, &rest, &err);
	if (r >= 0 && argc - rest.first > 1)
		r = err_caller(&err, "usage: cupel %s %s", self->name, self->usage);
	if (r < 0)
		return cli_stop(self, r, &err);
	r = config_read(&(struct config_where){ 0 }, &config, &err);
	if (r >= 0)
		r = audit_verify(&config, rest.first < argc ? argv[rest.first] : NULL,
				 args.fast ? AUDIT_LISTING : AUDIT_OUTPUTS, &report, &err);
	if (r < 0)
		return cli_fail(&err);
	if (args.json)
		print_json(&report);
	else
		print_words(&report);
	return report.broken ? 1 : 0;
}

static const struct command command_audit_verify = {
	.name = "audit verify",
	.usage = "[--outputs] [--json] [ID]",
	.operands = COMPLETE_RUNS,
	.summary = "follow the chain of events of each run, or of one, and name every broken link",
	.options = &verify_options,
	.main = main_verify,
};

static int main_removed(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config config = { 0 };
	struct operands rest = { 0 };
	struct err err = { 0 };
	int r = cli_parse(self, argc, argv, NULL, &rest, &err);
	if (r >= 0 && argc - rest.first != 1)
		r = err_caller(&err, "usage: cupel %s %s", self->name, self->usage);
	if (r < 0)
		return cli_stop(self, r, &err);
	r = config_read(&(struct config_where){ 0 }, &config, &err);
	if (r >= 0)
		r = id_check(argv[rest.first], &err);
	if (r >= 0)
		r = chain_removed(&config, argv[rest.first], &err);
	return r < 0 ? cli_fail(&err) : 0;
}

static const struct command command_audit_removed = {
	.name = "audit removed",
	.usage = "ID",
	.operands = COMPLETE_RUNS,
	.summary = "record in the chain of runs that this one was removed on purpose",
	.options = &cli_no_options,
	.main = main_removed,
};

static const struct command *const subs[] = { &command_audit_verify, &command_audit_removed };
#define N_SUBS (sizeof subs / sizeof *subs)

const struct command command_audit = {
	.name = "audit",
	.usage = "(verify [--outputs] [--json] [ID] | removed ID)",
	.summary = "prove that the records are what was recorded",
	.options = &cli_no_options,
	.subs = subs,
	.n_subs = N_SUBS,
	.main = cli_main_subs,
};
