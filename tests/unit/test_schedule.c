/* What is started next, and why the rest waits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "serve/schedule.h"

#define GIB     (1ULL << 30)
#define SECOND  1000000000ULL
#define NOW     (1000 * SECOND)
#define JOBS    8
#define PARTIES 4

/* A host of 16 GiB and 8 cpus with nothing on it; each submitter has one quest, of its own number. */
struct host {
	struct schedule_job jobs[JOBS];
	struct schedule_job *at[JOBS];
	struct share submitters[PARTIES], quests[PARTIES];
	struct schedule s;
	size_t starts[JOBS];
};

static void host_open(struct host *h, size_t n)
{
	*h = (struct host){ 0 };
	for (size_t i = 0; i < n; i++) {
		h->jobs[i] = (struct schedule_job){ .need = { GIB, 1000, 10 }, .n = i };
		h->at[i] = &h->jobs[i];
	}
	h->s = (struct schedule){ .jobs = h->at,
				  .n_jobs = n,
				  .submitters = h->submitters,
				  .quests = h->quests,
				  .n_submitters = PARTIES,
				  .n_quests = PARTIES,
				  .cap = { 16 * GIB, 8000, 1000 },
				  .now_ns = NOW,
				  .now_real_ns = NOW };
	for (size_t i = 0; i < PARTIES; i++)
		h->submitters[i].at_ns = h->quests[i].at_ns = NOW;
}

static void give(struct host *h, size_t job, size_t party)
{
	h->jobs[job].submitter = h->jobs[job].quest = party;
}

static void expect(const size_t *got, const size_t *want, size_t n)
{
	for (size_t i = 0; i < n; i++)
		assert_int_equal(got[i], want[i]);
}

static void what_came_first_goes_first(void **state)
{
	struct host h;
	size_t order[3];
	host_open(&h, 3);
	h.jobs[0].n = 9;
	schedule_order(&h.s, order);
	expect(order, (const size_t[]){ 1, 2, 0 }, 3);
}

static void priorities_count_within_a_quest_and_above_zero_before_all(void **state)
{
	struct host h;
	size_t order[4];
	host_open(&h, 4);
	h.jobs[0].priority = -5;
	h.jobs[2].priority = 0;
	h.jobs[3].priority = 7;
	give(&h, 3, 1);
	h.submitters[1].recent = 1e6; /* whoever it is, and whatever he had */
	schedule_order(&h.s, order);
	expect(order, (const size_t[]){ 3, 1, 2, 0 }, 4);
}

static void who_had_less_goes_first(void **state)
{
	struct host h;
	size_t order[2];
	host_open(&h, 2);
	give(&h, 1, 1);
	schedule_order(&h.s, order);
	expect(order, (const size_t[]){ 0, 1 }, 2); /* the control: as they came */
	h.submitters[0].recent = 100;
	schedule_order(&h.s, order);
	expect(order, (const size_t[]){ 1, 0 }, 2);
	h.submitters[1].recent = 90;
	h.submitters[0].weight = 2; /* 50 for his weight */
	schedule_order(&h.s, order);
	expect(order, (const size_t[]){ 0, 1 }, 2);
}

static void many_of_one_take_turns_with_few_of_another(void **state)
{
	struct host h;
	size_t order[6];
	host_open(&h, 6); /* five of one, then one of another */
	give(&h, 5, 1);
	schedule_order(&h.s, order);
	expect(order, (const size_t[]){ 0, 5, 1, 2, 3, 4 }, 6);
	h.submitters[0].weight = 2;
	give(&h, 4, 1);
	schedule_order(&h.s, order);
	expect(order, (const size_t[]){ 0, 4, 1, 2, 5, 3 }, 6);
}

static void quests_of_one_submitter_take_turns(void **state)
{
	struct host h;
	size_t order[4];
	host_open(&h, 4);
	h.jobs[3].quest = 1;
	schedule_order(&h.s, order);
	expect(order, (const size_t[]){ 0, 3, 1, 2 }, 4);
}

