/* Memory and cpu over time, as drawings that need no program: usage.jsonl against the limits of the analysis. */
#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "base/num.h"
#include "view/report_parts.h"

#define USAGE_MAX  ((size_t)64 << 20)
#define LINES_MAX  16  /* of a grid */
#define POINTS_MAX 400 /* more than the drawing has columns to show */
#define WIDTH      920.0
#define HEIGHT     230.0
#define LEFT       76.0
#define RIGHT      8.0
#define TOP        22.0
#define BOTTOM     26.0

struct point {
	double t_s, value;
};

struct series {
	struct point v[POINTS_MAX + 2];
	size_t n;
};

struct sample {
	double t_s, mem_bytes, cpu_s;
};

struct samples {
	struct sample *v; /* owned */
	size_t n;
};

static void samples_release(struct samples *s)
{
	cleanup_free(&s->v);
}

/* Not libm's: `cupel run` would have to load it. */
static double larger(double a, double b)
{
	return a > b ? a : b;
}

static double smaller(double a, double b)
{
	return a < b ? a : b;
}

static double number(const json_t *o, const char *key)
{
	return (double)dossier_number(o, key);
}

static void read_samples(const struct dossier *d, struct samples *ret)
{
	CLEANUP_FREE char *text = NULL;
	size_t length = 0, room = 0;
	if (fs_read_capped(d->dir_fd, "usage.jsonl", USAGE_MAX, &text, &length, NULL) < 0)
		return;
	for (char *line = text; line < text + length;) {
		char *end = memchr(line, '\n', (size_t)(text + length - line));
		size_t n = end ? (size_t)(end - line) : (size_t)(text + length - line);
		CLEANUP_JSON json_t *o = json_loadb(line, n, 0, NULL);
		line += n + 1;
		double t_s = number(o, "t_ms") / 1000;
		if (!json_is_object(o) || (ret->n && t_s <= ret->v[ret->n - 1].t_s))
			continue;
		if (ret->n == room) {
			room = room ? room * 2 : 64;
			ret->v = xreallocarray(ret->v, room, sizeof *ret->v);
		}
		ret->v[ret->n++] =
			(struct sample){ t_s, number(o, "mem"), number(o, "cpu_usec") / 1e6 };
	}
}

/* At most POINTS_MAX: of each group the largest, which is what a limit is about. */
static void memory_series(const struct samples *s, struct series *ret)
{
	size_t step = (s->n + POINTS_MAX - 1) / POINTS_MAX;
	ret->v[ret->n++] = (struct point){ 0, 0 };
	for (size_t i = 0; i < s->n; i += step) {
		struct point most = { s->v[i].t_s, s->v[i].mem_bytes };
		for (size_t j = i; j < s->n && j < i + step; j++)
			if (s->v[j].mem_bytes > most.value)
				most = (struct point){ s->v[j].t_s, s->v[j].mem_bytes };
		ret->v[ret->n++] = most;
	}
}

/* Cpus in use from one sample to the next; of each group the mean. The kernel counts in ticks that are as long as the first gaps between
 * samples: below 50 ms the count says nothing. */
static void cpu_series(const struct samples *s, const struct sample *end, struct series *ret)
{
	size_t step = (s->n + POINTS_MAX - 1) / POINTS_MAX;
	struct sample before = { 0 };
	for (size_t i = step - 1; i < s->n + step; i += step) {
		const struct sample *now = i < s->n ? &s->v[i] : end;
		double passed = now->t_s - before.t_s;
		if (passed < 0.05 || ret->n + 2 > POINTS_MAX)
			continue;
		double cpus = larger(0, now->cpu_s - before.cpu_s) / passed;
		if (!ret->n)
			ret->v[ret->n++] = (struct point){ 0, cpus };
		ret->v[ret->n++] = (struct point){ now->t_s, cpus };
		before = *now;
	}
}

struct plot {
	const char *caption;
	const struct series *series;
	double end_s, top, limit, peak;
	double step; /* between lines of the grid */
	void (*print)(double value, char *ret, size_t room);
};

static void print_bytes(double value, char *ret, size_t room)
{
	(void)num_print_size((uint64_t)value, ret, room);
}

static void print_cpus(double value, char *ret, size_t room)
{
	(void)snprintf(ret, room, "%.3g", value);
}

static double x_of(const struct plot *p, double t_s)
{
	return LEFT + smaller(1, t_s / p->end_s) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct plot *p, double value)
{
	return HEIGHT - BOTTOM - smaller(1, value / p->top) * (HEIGHT - TOP - BOTTOM);
}

/* 1, 2 or 5 times a power of ten: at most `lines` of them in `top`. */
static double nice_step(double top, double lines)
{
	static const double factors[] = { 2, 2.5, 2 };
	double step = 1e-9;
	for (size_t i = 0; step * lines < top; i++)
		step *= factors[i % 3];
	return step;
}

/* Powers of two, as people count memory. */
static double nice_bytes(double top)
{
	double step = 1024;
	while (step * 4 < top)
		step *= 2;
	return step;
}

