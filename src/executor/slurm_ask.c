/* What Slurm says of a job: one line of `scontrol show job`, which needs no accounting database. The times are UTC (slurm_call.c). */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/num.h"
#include "executor/slurm.h"

/* Asked at once when something of it changed, then ever more seldom. */
#define ASK_FIRST_NS (250 * NS_PER_MS)
#define ASK_LAST_NS  (10 * NS_PER_SEC)

/* The value of " KEY=", as far as the next " NEXT=" or blank. The first one counts: what a user may choose comes later in the line. */
static void take(const char *line, const char *key, const char *next, char *ret, size_t room)
{
	CLEANUP_FREE char *begin = xasprintf(" %s=", key);
	CLEANUP_FREE char *end = xasprintf(" %s", next ? next : "");
	const char *at = strstr(line, begin);
	ret[0] = '\0';
	if (!at)
		return;
	at += strlen(begin);
	const char *stop = strstr(at, end);
	size_t length = stop ? (size_t)(stop - at) : strcspn(at, " \n");
	(void)snprintf(ret, room, "%.*s", (int)length, at);
	str_clean(ret);
}

/* "2026-01-31T12:00:00"; "Unknown" and "None" are none. */
static uint64_t take_time(const char *line, const char *key)
{
	char text[40];
	uint64_t ns = 0;
	take(line, key, NULL, text, sizeof text);
	return text[0] >= '0' && text[0] <= '9' && clock_read(text, &ns) >= 0 ? ns : 0;
}

static void parse(const char *line, struct slurm_job *ret)
{
	char restarts[16];
	uint64_t n = 0;
	*ret = (struct slurm_job){ 0 };
	take(line, "JobState", NULL, ret->state, sizeof ret->state);
	take(line, "Reason", "Dependency=", ret->reason, sizeof ret->reason);
	take(line, "ExitCode", NULL, ret->exit, sizeof ret->exit);
	take(line, "BatchHost", NULL, ret->node, sizeof ret->node);
	take(line, "Restarts", NULL, restarts, sizeof restarts);
	if (num_u64(restarts, UINT32_MAX, &n) >= 0)
		ret->restarts = (unsigned)n;
	ret->started_real_ns = take_time(line, "StartTime");
	ret->ended_real_ns = take_time(line, "EndTime");
}

/* Numbers come again when a controller forgets everything, and anybody may give a job that name: "JobId=N JobName=NAME UserId=USER(UID) ...", and
 * for a task of an array "JobId=M ArrayJobId=N ArrayTaskId=INDEXES JobName=...". A name may have blanks, so one that says more than ours could bring a user of its
 * own; but the real one is still said after it. */
static bool is_ours(const char *line, const struct slurm_handle *h, uid_t uid)
{
	CLEANUP_FREE char *number = xasprintf("%sJobId=%" PRIu64 " ",
					      h->task.index < 0 ? "" : " Array", h->task.number);
	CLEANUP_FREE char *begin = xasprintf(" JobName=%s UserId=", slurm_handle_name(h));
	CLEANUP_FREE char *end = xasprintf("(%u)", (unsigned)uid);
	const char *name = strstr(line, " JobName=");
	const char *said_number = strstr(line, number);
	if (!name || !said_number || said_number > name || !str_starts(name, begin) ||
	    (h->task.index < 0 && said_number != line))
		return false;
	const char *user = name + strlen(begin);
	CLEANUP_FREE char *said = xstrndup(user, strcspn(user, " \n"));
	return str_ends(said, end) && !strstr(user, " UserId=");
}

int slurm_squeue(const struct slurm *s, const struct slurm_dir *d, const char *name,
		 const struct strv *options, struct slurm_said *ret, struct err *err)
{
	CLEANUP_STRV struct strv words = { 0 };
	CLEANUP_SAID struct slurm_said said = { 0 };
	strv_add(&words, "squeue");
	strv_add(&words, "--noheader");
	strv_add(&words, "--all");
	strv_addf(&words, "--user=%u", (unsigned)d->uid);
	strv_addf(&words, "--name=%s", name);
	strv_copy(&words, options);
	int r = slurm_call_ok(s, d, &words, &said, err);
	if (r < 0)
		return r;
	/* It exits with 0, as if he had none. */
	if (strstr(said.error, "Invalid user"))
		return err_set(
			err, ERR_HOST, EREMOTEIO,
			"%.200s: Slurm's commands know only users that have a name on this host",
			said.error);
	*ret = said;
	said = (struct slurm_said){ 0 };
	return 0;
}

static int no_such_job(const struct slurm_handle *h, struct err *err)
{
	return err_set(err, ERR_HOST, ENOENT, "Slurm knows no job %" PRIu64 " of that name",
		       h->task.number);
}

static int ask(struct slurm *s, const struct slurm_dir *d, const struct slurm_handle *h,
	       struct slurm_job *ret, struct err *err)
{
	CLEANUP_STRV struct strv words = { 0 };
	CLEANUP_SAID struct slurm_said said = { 0 };
	strv_add(&words, "scontrol");
	strv_add(&words, "--oneliner");
	strv_add(&words, "show");
	strv_add(&words, "job");
	if (h->task.index < 0)
		strv_addf(&words, "%" PRIu64, h->task.number);
	else
		strv_addf(&words, "%" PRIu64 "_%d", h->task.number, h->task.index);
	int r = slurm_call(s, d, &words, &said, err);
	if (r < 0)
		return r;
	if (said.status == 0 && is_ours(said.out, h, d->uid)) {
		parse(said.out, ret);
		return 0;
	}
	if (said.status == 0 || strstr(said.error, "Invalid job id"))
		return no_such_job(h, err);
	return err_set(err, ERR_HOST, EAGAIN, "scontrol: %.300s", said.error);
}

static bool is_same(const struct slurm_job *a, const struct slurm_job *b)
{
	return str_eq(a->state, b->state) && str_eq(a->reason, b->reason) &&
	       a->restarts == b->restarts;
}

int slurm_ask(struct slurm *s, const struct slurm_dir *d, const struct slurm_handle *h,
	      struct slurm_job *ret, struct err *err)
{
	struct slurm_seen *seen = &s->seen;
	struct slurm_job job = { 0 };
	uint64_t now_ns = clock_monotonic_ns();
	bool is_known = seen->wait_ns && str_eq(seen->name, h->name);
	if (!is_known || now_ns - seen->at_ns >= seen->wait_ns) {
		int r = ask(s, d, h, &job, err);
		if (r < 0 && r != -ENOENT)
			return r;
		bool same = is_known && (r == -ENOENT) == seen->is_forgotten &&
			    is_same(&job, &seen->job);
		uint64_t wait_ns = same ? seen->wait_ns + seen->wait_ns / 2 : ASK_FIRST_NS;
		*seen = (struct slurm_seen){ .job = job,
					     .is_forgotten = r == -ENOENT,
					     .attempt = (int)job.restarts,
					     .at_ns = now_ns,
					     .wait_ns = wait_ns > ASK_LAST_NS ? ASK_LAST_NS
									      : wait_ns };
		(void)snprintf(seen->name, sizeof seen->name, "%s", h->name);
	}
	if (seen->is_forgotten)
		return no_such_job(h, err);
	*ret = seen->job;
	return 0;
}
