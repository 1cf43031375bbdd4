/* The tables of the page: what was used of each limit, what happened when, what was run, and in what box. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/num.h"
#include "spec/limits.h"
#include "view/report_parts.h"

#define BAR_WIDTH 1000.0

static void add_row(struct str *s, const char *head, const char *value)
{
	if (!value[0])
		return;
	str_addf(s, "<tr><th scope=\"row\">%s</th><td>", head);
	html_add(s, value);
	str_add(s, "</td></tr>\n");
}

static void add_bar(struct str *s, double from, double to, const char *class)
{
	str_add(s,
		"<td class=\"bar\"><svg viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">"
		"<rect class=\"track\" width=\"1000\" height=\"10\" rx=\"3\"/>");
	from = from < 0 ? 0 : from > 1 ? 1 : from;
	to = to < from ? from : to > 1 ? 1 : to;
	double width = (to - from) * BAR_WIDTH;
	if (width < 3) /* what took no time is still to be seen */
		width = 3;
	if (from * BAR_WIDTH + width > BAR_WIDTH)
		from = 1 - width / BAR_WIDTH;
	str_addf(s,
		 "<rect class=\"%s\" x=\"%.1f\" width=\"%.1f\" height=\"10\" rx=\"3\"/></svg></td>",
		 class, from * BAR_WIDTH, width);
}

static void print_amount(enum limit_unit unit, uint64_t amount, char *ret, size_t room)
{
	if (unit == LIMIT_UNIT_SIZE)
		(void)num_print_size(amount, ret, room);
	else if (unit == LIMIT_UNIT_DURATION)
		(void)num_print_duration(amount, ret, room);
	else
		(void)snprintf(ret, room, "%llu", (unsigned long long)amount);
}

void report_budget(const struct dossier *d, struct str *s)
{
	static const struct {
		enum limit_id limit;
		const char *name, *key;
		uint64_t scale; /* of the usage, to the limit's unit */
	} rows[] = {
		{ LIMIT_MEMORY, "memory", "memory_peak_bytes", 1 },
		{ LIMIT_TIME, "wall time", "wall_usec", 1000 },
		{ LIMIT_CPU_TIME, "cpu time", "cpu_usec", 1000 },
		{ LIMIT_PIDS, "processes", "pids_peak", 1 },
		{ LIMIT_DISK, "disk", "disk_peak_bytes", 1 },
		{ LIMIT_INODES, "files", "disk_peak_inodes", 1 },
	};
	const json_t *usage = json_object_get(d->verdict, "usage");
	const json_t *limits = json_object_get(d->analysis, "limits");
	if (!usage)
		return;
	str_add(s,
		"<section>\n<h2>Used of what it was given</h2>\n<table>\n"
		"<tr><th>what</th><th class=\"n\">used</th><th class=\"n\">limit</th><th class=\"bar\"></th></tr>\n");
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char used_text[40], limit_text[40] = "none";
		const struct limit_info *info = &limit_infos[rows[i].limit];
		uint64_t used = dossier_number(usage, rows[i].key) * rows[i].scale;
		uint64_t limit = dossier_number(json_object_get(limits, info->key), "raw");
		print_amount(info->unit, used, used_text, sizeof used_text);
		if (limit)
			print_amount(info->unit, limit, limit_text, sizeof limit_text);
		str_addf(s, "<tr><td>%s</td><td class=\"n\">%s</td><td class=\"n\">%s</td>",
			 rows[i].name, used_text, limit_text);
		double share = limit ? (double)used / (double)limit : 0;
		if (limit)
			add_bar(s, 0, share, share >= 0.95 ? "used full" : "used");
		else
			str_add(s, "<td class=\"bar\"></td>");
		str_add(s, "</tr>\n");
	}
	str_add(s, "</table>\n</section>\n");
}

/* Milliseconds since 1970; 0 if the text is none of ours. */
static uint64_t parse_time(const char *text)
{
	struct tm utc = { 0 };
	uint64_t ms = 0;
	const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &utc);
	if (!rest || timegm(&utc) < 0)
		return 0;
	for (int i = 1; rest[0] == '.' && i <= 3; i++)
		ms = ms * 10 + (uint64_t)(rest[i] >= '0' && rest[i] <= '9' ? rest[i] - '0' : 0);
	return (uint64_t)timegm(&utc) * 1000 + ms;
}

