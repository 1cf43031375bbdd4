/* The steps as a drawing: layers from left to right, what a step needs to its left. An edge that passes over layers gets a place of its own in
 * each, so that it is not drawn through a step. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "view/report_flow.h"

#define DRAWN_MAX  400   /* steps; of more a drawing says nothing */
#define PLACES_MAX 20000 /* of steps and passing edges */
#define LABEL_MAX  26    /* characters */
#define HEIGHT     44
#define GAP_X      56
#define GAP_Y      16
#define PASS       10 /* height of an edge that passes */
#define MARGIN     8

struct place {
	size_t layer, step; /* step: SIZE_MAX for an edge that passes */
	double rank;        /* where among its layer it wants to be */
	double x, y;        /* left, top */
};

struct link {
	size_t from, to; /* places */
};

struct drawing {
	const struct pipeline_dossier *d;
	struct place *places; /* owned */
	struct link *links;   /* owned */
	size_t n_places, n_links, n_layers;
	size_t *order; /* owned; places by layer, then rank */
	double node_width, width, height;
};

static void drawing_release(struct drawing *g)
{
	cleanup_free(&g->places);
	cleanup_free(&g->links);
	cleanup_free(&g->order);
}

static double height_of(const struct place *p)
{
	return p->step == SIZE_MAX ? PASS : HEIGHT;
}

/* The way of one edge: straight to the next layer, or by a place in each between, which all edges from that step share (`passing`, by layer).
 * Where there would be too many places it goes straight. */
static void add_edge(struct drawing *g, size_t from, size_t to, size_t *passing)
{
	size_t at = from;
	size_t last = g->places[to].layer;
	for (size_t layer = g->places[from].layer + 1; layer < last; layer++) {
		if (passing[layer] == SIZE_MAX) {
			if (g->n_places >= PLACES_MAX)
				break;
			passing[layer] = g->n_places;
			g->places[g->n_places] = (struct place){ .layer = layer,
								 .step = SIZE_MAX,
								 .rank = (double)to };
			g->links[g->n_links++] = (struct link){ at, g->n_places++ };
		}
		at = passing[layer];
	}
	g->links[g->n_links++] = (struct link){ at, to };
}

static bool does_need(const struct dossier_step *step, size_t other)
{
	for (size_t i = 0; i < step->n_needs; i++)
		if (step->needs[i] == other)
			return true;
	return false;
}

/* A step that needs nothing is drawn just before the first that needs it: that may be far to the right. */
static size_t layer_of(const struct pipeline_dossier *d, size_t step)
{
	size_t first = SIZE_MAX;
	if (d->steps[step].n_needs)
		return d->steps[step].layer;
	for (size_t i = 0; i < d->n_steps; i++)
		if (d->steps[i].layer < first && does_need(&d->steps[i], step))
			first = d->steps[i].layer;
	return first == SIZE_MAX || !first ? d->steps[step].layer : first - 1;
}

static void place_all(struct drawing *g)
{
	const struct pipeline_dossier *d = g->d;
	size_t n_edges = 0;
	for (size_t i = 0; i < d->n_steps; i++)
		n_edges += d->steps[i].n_needs;
	g->places = xcalloc(PLACES_MAX + d->n_steps, sizeof *g->places);
	g->links = xcalloc(PLACES_MAX + d->n_steps + n_edges, sizeof *g->links);
	for (size_t i = 0; i < d->n_steps; i++) {
		size_t layer = layer_of(d, i);
		g->places[g->n_places++] =
			(struct place){ .layer = layer, .step = i, .rank = (double)i };
		g->n_layers = layer >= g->n_layers ? layer + 1 : g->n_layers;
	}
	CLEANUP_FREE size_t *passing = xcalloc(g->n_layers + 1, sizeof *passing);
	for (size_t from = 0; from < d->n_steps; from++) {
		for (size_t i = 0; i < g->n_layers; i++)
			passing[i] = SIZE_MAX;
		for (size_t to = 0; to < d->n_steps; to++)
			if (g->places[from].layer < g->places[to].layer &&
			    does_need(&d->steps[to], from))
				add_edge(g, from, to, passing);
	}
}

static int by_layer_and_rank(const void *a, const void *b, void *data)
{
	const struct place *places = data;
	const struct place *p = &places[*(const size_t *)a], *q = &places[*(const size_t *)b];
	if (p->layer != q->layer)
		return p->layer < q->layer ? -1 : 1;
	if (p->rank < q->rank || p->rank > q->rank)
		return p->rank < q->rank ? -1 : 1;
	return *(const size_t *)a < *(const size_t *)b ? -1 : 1;
}

