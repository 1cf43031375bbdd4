/* The limiters: a box for each, at the same time, that goes beyond its limit. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/num.h"
#include "budget/budget.h"
#include "doctor/inside.h"
#include "doctor/parts.h"

#define GROUP "limits"

enum { MEMORY, CPU, PIDS, DISK, TIME, TRIALS };

static const struct {
	const char *name;
	enum limit_id limit;
	uint64_t value;
	const char *promise;
} limiters[TRIALS] = {
	[MEMORY] = { "memory", LIMIT_MEMORY, TRIAL_MEMORY,
		     "It uses no more memory than it may, and dies as a whole" },
	[CPU] = { "cpu", LIMIT_CPUS, TRIAL_CPUS, "Nor cpu, processes, descriptors" },
	[PIDS] = { "pids", LIMIT_PIDS, TRIAL_PIDS, "Nor cpu, processes, descriptors" },
	[DISK] = { "disk", LIMIT_DISK, TRIAL_DISK, "Nor disk, files, log" },
	[TIME] = { "time", LIMIT_TIME, TRIAL_TIME, NULL },
};

/* The kernel's own word for what may not be swapped out: without it, memory beyond the limit goes there. */
static bool swap_is_limited(const struct trial_box *t)
{
	const json_t *values = json_object_get(json_object_get(t->receipt, "budget"), "values");
	const json_t *value;
	size_t i;
	json_array_foreach(values, i, value)
	{
		const char *file = json_string_value(json_object_get(value, "file"));
		if (str_eq(file, "memory.memsw.limit_in_bytes") || str_eq(file, "memory.swap.max"))
			return true;
	}
	return false;
}

static bool has_swap(void)
{
	char text[512];
	if (fs_read_small(AT_FDCWD, "/proc/swaps", text, sizeof text) <= 0)
		return false;
	const char *second = strchr(text, '\n');
	return second && second[1];
}

static void judge_memory(const struct trial_box *t, struct finding *f)
{
	uint64_t kills = trial_evidence(t, "oom_kills");
	char peak[32], limit[32];
	bool held = str_eq(trial_cause(t), "oom") && kills > 0;
	finding_is(f, held ? FINDING_OK : FINDING_MISSING,
		   "a box with %s ended as '%s': %llu killed by the kernel at a peak of %s (%s)",
		   num_print_size(TRIAL_MEMORY, limit, sizeof limit), trial_cause(t),
		   (unsigned long long)kills,
		   num_print_size(trial_evidence(t, "memory_peak_bytes"), peak, sizeof peak),
		   json_string_value(
			   json_object_get(json_object_get(t->receipt, "budget"), "mechanism")));
	if (held && has_swap() && !swap_is_limited(t)) {
		finding_is(
			f, FINDING_WEAK,
			"the memory limit held, but this host swaps and the kernel does not count swap: more goes there");
		finding_root_remedy(f, "swapoff -a   # or boot with swapaccount=1");
	}
}

/* Not held back: either nothing holds it, or the host was so busy that it never got as much as it may. */
static void judge_cpu(const struct trial_box *t, struct finding *f)
{
	uint64_t throttled = trial_evidence(t, "throttled_usec");
	uint64_t used = trial_evidence(t, "cpu_usec"), wall = trial_evidence(t, "wall_usec");
	if (throttled)
		finding_is(
			f, FINDING_OK,
			"a box with %.2f cpus was held back: for %llu ms on its cpus together, while it ran for %llu ms",
			TRIAL_CPUS / 1000.0, (unsigned long long)throttled / 1000,
			(unsigned long long)wall / 1000);
	else if (used > wall * TRIAL_CPUS / 1000 * 2)
		finding_is(f, FINDING_MISSING,
			   "a box with %.2f cpus used %llu ms of %llu ms, and was never held back",
			   TRIAL_CPUS / 1000.0, (unsigned long long)used / 1000,
			   (unsigned long long)wall / 1000);
	else
		finding_is(f, FINDING_UNKNOWN,
			   "the host is so busy that a box with %.2f cpus never got more than that",
			   TRIAL_CPUS / 1000.0);
}

static void judge_pids(const struct trial_box *t, struct finding *f)
{
	long made = trial_said(t, "made", -1), refused = trial_said(t, "fork", 0);
	bool held = refused == EAGAIN && made < TRIAL_PIDS;
	finding_is(f, held ? FINDING_OK : FINDING_MISSING,
		   "of a box that may have %d processes: fork %s after %ld", TRIAL_PIDS,
		   refused ? strerrorname_np((int)refused) : "was not refused", made);
}