static void add_event_data(struct str *s, const json_t *data)
{
	const char *key;
	json_t *value;
	json_object_foreach((json_t *)data, key, value)
	{
		CLEANUP_FREE char *text =
			json_is_string(value) ? xstrdup(json_string_value(value))
					      : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
		if (!text || json_is_null(value) || json_is_object(value))
			continue;
		str_add(s, "<span class=\"soft\">");
		html_add(s, key);
		str_add(s, "</span> ");
		html_addf(s, "%.200s ", text);
	}
}

void report_timeline(const struct dossier *d, struct str *s)
{
	size_t i, n = json_array_size(d->events);
	json_t *event;
	if (!n)
		return;
	uint64_t first = parse_time(dossier_text(json_array_get(d->events, 0), "time"));
	uint64_t last = parse_time(dossier_text(json_array_get(d->events, n - 1), "time"));
	uint64_t before = first;
	double whole = last > first ? (double)(last - first) : 1;
	str_add(s,
		"<section>\n<h2>Timeline</h2>\n<table>\n<tr><th>event</th><th class=\"n\">after</th>"
		"<th class=\"bar\"></th><th>with</th></tr>\n");
	json_array_foreach(d->events, i, event)
	{
		uint64_t at = parse_time(dossier_text(event, "time"));
		if (i >= 200)
			break;
		str_add(s, "<tr><th scope=\"row\">");
		html_add(s, dossier_text(event, "event"));
		str_addf(s, "</th><td class=\"n\">%.3f s</td>",
			 at > first ? (double)(at - first) / 1000 : 0);
		add_bar(s, ((double)before - (double)first) / whole,
			((double)at - (double)first) / whole, "used");
		str_add(s, "<td>");
		add_event_data(s, json_object_get(event, "data"));
		str_add(s, "</td></tr>\n");
		before = at;
	}
	str_add(s, "</table>\n");
	if (n > 200)
		str_addf(s, "<p class=\"soft\">and %zu more</p>\n", n - 200);
	str_add(s, "</section>\n");
}

static void add_inputs(const struct dossier *d, struct str *s)
{
	size_t i;
	json_t *input;
	const json_t *inputs = json_object_get(d->analysis, "inputs");
	if (!json_array_size(inputs))
		return;
	str_add(s, "<tr><th scope=\"row\">inputs</th><td>");
	json_array_foreach(inputs, i, input)
	{
		html_addf(s, "%s%s", i ? ", " : "", dossier_text(input, "name"));
		if (dossier_text(input, "sha256")[0]) {
			str_add(s, " <code class=\"soft\">");
			html_addf(s, "%.16s", dossier_text(input, "sha256"));
			str_add(s, "</code>");
		}
	}
	str_add(s, "</td></tr>\n");
}

static void add_snapshot(const struct dossier *d, struct str *s)
{
	const json_t *snapshot = json_object_get(d->analysis, "db_snapshot");
	if (!snapshot)
		return;
	str_add(s, "<tr><th scope=\"row\">snapshot of</th><td>");
	html_add(s, dossier_text(snapshot, "path"));
	str_add(s, " <code class=\"soft\">");
	html_addf(s, "%.16s", dossier_text(snapshot, "sha256"));
	str_add(s, "</code></td></tr>\n");
}

/* What became of the step that the outputs were given to. */
static void add_post_process(const struct dossier *d, struct str *s)
{
	const json_t *step = json_object_get(d->verdict, "post_process");
	if (!step)
		return;
	str_add(s, "<tr><th scope=\"row\">post_process</th><td>");
	html_addf(s, "%s: %s, in run %s", dossier_text(step, "step"), dossier_text(step, "cause"),
		  dossier_text(step, "run"));
	str_add(s, "</td></tr>\n");
}

static void add_labels(const struct dossier *d, struct str *s)
{
	const char *key;
	json_t *value;
	json_t *labels = json_object_get(d->analysis, "labels");
	if (!json_object_size(labels))
		return;
	str_add(s, "<tr><th scope=\"row\">labels</th><td>");
	json_object_foreach(labels, key, value)
	{
		const char *text = json_string_value(value);
		str_add(s, "<span class=\"chip\">");
		html_addf(s, "%s: %s", key, text ? text : "");
		str_add(s, "</span>");
	}
	str_add(s, "</td></tr>\n");
}