static void use_fades_and_what_runs_counts(void **state)
{
	struct share s = { 0 };
	share_begin(&s, NOW, 2000);
	assert_true(share_use(&s, NOW) > 119 && share_use(&s, NOW) < 121); /* the next minute */
	share_end(&s, NOW + 10 * SECOND, 2000);
	double used = share_use(&s, NOW + 10 * SECOND);
	assert_true(used > 19.8 && used < 20.1);
	double later = share_use(&s, NOW + 610 * SECOND);
	assert_true(later > used * 0.49 && later < used * 0.51);
	assert_int_equal(s.running, 0);
	s.weight = 4;
	assert_true(share_use(&s, NOW + 610 * SECOND) < later / 3.9);
}

static void what_fits_is_started_and_the_rest_says_why(void **state)
{
	struct host h;
	host_open(&h, 4);
	h.jobs[0].need[SCHEDULE_MEMORY] = 12 * GIB;
	h.jobs[1].need[SCHEDULE_MEMORY] = 8 * GIB;
	h.jobs[2].need[SCHEDULE_CPUS] = 7500;
	h.jobs[3].need[SCHEDULE_PIDS] = 995;
	assert_int_equal(schedule_pass(&h.s, h.starts), 1);
	assert_int_equal(h.starts[0], 0);
	assert_int_equal(h.jobs[1].reason, SCHEDULE_NO_MEMORY);
	assert_int_equal(h.jobs[2].reason, SCHEDULE_NO_CPUS);
	assert_int_equal(h.jobs[3].reason, SCHEDULE_NO_PIDS);
	assert_int_equal(h.jobs[3].position, 3);
}

static void one_alone_is_let_in(void **state)
{
	struct host h;
	host_open(&h, 2);
	h.jobs[0].need[SCHEDULE_MEMORY] = 99 * GIB;
	assert_int_equal(schedule_pass(&h.s, h.starts), 1);
	assert_int_equal(h.jobs[1].reason, SCHEDULE_NO_MEMORY);
	h.s.running = 1; /* the control: it is not alone */
	assert_int_equal(schedule_pass(&h.s, h.starts), 1);
	assert_int_equal(h.starts[0], 1);
	assert_int_equal(h.jobs[0].reason, SCHEDULE_NO_MEMORY);
}

static void counts_have_caps(void **state)
{
	struct host h;
	host_open(&h, 4);
	give(&h, 3, 1);
	h.s.max_each = 2;
	h.submitters[0].running = 1;
	h.s.running = 1;
	assert_int_equal(schedule_pass(&h.s, h.starts), 2);
	assert_int_equal(h.jobs[0].reason, SCHEDULE_NEXT);
	assert_int_equal(h.jobs[1].reason, SCHEDULE_SUBMITTER_CAP);
	assert_int_equal(h.jobs[3].reason, SCHEDULE_NEXT);
	h.s.max_each = 0;
	h.s.max_running = 2;
	assert_int_equal(schedule_pass(&h.s, h.starts), 1);
	assert_int_equal(h.jobs[1].reason, SCHEDULE_NO_JOBS);
	h.s.max_running = 0;
	assert_int_equal(schedule_pass(&h.s, h.starts), 4);
}

static void some_are_not_to_begin_yet(void **state)
{
	struct host h;
	host_open(&h, 2);
	h.jobs[0].not_before_ns = NOW + 1;
	assert_int_equal(schedule_pass(&h.s, h.starts), 1);
	assert_int_equal(h.jobs[0].reason, SCHEDULE_NOT_BEFORE);
	h.s.now_real_ns++;
	assert_int_equal(schedule_pass(&h.s, h.starts), 2);
	h.s.is_draining = true;
	assert_int_equal(schedule_pass(&h.s, h.starts), 0);
	assert_int_equal(h.jobs[1].reason, SCHEDULE_DRAINING);
}

