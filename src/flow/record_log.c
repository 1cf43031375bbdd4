/* The log of a pipeline: a line for whatever happens to a task, written when something is about to depend on it, or when there is much. */
#include <string.h>

#include "base/clock.h"
#include "base/fs.h"
#include "flow/record.h"

#define PENDING_MAX (1 << 20)

static void add_line(struct flow_record *r, const char *text)
{
	str_add(&r->pending, text);
	str_add(&r->pending, "\n");
	if (r->pending.length > PENDING_MAX)
		(void)flow_record_flush(r, NULL);
}

void flow_record_add(struct flow_record *r, json_t *line)
{
	char now[40];
	json_object_set_new(line, "time",
			    json_string(clock_write(clock_real_ns(), now, sizeof now)));
	CLEANUP_FREE char *text = json_dumps(line, JSON_COMPACT);
	json_decref(line);
	if (!text)
		abort();
	add_line(r, text);
}

/* As JSON; most are plain. Owned by the caller. */
static char *quoted(const char *text)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._,=+-";
	if (text[strspn(text, plain)] == '\0')
		return xasprintf("\"%s\"", text);
	CLEANUP_JSON json_t *value = json_text(text);
	char *made = json_dumps(value, JSON_ENCODE_ANY);
	if (!made)
		abort();
	return made;
}

void flow_record_reused(struct flow_record *r, const char *step, const char *shard, const char *key,
			const char *run)
{
	char now[40];
	CLEANUP_FREE char *which = shard ? quoted(shard) : xstrdup("null");
	CLEANUP_FREE char *line = xasprintf(
		"{\"step\":\"%s\",\"shard\":%s,\"event\":\"reused\",\"key\":\"%s\",\"run\":\"%s\",\"time\":\"%s\"}",
		step, which, key, run, clock_write(clock_real_ns(), now, sizeof now));
	add_line(r, line);
}

int flow_record_flush(struct flow_record *r, struct err *err)
{
	if (!r->pending.length)
		return 0;
	int e = fs_append(r->log_fd, r->pending.text, r->pending.length);
	if (e < 0)
		return err_set(err, ERR_HOST, -e, "record what the pipeline '%s' does: %s", r->id,
			       strerrordesc_np(-e));
	r->pending.length = 0;
	r->pending.text[0] = '\0';
	return 0;
}
