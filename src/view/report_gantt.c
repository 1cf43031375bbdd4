/* When each attempt ran, a row a step: attempts that overlap lie below each other. Where they are too many to be told apart they flow
 * together. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "view/report_flow.h"

#define ROWS_MAX  120 /* steps */
#define BARS_MAX  4000
#define LANES_MAX 8 /* of one step; what does not fit lies over the last one */
#define LABEL_MAX 24
#define LEFT      190.0
#define WIDTH     1180.0
#define RIGHT     12.0
#define LANE      11.0
#define TOP       24.0
#define TICKS_MAX 16

struct chart {
	uint64_t from_ms, to_ms;
	double y;
	size_t bars;
	struct str body;
};

static double x_of(const struct chart *c, uint64_t ms)
{
	uint64_t at = ms < c->from_ms ? c->from_ms : ms > c->to_ms ? c->to_ms : ms;
	return LEFT +
	       (WIDTH - LEFT - RIGHT) * (double)(at - c->from_ms) / (double)(c->to_ms - c->from_ms);
}

/* One bar that may still grow. */
struct lane {
	double x1, x2;
	uint64_t busy_ms; /* until then */
	const char *class;
	size_t n; /* attempts in it */
	char words[160];
};

static void flush_bar(struct chart *c, struct lane *l, double y)
{
	if (!l->n)
		return;
	double width = l->x2 - l->x1 < 2 ? 2 : l->x2 - l->x1;
	if (c->bars++ < BARS_MAX) {
		str_addf(
			&c->body,
			"<rect class=\"part %s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.0f\" rx=\"2\"><title>",
			l->class, l->x1, y, width, LANE - 2);
		if (l->n == 1)
			html_add(&c->body, l->words);
		else
			str_addf(&c->body, "%zu attempts", l->n);
		str_add(&c->body, "</title></rect>\n");
	}
	l->n = 0;
}

struct span {
	uint64_t from_ms, to_ms;
	const struct dossier_task *task;
	size_t attempt;
};

static int by_start(const void *a, const void *b)
{
	const struct span *p = a, *q = b;
	return p->from_ms < q->from_ms ? -1 : p->from_ms > q->from_ms;
}

/* Those whose start is known; one that goes on lasts until the last that is known. */
static struct span *collect(const struct chart *c, const struct dossier_step *step, size_t *ret_n)
{
	size_t n = 0;
	for (size_t i = 0; i < step->n_tasks; i++)
		n += step->tasks[i].n_attempts;
	struct span *spans = xcalloc(n + 1, sizeof *spans);
	n = 0;
	for (size_t i = 0; i < step->n_tasks; i++)
		for (size_t j = 0; j < step->tasks[i].n_attempts; j++) {
			const struct dossier_attempt *a = &step->tasks[i].attempts[j];
			if (!a->started_ms)
				continue;
			spans[n++] = (struct span){ a->started_ms,
						    a->ended_ms ? a->ended_ms : c->to_ms,
						    &step->tasks[i], j };
		}
	qsort(spans, n, sizeof *spans, by_start);
	*ret_n = n;
	return spans;
}

static void add_span(struct chart *c, struct lane *l, double y, const struct dossier_step *step,
		     const struct span *span)
{
	char time[32];
	const struct dossier_attempt *a = &span->task->attempts[span->attempt];
	const char *class = task_state_names[task_state_of(a->cause)];
	double x1 = x_of(c, span->from_ms), x2 = x_of(c, span->to_ms);
	CLEANUP_FREE char *name = task_name(step, span->task);
	if (l->n && (!str_eq(l->class, class) || x1 > l->x2 + 0.5 || x2 - l->x1 > 40))
		flush_bar(c, l, y);
	if (!l->n)
		*l = (struct lane){ .x1 = x1, .class = class };
	l->x2 = x2;
	l->n++;
	l->busy_ms = span->to_ms;
	(void)snprintf(
		l->words, sizeof l->words, "%.80s, attempt %zu: %s, %s", name, span->attempt + 1,
		a->cause[0] ? a->cause : "running",
		num_print_duration((span->to_ms - span->from_ms) * NS_PER_MS, time, sizeof time));
}

