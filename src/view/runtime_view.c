#include "view/runtime_view.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/num.h"
#include "view/state_colour.h"
#include "view/table.h"

#define FINGERPRINT_SHOWN 12
#define DRIFTS_SHOWN      20 /* --json has them all */

static const char *text_of(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));
	return text ? text : "";
}

char *time_ago(const char *time, uint64_t now_real_ns)
{
	static const struct {
		uint64_t seconds;
		const char *name;
	} units[] = { { 86400, "day" }, { 3600, "hour" }, { 60, "minute" } };
	struct tm utc = { 0 };
	if (!time || !*time)
		return xstrdup("never");
	if (!strptime(time, "%Y-%m-%dT%H:%M:%S", &utc))
		return xstrdup(time);
	uint64_t then = (uint64_t)timegm(&utc), now = now_real_ns / NS_PER_SEC;
	for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
		uint64_t n = now > then ? (now - then) / units[i].seconds : 0;
		if (n)
			return xasprintf("%llu %s%s ago", (unsigned long long)n, units[i].name,
					 n == 1 ? "" : "s");
	}
	return xstrdup("just now");
}

/* "4G 1.5 cpus 20m": what most runs are short of first. */
static char *limits_text(const json_t *limits)
{
	static const char *const keys[] = { "memory", "cpus", "time" };
	CLEANUP_STR struct str text = { 0 };
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		const char *value = text_of(json_object_get(limits, keys[i]), "value");
		if (*value)
			str_addf(&text, "%s%s%s", text.length ? " " : "", value,
				 i == 1 ? " cpus" : "");
	}
	return xstrdup(str_text(&text));
}

int runtimes_print(const json_t *rows, struct err *err)
{
	static const struct table_column columns[] = {
		{ "NAME", TABLE_TEXT },     { "KIND", TABLE_TEXT },
		{ "VERSION", TABLE_CUT },   { "HEALTH", TABLE_TEXT, true },
		{ "VERIFIED", TABLE_TEXT }, { "FINGERPRINT", TABLE_TEXT },
		{ "LIMITS", TABLE_TEXT },   { "SUMMARY", TABLE_CUT },
	};
	CLEANUP_TABLE struct table t = { columns, sizeof columns / sizeof *columns };
	uint64_t now = clock_real_ns();
	size_t i;
	json_t *row;
	json_array_foreach(rows, i, row)
	{
		CLEANUP_FREE char *ago = time_ago(text_of(row, "verified"), now);
		CLEANUP_FREE char *limits = limits_text(json_object_get(row, "limits"));
		CLEANUP_FREE char *print =
			xasprintf("%.*s", FINGERPRINT_SHOWN,
				  text_of(json_object_get(row, "fingerprint"), "identity"));
		const char *const cells[] = { text_of(row, "name"),
					      text_of(row, "kind"),
					      text_of(row, "version"),
					      text_of(row, "health"),
					      ago,
					      print,
					      limits,
					      text_of(row, "summary") };
		for (size_t k = 0; k < t.n_columns; k++)
			table_add(&t, cells[k]);
	}
	int r = table_print(&t, err);
	if (r < 0)
		return r;
	bool first = true;
	json_array_foreach(rows, i, row)
	{
		CLEANUP_FREE char *reason = str_visible(text_of(row, "reason"));
		if (*reason)
			printf("%s%s is %s: %s\n", first ? "\n" : "", text_of(row, "name"),
			       text_of(row, "health"), reason);
		first = first && !*reason;
	}
	return 0;
}

static void line(const char *title, const char *text)
{
	CLEANUP_FREE char *clean = str_visible(text);
	if (*clean)
		printf("%-13s %s\n", title, clean);
}

/* A list in one line, or nothing. */
static void list_line(const char *title, const json_t *list)
{
	CLEANUP_STR struct str text = { 0 };
	size_t i;
	json_t *value;
	json_array_foreach(list, i, value)
	{
		str_addf(&text, "%s%s", i ? " " : "", json_string_value(value));
	}
	line(title, str_text(&text));
}

static void limits_lines(const char *title, const json_t *limits)
{
	const char *key, *head = title;
	json_t *limit;
	json_object_foreach((json_t *)limits, key, limit)
	{
		CLEANUP_FREE char *text = xasprintf("%-12s %-8s %s", key, text_of(limit, "value"),
						    text_of(limit, "origin"));
		line(head, text);
		head = "";
	}
}

static void interpreter_lines(const json_t *interpreters)
{
	size_t i, k;
	json_t *in, *word;
	json_array_foreach(interpreters, i, in)
	{
		CLEANUP_STR struct str text = { 0 };
		str_addf(&text, "%-6s", text_of(in, "extension"));
		json_array_foreach(json_object_get(in, "argv"), k, word)
		{
			const char *all = json_string_value(word);
			size_t first =
				strcspn(all, "\n"); /* of a program that stands in the entry */
			str_addf(&text, " %.*s%s", (int)first, all, all[first] ? " ..." : "");
		}
		line(i ? "" : "interpreters", str_text(&text));
	}
}

