/* Limits against the host that has to keep them: nothing is lowered without a word. */
#include "run/host_limits.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/str.h"

#define PIDS_MAX     UINT64_C(4194304) /* PID_MAX_LIMIT of Linux: a cgroup takes no larger limit */
#define LONG_TIME_NS (UINT64_C(365) * 24 * 3600 * NS_PER_SEC)

static bool is_built_in(const struct limits *l, enum limit_id id)
{
	return str_starts(l->at[id].origin, "built-in");
}

/* More cpus than there are change nothing: the record has those there are. */
static void fit_cpus(const struct host *host, struct limits *l, struct strv *notes)
{
	uint64_t value = l->at[LIMIT_CPUS].value, most = (uint64_t)host->n_cpus * 1000;
	char asked[32], applies[32], origin[256];
	if (value <= most)
		return;
	(void)limit_write(LIMIT_CPUS, value, asked, sizeof asked);
	(void)limit_write(LIMIT_CPUS, most, applies, sizeof applies);
	if (!is_built_in(l, LIMIT_CPUS))
		strv_addf(notes, "cpus %s (%s): this host has %s for a run; %s applies", asked,
			  l->at[LIMIT_CPUS].origin, applies, applies);
	(void)snprintf(origin, sizeof origin, "%s asked for %s, this host has %s",
		       l->at[LIMIT_CPUS].origin, asked, applies);
	limits_set(l, LIMIT_CPUS, most, origin);
}

static void look_at_time(const struct limits *l, struct strv *notes)
{
	char asked[32];
	if (l->at[LIMIT_TIME].value > LONG_TIME_NS)
		strv_addf(
			notes,
			"time %s (%s): longer than a year; it applies as given, but a run ends when the "
			"host is restarted",
			limit_write(LIMIT_TIME, l->at[LIMIT_TIME].value, asked, sizeof asked),
			l->at[LIMIT_TIME].origin);
}

/* A limit that the kernel would not let a box have: the hard limit of this process is the most. */
static int fit_hard(struct limits *l, enum limit_id id, uint64_t most, const char *option,
		    struct err *err)
{
	uint64_t value = l->at[id].value;
	char asked[32], allowed[32];
	if (value <= most)
		return 0;
	(void)limit_write(id, most, allowed, sizeof allowed);
	if (is_built_in(l, id)) {
		CLEANUP_FREE char *origin =
			xasprintf("built-in, lowered to the hard limit (ulimit %s)", option);
		limits_set(l, id, most, origin);
		return 0;
	}
	return err_set(
		err, ERR_CALLER, ERANGE,
		"%s %s (%s) is more than the hard limit of this process allows (ulimit %s); ask for at "
		"most %s, or raise the hard limit",
		limit_infos[id].key, limit_write(id, value, asked, sizeof asked), l->at[id].origin,
		option, allowed);
}

static int check_pids(const struct limits *l, struct err *err)
{
	if (l->at[LIMIT_PIDS].value <= PIDS_MAX)
		return 0;
	return err_set(err, ERR_CALLER, ERANGE,
		       "pids %llu (%s) is more than the kernel can have; ask for at most %llu",
		       (unsigned long long)l->at[LIMIT_PIDS].value, l->at[LIMIT_PIDS].origin,
		       (unsigned long long)PIDS_MAX);
}

int host_limits_fit(const struct config *c, const struct analysis *a, struct resolved *r,
		    struct strv *notes, struct err *err)
{
	const char *executor = a->executor ? a->executor : r->runtime.executor;
	if (!config_executor_is_here(c, executor))
		return 0;
	int e = config_limits_fit(c, executor, &r->limits, err);
	if (e >= 0)
		e = check_pids(&r->limits, err);
	if (e >= 0)
		e = fit_hard(&r->limits, LIMIT_OPEN_FILES, r->host.open_files_max, "-Hn", err);
	if (e >= 0)
		e = fit_hard(&r->limits, LIMIT_FILE_SIZE, r->host.file_size_max, "-Hf", err);
	if (e < 0)
		return e;
	if (!r->limits.at[LIMIT_FILE_SIZE].value &&
	    r->limits.at[LIMIT_DISK].value > r->host.file_size_max) {
		char most[32];
		strv_addf(notes, "file_size: no file can be larger than %s here (ulimit -Hf)",
			  limit_write(LIMIT_FILE_SIZE, r->host.file_size_max, most, sizeof most));
		limits_set(&r->limits, LIMIT_FILE_SIZE, r->host.file_size_max, "ulimit -Hf");
	}
	fit_cpus(&r->host, &r->limits, notes);
	look_at_time(&r->limits, notes);
	return 0;
}
