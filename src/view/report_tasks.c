/* One step at length: its shards, each attempt with its cause, the end of the log of what failed, figures, and why it was run. Of many
 * shards those that failed are told first, then the longest. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/num.h"
#include "base/path.h"
#include "collect/fetch.h"
#include "view/report_flow.h"

#define TASKS_MAX    12 /* shards of one step that are told of */
#define ATTEMPTS_MAX 12 /* of one of them */
#define LOGS_MAX     40 /* in the page */
#define LOG_MAX      4096
#define VERDICT_MAX  ((size_t)1 << 20)
#define COMMAND_MAX  600
#define PICTURES_MAX 12 /* of one step */
#define WHY_MAX      1000
#define OUTPUTS_MAX  12 /* that are named */

static int by_interest(const void *a, const void *b)
{
	const struct dossier_task *p = *(const struct dossier_task *const *)a;
	const struct dossier_task *q = *(const struct dossier_task *const *)b;
	bool p_failed = p->state == TASK_FAILED, q_failed = q->state == TASK_FAILED;
	if (p_failed != q_failed)
		return p_failed ? -1 : 1;
	if (p->n_attempts != q->n_attempts && (p->n_attempts > 1 || q->n_attempts > 1))
		return p->n_attempts > q->n_attempts ? -1 : 1;
	if (p->wall_ms != q->wall_ms)
		return p->wall_ms > q->wall_ms ? -1 : 1;
	return p < q ? -1 : 1;
}

static void add_why(const struct dossier_task *t, struct str *s)
{
	if (!t->why[0])
		return;
	str_addf(s, "<dt>%s</dt><dd>",
		 t->state == TASK_SKIPPED ? "not run because"
		 : t->run[0]              ? "run because"
					  : "in the way was");
	html_add_n(s, t->why, strnlen(t->why, WHY_MAX));
	str_addf(s, "%s</dd>\n", strlen(t->why) > WHY_MAX ? " ..." : "");
}

static void add_command(const struct dossier *run, struct str *s)
{
	size_t i;
	json_t *word;
	CLEANUP_STR struct str all = { 0 };
	json_array_foreach(json_object_get(run->plan, "argv"), i, word)
	{
		const char *text = json_string_value(word);
		if (all.length <= COMMAND_MAX)
			str_addf(&all, "%s%s", i ? " " : "", text ? text : "");
	}
	if (!all.length)
		return;
	str_add(s, "<dt>command</dt><dd><code>");
	html_add_n(s, all.text, all.length < COMMAND_MAX ? all.length : COMMAND_MAX);
	str_addf(s, "%s</code></dd>\n", all.length > COMMAND_MAX ? " ..." : "");
}

static void add_outputs(const struct dossier *run, struct str *s)
{
	size_t i;
	json_t *file;
	const json_t *files = json_object_get(run->outputs, "files");
	size_t n = json_array_size(files);
	if (!n)
		return;
	str_addf(s, "<dt>%s</dt><dd>",
		 str_eq(dossier_outputs_dir(run), "partial") ? "partial outputs" : "outputs");
	json_array_foreach(files, i, file)
	{
		char size[40];
		if (i >= OUTPUTS_MAX)
			break;
		num_print_size(dossier_number(file, "size"), size, sizeof size);
		str_addf(s, "%s<bdi>", i ? ", " : "");
		html_addf(s, "%.200s", dossier_text(file, "path"));
		str_addf(s, "</bdi> <span class=\"soft\">%s</span>", size);
	}
	if (n > OUTPUTS_MAX)
		str_addf(s, " and %zu more", n - OUTPUTS_MAX);
	str_add(s, "</dd>\n");
}

static void add_pictures(struct flow_page *page, const struct dossier *run, struct str *s)
{
	size_t i, n = 0;
	json_t *file;
	const char *dir = dossier_outputs_dir(run);
	json_array_foreach(json_object_get(run->outputs, "files"), i, file)
	{
		CLEANUP_FREE char *path = fetch_path(file);
		CLEANUP_STR struct str picture = { 0 };
		if (!path || !dir || n >= PICTURES_MAX ||
		    !str_starts(dossier_text(file, "media_type"), "image/"))
			continue;
		CLEANUP_FREE char *below = path_join(dir, path);
		if (!report_picture(&page->previews, run->dir_fd, below, file, &picture))
			continue;
		n++;
		str_add(s, "<figure><figcaption>");
		html_add(s, dossier_text(file, "path"));
		str_addf(s, "%s</figcaption>\n%s</figure>\n",
			 str_eq(dir, "partial") ? " (partial)" : "", picture.text);
	}
}

static void add_attempt_row(const struct flow_page *page, const struct dossier_task *t, size_t at,
			    struct str *s)
{
	char after[32] = "";
	struct flow_given given;
	const struct dossier_attempt *a = &t->attempts[at];
	report_read_given(page, a->run, &given);
	if (a->started_ms >= page->d->began_ms && a->started_ms)
		num_print_duration((a->started_ms - page->d->began_ms) * NS_PER_MS, after,
				   sizeof after);
	str_addf(s, "<tr><td class=\"n\">%zu</td><td>", at + 1);
	report_add_state(s, task_state_of(a->cause), a->cause[0] ? a->cause : "running");
	str_addf(s, "</td><td class=\"n\">%s</td>", after);
	report_add_use(s, a->wall_ms, given.time_ns, a->memory_bytes, given.memory_bytes);
	str_add(s, "<td><code>");
	html_add(s, a->run);
	str_add(s, "</code></td></tr>\n");
}