static void add_grid(const struct plot *p, struct str *s)
{
	for (int i = 0; i < LINES_MAX && i * p->step <= p->top; i++) {
		char text[40];
		double value = i * p->step;
		p->print(value, text, sizeof text);
		str_addf(s,
			 "<line class=\"grid\" x1=\"%.0f\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\"/>"
			 "<text class=\"tick\" text-anchor=\"end\" x=\"%.0f\" y=\"%.1f\">%s</text>",
			 LEFT, WIDTH - RIGHT, y_of(p, value), y_of(p, value), LEFT - 8,
			 y_of(p, value) + 4, value > 0 ? text : "0");
	}
	double step = nice_step(p->end_s, 8);
	for (int i = 0; i < LINES_MAX && i * step <= p->end_s * 1.0001; i++)
		str_addf(
			s,
			"<text class=\"tick\" text-anchor=\"middle\" x=\"%.1f\" y=\"%.0f\">%.4g s</text>",
			smaller(x_of(p, i * step), WIDTH - RIGHT - 14), HEIGHT - 8, i * step);
}

static void add_curve(const struct plot *p, struct str *s)
{
	CLEANUP_STR struct str path = { 0 };
	for (size_t i = 0; i < p->series->n; i++)
		str_addf(&path, "%s%.1f %.1f", i ? "L" : "M", x_of(p, p->series->v[i].t_s),
			 y_of(p, p->series->v[i].value));
	const struct point *last = &p->series->v[p->series->n - 1];
	str_addf(
		s,
		"<path class=\"area\" d=\"%sL%.1f %.1fL%.1f %.1fZ\"/><path class=\"curve\" d=\"%s\"/>",
		path.text, x_of(p, last->t_s), y_of(p, 0), x_of(p, p->series->v[0].t_s), y_of(p, 0),
		path.text);
}

static void add_mark(const struct plot *p, const char *class, const char *word, double value,
		     struct str *s)
{
	char text[40];
	double y = y_of(p, value);
	bool is_limit = str_eq(class, "limit");
	p->print(value, text, sizeof text);
	str_addf(s,
		 "<line class=\"%s\" x1=\"%.0f\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\"/>"
		 "<text class=\"%s-text\" text-anchor=\"%s\" x=\"%.0f\" y=\"%.1f\">%s %s</text>",
		 class, LEFT, WIDTH - RIGHT, y, y, class, is_limit ? "end" : "start",
		 is_limit ? WIDTH - RIGHT - 4 : LEFT + 6, y - 5, word, text);
}

/* A limit far above all that was used would press the curve flat: then it is said in words. */
static void add_plot(struct plot *p, struct str *s)
{
	char limit[40], peak[40];
	double most = p->peak;
	for (size_t i = 0; i < p->series->n; i++)
		most = larger(most, p->series->v[i].value);
	bool shows_limit = p->limit > 0 && most >= p->limit / 8;
	p->top = larger(most, shows_limit ? p->limit : 0) * 1.12;
	if (!(p->top > 0) || !(p->end_s > 0) || p->series->n < 2)
		return;
	p->step = p->print == print_bytes ? nice_bytes(p->top) : nice_step(p->top, 4);
	p->print(p->limit, limit, sizeof limit);
	p->print(most, peak, sizeof peak);
	str_addf(s, "<figure>\n<figcaption>%s", p->caption);
	if (p->limit > 0 && !shows_limit)
		str_addf(s, "; the limit of %s is above this drawing", limit);
	str_addf(
		s,
		"</figcaption>\n<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"%s: at most %s%s%s\">",
		WIDTH, HEIGHT, p->caption, peak, p->limit > 0 ? " of " : "",
		p->limit > 0 ? limit : "");
	add_grid(p, s);
	add_curve(p, s);
	if (p->peak > 0)
		add_mark(p, "peak", "peak", p->peak, s);
	if (shows_limit)
		add_mark(p, "limit", "limit", p->limit, s);
	str_add(s, "</svg>\n</figure>\n");
}

void report_plots(const struct dossier *d, struct str *s)
{
	CLEANUP(samples_release) struct samples samples = { 0 };
	struct series memory = { 0 }, cpu = { 0 };
	const json_t *usage = json_object_get(d->verdict, "usage");
	const json_t *limits = json_object_get(d->analysis, "limits");
	struct sample end = { .t_s = number(usage, "wall_usec") / 1e6,
			      .cpu_s = number(usage, "cpu_usec") / 1e6 };
	read_samples(d, &samples);
	str_add(s, "<section>\n<h2>Memory and cpu over time</h2>\n");
	if (samples.n < 2) {
		str_add(s,
			"<p class=\"soft\">The run was over before there was anything to draw.</p>\n</section>\n");
		return;
	}
	end.t_s = larger(end.t_s, samples.v[samples.n - 1].t_s);
	memory_series(&samples, &memory);
	cpu_series(&samples, &end, &cpu);
	struct plot of_memory = { .caption = "memory",
				  .series = &memory,
				  .end_s = end.t_s,
				  .limit = number(json_object_get(limits, "memory"), "raw"),
				  .peak = number(usage, "memory_peak_bytes"),
				  .print = print_bytes };
	struct plot of_cpu = { .caption = "cpus in use",
			       .series = &cpu,
			       .end_s = end.t_s,
			       .limit = number(json_object_get(limits, "cpus"), "raw") / 1000,
			       .print = print_cpus };
	add_plot(&of_memory, s);
	add_plot(&of_cpu, s);
	str_add(s, "</section>\n");
}
