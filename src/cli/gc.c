/* cupel gc: what dead runs left behind, and what nobody needs any more. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/json.h"
#include "base/num.h"
#include "cli/cli.h"
#include "health/gc_thorough.h"
#include "ledger/health_record.h"
#include "run/run.h"
#include "view/crate.h"

struct gc_args {
	bool json, dry_run, has_age;
	uint64_t age_ns;
};

enum { SET_DRY_RUN, SET_OLDER_THAN, SET_JSON };

static int set(void *target, const struct option_row *row, const char *value, struct err *err)
{
	struct gc_args *a = target;
	if (row->number == SET_OLDER_THAN) {
		a->has_age = true;
		return num_duration(value, &a->age_ns, err);
	}
	a->dry_run |= row->number == SET_DRY_RUN;
	a->json |= row->number == SET_JSON;
	return 0;
}

static const struct option_row rows[] = {
	{ 'n', "dry-run", NULL, "say what would be removed, and remove nothing", set, SET_DRY_RUN },
	{ 0, "older-than", "DURATION",
	  "remove partial outputs of runs that ended so long ago; else gc.partial, 30d", set,
	  SET_OLDER_THAN },
	{ 0, "json", NULL, "print JSON", set, SET_JSON },
};
static const struct options gc_options = { rows, sizeof rows / sizeof *rows };

static void print_json(const struct gc_report *r, const struct gc_found *f, const struct err *error)
{
	CLEANUP_JSON json_t *removed = json_pack(
		"{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:O}", "groups", json_u64(f->groups), "mounts",
		json_u64(f->mounts), "partial", json_u64(f->partial), "partial_bytes",
		json_u64(f->partial_bytes), "checkpoints", json_u64(f->checkpoints),
		"checkpoint_bytes", json_u64(f->checkpoint_bytes), "temporary",
		json_u64(f->temporary), "keys", json_u64(f->keys), "items", f->items);
	CLEANUP_JSON json_t *o = json_pack(
		"{s:o,s:o,s:o,s:o,s:o,s:o,s:O,s:{s:o,s:o},s:o}", "lost", json_u64(r->lost),
		"cleared", json_u64(r->cleared), "alive", json_u64(r->alive), "failed",
		json_u64(r->failed + f->failed), "pruned", json_u64(f->pruned), "pruned_bytes",
		json_u64(f->pruned_bytes), "removed", removed, "checkpoints", "kept",
		json_u64(f->kept_checkpoints), "bytes", json_u64(f->kept_checkpoint_bytes), "error",
		error ? json_text(error->text) : json_null());
	json_print(o);
}

static void print_items(const struct gc_found *f, bool dry_run)
{
	size_t i;
	const json_t *one;
	json_array_foreach(f->items, i, one)
	{
		const char *what = json_string_value(json_object_get(one, "what"));
		CLEANUP_FREE char *shown = str_visible(what ? what : "?");
		uint64_t bytes = (uint64_t)json_integer_value(json_object_get(one, "bytes"));
		char size[32];
		printf("%s%s %s", dry_run ? "would remove: " : "removed: ",
		       json_string_value(json_object_get(one, "kind")), shown);
		printf(bytes ? ", %s\n" : "%s\n",
		       bytes ? num_print_size(bytes, size, sizeof size) : "");
	}
}

static char *summary(const struct gc_report *r, const struct gc_found *f, bool dry_run)
{
	unsigned long long others = f->groups + f->mounts + f->partial + f->checkpoints +
				    f->temporary + f->keys;
	unsigned long long failed = r->failed + f->failed, pruned = f->pruned, alive = r->alive;
	if (dry_run)
		return xasprintf(
			"%llu dead runs, %llu runs alive, %llu outputs that no run has, %llu other leftovers; nothing was done",
			(unsigned long long)f->dead, alive, pruned, others);
	return xasprintf(
		"%llu lost runs recorded and cleaned, %llu entries cleared, %llu runs alive, %llu failed, %llu outputs that no run has removed, %llu other leftovers",
		(unsigned long long)r->lost, (unsigned long long)r->cleared, alive, failed, pruned,
		others);
}

/* A gc that had nothing to do changes nothing. */
static void keep(const struct config *c, const struct gc_report *r, const struct gc_found *f,
		 const struct err *error)
{
	if (!error && !r->lost && !r->cleared && json_array_size(f->items) == 0)
		return;
	CLEANUP_FREE char *text = error ? xstrdup(error->text) : summary(r, f, false);
	const struct health_record h = { .kind = "gc",
					 .status = error ? "problem" : "ok",
					 .summary = text,
					 .detail = f->items };
	if (access(c->home, F_OK) == 0)
		(void)ledger_health_put(c, &h, NULL, NULL);
}

static int collect(const struct config *c, const struct gc_args *args, struct gc_report *report,
		   struct gc_found *found, struct err *err)
{
	const struct gc_request q = { .config = c,
				      .act = args->dry_run ? GC_LOOK : GC_REMOVE,
				      .partial_age_ns = args->has_age ? args->age_ns
								      : c->partial_age_ns,
				      .checkpoint_age_ns = c->checkpoint_age_ns };
	int r = args->dry_run ? 0 : run_sweep_all(c, report, err);
	if (r >= 0)
		r = gc_thorough(&q, found, err);
	if (r >= 0 && args->dry_run)
		report->alive = found->alive;
	return r;
}

static int main_gc(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config c = { 0 };
	CLEANUP_GC_FOUND struct gc_found found = { 0 };
	struct gc_args args = { 0 };
	struct gc_report report = { 0 };
	struct operands rest;
	struct err err = { 0 };
	int r = cli_parse(self, argc, argv, &args, &rest, &err);
	if (r >= 0 && rest.first < argc)
		r = err_caller(&err, "'cupel %s' takes no '%.60s'", self->name, argv[rest.first]);
	if (r >= 0)
		r = config_read(&(struct config_where){ 0 }, &c, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	if (collect(&c, &args, &report, &found, &err) < 0)
		return cli_fail(&err);
	const struct err *error = report.failed  ? &report.last_error
				  : found.failed ? &found.last_error
						 : NULL;
	if (!args.dry_run) {
		keep(&c, &report, &found, error);
		run_deliver(&c, crate_write);
	}
	if (args.json) {
		print_json(&report, &found, error);
	} else {
		CLEANUP_FREE char *text = summary(&report, &found, args.dry_run);
		char size[32];
		print_items(&found, args.dry_run);
		printf("%s\n", text);
		if (found.kept_checkpoints)
			printf("%llu checkpoints are kept, %s\n",
			       (unsigned long long)found.kept_checkpoints,
			       num_print_size(found.kept_checkpoint_bytes, size, sizeof size));
	}
	return error ? cli_fail(error) : 0;
}

const struct command command_gc = {
	.name = "gc",
	.usage = "[--dry-run] [--older-than DURATION] [--json]",
	.operands = COMPLETE_NOTHING,
	.summary = "remove what dead runs left behind, and record them as lost",
	.details = "Most other commands do so first; this one also looks for what no run has.",
	.options = &gc_options,
	.main = main_gc,
};
