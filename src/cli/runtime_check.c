/* cupel runtime check and lock: is it what it was, and does it work? */
#include <errno.h>
#include <stdio.h>

#include "cli/runtime.h"
#include "run/check.h"
#include "view/runtime_view.h"
#include "view/status.h"

struct check_args {
	bool json, all, deep, remove;
};

enum { FLAG_JSON, FLAG_ALL, FLAG_DEEP, FLAG_REMOVE };

static int set_flag(void *target, const struct option_row *row, const char *value, struct err *err)
{
	struct check_args *a = target;
	bool *const flags[] = { &a->json, &a->all, &a->deep, &a->remove };
	*flags[row->number] = true;
	return 0;
}

static const struct option_row check_rows[] = {
	{ 0, "all", NULL, "every runtime there is", set_flag, FLAG_ALL },
	{ 0, "deep", NULL, "read every file and compare its content", set_flag, FLAG_DEEP },
	{ 0, "json", NULL, "print JSON", set_flag, FLAG_JSON },
};
static const struct options check_options = { check_rows, sizeof check_rows / sizeof *check_rows };

/* What has been found so far of one or all. */
struct checking {
	const struct config *config;
	const struct check_args *args;
	json_t *results; /* owned */
	bool all_healthy;
};

static void checking_release(struct checking *c)
{
	json_decref(c->results);
}

static void found(struct checking *c, json_t *result)
{
	const char *health = json_string_value(json_object_get(result, "health"));
	c->all_healthy = c->all_healthy && str_eq(health, health_names[HEALTH_HEALTHY]);
	if (!c->args->json) {
		check_print(result);
		(void)fflush(stdout);
	}
	json_array_append_new(c->results, result);
}

/* An entry that can't be read is a broken runtime, not a mistake of whoever asks for its health. */
static void found_fault(struct checking *c, const struct catalog_fault *f)
{
	struct runtime_state state = { .health = HEALTH_BROKEN,
				       .reason = xstrdup(f->err.text),
				       .checks = json_array() };
	found(c, check_json(f->name, &state));
	runtime_state_release(&state);
}

static int check_one(struct checking *c, struct runtime *r, struct err *err)
{
	CLEANUP_RUNTIME_STATE struct runtime_state state = { 0 };
	struct progress progress = { .shown = status_wanted(), .about = r->name };
	struct check_viewer viewer = { .data = &progress,
				       .step = progress_step,
				       .progress = { &progress, progress_files } };
	struct check_request request = { .config = c->config,
					 .runtime = r,
					 .depth = c->args->deep ? DEPTH_CONTENT : DEPTH_STAT,
					 .viewer = &viewer };
	int e = check_runtime(&request, &state, err);
	progress_clear(&progress);
	if (e >= 0)
		found(c, check_json(r->name, &state));
	return e;
}

/* Those that are named, or all. */
struct wanted {
	char *const *names; /* borrowed from argv */
	size_t n;           /* 0: all */
};

static bool is_wanted(const struct wanted *w, const char *name)
{
	for (size_t i = 0; i < w->n; i++)
		if (str_eq(w->names[i], name))
			return true;
	return w->n == 0;
}

static bool is_known(const struct catalog *catalog, const char *name)
{
	for (size_t i = 0; i < catalog->n; i++)
		if (str_eq(catalog->v[i].name, name))
			return true;
	return runtime_is_shadowed(catalog, name);
}

/* A name that there is not is a mistake, told before any check begins. */
static int check_names(const struct config *config, const struct catalog *catalog,
		       const struct wanted *w, struct err *err)
{
	for (size_t i = 0; i < w->n; i++) {
		CLEANUP_RUNTIME struct runtime none = { 0 }; /* it has the words for it */
		if (is_known(catalog, w->names[i]))
			continue;
		int e = catalog_find(config, w->names[i], &none, err);
		return e < 0 ? e : -ENOENT;
	}
	return 0;
}

/* Among several, one that can't be checked does not keep the others from being. */
static int check_wanted(struct checking *c, const struct wanted *w, struct err *err)
{
	CLEANUP_CATALOG struct catalog catalog = { 0 };
	int worst = 0;
	int e = catalog_read(c->config, &catalog, err);
	if (e >= 0)
		e = check_names(c->config, &catalog, w, err);
	if (e < 0)
		return e;
	for (size_t i = 0; i < catalog.n_faults; i++)
		if (is_wanted(w, catalog.faults[i].name))
			found_fault(c, &catalog.faults[i]);
	for (size_t i = 0; i < catalog.n; i++) {
		struct err why = { 0 };
		if (!is_wanted(w, catalog.v[i].name) ||
		    runtime_is_shadowed(&catalog, catalog.v[i].name))
			continue;
		e = check_one(c, &catalog.v[i], &why);
		if (e < 0 && worst == 0) {
			worst = e;
			*err = why;
		}
		if (e == -EINTR)
			break;
	}
	return worst;
}