/* What is not due stands behind what is, and takes no turn of its submitter's other jobs. */
static void who_is_not_due_is_ahead_of_nobody(void **state)
{
	struct host h;
	host_open(&h, 4); /* two of one that are not due, one of his that is, then one of another */
	give(&h, 3, 1);
	h.jobs[0].not_before_ns = NOW + 2;
	h.jobs[1].not_before_ns = NOW + 1;
	h.jobs[1].priority = 9;
	h.s.running = h.s.max_running = 1;
	assert_int_equal(schedule_pass(&h.s, h.starts), 0);
	assert_int_equal(h.jobs[2].position, 0);
	assert_int_equal(h.jobs[3].position, 1);
	assert_int_equal(h.jobs[1].position, 2);
	assert_int_equal(h.jobs[0].position, 3);
	h.s.now_real_ns++; /* the control: as soon as it is due its priority counts */
	assert_int_equal(schedule_pass(&h.s, h.starts), 0);
	assert_int_equal(h.jobs[1].position, 0);
	assert_int_equal(h.jobs[2].position, 1);
}

/* A large one is passed by small ones, but not for ever. */
static void who_was_passed_for_long_is_waited_for(void **state)
{
	struct host h;
	host_open(&h, 3);
	h.s.running = 1;
	h.s.used[SCHEDULE_MEMORY] = 8 * GIB;
	h.jobs[0].need[SCHEDULE_MEMORY] = 12 * GIB;
	assert_int_equal(schedule_pass(&h.s, h.starts), 2);
	assert_int_equal(h.jobs[0].passed_ns, NOW);
	assert_int_equal(h.jobs[1].passed_ns, 0);
	h.s.now_ns = NOW + SCHEDULE_PATIENCE_NS - 1;
	assert_int_equal(schedule_pass(&h.s, h.starts), 2);
	assert_int_equal(h.jobs[0].passed_ns, NOW); /* since the first */
	h.s.now_ns = NOW + SCHEDULE_PATIENCE_NS;
	assert_int_equal(schedule_pass(&h.s, h.starts), 0);
	assert_int_equal(h.jobs[0].reason, SCHEDULE_NO_MEMORY);
	assert_int_equal(h.jobs[1].reason, SCHEDULE_SHARE);
	h.s.used[SCHEDULE_MEMORY] = 4 * GIB; /* now it fits, and with it nothing else */
	assert_int_equal(schedule_pass(&h.s, h.starts), 1);
	assert_int_equal(h.starts[0], 0);
	assert_int_equal(h.jobs[1].reason, SCHEDULE_NO_MEMORY);
}

static void nobody_is_waited_for_that_nobody_passed(void **state)
{
	struct host h;
	host_open(&h, 1);
	h.s.running = 1;
	h.s.used[SCHEDULE_MEMORY] = 16 * GIB;
	assert_int_equal(schedule_pass(&h.s, h.starts), 0);
	assert_int_equal(h.jobs[0].passed_ns, 0);
	h.s.n_jobs = 0;
	assert_int_equal(schedule_pass(&h.s, h.starts), 0);
}

static void reasons_have_names(void **state)
{
	assert_string_equal(schedule_reason_name(SCHEDULE_NO_MEMORY), "memory");
	assert_string_equal(schedule_reason_name(SCHEDULE_SUBMITTER_CAP), "submitter-cap");
	for (int i = SCHEDULE_NEXT; i <= SCHEDULE_DRAINING; i++)
		assert_non_null(schedule_reason_name(i));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_came_first_goes_first),
		cmocka_unit_test(priorities_count_within_a_quest_and_above_zero_before_all),
		cmocka_unit_test(who_had_less_goes_first),
		cmocka_unit_test(many_of_one_take_turns_with_few_of_another),
		cmocka_unit_test(quests_of_one_submitter_take_turns),
		cmocka_unit_test(use_fades_and_what_runs_counts),
		cmocka_unit_test(what_fits_is_started_and_the_rest_says_why),
		cmocka_unit_test(one_alone_is_let_in),
		cmocka_unit_test(counts_have_caps),
		cmocka_unit_test(some_are_not_to_begin_yet),
		cmocka_unit_test(who_is_not_due_is_ahead_of_nobody),
		cmocka_unit_test(who_was_passed_for_long_is_waited_for),
		cmocka_unit_test(nobody_is_waited_for_that_nobody_passed),
		cmocka_unit_test(reasons_have_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
