/* How much of the host a pipeline can use at once: for whoever admits it as a whole. */
#include <string.h>
#include <unistd.h>

#include "flow/flow.h"

static const enum limit_id needed[] = { LIMIT_MEMORY, LIMIT_CPUS, LIMIT_PIDS };
#define N_NEEDED (sizeof needed / sizeof *needed)

/* One behind the deepest of those it needs; there are no cycles. */
static void find_depths(const struct flow *f, size_t *depths)
{
	bool is_changed = true;
	while (is_changed) {
		is_changed = false;
		for (size_t i = 0; i < f->n_steps; i++)
			for (size_t k = 0; k < f->steps[i].n_needs; k++) {
				size_t before = depths[f->steps[i].needs[k].step] + 1;
				if (depths[i] >= before)
					continue;
				depths[i] = before;
				is_changed = true;
			}
	}
}

static uint64_t times(uint64_t a, uint64_t b)
{
	uint64_t product = 0;
	return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
	uint64_t sum = 0;
	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

void flow_need(const struct flow *f, unsigned jobs, struct flow_need *ret)
{
	CLEANUP_FREE size_t *depths = xcalloc(f->n_steps + 1, sizeof *depths);
	CLEANUP_FREE uint64_t *sums = xcalloc((f->n_steps + 1) * N_NEEDED, sizeof *sums);
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t most = jobs ? jobs : cpus > 0 ? (uint64_t)cpus : 1;
	*ret = (struct flow_need){ 0 };
	find_depths(f, depths);
	for (size_t i = 0; i < f->n_steps; i++)
		for (size_t k = 0; k < N_NEEDED; k++) {
			uint64_t one = f->steps[i].limits.at[needed[k]].value;
			uint64_t *sum = &sums[depths[i] * N_NEEDED + k];
			*sum = plus(*sum, times(one, f->steps[i].n_tasks));
			if (one > ret->largest[needed[k]])
				ret->largest[needed[k]] = one;
			if (*sum > ret->wide[needed[k]])
				ret->wide[needed[k]] = *sum;
		}
	for (size_t k = 0; k < N_NEEDED; k++) {
		uint64_t bound = times(ret->largest[needed[k]], most);
		if (ret->wide[needed[k]] > bound)
			ret->wide[needed[k]] = bound;
	}
}
