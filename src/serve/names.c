/* Ids that others will come to: attempts (ID.2), the step that takes outputs (ID-post), the runs of a pipeline's steps (ID-STEP-1, ID-STEP-SHARD-1).
 * Whoever could take them first would be taken for a part of what is not his, or stand in its way. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "flow/record.h"
#include "run/post.h"
#include "serve/service_parts.h"

static bool is_number(const char *text)
{
	return *text && strspn(text, "0123456789") == strlen(text);
}

/* Of the id that ends before `rest`: "-post", ".2", "-align-1". */
static bool is_part_of_run(const char *rest)
{
	return str_eq(rest, "-post") || (rest[0] == '.' && is_number(rest + 1));
}

static bool is_part_of_pipeline(const char *rest)
{
	const char *last = strrchr(rest, '-');
	return rest[0] == '-' && last > rest + 1 && is_number(last + 1);
}

static bool is_there(const struct service *s, const char *place, const char *id)
{
	CLEANUP_FREE char *path = xasprintf("%s/%s/%s", s->config->home, place, id);
	return faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Of a pipeline that nobody of the queue has: whom it was run for. Tokens without a user have the same uid, and not the same pipelines. */
static bool is_own_record(const struct service *s, const char *id, size_t submitter)
{
	char name[VIEWER_NAME_MAX + 1];
	return flow_record_submitter(s->config, id, name) >= 0 &&
	       str_eq(name, s->queue.submitter_names[submitter]);
}

/* A run that has ended comes to no more ids; a pipeline may be gone on with. */
static bool is_anothers(const struct service *s, size_t submitter, const char *id, const char *rest)
{
	const struct submission *other = queue_find_shown(&s->queue, id);
	bool is_pipeline = other ? other->kind == SUBMISSION_PIPELINE_KIND
				 : is_there(s, FLOW_PIPELINES, id);
	if (!(is_pipeline ? is_part_of_pipeline(rest) : is_part_of_run(rest)))
		return false;
	if (other)
		return other->job.submitter != submitter;
	if (is_pipeline)
		return !is_own_record(s, id, submitter);
	return is_there(s, "active", id);
}

int names_check(const struct service *s, const struct submission *sub, size_t submitter,
		struct err *err)
{
	char part[ID_MAX + 1];
	for (const char *rest = sub->id; (rest = strpbrk(rest + 1, ".-"));) {
		(void)snprintf(part, sizeof part, "%.*s", (int)(rest - sub->id), sub->id);
		if (is_anothers(s, submitter, part, rest))
			return err_set(err, ERR_CALLER, EEXIST,
				       "the id '%s' is taken; choose another", sub->id);
	}
	if (!sub->has_post)
		return 0;
	post_id(sub->id, part);
	return queue_find(&s->queue, part) || is_there(s, "runs", part)
		       ? err_set(err, ERR_CALLER, EEXIST,
				 "the id '%s', which its post_process would have, is taken; choose another than '%s'",
				 part, sub->id)
		       : 0;
}
