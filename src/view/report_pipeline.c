/* The page of a pipeline: its head, what it was run with, and the order of the parts. */
#include "view/report_pipeline.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "view/report_flow.h"

#define FAILURES_MAX 10
#define VALUE_MAX    2000 /* bytes of a parameter that are shown */

enum task_state step_state(const struct dossier_step *step)
{
	static const enum task_state worst[] = { TASK_FAILED,  TASK_CANCELLED, TASK_RUNNING,
						 TASK_SKIPPED, TASK_WAITING,   TASK_OK };
	for (size_t i = 0; i < sizeof worst / sizeof *worst; i++)
		if (step->counts[worst[i]])
			return worst[i];
	return TASK_REUSED;
}

static void describe(const uint64_t *counts, struct str *s)
{
	static const enum task_state order[] = { TASK_OK,     TASK_REUSED,    TASK_RUNNING,
						 TASK_FAILED, TASK_CANCELLED, TASK_SKIPPED,
						 TASK_WAITING };
	bool is_first = true;
	for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
		if (!counts[order[i]])
			continue;
		str_addf(s, "%s%llu %s", is_first ? "" : ", ", (unsigned long long)counts[order[i]],
			 task_state_names[order[i]]);
		is_first = false;
	}
}

void step_describe(const struct dossier_step *step, struct str *s)
{
	if (step->is_scattered)
		describe(step->counts, s);
	else
		str_add(s, task_state_names[step_state(step)]);
}

void report_add_state(struct str *s, enum task_state state, const char *words)
{
	str_addf(s, "<span class=\"state %s\">", task_state_names[state]);
	html_add(s, words);
	str_add(s, "</span>");
}

void report_add_meter(struct str *s, const char *used, const char *limit, double share)
{
	str_addf(s, "<td class=\"meter\">%s", used);
	if (limit[0]) {
		share = share < 0 ? 0 : share > 1 ? 1 : share;
		str_addf(
			s,
			" <span class=\"soft\">of %s</span><svg viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">"
			"<rect class=\"track\" width=\"1000\" height=\"10\"/><rect class=\"used%s\" width=\"%.0f\" height=\"10\"/></svg>",
			limit, share >= 0.95 ? " full" : "", share * 1000 < 3 ? 3 : share * 1000);
	}
	str_add(s, "</td>");
}

/* What one looks for first: which failed, why, and where more is told. */
static void add_failures(const struct pipeline_dossier *d, struct str *s)
{
	size_t n = 0;
	for (size_t i = 0; i < d->n_steps; i++)
		for (size_t j = 0; j < d->steps[i].n_tasks; j++) {
			const struct dossier_task *t = &d->steps[i].tasks[j];
			if (t->state != TASK_FAILED || n++ >= FAILURES_MAX)
				continue;
			CLEANUP_FREE char *name = task_name(&d->steps[i], t);
			str_add(s, n == 1 ? "<ul class=\"failures\">\n" : "");
			str_addf(s, i < FLOW_SECTIONS_MAX ? "<li><a href=\"#step-%zu\">" : "<li>",
				 i);
			html_add(s, name);
			str_add(s, i < FLOW_SECTIONS_MAX ? "</a>: " : ": ");
			html_add(s, t->cause);
			str_add(s, "</li>\n");
		}
	if (n > FAILURES_MAX)
		str_addf(s, "<li>and %zu more</li>\n", n - FAILURES_MAX);
	str_add(s, n ? "</ul>\n" : "");
}

static void add_verdict(const struct pipeline_dossier *d, struct str *s)
{
	char time[32];
	const char *name = dossier_text(d->pipeline, "name");
	bool is_ok = str_eq(d->state, "ok");
	str_addf(s, "<section class=\"verdict%s\">\n<span class=\"badge\">", is_ok ? " ok" : "");
	html_add(s, d->state);
	str_add(s, "</span><span class=\"id\">");
	html_add(s, d->id);
	str_add(s, "</span>\n<h1>");
	if (name[0])
		html_add(s, name);
	else
		html_addf(s, "Pipeline %s", d->id);
	str_addf(s, "</h1>\n<p class=\"notes\">%llu of %llu done",
		 (unsigned long long)pipeline_done(d), (unsigned long long)d->total);
	if (d->ended_ms > d->began_ms)
		str_addf(s, " in %s",
			 num_print_duration((d->ended_ms - d->began_ms) * NS_PER_MS, time,
					    sizeof time));
	str_add(s, ": ");
	describe(d->counts, s);
	str_add(s, ".</p>\n");
	add_failures(d, s);
	if (!d->result)
		str_add(s,
			"<p class=\"warn\">It has no result yet: this page shows how far it had got.</p>\n");
	str_add(s, "</section>\n");
}

