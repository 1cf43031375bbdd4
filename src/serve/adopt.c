/* What there is of a submission in the home: it tells how it is, whoever started it. A live keeper holds active/RUN locked, a complete run has a
 * verdict; a pipeline likewise in pipelines/RUN. So nothing that an earlier service has started is lost, or started twice. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/proc.h"
#include "flow/record.h"
#include "keeper/alive.h"
#include "serve/service_parts.h"
#include "serve/starter.h"
#include "spec/yaml.h"

#define RECORD_MAX   ((size_t)16 << 20)
#define ERRORS_MAX   ((size_t)64 << 10)
#define SAID_MAX     ((size_t)64 << 10)
#define AGAIN_USEC   1000000
#define FALSE_STARTS 3

enum found { FOUND_NOTHING, FOUND_UNSAID, FOUND_ANOTHERS, FOUND_ALIVE, FOUND_ENDED, FOUND_DEAD };
enum whose { WHOSE_UNSAID, WHOSE_OWN, WHOSE_ANOTHERS };

static int open_record(const struct service *s, const struct submission *sub)
{
	CLEANUP_FREE char *path = xasprintf("%s/%s/%s", s->config->home,
					    sub->kind == SUBMISSION_RUN_KIND ? "runs" : "pipelines",
					    sub->run);
	return open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

/* One that somebody runs himself may have the same id; whose it is is said before anything of it runs. */
static bool is_own_pipeline(const struct service *s, const struct submission *sub)
{
	CLEANUP_FD int dir_fd = open_record(s, sub);
	CLEANUP_JSON json_t *begun = NULL;
	int r = dir_fd < 0 ? dir_fd
			   : json_read_file(dir_fd, FLOW_BEGUN, FLOW_SMALL_MAX, &begun, NULL);
	if (r == -ENOENT && dir_fd >= 0) /* killed before it began, or about to */
		return !sub->is_resume &&
		       faccessat(dir_fd, "pipeline.json", F_OK, AT_SYMLINK_NOFOLLOW) < 0;
	return r >= 0 && str_eq(json_string_value(json_object_get(begun, "submission")), sub->id);
}

/* A keeper says it first of all, once it has the id. */
static enum whose run_whose(const struct service *s, const struct submission *sub)
{
	CLEANUP_FD int dir_fd = open_record(s, sub);
	CLEANUP_FREE char *text = xcalloc(1, SAID_MAX);
	if (dir_fd < 0 || fs_read_small(dir_fd, "events.jsonl", text, SAID_MAX) < 0)
		return WHOSE_UNSAID;
	CLEANUP_JSON json_t *line = json_loads(text, JSON_DISABLE_EOF_CHECK, NULL);
	const json_t *data = json_object_get(line, "data");
	if (!str_eq(json_string_value(json_object_get(line, "event")), "accepted"))
		return WHOSE_UNSAID;
	return str_eq(json_string_value(json_object_get(data, "submission")), sub->id)
		       ? WHOSE_OWN
		       : WHOSE_ANOTHERS;
}

pid_t adopt_holder(const struct service *s, const struct submission *sub)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	pid_t pid = 0;
	if (sub->kind == SUBMISSION_RUN_KIND)
		return run_is_alive(s->config, sub->run, &pid) && run_whose(s, sub) == WHOSE_OWN
			       ? pid
			       : 0;
	if (!is_own_pipeline(s, sub))
		return 0;
	CLEANUP_FREE char *path = xasprintf("%s/pipelines/%s/lock", s->config->home, sub->run);
	CLEANUP_FD int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	return fd >= 0 && fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK ? lock.l_pid : 0;
}

bool adopt_is_own(const struct service *s, const struct submission *sub)
{
	CLEANUP_FD int dir_fd = open_record(s, sub);
	if (dir_fd < 0)
		return false;
	/* A keeper that was killed before it said whose it is had the id all the same. */
	return sub->kind == SUBMISSION_PIPELINE_KIND ? is_own_pipeline(s, sub)
						     : run_whose(s, sub) != WHOSE_ANOTHERS;
}