static int main_check(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config c = { 0 };
	struct check_args args = { 0 };
	struct operands rest = { 0 };
	struct err err = { 0 };
	int r = cli_parse(self, argc, argv, &args, &rest, &err);
	size_t n = r < 0 ? 0 : (size_t)(argc - rest.first);
	if (r >= 0 && args.all == (n > 0))
		r = err_caller(&err, "name a runtime, or say --all");
	if (r >= 0)
		r = config_read(&(struct config_where){ 0 }, &c, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	CLEANUP(checking_release)
	struct checking checking = {
		.config = &c, .args = &args, .results = json_array(), .all_healthy = true
	};
	r = check_wanted(&checking, &(struct wanted){ argv + rest.first, n }, &err);
	if (args.json && (r >= 0 || n != 1) && (r >= 0 || json_array_size(checking.results)))
		runtime_print_json(json_incref(n == 1 ? json_array_get(checking.results, 0)
						      : checking.results));
	if (r < 0)
		return cli_fail(&err);
	return checking.all_healthy ? 0 : 1;
}

const struct command command_runtime_check = {
	.name = "runtime check",
	.usage = "[--deep] [--json] (NAME... | --all)",
	.operands = COMPLETE_RUNTIMES,
	.summary = "compare it with its lock, then run its checks in the box; remember its health",
	.details =
		"The exit status is 0 if all are healthy, 1 if one is degraded, broken or unknown, 125 if one could not be\n"
		"checked, 2 usage.",
	.options = &check_options,
	.main = main_check,
};

static const struct option_row lock_rows[] = {
	{ 0, "remove", NULL, "remove the lock instead", set_flag, FLAG_REMOVE },
	{ 0, "json", NULL, "print JSON", set_flag, FLAG_JSON },
};
static const struct options lock_options = { lock_rows, sizeof lock_rows / sizeof *lock_rows };

static int unlock(const struct check_args *args, const struct runtime *r, struct err *err)
{
	int e = runtime_unpin(r, err);
	if (e < 0)
		return e;
	if (args->json)
		runtime_print_json(json_pack("{s:o,s:o,s:b}", "name", json_text(r->name), "lock",
					     json_text(r->lock), "removed", e > 0));
	else
		printf("%s: %s %s\n", r->name, e > 0 ? "removed" : "there is no lock", r->lock);
	return 0;
}

static int lock(const struct config *c, const struct check_args *args, struct runtime *r,
		struct err *err)
{
	struct fingerprint f = { 0 };
	struct progress progress = { .shown = status_wanted(), .about = r->name };
	struct fingerprint_progress tell = { &progress, progress_files };
	int e = runtime_pin(c, r, &tell, &f, err);
	progress_clear(&progress);
	if (e < 0)
		return e;
	if (args->json)
		runtime_print_json(
			json_pack("{s:o,s:o,s:s,s:s,s:s,s:o,s:o}", "name", json_text(r->name),
				  "lock", json_text(r->lock), "identity", f.hex[DEPTH_IDENTITY],
				  "stat", f.hex[DEPTH_STAT], "content", f.hex[DEPTH_CONTENT],
				  "files", json_u64(f.files), "bytes", json_u64(f.bytes)));
	else
		printf("%s: locked as it is now, %llu files: %s\n", r->name,
		       (unsigned long long)f.files, r->lock);
	return 0;
}

static int main_lock(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config c = { 0 };
	CLEANUP_RUNTIME struct runtime runtime = { 0 };
	struct check_args args = { 0 };
	struct runtime_words words = { 0 };
	struct err err = { 0 };
	struct runtime_begin how = { .self = self, .target = &args, .min = 1, .max = 1 };
	int r = runtime_begin(&how, argc, argv, &words, &c, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	r = catalog_find(&c, words.v[0], &runtime, &err);
	if (r >= 0)
		r = args.remove ? unlock(&args, &runtime, &err) : lock(&c, &args, &runtime, &err);
	return r < 0 ? cli_fail(&err) : 0;
}

const struct command command_runtime_lock = {
	.name = "runtime lock",
	.usage = "[--remove] [--json] NAME",
	.operands = COMPLETE_RUNTIMES,
	.summary = "pin it as it is now, file by file; what differs later is drift",
	.options = &lock_options,
	.main = main_lock,
};
