/* One submission that runs, as far as this service started it: what its keeper says over the report socket. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/proc.h"
#include "serve/service_parts.h"
#include "serve/starter.h"

#define WORDS_MAX  64 /* of one, before others are heard */
#define NUDGE_USEC 200000
#define SPARK_FULL 255

_Static_assert(sizeof(struct starter_said) != sizeof(struct keeper_msg), "told apart by size");

json_t *follow_request(const struct service *s, const struct submission *sub)
{
	json_t *limits = json_object();
	for (int i = 0; i < LIMIT_COUNT_; i++)
		if (sub->has_grown[i])
			json_object_set_new(limits, limit_infos[i].key,
					    json_u64(sub->tries.limits[i]));
	json_t *o = json_pack("{s:s,s:s,s:o,s:I,s:I,s:b,s:o,s:o,s:b}", "submission", sub->id, "run",
			      sub->run, "submitter", json_text(service_submitter(s, sub)), "uid",
			      (json_int_t)sub->uid, "gid", (json_int_t)sub->gid, "admin",
			      sub->is_admin, "limits", limits, "analysis", submission_analysis(sub),
			      "resume", sub->is_resume);
	const uint64_t *need = sub->job.need;
	json_object_set_new(o, "given",
			    json_sprintf("%llu,%llu,%llu",
					 (unsigned long long)need[SCHEDULE_MEMORY],
					 (unsigned long long)need[SCHEDULE_CPUS],
					 (unsigned long long)need[SCHEDULE_PIDS]));
	if (sub->rerun_of)
		json_object_set_new(o, "rerun_of", json_string(sub->rerun_of));
	if (sub->is_anyway)
		json_object_set_new(o, "anyway", json_true());
	return o;
}

static void note_sample(struct submission *sub, const struct keeper_msg *msg)
{
	uint64_t limit = sub->memory_limit_bytes;
	sub->memory_bytes = msg->sample.mem_bytes;
	sub->cpu_usec = msg->sample.cpu_usec;
	if (!limit)
		return;
	uint64_t part = sub->memory_bytes >= limit
				? SPARK_FULL
				: sub->memory_bytes / ((limit + SPARK_FULL - 1) / SPARK_FULL);
	if (sub->n_spark == SPARK_MAX)
		memmove(sub->spark, sub->spark + 1, --sub->n_spark);
	sub->spark[sub->n_spark++] = (uint8_t)(part > SPARK_FULL ? SPARK_FULL : part);
}

static void let_go(struct submission *sub)
{
	sd_event_source_freep(&sub->report);
	cleanup_fd(&sub->report_fd);
}

static void refuse(struct service *s, struct submission *sub, const struct err *err)
{
	/* An older service may have begun it after all. */
	if (err->code == EEXIST && adopt_is_own(s, sub)) {
		adopt_silent(s, sub);
		return;
	}
	CLEANUP_FREE char *text = xstrdup(err->text);
	if (sub->is_cancelled)
		service_over(s, sub, "cancelled", "cancelled", NULL);
	else
		service_over(s, sub, "refused", "refused", text);
}

/* True if nobody is followed here any more. */
static bool hear(struct service *s, struct submission *sub, const struct keeper_msg *msg)
{
	switch (msg->kind) {
	case KEEPER_MSG_SAMPLE:
		note_sample(sub, msg);
		return false;
	case KEEPER_MSG_REFUSED:
		let_go(sub);
		refuse(s, sub, &msg->err);
		return true;
	case KEEPER_MSG_ENDED:
	case KEEPER_MSG_UNRECORDED:
		let_go(sub);
		FAULT_PHASE("serve-heard");
		adopt_silent(s, sub); /* what it recorded is what counts */
		return true;
	default:
		return false;
	}
}

static int on_report(sd_event_source *source, int fd, uint32_t events, void *data)
{
	struct submission *sub = data;
	struct service *s = sub->service;
	for (int i = 0; i < WORDS_MAX; i++) {
		union {
			struct keeper_msg msg;
			struct starter_said said;
		} word = { 0 };
		ssize_t n = proc_recv(fd, &word, sizeof word, MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n == sizeof word.said) {
			queue_adjust(&s->queue, sub, word.said.limits, s->cap,
				     clock_monotonic_ns());
			submission_chose(sub, word.said.runtime);
		} else if (n != sizeof word.msg) {
			let_go(sub);
			adopt_silent(s, sub);
			return 0;
		} else if (hear(s, sub, &word.msg)) {
			return 0;
		}
	}
	return 0;
}

/* A time before which it was not to begin is nobody's delay. */
static void note_start(struct service *s, struct submission *sub)
{
	uint64_t asked = sub->submitted_real_ns, not_before = sub->job.not_before_ns;
	uint64_t from = not_before > asked ? not_before : asked, now = clock_real_ns();
	waits_note(&service_counts(s, sub)->waits, now > from ? now - from : 0);
	sub->started_real_ns = now;
}

int follow_start(struct service *s, struct submission *sub, struct err *err)
{
	CLEANUP_JSON json_t *request = follow_request(s, sub);
	enum starter_kind kind = sub->kind == SUBMISSION_RUN_KIND ? STARTER_RUN : STARTER_PIPELINE;
	CLEANUP_FD int fd = starter_ask(s->starter_fd, kind, request, err);
	if (fd < 0)
		return fd;
	FAULT_PHASE("serve-sent");
	int r = sd_event_add_io(s->event, &sub->report, fd, EPOLLIN, on_report, sub);
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "hear the keeper: %s", strerrordesc_np(-r));
	sub->report_fd = take_fd(&fd);
	sub->is_swept = false;
	sub->n_spark = 0;
	if (!sub->started_real_ns)
		note_start(s, sub);
	queue_begin(&s->queue, sub, clock_monotonic_ns());
	service_counts(s, sub)->started++;
	service_note(s, sub, &(struct submission_end){ .state = "running" });
	service_tell(s, &(struct service_change){ .id = submission_shown(sub),
						  .state = "running",
						  .submitter = service_submitter(s, sub),
						  .what = "started" });
	return 0;
}

static int on_nudge(sd_event_source *source, uint64_t usec, void *data)
{
	follow_cancel(data);
	return 0;
}

/* By its lock, if it has one already; one that does not hear us yet is asked again. */
static void signal_holder(struct submission *sub)
{
	struct service *s = sub->service;
	pid_t pid = adopt_holder(s, sub);
	CLEANUP_FD int pid_fd = pid > 0 ? proc_pidfd_open(pid) : -1;
	if (pid_fd >= 0 && adopt_holder(s, sub) == pid && proc_signal(pid_fd, SIGTERM) >= 0)
		return;
	if (sd_event_add_time_relative(s->event, &sub->nudge, CLOCK_MONOTONIC, NUDGE_USEC, 0,
				       on_nudge, sub) < 0)
		log_warning("run=%s can't be asked to end", sub->run);
}

void follow_cancel(struct submission *sub)
{
	const struct keeper_cmd cmd = { .cancel_signal = SIGTERM };
	sub->is_cancelled = true;
	sd_event_source_freep(&sub->nudge);
	if (sub->pid_fd >= 0)
		(void)proc_signal(sub->pid_fd, SIGTERM);
	else if (sub->kind == SUBMISSION_RUN_KIND && sub->report_fd >= 0)
		(void)send(sub->report_fd, &cmd, sizeof cmd, MSG_NOSIGNAL | MSG_DONTWAIT);
	else
		signal_holder(sub);
}