static void add_command(const struct dossier *d, struct str *s)
{
	size_t i;
	json_t *word;
	const json_t *argv = json_object_get(d->plan, "argv");
	if (!json_array_size(argv))
		return;
	str_add(s, "<tr><th scope=\"row\">command</th><td><code>");
	json_array_foreach(argv, i, word)
	{
		const char *text = json_string_value(word);
		html_addf(s, "%s%.2000s", i ? " " : "", text ? text : "");
	}
	str_add(s, "</code></td></tr>\n");
}

void report_facts(const struct dossier *d, struct str *s)
{
	const json_t *r = json_object_get(d->analysis, "runtime");
	const json_t *prints = json_object_get(r, "fingerprint");
	CLEANUP_FREE char *runtime = xasprintf("%s (%s) %s", dossier_text(r, "name"),
					       dossier_text(r, "kind"), dossier_text(r, "version"));
	const json_t *x = json_object_get(d->verdict, "executor");
	CLEANUP_FREE char *executor = xasprintf("%s (%s) %s", dossier_text(x, "name"),
						dossier_text(x, "kind"), dossier_text(x, "engine"));
	str_add(s, "<section>\n<h2>What was run</h2>\n<table>\n");
	add_command(d, s);
	add_inputs(d, s);
	add_snapshot(d, s);
	add_post_process(d, s);
	add_row(s, "quest", dossier_text(d->analysis, "quest"));
	add_labels(d, s);
	add_row(s, "runtime", r ? runtime : "");
	add_row(s, "chosen because", dossier_text(json_object_get(r, "selection"), "why"));
	add_row(s, "carried out by", x ? executor : "");
	add_row(s, "fingerprint", dossier_text(prints, "identity"));
	add_row(s, "started", dossier_began(d));
	add_row(s, "ended", dossier_ended(d));
	str_add(s, "</table>\n</section>\n");
}

void report_box(const struct dossier *d, struct str *s)
{
	const json_t *r = d->receipt;
	const json_t *budget = json_object_get(r, "budget");
	const json_t *user = json_object_get(r, "user");
	CLEANUP_STR struct str own = { 0 };
	CLEANUP_STR struct str filter = { 0 };
	const char *name;
	json_t *namespace;
	if (!r)
		return;
	json_object_foreach(json_object_get(r, "namespaces"), name, namespace)
	{
		if (json_is_true(json_object_get(namespace, "own")))
			str_addf(&own, "%s%s", own.length ? ", " : "", name);
	}
	const json_t *seccomp = json_object_get(r, "seccomp");
	str_addf(&filter, "%llu instructions, SHA-256 %.16s",
		 (unsigned long long)dossier_number(seccomp, "instructions"),
		 dossier_text(seccomp, "sha256"));
	CLEANUP_FREE char *uids = xasprintf("%llu inside, %llu on the host",
					    (unsigned long long)dossier_number(user, "uid_inside"),
					    (unsigned long long)dossier_number(user, "uid_host"));
	CLEANUP_FREE char *landlock =
		xasprintf("version %llu, proven by a refused write: %s",
			  (unsigned long long)dossier_number(json_object_get(r, "landlock"), "abi"),
			  json_is_true(json_object_get(json_object_get(r, "landlock"),
						       "proven_by_refused_write"))
				  ? "yes"
				  : "no");
	str_add(s, "<section>\n<h2>The box, as the kernel told it</h2>\n<table>\n");
	add_row(s, "own namespaces", str_text(&own));
	add_row(s, "user id", user ? uids : "");
	add_row(s, "system call filter", seccomp ? str_text(&filter) : "");
	add_row(s, "Landlock", json_object_get(r, "landlock") ? landlock : "");
	add_row(s, "limits by", dossier_text(budget, "mechanism"));
	add_row(s, "disk by", dossier_text(json_object_get(r, "disk"), "mechanism"));
	add_row(s, "missing", dossier_text(r, "missing_layers"));
	str_add(s, "</table>\n</section>\n");
}
