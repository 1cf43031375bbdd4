/* cupel protect: what analyses must never change. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/path.h"
#include "cli/cli.h"
#include "health/protection.h"
#include "spec/dburl.h"
#include "view/progress.h"
#include "view/status.h"

struct protect_args {
	bool json, deep;
	struct strv words; /* what is named */
	struct config config;
};

static void protect_args_release(struct protect_args *a)
{
	strv_release(&a->words);
	config_release(&a->config);
}

enum { SET_JSON, SET_DEEP };

static int set(void *target, const struct option_row *row, const char *value, struct err *err)
{
	struct protect_args *a = target;
	a->json |= row->number == SET_JSON;
	a->deep |= row->number == SET_DEEP;
	return 0;
}

static const struct option_row check_rows[] = {
	{ 0, "deep", NULL, "by content: read every file and count every table", set, SET_DEEP },
	{ 0, "json", NULL, "print JSON", set, SET_JSON },
};
static const struct options check_options = { check_rows, 2 };
static const struct options plain_options = { check_rows + 1, 1 };

static int unknown(const struct config *c, const char *word, const char *path, struct err *err)
{
	for (size_t i = 0; path && i < c->watch.n; i++)
		if (c->watch.v[i][0] == '/' && path_within(path, c->watch.v[i]))
			return err_caller(err,
					  "%s lies in %s, which is protected as a whole: name that",
					  path, c->watch.v[i]);
	return err_caller(
		err,
		"'%.200s' is not protected: `cupel protect status` lists what is; protect: in "
		"cupel.yaml(5) of the host or the user names it",
		word);
}

/* As the configuration names it, or as it is shown, or a path from here. */
static int find(const struct config *c, const char *word, const char **ret, struct err *err)
{
	CLEANUP_FREE char *cwd = path_cwd();
	CLEANUP_FREE char *path = cwd ? path_normal(cwd, word) : NULL;
	for (size_t i = 0; i < c->watch.n; i++) {
		CLEANUP_FREE char *shown = dburl_shown(c->watch.v[i]);
		if (str_eq(word, c->watch.v[i]) || str_eq(word, shown) ||
		    str_eq(path, c->watch.v[i])) {
			*ret = c->watch.v[i];
			return 0;
		}
	}
	return unknown(c, word, path, err);
}

/* Options and names, the configuration, and of the names what they mean; none: all. */
static int begin(const struct command *self, int argc, char **argv, struct protect_args *args,
		 struct err *err)
{
	CLEANUP_STRV struct strv said = { 0 };
	struct operands rest = { 0 };
	int r = cli_parse(self, argc, argv, args, &rest, err);
	for (int i = rest.first; r >= 0 && i < argc; i++)
		strv_add(&said, argv[i]);
	if (r >= 0)
		r = config_read(&(struct config_where){ 0 }, &args->config, err);
	for (size_t i = 0; r >= 0 && i < said.n; i++) {
		const char *what = NULL;
		r = find(&args->config, said.v[i], &what, err);
		if (r >= 0)
			strv_add(&args->words, what);
	}
	if (r >= 0 && said.n == 0)
		strv_copy(&args->words, &args->config.watch);
	return r;
}

static const char *text_of(const json_t *o, const char *key, const char *otherwise)
{
	const char *text = json_string_value(json_object_get(o, key));
	return text ? text : otherwise;
}

static void print_runs(const json_t *runs)
{
	size_t i;
	const json_t *one;
	json_array_foreach(runs, i, one)
	{
		CLEANUP_FREE char *id =
			str_visible(json_is_string(one) ? json_string_value(one) : "?");
		printf("%s%s", i == 0 ? "  changed while these ran: " : ", ", id);
	}
	if (i > 0)
		printf("; `cupel show ID` tells more\n");
}

static void print_answer(const json_t *o)
{
	CLEANUP_FREE char *what = str_visible(text_of(o, "what", "?"));
	CLEANUP_FREE char *error = str_visible(text_of(o, "error", ""));
	size_t i;
	const json_t *one;
	if (str_starts(error, what)) /* it names the thing itself */
		printf("%-9s %s\n", text_of(o, "status", "?"), error);
	else
		printf("%-9s %s%s%s\n", text_of(o, "status", "?"), what, error[0] ? ": " : "",
		       error);
	json_array_foreach(json_object_get(o, "first"), i, one)
	{
		CLEANUP_FREE char *name = str_visible(text_of(one, "what", "?"));
		CLEANUP_FREE char *detail = str_visible(text_of(one, "detail", ""));
		printf("  %-8s %s%s%s%s\n", text_of(one, "kind", "?"), name, detail[0] ? " (" : "",
		       detail, detail[0] ? ")" : "");
	}
	long long all = (long long)json_integer_value(json_object_get(o, "changes"));
	if (all > (long long)i)
		printf("  and %lld more\n", all - (long long)i);
	print_runs(json_object_get(o, "runs"));
	if (text_of(o, "remedy", NULL)) {
		CLEANUP_FREE char *remedy = str_visible(text_of(o, "remedy", ""));
		printf("  if that is right: %s\n", remedy);
	}
}