static void add_fact(struct str *s, const char *head, const char *value)
{
	if (!value[0])
		return;
	str_addf(s, "<tr><th scope=\"row\">%s</th><td>", head);
	html_add_n(s, value, strnlen(value, VALUE_MAX));
	str_addf(s, "%s</td></tr>\n", strlen(value) > VALUE_MAX ? " ..." : "");
}

static void add_parameters(const struct pipeline_dossier *d, struct str *s)
{
	const char *name;
	json_t *value;
	size_t n = 0;
	json_t *parameters = json_object_get(d->pipeline, "parameters");
	if (!json_object_size(parameters))
		return;
	str_add(s, "<tr><th scope=\"row\">parameters</th><td>");
	json_object_foreach(parameters, name, value)
	{
		CLEANUP_FREE char *text = json_dumps_short(value, JSON_COMPACT | JSON_ENCODE_ANY);
		if (n++ >= 200 || !text)
			continue;
		str_add(s, "<span class=\"chip\">");
		html_addf(s, "%s: %.200s%s", name, text, strlen(text) > 200 ? " ..." : "");
		str_add(s, "</span>");
	}
	str_add(s, "</td></tr>\n");
}

static void add_labels(const struct pipeline_dossier *d, struct str *s)
{
	const char *name;
	json_t *value;
	json_t *labels = json_object_get(d->pipeline, "labels");
	if (!json_object_size(labels))
		return;
	str_add(s, "<tr><th scope=\"row\">labels</th><td>");
	json_object_foreach(labels, name, value)
	{
		const char *text = json_string_value(value);
		str_add(s, "<span class=\"chip\">");
		html_addf(s, "%.100s: %.256s", name, text ? text : "");
		str_add(s, "</span>");
	}
	str_add(s, "</td></tr>\n");
}

static void add_facts(const struct pipeline_dossier *d, struct str *s)
{
	const json_t *p = d->pipeline;
	str_add(s, "<section>\n<h2>What was run</h2>\n<table>\n");
	add_fact(s, "file", dossier_text(p, "file"));
	add_fact(s, "its SHA-256", dossier_text(p, "file_sha256"));
	add_parameters(d, s);
	add_fact(s, "quest", dossier_text(p, "quest"));
	add_labels(d, s);
	add_fact(s, "the time before", dossier_text(p, "previous"));
	add_fact(s, "created", dossier_text(p, "created"));
	add_fact(s, "started", dossier_text(d->result, "started"));
	add_fact(s, "ended", dossier_text(d->result, "ended"));
	add_fact(s, "record", d->directory);
	str_add(s, "</table>\n</section>\n");
}

void report_pipeline(const struct config *c, const struct pipeline_dossier *d, const json_t *crate,
		     struct str *ret)
{
	CLEANUP_FREE char *title = xasprintf("pipeline %s: %s", d->id, d->state);
	struct flow_page page = { .config = c, .d = d };
	report_begin(ret, title, crate);
	str_add(ret, "<main class=\"wide\">\n");
	add_verdict(d, ret);
	report_dag(&page, ret);
	report_steps(&page, ret);
	report_gantt(&page, ret);
	for (size_t i = 0; i < d->n_steps && i < FLOW_SECTIONS_MAX; i++)
		report_tasks(&page, i, ret);
	add_facts(d, ret);
	str_add(ret,
		"<footer>Made by cupel from the record of the pipeline and of its runs. All times are UTC.</footer>\n"
		"</main>\n</body>\n</html>\n");
}
