/* A submission as a row of the ledger, and back. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/num.h"
#include "serve/queue.h"

static json_t *progress_json(const struct submission *s)
{
	json_t *tried = json_object(), *limits = json_object();
	for (int i = 0; i < CAUSE_COUNT_; i++)
		if (s->tries.tried[i])
			json_object_set_new(tried, cause_name((enum cause)i),
					    json_integer(s->tries.tried[i]));
	for (int i = 0; i < LIMIT_COUNT_; i++)
		if (s->has_grown[i])
			json_object_set_new(limits, limit_infos[i].key,
					    json_u64(s->tries.limits[i]));
	json_t *o =
		json_pack("{s:o,s:o,s:o}", "tried", tried, "limits", limits, "need", json_array());
	for (int i = 0; i < SCHEDULE_RESOURCES_; i++)
		json_array_append_new(json_object_get(o, "need"), json_u64(s->job.need[i]));
	const struct {
		const char *key;
		bool is_so;
	} flags[] = { { "cancelled", s->is_cancelled },
		      { "admin", s->is_admin },
		      { "elsewhere", s->is_elsewhere },
		      { "resume", s->is_resume },
		      { "anyway", s->is_anyway } };
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
		if (flags[i].is_so)
			json_object_set_new(o, flags[i].key, json_true());
	if (s->rerun_of)
		json_object_set_new(o, "rerun_of", json_string(s->rerun_of));
	return o;
}

static char *time_text(uint64_t real_ns)
{
	char text[40];
	return real_ns ? xstrdup(clock_write(real_ns, text, sizeof text)) : NULL;
}

static char *copy_text(const char *text)
{
	return text ? xstrdup(text) : NULL;
}

void submission_row(const struct submission *s, const char *submitter,
		    const struct submission_end *end, struct store_row *ret)
{
	CLEANUP_JSON json_t *progress = progress_json(s);
	*ret = (struct store_row){ .v = {
					   [SUBMISSION_ID] = xstrdup(s->id),
					   [SUBMISSION_N] =
						   xasprintf("%llu", (unsigned long long)s->job.n),
					   [SUBMISSION_KIND] = xstrdup(
						   s->kind == SUBMISSION_RUN_KIND ? "run"
										  : "pipeline"),
					   [SUBMISSION_SUBMITTER] = xstrdup(submitter),
					   [SUBMISSION_UID] = xasprintf("%u", (unsigned)s->uid),
					   [SUBMISSION_GID] = xasprintf("%u", (unsigned)s->gid),
					   [SUBMISSION_PRIORITY] = xasprintf("%d", s->job.priority),
					   [SUBMISSION_RETRIES] = copy_text(s->retries),
					   [SUBMISSION_NOT_BEFORE] =
						   time_text(s->job.not_before_ns),
					   [SUBMISSION_SUBMITTED] = time_text(s->submitted_real_ns),
					   [SUBMISSION_NAME] = copy_text(s->name),
					   [SUBMISSION_QUEST] = copy_text(s->quest),
					   [SUBMISSION_RUNTIME] = copy_text(s->runtime),
					   [SUBMISSION_STATE] = xstrdup(end->state),
					   [SUBMISSION_CAUSE] = copy_text(end->cause),
					   [SUBMISSION_NOTE] = copy_text(end->note),
					   [SUBMISSION_STARTED] = time_text(s->started_real_ns),
					   [SUBMISSION_ENDED] = time_text(end->ended_real_ns),
					   [SUBMISSION_ATTEMPT] = xasprintf("%u", s->attempt),
					   [SUBMISSION_RUN] = xstrdup(s->run),
					   [SUBMISSION_PROGRESS] =
						   json_dumps(progress, JSON_COMPACT),
				   },
				   .ran = s->ran };
}

static uint64_t time_of(const char *text)
{
	uint64_t real_ns = 0;
	return text && clock_read(text, &real_ns) >= 0 ? real_ns : 0;
}

static void read_progress(const char *text, struct submission *s)
{
	CLEANUP_JSON json_t *o = text ? json_loads(text, 0, NULL) : NULL;
	const json_t *tried = json_object_get(o, "tried"), *limits = json_object_get(o, "limits");
	const json_t *need = json_object_get(o, "need");
	for (int i = 0; i < CAUSE_COUNT_; i++)
		s->tries.tried[i] = (unsigned)json_integer_value(
			json_object_get(tried, cause_name((enum cause)i)));
	for (int i = 0; i < LIMIT_COUNT_; i++) {
		const json_t *value = json_object_get(limits, limit_infos[i].key);
		s->has_grown[i] = value;
		if (value)
			s->tries.limits[i] = (uint64_t)json_integer_value(value);
	}
	for (size_t i = 0; i < SCHEDULE_RESOURCES_; i++)
		s->job.need[i] = (uint64_t)json_integer_value(json_array_get(need, i));
	s->is_cancelled = json_is_true(json_object_get(o, "cancelled"));
	s->is_admin = json_is_true(json_object_get(o, "admin"));
	s->is_elsewhere = json_is_true(json_object_get(o, "elsewhere"));
	s->memory_limit_bytes = s->is_elsewhere ? 0 : s->job.need[SCHEDULE_MEMORY];
	s->is_resume = json_is_true(json_object_get(o, "resume"));
	s->is_anyway = json_is_true(json_object_get(o, "anyway"));
	s->rerun_of = copy_text(json_string_value(json_object_get(o, "rerun_of")));
}

static int number(const char *text, uint64_t *ret)
{
	return text ? num_u64(text, INT64_MAX, ret) : -EINVAL;
}

static int read_numbers(const struct store_row *row, struct submission *s)
{
	uint64_t uid = 0, gid = 0, attempt = 0, size = 0;
	const char *priority = row->v[SUBMISSION_PRIORITY];
	bool is_negative = priority && priority[0] == '-';
	if (number(row->v[SUBMISSION_N], &s->job.n) < 0 ||
	    number(row->v[SUBMISSION_UID], &uid) < 0 || number(row->v[SUBMISSION_GID], &gid) < 0 ||
	    number(row->v[SUBMISSION_ATTEMPT], &attempt) < 0 ||
	    number(priority ? priority + is_negative : NULL, &size) < 0 || size > 100)
		return -EBADMSG;
	s->uid = (uid_t)uid;
	s->gid = (gid_t)gid;
	s->attempt = (unsigned)attempt;
	s->job.priority = is_negative ? -(int)size : (int)size;
	return 0;
}

int submission_from_row(const struct config *c, const uint64_t cap[SCHEDULE_RESOURCES_],
			const struct store_row *row, struct submission **ret, struct err *err)
{
	CLEANUP_SUBMISSION struct submission *s = xcalloc(1, sizeof *s);
	const char *id = row->v[SUBMISSION_ID], *run = row->v[SUBMISSION_RUN];
	s->report_fd = s->pid_fd = -1;
	if (!id || !run || id_check(id, NULL) < 0 || id_check(run, NULL) < 0 ||
	    !row->v[SUBMISSION_ANALYSIS] || !row->v[SUBMISSION_SUBMITTER] ||
	    read_numbers(row, s) < 0)
		return err_set(err, ERR_HOST, EBADMSG,
			       "the ledger's row of the submission '%.64s' can't be used",
			       id ? id : "");
	(void)snprintf(s->id, sizeof s->id, "%s", id);
	(void)snprintf(s->run, sizeof s->run, "%s", run);
	s->kind = str_eq(row->v[SUBMISSION_KIND], "pipeline") ? SUBMISSION_PIPELINE_KIND
							      : SUBMISSION_RUN_KIND;
	s->analysis = xstrdup(row->v[SUBMISSION_ANALYSIS]);
	submission_find_secrets(c, s);
	s->retries = copy_text(row->v[SUBMISSION_RETRIES]);
	s->key = copy_text(row->v[SUBMISSION_KEY]);
	s->name = copy_text(row->v[SUBMISSION_NAME]);
	s->quest = copy_text(row->v[SUBMISSION_QUEST]);
	s->runtime = copy_text(row->v[SUBMISSION_RUNTIME]);
	s->job.not_before_ns = time_of(row->v[SUBMISSION_NOT_BEFORE]);
	s->submitted_real_ns = time_of(row->v[SUBMISSION_SUBMITTED]);
	s->started_real_ns = time_of(row->v[SUBMISSION_STARTED]);
	read_progress(row->v[SUBMISSION_PROGRESS], s);
	*ret = take_ptr(s);
	return 0;
}

static bool is_taken(const struct config *c, const char *id)
{
	static const char *const places[] = { "runs", "active", "pipelines" };
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		CLEANUP_FREE char *path = xasprintf("%s/%s/%s", c->home, places[i], id);
		if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			return true;
	}
	return false;
}

void submission_next(const struct config *c, struct submission *s)
{
	char tag[HASH_TAG];
	int n = snprintf(s->run, sizeof s->run, "%s.%u", s->id, ++s->attempt);
	for (unsigned i = 0; n > ID_MAX || is_taken(c, s->run); i++) {
		CLEANUP_FREE char *whole = xasprintf("%s\n%u", s->id, i);
		hash_tag(whole, tag);
		n = snprintf(s->run, sizeof s->run, "%.40s-%s.%u", s->id, tag, s->attempt);
	}
}