static void add_row(struct chart *c, const struct dossier_step *step, size_t number)
{
	struct lane lanes[LANES_MAX] = { 0 };
	size_t n = 0, used = 0;
	CLEANUP_FREE struct span *spans = collect(c, step, &n);
	if (!n)
		return;
	for (size_t i = 0; i < n; i++) {
		size_t at = 0;
		while (at < LANES_MAX - 1 && at < used && lanes[at].busy_ms > spans[i].from_ms)
			at++;
		if (at == used)
			used++;
		add_span(c, &lanes[at], c->y + LANE * (double)at, step, &spans[i]);
	}
	for (size_t at = 0; at < used; at++)
		flush_bar(c, &lanes[at], c->y + LANE * (double)at);
	str_addf(&c->body, "<text x=\"4\" y=\"%.1f\">", c->y + 9);
	bool is_linked = number < FLOW_SECTIONS_MAX;
	if (is_linked)
		str_addf(&c->body, "<a href=\"#step-%zu\">", number);
	size_t length = strlen(step->name);
	html_add_n(&c->body, step->name, length > LABEL_MAX ? LABEL_MAX : length);
	str_addf(&c->body, "%s%s</text>\n", length > LABEL_MAX ? "\xe2\x80\xa6" : "",
		 is_linked ? "</a>" : "");
	c->y += LANE * (double)used + 9;
}

/* 1, 2 or 5 times a power of ten seconds, then minutes and hours as people count them: at most twelve of them. */
static uint64_t tick_ms(uint64_t whole_ms)
{
	static const uint64_t nice[] = { 1,       2,       5,       10,       20,       50,
					 100,     200,     500,     1000,     2000,     5000,
					 10000,   30000,   60000,   120000,   300000,   600000,
					 1800000, 3600000, 7200000, 21600000, 43200000, 86400000 };
	for (size_t i = 0; i < sizeof nice / sizeof *nice; i++)
		if (whole_ms / nice[i] <= 12)
			return nice[i];
	return whole_ms / 12;
}

static void add_axis(const struct chart *c, struct str *s)
{
	uint64_t whole = c->to_ms - c->from_ms, step = tick_ms(whole);
	for (uint64_t i = 0; i < TICKS_MAX && i * step <= whole; i++) {
		char text[32];
		double x = x_of(c, c->from_ms + i * step);
		str_addf(
			s,
			"<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"18\" y2=\"%.0f\"/>"
			"<text class=\"tick\" text-anchor=\"middle\" x=\"%.1f\" y=\"13\">%s</text>\n",
			x, x, c->y, x > WIDTH - 40 ? WIDTH - 40 : x,
			i ? num_print_duration(i * step * NS_PER_MS, text, sizeof text) : "0");
	}
}

static void find_range(const struct pipeline_dossier *d, struct chart *c)
{
	c->from_ms = d->began_ms;
	c->to_ms = d->ended_ms;
	for (size_t i = 0; i < d->n_steps; i++)
		for (size_t j = 0; j < d->steps[i].n_tasks; j++)
			for (size_t k = 0; k < d->steps[i].tasks[j].n_attempts; k++) {
				const struct dossier_attempt *a = &d->steps[i].tasks[j].attempts[k];
				if (a->started_ms && (!c->from_ms || a->started_ms < c->from_ms))
					c->from_ms = a->started_ms;
				if (a->ended_ms > c->to_ms)
					c->to_ms = a->ended_ms;
			}
}

void report_gantt(const struct flow_page *page, struct str *s)
{
	struct chart c = { .y = TOP };
	size_t rows = 0;
	find_range(page->d, &c);
	str_add(s, "<section>\n<h2>Timeline</h2>\n");
	for (size_t i = 0; c.to_ms > c.from_ms && i < page->d->n_steps && rows < ROWS_MAX; i++) {
		double before = c.y;
		add_row(&c, &page->d->steps[i], i);
		rows += c.y > before;
	}
	if (!rows)
		str_add(s, "<p class=\"soft\">Nothing was run.</p>\n");
	else {
		str_addf(
			s,
			"<div class=\"draw fit\"><svg viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" role=\"group\" aria-labelledby=\"gantt-title gantt-desc\">\n"
			"<title id=\"gantt-title\">When each attempt ran</title>"
			"<desc id=\"gantt-desc\">A row for each step, a bar for each attempt. The attempts are told one by one in the sections of the steps.</desc>\n",
			WIDTH, c.y, WIDTH, c.y);
		add_axis(&c, s);
		str_add_n(s, c.body.text, c.body.length);
		str_add(s, "</svg></div>\n");
	}
	if (rows) {
		str_add(s, "<p>");
		report_add_state(s, TASK_OK, "ok");
		str_add(s, " ");
		report_add_state(s, TASK_FAILED, "failed");
		str_add(s, " ");
		report_add_state(s, TASK_CANCELLED, "cancelled or checkpointed");
		str_add(s, " <span class=\"soft\">What was reused took no time.</span></p>\n");
	}
	if (rows == ROWS_MAX)
		str_addf(s, "<p class=\"soft\">The first %d steps that were run.</p>\n", ROWS_MAX);
	if (c.bars > BARS_MAX)
		str_addf(s, "<p class=\"soft\">%zu bars are not drawn.</p>\n", c.bars - BARS_MAX);
	str_add(s, "</section>\n");
	str_release(&c.body);
}