static void print_status(const json_t *o)
{
	CLEANUP_FREE char *what = str_visible(text_of(o, "what", "?"));
	CLEANUP_FREE char *summary = str_visible(text_of(o, "summary", ""));
	printf("%-9s %s: accepted %s, last looked at %s%s%s\n", text_of(o, "status", "?"), what,
	       text_of(o, "accepted", "never"), text_of(o, "checked", "never"),
	       summary[0] ? "; " : "", summary);
}

/* 1: something was changed; 2: something could not be looked at, or was never accepted. */
static int status_of(const json_t *answers, bool failed)
{
	int worst = failed ? 2 : 0;
	size_t i;
	const json_t *o;
	json_array_foreach(answers, i, o)
	{
		const char *status = text_of(o, "status", "?");
		if (str_eq(status, "changed"))
			return 1;
		worst = str_eq(status, "ok") ? worst : 2;
	}
	return worst;
}

enum act { ACT_STATUS, ACT_CHECK, ACT_ACCEPT };

static int act_on(const struct protect_args *args, enum act act, const char *what, json_t **ret,
		  struct err *err)
{
	CLEANUP_FREE char *shown = dburl_shown(what);
	struct progress progress = { .shown = status_wanted(), .about = shown };
	const struct fingerprint_progress tell = { &progress, progress_files };
	const struct protect_look q = { .config = &args->config,
					.what = what,
					.depth = args->deep ? DEPTH_CONTENT : DEPTH_STAT,
					.max = PROTECT_FILES_MAX,
					.progress = &tell };
	int r = act == ACT_STATUS  ? protection_status(q.config, what, ret, err)
		: act == ACT_CHECK ? protection_check(&q, ret, err)
				   : protection_accept(&q, ret, err);
	progress_clear(&progress);
	return r;
}

static int main_act(const struct command *self, int argc, char **argv, enum act act)
{
	CLEANUP(protect_args_release) struct protect_args args = { 0 };
	CLEANUP_JSON json_t *answers = json_array();
	struct err err = { 0 };
	bool failed = false;
	int r = begin(self, argc, argv, &args, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	for (size_t i = 0; i < args.words.n; i++) {
		json_t *o = NULL;
		if (act_on(&args, act, args.words.v[i], &o, &err) < 0) {
			log_error("%s", err.text);
			failed = true;
			continue;
		}
		if (!args.json)
			(act == ACT_STATUS ? print_status : print_answer)(o);
		json_array_append_new(answers, o);
	}
	if (args.json)
		json_print(answers);
	else if (args.words.n == 0)
		printf("nothing is protected: see protect: in cupel.yaml(5)\n");
	return status_of(answers, failed);
}

static int main_status(const struct command *self, int argc, char **argv)
{
	return main_act(self, argc, argv, ACT_STATUS);
}

static int main_check(const struct command *self, int argc, char **argv)
{
	return main_act(self, argc, argv, ACT_CHECK);
}

static int main_accept(const struct command *self, int argc, char **argv)
{
	return main_act(self, argc, argv, ACT_ACCEPT);
}

static const struct command command_status = {
	.name = "protect status",
	.usage = "[--json] [WHAT...]",
	.summary = "what is protected, since when, and what the last look found; looks at nothing",
	.options = &plain_options,
	.main = main_status,
};
static const struct command command_check = {
	.name = "protect check",
	.usage = "[--deep] [--json] [WHAT...]",
	.summary = "compare it with what was accepted, and name every change; 1 if there is one",
	.options = &check_options,
	.main = main_check,
};
static const struct command command_accept = {
	.name = "protect accept",
	.usage = "[--json] [WHAT...]",
	.summary = "take it as it is now, by content, for what later looks compare with",
	.options = &plain_options,
	.main = main_accept,
};
static const struct command *const subs[] = { &command_status, &command_check, &command_accept };
#define N_SUBS (sizeof subs / sizeof *subs)

const struct command command_protect = {
	.name = "protect",
	.usage = "(status | check | accept) [--deep] [--json] [WHAT...]",
	.summary = "watch what analyses must never change: files, trees, databases",
	.options = &cli_no_options,
	.subs = subs,
	.n_subs = N_SUBS,
	.main = cli_main_subs,
};
