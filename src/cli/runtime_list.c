/* cupel runtime list and show: what there is, without running any of it. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"
#include "cli/runtime.h"
#include "cli/simple.h"
#include "view/runtime_view.h"

/* By name, those that can't be read among the others. */
static json_t *rows_json(const struct config *c, struct catalog *catalog)
{
	json_t *rows = json_array();
	size_t fault = 0;
	for (size_t i = 0; i < catalog->n || fault < catalog->n_faults;) {
		bool faults_turn = fault < catalog->n_faults &&
				   (i == catalog->n ||
				    strcmp(catalog->faults[fault].name, catalog->v[i].name) <= 0);
		if (faults_turn) {
			json_array_append_new(rows, runtime_fault_json(&catalog->faults[fault++]));
			continue;
		}
		struct runtime *r = &catalog->v[i++];
		if (runtime_is_shadowed(catalog, r->name))
			continue;
		CLEANUP_STANDING struct standing s = { 0 };
		runtime_standing(c, r, &s);
		json_array_append_new(rows, runtime_row_json(r, &s));
	}
	return rows;
}

static int main_list(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config c = { 0 };
	CLEANUP_CATALOG struct catalog catalog = { 0 };
	struct simple_args args = { 0 };
	struct runtime_words words;
	struct err err = { 0 };
	struct runtime_begin how = { .self = self, .target = &args };
	int r = runtime_begin(&how, argc, argv, &words, &c, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	if (catalog_read(&c, &catalog, &err) < 0)
		return cli_fail(&err);
	CLEANUP_JSON json_t *rows = rows_json(&c, &catalog);
	if (args.json)
		runtime_print_json(json_incref(rows));
	else if (runtimes_print(rows, &err) < 0)
		return cli_fail(&err);
	return 0;
}

const struct command command_runtime_list = {
	.name = "runtime list",
	.usage = "[--json]",
	.operands = COMPLETE_NOTHING,
	.summary = "all runtimes: kind, version, health, when it was last checked, limits",
	.options = &simple_options,
	.main = main_list,
};

/* The entries of that name that come before the one that counts. The one of the host itself is built in. */
static void find_overridden(const struct config *c, const struct runtime *r, struct strv *ret)
{
	CLEANUP_STRV struct strv dirs = { 0 };
	if (str_eq(r->name, "base") && !str_eq(r->origin, "built-in"))
		strv_add(ret, "built-in");
	catalog_dirs(c, &dirs);
	for (size_t i = 0; i < dirs.n; i++) {
		CLEANUP_FREE char *file = xasprintf("%s/%s.yaml", dirs.v[i], r->name);
		size_t length = strlen(file);
		if (strncmp(r->origin, file, length) == 0 && r->origin[length] == ':')
			return;
		if (access(file, F_OK) == 0)
			strv_add(ret, file);
	}
}

static int main_show(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config c = { 0 };
	CLEANUP_RUNTIME struct runtime runtime = { 0 };
	CLEANUP_STANDING struct standing standing = { 0 };
	CLEANUP_STRV struct strv overridden = { 0 };
	struct simple_args args = { 0 };
	struct runtime_words words;
	struct err err = { 0 };
	struct runtime_begin how = { .self = self, .target = &args, .min = 1, .max = 1 };
	int r = runtime_begin(&how, argc, argv, &words, &c, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	if (catalog_find(&c, words.v[0], &runtime, &err) < 0)
		return cli_fail(&err);
	runtime_standing(&c, &runtime, &standing);
	find_overridden(&c, &runtime, &overridden);
	CLEANUP_JSON json_t *o = runtime_json(&runtime, &standing, &overridden);
	if (args.json)
		runtime_print_json(json_incref(o));
	else
		runtime_print(o);
	return 0;
}

const struct command command_runtime_show = {
	.name = "runtime show",
	.usage = "[--json] NAME",
	.operands = COMPLETE_RUNTIMES,
	.summary = "everything about one: where it comes from, interpreters, checks, lock, drift",
	.options = &simple_options,
	.main = main_show,
};