/* Ranks become 0, 1, 2 ... within each layer. */
static void number_ranks(struct drawing *g)
{
	qsort_r(g->order, g->n_places, sizeof *g->order, by_layer_and_rank, g->places);
	double rank = 0;
	for (size_t i = 0; i < g->n_places; i++) {
		struct place *p = &g->places[g->order[i]];
		rank = i && g->places[g->order[i - 1]].layer == p->layer ? rank + 1 : 0;
		p->rank = rank;
	}
}

/* Each place goes to the mean of those it hangs on, first from the left, then from the right, a few times: few edges cross then. */
static void untangle(struct drawing *g)
{
	CLEANUP_FREE double *sum = xcalloc(g->n_places + 1, sizeof *sum);
	CLEANUP_FREE size_t *count = xcalloc(g->n_places + 1, sizeof *count);
	number_ranks(g);
	for (int sweep = 0; sweep < 8; sweep++) {
		memset(sum, 0, g->n_places * sizeof *sum);
		memset(count, 0, g->n_places * sizeof *count);
		for (size_t i = 0; i < g->n_links; i++) {
			size_t mover = sweep % 2 ? g->links[i].from : g->links[i].to;
			size_t other = sweep % 2 ? g->links[i].to : g->links[i].from;
			sum[mover] += g->places[other].rank;
			count[mover]++;
		}
		for (size_t i = 0; i < g->n_places; i++)
			if (count[i])
				g->places[i].rank = sum[i] / (double)count[i];
		number_ranks(g);
	}
}

static size_t label_length(const char *name)
{
	size_t n = 0;
	for (const char *c = name; *c; c++)
		n += ((unsigned char)*c & 0xc0) != 0x80;
	return n > LABEL_MAX ? LABEL_MAX : n;
}

static void add_label(struct str *s, const char *text)
{
	size_t n = 0;
	const char *c = text;
	for (; *c && n < LABEL_MAX - 1; c++)
		n += ((unsigned char)c[1] & 0xc0) != 0x80;
	if (label_length(c) <= 1)
		html_add(s, text);
	else {
		html_add_n(s, text, (size_t)(c - text));
		str_add(s, "\xe2\x80\xa6");
	}
}

/* The second line: how it stands. */
static void describe_step(const struct dossier_step *step, struct str *words)
{
	char time[32];
	const struct dossier_task *t = step->n_tasks ? &step->tasks[step->n_tasks - 1] : NULL;
	step_describe(step, words);
	if (!step->is_scattered && t && t->state == TASK_FAILED && t->cause[0])
		str_addf(words, ": %s", t->cause);
	else if (!step->is_scattered && t && t->wall_ms)
		str_addf(words, ", %s",
			 num_print_duration(t->wall_ms * NS_PER_MS, time, sizeof time));
}

static void lay_out(struct drawing *g)
{
	size_t longest = 12;
	CLEANUP_FREE double *heights = xcalloc(g->n_layers + 1, sizeof *heights);
	for (size_t i = 0; i < g->d->n_steps; i++) {
		CLEANUP_STR struct str words = { 0 };
		describe_step(&g->d->steps[i], &words);
		size_t n = label_length(g->d->steps[i].name);
		size_t below = label_length(str_text(&words));
		longest = n > longest ? n : longest;
		longest = below > longest ? below : longest;
	}
	g->node_width = 7.4 * (double)longest + 22;
	for (size_t i = 0; i < g->n_places; i++) {
		struct place *p = &g->places[g->order[i]];
		p->x = MARGIN + (double)p->layer * (g->node_width + GAP_X);
		p->y = heights[p->layer];
		heights[p->layer] += height_of(p) + GAP_Y;
		if (heights[p->layer] > g->height)
			g->height = heights[p->layer];
	}
	for (size_t i = 0; i < g->n_places; i++)
		g->places[i].y += MARGIN + (g->height - heights[g->places[i].layer]) / 2;
	g->width = 2 * MARGIN + (double)g->n_layers * (g->node_width + GAP_X) - GAP_X;
	g->height += 2 * MARGIN - GAP_Y + 6;
}