/* What its verdict says, below the row of an attempt that failed; of the last one it is said at length. */
static void add_attempt_notes(const struct flow_page *page, const struct dossier_task *t, size_t at,
			      struct str *s)
{
	CLEANUP_JSON json_t *verdict = NULL;
	const struct dossier_attempt *a = &t->attempts[at];
	CLEANUP_FREE char *path = xasprintf("%s/verdict.json", a->run);
	if (!a->run[0] || !a->cause[0] || str_eq(a->cause, "ok") || str_eq(a->run, t->run))
		return;
	(void)json_read_file(page->d->runs_fd, path, VERDICT_MAX, &verdict, NULL);
	if (!dossier_text(verdict, "completion_notes")[0])
		return;
	str_add(s, "<tr><td></td><td class=\"wrap soft\" colspan=\"5\">");
	html_add(s, dossier_text(verdict, "completion_notes"));
	str_add(s, "</td></tr>\n");
}

static void add_attempts(const struct flow_page *page, const struct dossier_task *t, struct str *s)
{
	if (!t->n_attempts)
		return;
	str_add(s,
		"<div class=\"scroll\"><table>\n<tr><th scope=\"col\" class=\"n\">attempt</th><th scope=\"col\">cause</th>"
		"<th scope=\"col\" class=\"n\">started after</th><th scope=\"col\">time</th><th scope=\"col\">memory</th>"
		"<th scope=\"col\">run</th></tr>\n");
	for (size_t i = 0; i < t->n_attempts && i < ATTEMPTS_MAX; i++) {
		add_attempt_row(page, t, i, s);
		add_attempt_notes(page, t, i, s);
	}
	str_add(s, "</table></div>\n");
	if (t->n_attempts > ATTEMPTS_MAX)
		str_addf(s, "<p class=\"soft\">and %zu more attempts</p>\n",
			 t->n_attempts - ATTEMPTS_MAX);
}

static void add_failure(struct flow_page *page, const struct dossier *run, struct str *s)
{
	const char *notes = dossier_text(run->verdict, "completion_notes");
	if (notes[0]) {
		str_add(s, "<p class=\"warn\">");
		html_add(s, notes);
		str_add(s, "</p>\n");
	}
	if (page->logs++ >= LOGS_MAX)
		str_add(s,
			"<p class=\"soft\">The page has enough of logs; this one is in its run directory.</p>\n");
	else if (!report_tail(run->dir_fd, "stderr.log", LOG_MAX, s))
		(void)report_tail(run->dir_fd, "stdout.log", LOG_MAX, s);
}

static void add_task(struct flow_page *page, const struct dossier_step *step,
		     const struct dossier_task *t, struct str *s)
{
	CLEANUP_DOSSIER struct dossier run = DOSSIER_INIT;
	CLEANUP_FREE char *name = task_name(step, t);
	bool has_run = t->run[0] && dossier_read(page->config, t->run, &run, NULL) >= 0;
	str_add(s, "<article>\n");
	if (step->is_scattered) {
		str_add(s, "<h3>");
		html_addf(s, "%s ", name);
		report_add_state(s, t->state, task_state_names[t->state]);
		str_add(s, "</h3>\n");
	}
	str_add(s, "<dl>\n");
	if (t->run[0]) {
		str_addf(s, "<dt>%s</dt><dd><code>",
			 t->state == TASK_REUSED ? "reused from" : "run");
		html_addf(s, "%s/runs/%s", page->config->home, t->run);
		str_addf(s, "</code>%s</dd>\n",
			 has_run || t->state == TASK_RUNNING ? "" : ", whose record can't be read");
	}
	if (t->key[0]) {
		str_add(s, "<dt>key</dt><dd><code>");
		html_addf(s, "%.64s", t->key);
		str_add(s, "</code></dd>\n");
	}
	add_why(t, s);
	if (has_run) {
		add_command(&run, s);
		add_outputs(&run, s);
	}
	str_add(s, "</dl>\n");
	add_attempts(page, t, s);
	if (has_run && t->state == TASK_FAILED)
		add_failure(page, &run, s);
	if (has_run)
		add_pictures(page, &run, s);
	str_add(s, "</article>\n");
}

static void add_head(const struct dossier_step *step, size_t at, struct str *s)
{
	CLEANUP_STR struct str words = { 0 };
	step_describe(step, &words);
	str_addf(s, "<section id=\"step-%zu\">\n<h2>", at);
	html_addf(s, "%s ", step->name);
	report_add_state(s, step_state(step), str_text(&words));
	str_add(s, "</h2>\n");
	if (step->summary[0]) {
		str_add(s, "<p class=\"soft\">");
		html_addf(s, "%.600s", step->summary);
		str_add(s, "</p>\n");
	}
}

void report_tasks(struct flow_page *page, size_t at, struct str *s)
{
	const struct dossier_step *step = &page->d->steps[at];
	CLEANUP_FREE const struct dossier_task **tasks = xcalloc(step->n_tasks + 1, sizeof *tasks);
	for (size_t i = 0; i < step->n_tasks; i++)
		tasks[i] = &step->tasks[i];
	if (step->n_tasks > TASKS_MAX)
		qsort(tasks, step->n_tasks, sizeof *tasks, by_interest);
	add_head(step, at, s);
	for (size_t i = 0; i < step->n_tasks && i < TASKS_MAX; i++)
		add_task(page, step, tasks[i], s);
	if (!step->n_tasks)
		str_add(s, "<p class=\"soft\">It was not come to.</p>\n");
	if (step->n_tasks > TASKS_MAX)
		str_addf(
			s,
			"<p class=\"soft\">and %zu more shards; `cupel show --json` and steps.jsonl have all</p>\n",
			step->n_tasks - TASKS_MAX);
	str_add(s, "</section>\n");
}