static void env_lines(const json_t *env)
{
	const char *key, *title = "environment";
	json_t *value;
	json_object_foreach((json_t *)env, key, value)
	{
		CLEANUP_FREE char *text = xasprintf("%s=%s", key, json_string_value(value));
		line(title, text);
		title = "";
	}
}

static void result_lines(const json_t *results)
{
	size_t i;
	json_t *check;
	json_array_foreach(results, i, check)
	{
		const json_t *ok = json_object_get(check, "ok");
		char wall[32];
		uint64_t usec =
			(uint64_t)json_integer_value(json_object_get(check, "duration_usec"));
		CLEANUP_FREE char *text = xasprintf(
			"%-6s %s (%s)%s%s",
			json_is_true(ok)   ? "ok"
			: json_is_null(ok) ? "absent"
					   : "FAILED",
			text_of(check, "name"), num_print_duration(usec * 1000, wall, sizeof wall),
			*text_of(check, "text") ? ": " : "", text_of(check, "text"));
		line(i ? "" : "checks", text);
	}
}

static void defined_lines(const json_t *checks)
{
	size_t i;
	json_t *check;
	json_array_foreach(checks, i, check)
	{
		CLEANUP_FREE char *text =
			xasprintf("%-6s %s", text_of(check, "kind"), text_of(check, "name"));
		line(i ? "" : "checks", text);
	}
}

/* drifts_json() is the fingerprint's: a list, or an object that has one and counts the rest. */
static void drift_lines(const json_t *drift)
{
	const json_t *list = drift;
	const char *key;
	json_t *value, *one;
	size_t i;
	json_object_foreach((json_t *)drift, key, value)
	{
		if (json_is_array(value))
			list = value;
	}
	json_array_foreach(list, i, one)
	{
		if (i == DRIFTS_SHOWN) {
			line("", "... (all: --json)");
			break;
		}
		const char *detail = text_of(one, "detail"), *owner = text_of(one, "owner");
		CLEANUP_FREE char *text = xasprintf("%-8s %s%s%s%s%s%s", text_of(one, "kind"),
						    text_of(one, "what"), *detail ? " (" : "",
						    detail, *detail ? ")" : "",
						    *owner ? " of " : "", owner);
		line(i ? "" : "drift", text);
	}
}

static void health_lines(const json_t *runtime)
{
	const char *verified = text_of(runtime, "verified");
	CLEANUP_FREE char *ago = time_ago(verified, clock_real_ns());
	CLEANUP_FREE char *when =
		*verified ? xasprintf("%s (%s), depth %s", ago, verified, text_of(runtime, "depth"))
			  : xstrdup(ago);
	line("health", text_of(runtime, "health"));
	line("reason", text_of(runtime, "reason"));
	line("verified", when);
}

static void lock_lines(const json_t *lock)
{
	bool exists = json_is_true(json_object_get(lock, "exists"));
	CLEANUP_FREE char *text =
		xasprintf("%s%s%s", text_of(lock, "file"),
			  exists ? ", of " : " (none; `cupel runtime lock` writes it)",
			  exists ? text_of(lock, "time") : "");
	line("lock", text);
}

void runtime_print(const json_t *runtime)
{
	static const char *const texts[][2] = {
		{ "name", "name" },       { "kind", "kind" },   { "version", "version" },
		{ "summary", "summary" }, { "from", "origin" },
	};
	static const char *const lists[][2] = {
		{ "overrides", "overrides" }, { "read-only", "read_only" },
		{ "devices", "devices" },     { "provides", "provides" },
		{ "packages", "packages" },
	};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		line(texts[i][0], text_of(runtime, texts[i][1]));
	health_lines(runtime);
	line("fingerprint", text_of(json_object_get(runtime, "fingerprint"), "identity"));
	line("prefix", text_of(runtime, "prefix"));
	line("root", text_of(runtime, "root"));
	line("path", text_of(runtime, "path"));
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
		list_line(lists[i][0], json_object_get(runtime, lists[i][1]));
	line("install", text_of(runtime, "install"));
	interpreter_lines(json_object_get(runtime, "interpreters"));
	env_lines(json_object_get(runtime, "env"));
	limits_lines("limits", json_object_get(runtime, "limits"));
	limits_lines("check limits", json_object_get(runtime, "check_limits"));
	const json_t *results = json_object_get(runtime, "results");
	if (json_array_size(results))
		result_lines(results);
	else
		defined_lines(json_object_get(runtime, "checks"));
	drift_lines(json_object_get(runtime, "drift"));
	lock_lines(json_object_get(runtime, "lock"));
}

void check_print(const json_t *check)
{
	CLEANUP_FREE char *reason = str_visible(text_of(check, "reason"));
	printf("%s: ", text_of(check, "name"));
	terminal_print(stdout, state_colour(text_of(check, "health")), "%s",
		       text_of(check, "health"));
	printf("%s%s\n", *reason ? ": " : "", reason);
	result_lines(json_object_get(check, "checks"));
	drift_lines(json_object_get(check, "drift"));
}
