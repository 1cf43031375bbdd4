/* The table of steps: what stands in the drawing, in words, and what was used of what was given. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "view/report_flow.h"

#define ROWS_MAX     500
#define ANALYSIS_MAX ((size_t)16 << 20)

/* Of its shards the one that used most, and its run: a limit may differ from run to run. */
struct most {
	uint64_t used;
	const char *run;
};

static void find_most(const struct dossier_step *step, struct most *wall, struct most *memory)
{
	for (size_t i = 0; i < step->n_tasks; i++) {
		const struct dossier_task *t = &step->tasks[i];
		if (t->wall_ms > wall->used || !wall->run)
			*wall = (struct most){ t->wall_ms, t->run };
		if (t->memory_bytes > memory->used || !memory->run)
			*memory = (struct most){ t->memory_bytes, t->run };
	}
}

void report_read_given(const struct flow_page *page, const char *run, struct flow_given *ret)
{
	CLEANUP_JSON json_t *analysis = NULL;
	CLEANUP_FREE char *path = xasprintf("%s/analysis.json", run);
	*ret = (struct flow_given){ 0 };
	if (!run[0] || json_read_file(page->d->runs_fd, path, ANALYSIS_MAX, &analysis, NULL) < 0)
		return;
	const json_t *limits = json_object_get(analysis, "limits");
	ret->time_ns = dossier_number(json_object_get(limits, "time"), "raw");
	ret->memory_bytes = dossier_number(json_object_get(limits, "memory"), "raw");
	(void)snprintf(ret->runtime, sizeof ret->runtime, "%s",
		       dossier_text(json_object_get(analysis, "runtime"), "name"));
}

void report_add_use(struct str *s, uint64_t wall_ms, uint64_t time_ns, uint64_t used_bytes,
		    uint64_t memory_bytes)
{
	char used[32] = "", given[32] = "";
	double wall_ns = (double)wall_ms * (double)NS_PER_MS;
	if (wall_ms)
		num_print_duration(wall_ms * NS_PER_MS, used, sizeof used);
	if (time_ns && wall_ms)
		num_print_duration(time_ns, given, sizeof given);
	report_add_meter(s, used, given, time_ns ? wall_ns / (double)time_ns : 0);
	used[0] = given[0] = 0;
	if (used_bytes)
		num_print_size(used_bytes, used, sizeof used);
	if (memory_bytes && used_bytes)
		num_print_size(memory_bytes, given, sizeof given);
	report_add_meter(s, used, given,
			 memory_bytes ? (double)used_bytes / (double)memory_bytes : 0);
}

static void add_row(const struct flow_page *page, size_t at, struct str *s)
{
	const struct dossier_step *step = &page->d->steps[at];
	const struct dossier_task *last = step->n_tasks ? &step->tasks[step->n_tasks - 1] : NULL;
	CLEANUP_STR struct str words = { 0 };
	struct most wall = { 0 }, memory = { 0 };
	struct flow_given of_wall, of_memory;
	size_t attempts = 0;
	find_most(step, &wall, &memory);
	report_read_given(page, wall.run ? wall.run : "", &of_wall);
	if (memory.run == wall.run)
		of_memory = of_wall;
	else
		report_read_given(page, memory.run, &of_memory);
	for (size_t i = 0; i < step->n_tasks; i++)
		attempts += step->tasks[i].n_attempts;
	step_describe(step, &words);
	str_addf(s, at < FLOW_SECTIONS_MAX ? "<tr><td><a href=\"#step-%zu\">" : "<tr><td>", at);
	html_add(s, step->name);
	str_addf(s, "%s</td><td>", at < FLOW_SECTIONS_MAX ? "</a>" : "");
	report_add_state(s, step_state(step), str_text(&words));
	str_add(s, "</td><td>");
	html_add(s, step->is_scattered || !last ? "" : last->cause);
	str_addf(s, "</td><td class=\"n\">%zu</td>", attempts);
	report_add_use(s, wall.used, of_wall.time_ns, memory.used, of_memory.memory_bytes);
	str_add(s, "<td class=\"wrap\">");
	for (size_t i = 0; i < step->n_needs && i < 20; i++)
		html_addf(s, "%s%s", i ? ", " : "", page->d->steps[step->needs[i]].name);
	str_addf(s, "%s</td><td>", step->n_needs > 20 ? " ..." : "");
	html_add(s, of_wall.runtime[0] ? of_wall.runtime : step->runtime);
	str_add(s, "</td></tr>\n");
}

void report_steps(struct flow_page *page, struct str *s)
{
	const struct pipeline_dossier *d = page->d;
	str_add(s,
		"<section>\n<h2>What became of each step</h2>\n<div class=\"scroll\"><table class=\"steps\">\n"
		"<tr><th scope=\"col\">step</th><th scope=\"col\">state</th><th scope=\"col\">cause</th><th scope=\"col\" class=\"n\">attempts</th>"
		"<th scope=\"col\">time, the longest</th><th scope=\"col\">memory, the most</th><th scope=\"col\">needs</th><th scope=\"col\">runtime</th></tr>\n");
	for (size_t i = 0; i < d->n_steps && i < ROWS_MAX; i++)
		add_row(page, i, s);
	str_add(s, "</table></div>\n");
	if (d->n_steps > ROWS_MAX)
		str_addf(s,
			 "<p class=\"soft\">and %zu more steps; `cupel show --json` has all</p>\n",
			 d->n_steps - ROWS_MAX);
	str_add(s, "</section>\n");
}