static void judge_disk(const struct trial_box *t, struct finding *f)
{
	long error = trial_said(t, "write", 0), written = trial_said(t, "written", -1);
	char text[32];
	const char *limit = num_print_size(TRIAL_DISK, text, sizeof text);
	if ((error == ENOSPC || error == EDQUOT) && written <= (long)TRIAL_DISK) {
		finding_is(f, FINDING_OK, "%s at %ld bytes of %s", strerrorname_np((int)error),
			   written, limit);
	} else if (str_eq(trial_cause(t), "disk")) {
		finding_is(
			f, FINDING_NOTE,
			"watched: a box that wrote more than its %s was ended as 'disk', a moment later; with --scratch memory, "
			"and as root, the file system itself says no",
			limit);
	} else {
		finding_is(f, FINDING_MISSING, "%ld bytes were written in a box that may have %s",
			   written, limit);
	}
}

static void judge_time(const struct trial_box *t, struct finding *f)
{
	bool held = str_eq(trial_cause(t), "deadline");
	finding_is(f, held ? FINDING_OK : FINDING_MISSING,
		   "a box with 200 ms ended as '%s' after %llu ms", trial_cause(t),
		   (unsigned long long)trial_evidence(t, "wall_usec") / 1000);
}

void limiter_judge(const struct trial_box *t, struct finding *f)
{
	static void (*const judges[TRIALS])(const struct trial_box *, struct finding *) = {
		[MEMORY] = judge_memory, [CPU] = judge_cpu,   [PIDS] = judge_pids,
		[DISK] = judge_disk,     [TIME] = judge_time,
	};
	size_t i = 0;
	while (i + 1 < TRIALS && !str_eq(limiters[i].name, t->act))
		i++;
	if (t->result < 0)
		finding_is(f, FINDING_UNKNOWN, "its box could not be run: %s", t->err.text);
	else if (str_eq(trial_cause(t), "lost") || str_eq(trial_cause(t), "cancelled"))
		finding_is(f, FINDING_UNKNOWN, "its box was ended from outside (%s)",
			   trial_cause(t));
	else
		judges[i](t, f);
}

/* Groups, and working directories, of boxes that are over. */
void removal_judge(struct examination *x, const struct trial_box *boxes, size_t n)
{
	CLEANUP_STRV struct strv groups = { 0 };
	struct err err = { 0 };
	size_t left = 0;
	struct finding *f = finding_add(x->d, GROUP, "removal");
	f->promise =
		"It is gone when its run is over: processes, groups, mounts, loop devices, files";
	bool has_groups = budget_list(x->trials.cgroup_parent, &groups, &err) >= 0;
	for (size_t i = 0; i < n; i++) {
		CLEANUP_FREE char *work = config_work_dir(&x->trials, boxes[i].id);
		left += access(work, F_OK) == 0;
		for (size_t k = 0; k < groups.n; k++)
			left += str_starts(groups.v[k], boxes[i].id);
	}
	finding_is(f, left ? FINDING_MISSING : FINDING_OK,
		   "of %zu boxes %zu groups%s or working directories are left", n, left,
		   has_groups ? "" : " (none can be listed here)");
	if (left)
		finding_remedy(f, "cupel gc");
}

void examine_limiters(struct examination *x)
{
	struct trial_box boxes[TRIALS] = { 0 };
	size_t which[TRIALS], n = 0;
	struct err err = { 0 };
	if (!x->d->can_run)
		return;
	for (size_t i = 0; i < TRIALS; i++) {
		if (strv_has(&x->allowed, limiters[i].name) || (i == MEMORY && oom_is_fatal()))
			continue;
		boxes[n] = (struct trial_box){ .act = limiters[i].name, .allowed = &x->allowed };
		limits_set(&boxes[n].limits, limiters[i].limit, limiters[i].value, "built-in");
		which[n++] = i;
	}
	examine_step(x, "the limiters");
	int r = trial_run(&x->trials, boxes, n, &err);
	for (size_t i = 0; i < n; i++) {
		struct finding *f = finding_add(x->d, GROUP, limiters[which[i]].name);
		f->promise = limiters[which[i]].promise;
		if (r < 0)
			finding_is(f, FINDING_UNKNOWN, "%s", err.text);
		else
			limiter_judge(&boxes[i], f);
	}
	removal_judge(x, boxes, n);
	for (size_t i = 0; i < n; i++)
		trial_box_release(&boxes[i]);
}