static void draw_link(const struct drawing *g, const struct link *l, struct str *s)
{
	const struct place *a = &g->places[l->from], *b = &g->places[l->to];
	double x1 = a->x + g->node_width, y1 = a->y + height_of(a) / 2;
	double x2 = b->x, y2 = b->y + height_of(b) / 2, half = (x2 - x1) / 2;
	/* Through a place in which it passes it goes level. */
	str_addf(s, "<path class=\"edge\" d=\"M%.0f %.0fC%.0f %.0f %.0f %.0f %.0f %.0f%s", x1, y1,
		 x1 + half, y1, x2 - half, y2, x2, y2, b->step == SIZE_MAX ? "" : "\"/>");
	if (b->step == SIZE_MAX)
		str_addf(s, "H%.0f\"/>", x2 + g->node_width);
}

/* A stripe below a scattered step: as much of each colour as shards are in that state. */
static void draw_parts(const struct drawing *g, const struct place *p,
		       const struct dossier_step *step, struct str *s)
{
	double x = p->x + 6, room = g->node_width - 12;
	for (int state = TASK_STATE_COUNT_ - 1; state >= 0; state--) {
		if (!step->counts[state])
			continue;
		double width = room * (double)step->counts[state] / (double)step->shards;
		str_addf(
			s,
			"<rect class=\"part %s\" x=\"%.1f\" y=\"%.0f\" width=\"%.1f\" height=\"4\"/>",
			task_state_names[state], x, p->y + HEIGHT - 7, width);
		x += width;
	}
}

static void draw_step(const struct drawing *g, const struct place *p, struct str *s)
{
	const struct dossier_step *step = &g->d->steps[p->step];
	const char *state = task_state_names[step_state(step)];
	bool is_linked = p->step < FLOW_SECTIONS_MAX;
	CLEANUP_STR struct str words = { 0 };
	describe_step(step, &words);
	if (is_linked)
		str_addf(s, "<a href=\"#step-%zu\">", p->step);
	str_add(s, "<g><title>");
	html_addf(s, "%s: %s%s%.300s", step->name, str_text(&words), step->summary[0] ? "\n" : "",
		  step->summary);
	str_add(s, "</title>");
	for (int back = step->is_scattered ? 2 : 0; back >= 0; back--)
		str_addf(
			s,
			"<rect class=\"node %s\" x=\"%.0f\" y=\"%.0f\" width=\"%.0f\" height=\"%d\" rx=\"7\"/>",
			state, p->x + 3 * back, p->y + 3 * back, g->node_width, HEIGHT);
	str_addf(s, "<text x=\"%.0f\" y=\"%.0f\">", p->x + 10, p->y + 18);
	add_label(s, step->name);
	str_addf(s, "</text><text class=\"tick\" x=\"%.0f\" y=\"%.0f\">", p->x + 10, p->y + 33);
	add_label(s, str_text(&words));
	str_add(s, "</text>");
	if (step->is_scattered && step->shards)
		draw_parts(g, p, step, s);
	str_addf(s, "</g>%s\n", is_linked ? "</a>" : "");
}

void report_dag(const struct flow_page *page, struct str *s)
{
	CLEANUP(drawing_release) struct drawing g = { .d = page->d };
	str_add(s, "<section>\n<h2>Steps</h2>\n");
	if (page->d->n_steps > DRAWN_MAX) {
		str_addf(
			s,
			"<p class=\"soft\">%zu steps are too many to draw; the table has them.</p>\n</section>\n",
			page->d->n_steps);
		return;
	}
	place_all(&g);
	g.order = xcalloc(g.n_places + 1, sizeof *g.order);
	for (size_t i = 0; i < g.n_places; i++)
		g.order[i] = i;
	untangle(&g);
	lay_out(&g);
	str_addf(
		s,
		"<div class=\"draw\"><svg viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" role=\"group\" aria-labelledby=\"dag-title dag-desc\">\n"
		"<title id=\"dag-title\">The steps and what each needs</title>"
		"<desc id=\"dag-desc\">%zu steps in %zu layers from left to right. Each is a link to what is told of it. The table below has the same.</desc>\n",
		g.width + 6, g.height, g.width + 6, g.height, page->d->n_steps, g.n_layers);
	for (size_t i = 0; i < g.n_links; i++)
		draw_link(&g, &g.links[i], s);
	for (size_t i = 0; i < page->d->n_steps; i++)
		draw_step(&g, &g.places[i], s);
	str_add(s, "</svg></div>\n</section>\n");
}