/* Somebody may run one of this id himself: it is not followed, and not ended. */
static enum found find_run(const struct service *s, const struct submission *sub, json_t **ret)
{
	struct err err = { 0 };
	bool is_alive = run_is_alive(s->config, sub->run, NULL);
	enum whose whose = run_whose(s, sub);
	CLEANUP_FD int dir_fd = open_record(s, sub);
	if (whose == WHOSE_ANOTHERS)
		return FOUND_ANOTHERS;
	if (is_alive)
		return whose == WHOSE_OWN ? FOUND_ALIVE : FOUND_UNSAID;
	if (dir_fd < 0)
		return FOUND_NOTHING;
	return json_read_file(dir_fd, "verdict.json", RECORD_MAX, ret, &err) >= 0 ? FOUND_ENDED
										  : FOUND_DEAD;
}

/* Asked in this order: a keeper writes the verdict before it lets the lock go. */
static enum found find(const struct service *s, const struct submission *sub, json_t **ret)
{
	struct err err = { 0 };
	if (sub->kind == SUBMISSION_RUN_KIND)
		return find_run(s, sub, ret);
	if (adopt_holder(s, sub) > 0)
		return FOUND_ALIVE;
	CLEANUP_FD int dir_fd = open_record(s, sub);
	if (dir_fd < 0 || !is_own_pipeline(s, sub))
		return FOUND_NOTHING;
	/* What comes of a pipeline may be long: that it is there, and how it ended, is enough. */
	if (faccessat(dir_fd, "result.json", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return FOUND_DEAD;
	int r = json_read_file(dir_fd, FLOW_ENDED, FLOW_SMALL_MAX, ret, &err);
	return r >= 0 ? FOUND_ENDED : FOUND_DEAD;
}

/* The limits of the attempt that has ended: those that it reached grow from there. */
static void read_limits(const struct service *s, struct submission *sub)
{
	CLEANUP_JSON json_t *analysis = NULL;
	CLEANUP_FD int dir_fd = open_record(s, sub);
	struct err err = { 0 };
	if (dir_fd < 0 || json_read_file(dir_fd, "analysis.json", RECORD_MAX, &analysis, &err) < 0)
		return;
	const json_t *limits = json_object_get(analysis, "limits");
	for (int i = 0; i < LIMIT_COUNT_; i++) {
		const json_t *limit = json_object_get(limits, limit_infos[i].key);
		const json_t *raw = json_object_get(limit, "raw");
		if (json_is_integer(raw))
			sub->tries.limits[i] = (uint64_t)json_integer_value(raw);
	}
}

static void read_retries(const struct submission *sub, struct flow_retry ret[CAUSE_COUNT_])
{
	CLEANUP_DOCUMENT struct document *d = NULL;
	struct err err = { 0 };
	if (sub->retries &&
	    document_parse("retries", sub->retries, strlen(sub->retries), &d, &err) >= 0)
		(void)flow_retries_read(d, document_root(d), ret, &err); /* it was checked */
}

static enum cause cause_of(const char *name)
{
	enum cause cause = 0;
	while (cause < CAUSE_COUNT_ && !str_eq(cause_name(cause), name))
		cause++;
	return cause;
}

/* With what it would need then, it must still be able to fit at all. */
static bool wants_again(struct service *s, struct submission *sub, enum cause cause)
{
	struct flow_retry retries[CAUSE_COUNT_] = { 0 };
	int limit = flow_retry_limit(cause);
	if (sub->is_cancelled || sub->kind != SUBMISSION_RUN_KIND || cause == CAUSE_OK)
		return false;
	read_retries(sub, retries);
	read_limits(s, sub);
	uint64_t before = limit >= 0 ? sub->tries.limits[limit] : 0;
	if (!flow_retry_again(retries, &s->config->ceilings, cause, &sub->tries))
		return false;
	if (limit >= 0 && sub->tries.limits[limit] != before)
		sub->has_grown[limit] = true;
	queue_adjust(&s->queue, sub, sub->tries.limits, s->cap, clock_monotonic_ns());
	for (int i = 0; i < SCHEDULE_RESOURCES_; i++)
		if (s->cap[i] && sub->job.need[i] > s->cap[i])
			return false;
	return true;
}

/* Its record has it all. */
static void drop_errors(const struct service *s, const struct submission *sub)
{
	CLEANUP_FREE char *path = starter_pipeline_errors(s->config, sub->run);
	if (sub->kind == SUBMISSION_PIPELINE_KIND)
		(void)unlink(path);
}

void adopt_ended(struct service *s, struct submission *sub, const char *cause)
{
	FAULT_PHASE("serve-ended");
	if (!wants_again(s, sub, cause_of(cause))) {
		drop_errors(s, sub);
		service_over(s, sub, "ended", cause, NULL);
		return;
	}
	submission_next(s->config, sub);
	submission_chose(sub, "");
	sub->is_swept = false;
	sub->job.passed_ns = 0;
	queue_end(&s->queue, sub, clock_monotonic_ns());
	service_counts(s, sub)->retried++;
	service_note(s, sub, &(struct submission_end){ .state = "queued" });
	service_tell(s, &(struct service_change){ .id = submission_shown(sub),
						  .state = "queued",
						  .cause = cause,
						  .submitter = service_submitter(s, sub),
						  .what = "retried" });
	service_poke(s);
}

static int on_again(sd_event_source *source, uint64_t usec, void *data)
{
	struct submission *sub = data;
	sd_event_source_freep(&sub->recheck);
	adopt_silent(sub->service, sub);
	return 0;
}

static void look_later(struct submission *sub)
{
	sd_event_source_freep(&sub->recheck);
	(void)sd_event_add_time_relative(sub->service->event, &sub->recheck, CLOCK_MONOTONIC,
					 AGAIN_USEC, 0, on_again, sub);
}

static int on_gone(sd_event_source *source, int fd, uint32_t events, void *data)
{
	struct submission *sub = data;
	sd_event_source_freep(&sub->gone);
	cleanup_fd(&sub->pid_fd);
	adopt_silent(sub->service, sub);
	return 0;
}

/* Of a run that another service began, as soon as its keeper has written it. */
static void read_runtime(const struct service *s, struct submission *sub)
{
	CLEANUP_JSON json_t *analysis = NULL;
	CLEANUP_FD int dir_fd = open_record(s, sub);
	struct err err = { 0 };
	if (sub->chosen || sub->kind != SUBMISSION_RUN_KIND || dir_fd < 0 ||
	    json_read_file(dir_fd, "analysis.json", RECORD_MAX, &analysis, &err) < 0)
		return;
	const json_t *name = json_object_get(json_object_get(analysis, "runtime"), "name");
	submission_chose(sub, json_is_string(name) ? json_string_value(name) : "");
}

/* The pid of a lock may be another's by the time that we have it: the lock is asked again. */
static void follow_holder(struct service *s, struct submission *sub)
{
	pid_t pid = adopt_holder(s, sub);
	CLEANUP_FD int pid_fd = pid > 0 ? proc_pidfd_open(pid) : -1;
	if (pid_fd < 0 || adopt_holder(s, sub) != pid ||
	    sd_event_add_io(s->event, &sub->gone, pid_fd, EPOLLIN, on_gone, sub) < 0) {
		look_later(sub);
		return;
	}
	sub->pid_fd = take_fd(&pid_fd);
	read_runtime(s, sub);
	if (sub->is_cancelled)
		follow_cancel(sub);
}

static int on_swept(sd_event_source *source, int fd, uint32_t events, void *data)
{
	struct submission *sub = data;
	sd_event_source_freep(&sub->report);
	cleanup_fd(&sub->report_fd);
	adopt_silent(sub->service, sub);
	return 0;
}

/* A run that died is recorded by a sweep, beside us: what it left may be much. */
static void sweep(struct service *s, struct submission *sub)
{
	struct err err = { 0 };
	if (sub->is_swept) {
		sub->is_swept = false;
		look_later(sub);
		return;
	}
	CLEANUP_FD int fd = starter_ask(s->starter_fd, STARTER_SWEEP, NULL, &err);
	if (fd < 0 || sd_event_add_io(s->event, &sub->report, fd, EPOLLIN, on_swept, sub) < 0) {
		look_later(sub);
		return;
	}
	sub->report_fd = take_fd(&fd);
	sub->is_swept = true;
}

/* What a pipeline that could not begin said last. */
static char *read_errors(const struct service *s, const struct submission *sub)
{
	CLEANUP_FREE char *path = starter_pipeline_errors(s->config, sub->run);
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;
	if (fs_read_capped(AT_FDCWD, path, ERRORS_MAX, &text, &length, NULL) < 0 || !length)
		return NULL;
	while (length && text[length - 1] == '\n')
		text[--length] = '\0';
	const char *line = strrchr(text, '\n');
	char *last = str_visible(line ? line + 1 : text);
	return last;
}

static void refuse(struct service *s, struct submission *sub, const char *why)
{
	if (sub->is_cancelled)
		service_over(s, sub, "cancelled", "cancelled", NULL);
	else
		service_over(s, sub, "refused", "refused", why);
}

/* Neither recorded nor refused: the process that was to become it was killed. */
static void begin_again(struct service *s, struct submission *sub)
{
	CLEANUP_FREE char *said = sub->kind == SUBMISSION_PIPELINE_KIND ? read_errors(s, sub)
									: NULL;
	if (sub->is_cancelled || said) {
		refuse(s, sub, said);
	} else if (++sub->false_starts >= FALSE_STARTS) {
		refuse(s, sub, "what was to start it died each time before anything was recorded");
	} else {
		queue_end(&s->queue, sub, clock_monotonic_ns());
		service_note(s, sub, &(struct submission_end){ .state = "queued" });
		service_poke(s);
	}
}

/* Somebody killed it; `cupel resume` goes on with it. */
static void lose_pipeline(struct service *s, struct submission *sub)
{
	CLEANUP_FREE char *said = read_errors(s, sub);
	service_over(s, sub, "ended", "lost", said);
}

static const char *result_cause(const struct submission *sub, const json_t *result)
{
	const char *cause = json_string_value(json_object_get(result, "cause"));
	return cause ? cause : sub->kind == SUBMISSION_RUN_KIND ? "lost" : "cancelled";
}

static void count_lookups(struct service_use *counts, const json_t *result)
{
	const json_t *lookups = json_object_get(result, "lookups");
	counts->lookups.hit += (uint64_t)json_integer_value(json_object_get(lookups, "hit"));
	counts->lookups.miss += (uint64_t)json_integer_value(json_object_get(lookups, "miss"));
	counts->lookups.unusable +=
		(uint64_t)json_integer_value(json_object_get(lookups, "unusable"));
}

/* From here on it is known whose the run is. That of a pipeline has an id that a run may have as well. */
static void note_ran(struct submission *sub)
{
	if (sub->kind != SUBMISSION_RUN_KIND)
		return;
	sub->ran.attempt = sub->attempt;
	(void)snprintf(sub->ran.run, sizeof sub->ran.run, "%s", sub->run);
}

void adopt_silent(struct service *s, struct submission *sub)
{
	CLEANUP_JSON json_t *result = NULL;
	switch (find(s, sub, &result)) {
	case FOUND_UNSAID:
		look_later(sub);
		return;
	case FOUND_ANOTHERS: /* whoever was to begin it has died before */
		refuse(s, sub, "its id went to a run of somebody else's");
		return;
	case FOUND_ALIVE:
		follow_holder(s, sub);
		return;
	case FOUND_ENDED:
		note_ran(sub);
		count_lookups(service_counts(s, sub), result); /* a verdict has none */
		adopt_ended(s, sub, result_cause(sub, result));
		return;
	case FOUND_DEAD:
		if (sub->kind == SUBMISSION_RUN_KIND)
			sweep(s, sub);
		else
			lose_pipeline(s, sub);
		return;
	default:
		begin_again(s, sub);
	}
}

int adopt_look(struct service *s, struct submission *sub)
{
	CLEANUP_JSON json_t *result = NULL;
	enum found found = find(s, sub, &result);
	if (found == FOUND_NOTHING || found == FOUND_ANOTHERS)
		return 0;
	if (!sub->started_real_ns)
		sub->started_real_ns = clock_real_ns();
	queue_begin(&s->queue, sub, clock_monotonic_ns());
	adopt_silent(s, sub);
	return 1;
}
