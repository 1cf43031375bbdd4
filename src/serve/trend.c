/* Stretches of one width, chosen so that there are few enough to be drawn. */
#include "serve/trend.h"

#include <string.h>

#include "base/clock.h"

#define RUNS_MAX    5000 /* the newest; an index has them in order */
#define POINTS_MAX  40
#define NS_PER_USEC 1000

struct point {
	uint64_t runs, ok, cpu_usec;
	uint64_t waits, waited_usec;
};

static uint64_t time_of(const json_t *run, const char *key)
{
	const char *text = json_string_value(json_object_get(run, key));
	uint64_t ns = 0;
	return text && clock_read(text, &ns) >= 0 ? ns : 0;
}

/* The first attempt of a submission waited from when it might have begun; a later one waits on purpose. */
static void add_wait(struct point *p, const json_t *run, uint64_t accepted_ns)
{
	uint64_t submitted = time_of(run, "submitted"), not_before = time_of(run, "not_before");
	uint64_t from = submitted > not_before ? submitted : not_before;
	if (!submitted || json_integer_value(json_object_get(run, "attempt")) > 1)
		return;
	p->waits++;
	p->waited_usec += accepted_ns > from ? (accepted_ns - from) / NS_PER_USEC : 0;
}

static void add_run(struct point *p, const json_t *run, uint64_t accepted_ns)
{
	const char *cause = json_string_value(json_object_get(run, "cause"));
	p->runs++;
	p->ok += str_eq(cause, "ok");
	p->cpu_usec += (uint64_t)json_integer_value(json_object_get(run, "cpu_usec"));
	add_wait(p, run, accepted_ns);
}

static uint64_t width_for(uint64_t first_ns, uint64_t last_ns)
{
	static const uint64_t widths_s[] = { 60,    600,       3600,       6 * 3600,
					     86400, 7 * 86400, 30 * 86400, 365 * 86400 };
	const size_t n = sizeof widths_s / sizeof *widths_s;
	for (size_t i = 0; i < n; i++) {
		uint64_t width_ns = widths_s[i] * NS_PER_SEC;
		if (last_ns / width_ns - first_ns / width_ns < POINTS_MAX)
			return width_ns;
	}
	return ((last_ns - first_ns) / (POINTS_MAX - 1) / NS_PER_SEC + 1) * NS_PER_SEC;
}

static json_t *point_json(const struct point *p, uint64_t from_ns)
{
	char from[40];
	return json_pack("{s:s,s:o,s:o,s:o,s:o,s:o}", "from",
			 clock_write(from_ns, from, sizeof from), "runs", json_u64(p->runs), "ok",
			 json_u64(p->ok), "success_rate",
			 p->runs ? json_real((double)p->ok / (double)p->runs) : json_null(),
			 "cpu_usec", json_u64(p->cpu_usec), "waited_usec",
			 p->waits ? json_u64(p->waited_usec / p->waits) : json_null());
}

json_t *trend_of_runs(const json_t *runs)
{
	struct point points[POINTS_MAX + 1] = { 0 };
	uint64_t first = UINT64_MAX, last = 0, n = 0;
	json_t *list = json_array(), *run;
	size_t i;
	json_array_foreach(runs, i, run)
	{
		uint64_t at = time_of(run, "accepted");
		first = at && at < first ? at : first;
		last = at > last ? at : last;
	}
	uint64_t width = last ? width_for(first, last) : 60 * NS_PER_SEC;
	uint64_t begin = last ? first / width : 0;
	json_array_foreach(runs, i, run)
	{
		uint64_t at = time_of(run, "accepted");
		if (!at || at / width - begin > POINTS_MAX)
			continue;
		add_run(&points[at / width - begin], run, at);
		n++;
	}
	for (uint64_t k = begin; last && k <= last / width; k++)
		json_array_append_new(list, point_json(&points[k - begin], k * width));
	return json_pack("{s:o,s:o,s:b,s:o}", "width_s", json_u64(width / NS_PER_SEC), "runs",
			 json_u64(n), "is_cut", 0, "points", list);
}

int trend_of_quest(struct ledger *l, const struct config *c, const struct quest_runs *of,
		   json_t **ret, struct err *err)
{
	CLEANUP_JSON json_t *runs = NULL;
	const struct quest_runs newest = { of->quest, of->viewer, RUNS_MAX + 1 };
	int r = ledger_quest_runs(l, c, &newest, &runs, err);
	if (r < 0)
		return r;
	bool is_cut = json_array_size(runs) > RUNS_MAX;
	if (is_cut)
		json_array_remove(runs, RUNS_MAX);
	*ret = trend_of_runs(runs);
	json_object_set_new(*ret, "is_cut", json_boolean(is_cut));
	return 0;
}
