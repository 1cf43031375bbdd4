#include "flow/retry.h"

#include "base/num.h"
#include "base/str.h"
#include "spec/parameters.h"
#include "spec/show.h"
#include "spec/yaml.h"

#define SAVED_MAX 1000 /* so often what was saved may ask to be run again */

/* Causes that another attempt may not meet, and the limit that was reached if it was one. */
static const struct {
	enum cause cause;
	int limit; /* -1: none */
} retried[] = {
	{ CAUSE_OOM, LIMIT_MEMORY },   { CAUSE_DEADLINE, LIMIT_TIME },
	{ CAUSE_CPU, LIMIT_CPU_TIME }, { CAUSE_DISK, LIMIT_DISK },
	{ CAUSE_PIDS, LIMIT_PIDS },    { CAUSE_EXIT, -1 },
	{ CAUSE_SIGNAL, -1 },          { CAUSE_LOST, -1 },
	{ CAUSE_INPUT_CHANGED, -1 },   { CAUSE_OUTPUT_MISSING, -1 },
	{ CAUSE_OUTPUT_INVALID, -1 },
};
#define RETRIED    (sizeof retried / sizeof *retried)
#define TIMES_MAX  100
#define FACTOR_MAX 1000

static int times_read(const struct document *d, const struct node *n, unsigned *ret,
		      struct err *err)
{
	CLEANUP_JSON json_t *value = NULL;
	int r = node_json(d, n, &value, err);
	if (r < 0)
		return r;
	json_int_t times = json_integer_value(value);
	if (!json_is_integer(value) || times < 0 || times > TIMES_MAX)
		return node_error(d, n, err, "expected how often to try again: 0 to %d", TIMES_MAX);
	*ret = (unsigned)times;
	return 0;
}

static int factor_read(const struct document *d, const struct node *n, double *ret, struct err *err)
{
	CLEANUP_JSON json_t *value = NULL;
	int r = node_json(d, n, &value, err);
	if (r < 0)
		return r;
	double factor = json_number_value(value);
	if (!json_is_number(value) || !(factor >= 1) || factor > FACTOR_MAX)
		return node_error(d, n, err,
				  "expected by how much the limit grows: 1 to %d, such as 2 or 1.5",
				  FACTOR_MAX);
	*ret = factor;
	return 0;
}

struct retry_map {
	struct flow_retry *retry;
	int limit;
};

static int read_times(const struct document *d, const struct node *n, void *target, struct err *err)
{
	return times_read(d, n, &((struct retry_map *)target)->retry->times, err);
}

static int read_factor(const struct document *d, const struct node *n, void *target,
		       struct err *err)
{
	struct retry_map *to = target;
	if (to->limit < 0)
		return node_error(d, n, err,
				  "no limit is reached by this cause: leave the factor out");
	return factor_read(d, n, &to->retry->factor, err);
}

static int read_max(const struct document *d, const struct node *n, void *target, struct err *err)
{
	struct retry_map *to = target;
	CLEANUP_FREE char *text = NULL;
	struct err why = { 0 };
	if (to->limit < 0)
		return node_error(d, n, err, "no limit is reached by this cause: leave max out");
	int r = node_string(d, n, &text, err);
	if (r >= 0 && limit_parse((enum limit_id)to->limit, text, &to->retry->max, &why) < 0)
		r = node_error(d, n, err, "%s", why.text);
	return r;
}

static int retry_read(const struct document *d, const struct node *n, int limit,
		      struct flow_retry *ret, struct err *err)
{
	static const struct key_row rows[] = { { "times", read_times },
					       { "factor", read_factor },
					       { "max", read_max } };
	struct flow_retry retry = { .times = 1, .factor = limit >= 0 ? 2 : 1 };
	struct retry_map to = { .retry = &retry, .limit = limit };
	int r = n->kind == NODE_MAP ? map_read(d, n, rows, sizeof rows / sizeof *rows, &to, err)
				    : times_read(d, n, &retry.times, err);
	if (r >= 0)
		*ret = retry;
	return r;
}

int flow_retries_read(const struct document *d, const struct node *map,
		      struct flow_retry ret[CAUSE_COUNT_], struct err *err)
{
	char shown[SHOW_ROOM];
	if (map->kind != NODE_MAP)
		return node_error(
			d, map, err,
			"expected {CAUSE: TIMES} or {CAUSE: {times: N, factor: F, max: LIMIT}}");
	for (size_t i = 0; i < map->n; i++) {
		size_t k = 0;
		while (k < RETRIED && !str_eq(cause_name(retried[k].cause), map->keys[i]->text))
			k++;
		if (k == RETRIED) {
			CLEANUP_STR struct str known = { 0 };
			for (size_t j = 0; j < RETRIED; j++)
				str_addf(&known, "%s%s", j ? ", " : "",
					 cause_name(retried[j].cause));
			return node_error(d, map->keys[i], err,
					  "'%s' is no cause to try again for; there are %s",
					  show_text(map->keys[i]->text, shown), known.text);
		}
		int r = retry_read(d, map->values[i], retried[k].limit, &ret[retried[k].cause],
				   err);
		if (r < 0)
			return r;
	}
	return 0;
}

int flow_retry_limit(enum cause cause)
{
	for (size_t i = 0; i < RETRIED; i++)
		if (retried[i].cause == cause)
			return retried[i].limit;
	return -1;
}

/* More of the limit that was reached, as far as the rule and the host allow. False if there is no more. */
static bool grow(const struct flow_retry *retry, uint64_t ceiling, uint64_t *limit)
{
	double wanted = (double)*limit * retry->factor;
	uint64_t more = wanted < (double)INT64_MAX ? (uint64_t)wanted : INT64_MAX;
	if (retry->max && more > retry->max)
		more = retry->max;
	if (ceiling && more > ceiling)
		more = ceiling;
	if (more <= *limit)
		return false;
	*limit = more;
	return true;
}

bool flow_retry_again(const struct flow_retry retries[CAUSE_COUNT_], const struct limits *ceilings,
		      enum cause cause, struct flow_tries *tries)
{
	if (cause >= CAUSE_COUNT_)
		return false;
	if (cause ==
	    CAUSE_CHECKPOINTED) /* it asked for it: that is no failure, but it has to end some time */
		return tries->tried[cause]++ < SAVED_MAX;
	const struct flow_retry *retry = &retries[cause];
	int limit = flow_retry_limit(cause);
	if (tries->tried[cause] >= retry->times)
		return false;
	if (limit >= 0 && retry->factor > 1 &&
	    !grow(retry, ceilings->at[limit].value, &tries->limits[limit]))
		return false;
	tries->tried[cause]++;
	return true;
}
