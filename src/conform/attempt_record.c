/* What is known of such a run while it goes on, and what it left: read from its run directory. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "conform/parts.h"
#include "keeper/alive.h"

#define JSON_MAX ((size_t)16 << 20)
#define FILE_MAX ((size_t)80 << 20)
#define SAID_MAX 300

bool attempt_keeper(const struct conform *c, const struct attempt *t, pid_t *ret)
{
	return run_is_alive(&c->config, t->id, ret) && *ret > 1;
}

char *attempt_file(const struct conform *c, const struct attempt *t, const char *name,
		   size_t *ret_length)
{
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s/%s", c->home, t->id, name);
	char *text = NULL;
	return fs_read_capped(AT_FDCWD, path, FILE_MAX, &text, ret_length, NULL) < 0 ? NULL : text;
}

json_t *attempt_json(const struct conform *c, const struct attempt *t, const char *name)
{
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s/%s", c->home, t->id, name);
	json_t *value = NULL;
	return json_read_file(AT_FDCWD, path, JSON_MAX, &value, NULL) < 0 ? NULL : value;
}

char *attempt_said(const struct conform *c, const struct attempt *t)
{
	CLEANUP_FREE char *path = xasprintf("%s/%s.said", c->top, t->id);
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;
	if (fs_read_capped(AT_FDCWD, path, JSON_MAX, &text, &length, NULL) < 0)
		return xstrdup("");
	while (length && text[length - 1] == '\n')
		text[--length] = '\0';
	const char *last = length > SAID_MAX ? text + length - SAID_MAX : text;
	return str_visible(last);
}

static bool has_file(const struct conform *c, const struct attempt *t, const char *name)
{
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s/%s", c->home, t->id, name);
	return access(path, F_OK) == 0;
}

bool attempt_has_verdict(struct conform *c, struct attempt *t)
{
	return has_file(c, t, "verdict.json");
}

bool attempt_is_started(struct conform *c, struct attempt *t)
{
	(void)attempt_is_followed_to_its_end(c, t);
	return has_file(c, t, "receipt.json");
}

bool attempt_is_submitted(struct conform *c, struct attempt *t)
{
	(void)attempt_is_followed_to_its_end(c, t);
	if (!c->x) { /* it is claimed, and its keeper at work */
		pid_t keeper = 0;
		return has_file(c, t, "analysis.json") && attempt_keeper(c, t, &keeper);
	}
	CLEANUP_JSON json_t *noted = attempt_json(c, t, "executor.json");
	return str_eq(json_string_value(json_object_get(noted, "phase")), "submitted");
}

bool attempt_has_printed(struct conform *c, struct attempt *t)
{
	size_t length = 0;
	(void)attempt_is_followed_to_its_end(c, t);
	CLEANUP_FREE char *text = attempt_file(c, t, "stdout.log", &length);
	return text && strstr(text, "first\n");
}

/* No child of the keeper is alive; what has ended it can't have seen, stopped as it is. */
static bool has_no_children(pid_t keeper)
{
	CLEANUP_FREE char *path = xasprintf("/proc/%d/task/%d/children", keeper, keeper);
	char text[4096];
	if (fs_read_small(AT_FDCWD, path, text, sizeof text) < 0)
		return true;
	for (char *rest = text, *word; (word = strsep(&rest, " \n"));) {
		char stat[512];
		CLEANUP_FREE char *place = xasprintf("/proc/%s/stat", word);
		if (!*word || fs_read_small(AT_FDCWD, place, stat, sizeof stat) < 0)
			continue;
		const char *state = strrchr(stat, ')');
		if (state && state[1] && state[2] != 'Z')
			return false;
	}
	return true;
}

bool attempt_has_ended_there(struct conform *c, struct attempt *t)
{
	pid_t keeper = 0;
	if (!c->x)
		return !attempt_keeper(c, t, &keeper) || has_no_children(keeper);
	CLEANUP_JSON json_t *noted = attempt_json(c, t, "executor.json");
	CLEANUP_JOB_REPORT struct job_report report = { 0 };
	struct err err = { 0 };
	const json_t *handle = json_object_get(noted, "handle");
	return handle && c->x->ops->poll(c->x, handle, &report, &err) >= 0 &&
	       report.state == JOB_ENDED;
}

bool attempt_cause_is(const struct attempt *t, const char *cause, struct outcome *o)
{
	const char *found = json_string_value(json_object_get(t->verdict, "cause"));
	const char *notes = json_string_value(json_object_get(t->verdict, "completion_notes"));
	if (str_eq(found, cause))
		return true;
	return outcome_fail(o, "%s: the cause is '%s', not '%s'. %s", t->id, found ? found : "none",
			    cause, notes ? notes : "There is no verdict.");
}

long attempt_number(const struct attempt *t, const char *key)
{
	const json_t *value = json_object_get(t->verdict, key);
	return json_is_integer(value) ? (long)json_integer_value(value) : -1;
}

bool attempt_log_is(struct conform *c, struct attempt *t, const char *name, const char *text,
		    struct outcome *o)
{
	size_t length = 0;
	CLEANUP_FREE char *found = attempt_file(c, t, name, &length);
	if (found && length == strlen(text) && memcmp(found, text, length) == 0)
		return true;
	CLEANUP_FREE char *shown = str_visible(found ? found : "(none)");
	CLEANUP_FREE char *wanted = str_visible(text);
	return outcome_fail(o, "%s: %s is not '%s' but '%.200s'", t->id, name, wanted, shown);
}

static const json_t *find_output(const json_t *manifest, const char *path)
{
	const json_t *list = json_object_get(manifest, "files");
	size_t i;
	json_t *one;
	json_array_foreach(list, i, one)
	{
		if (str_eq(json_string_value(json_object_get(one, "path")), path))
			return one;
	}
	return NULL;
}

size_t attempt_output_count(const struct conform *c, const struct attempt *t)
{
	CLEANUP_JSON json_t *manifest = attempt_json(c, t, "outputs.json");
	return json_array_size(json_object_get(manifest, "files"));
}

bool attempt_output_is(struct conform *c, struct attempt *t, const char *path, const char *bytes,
		       size_t length, struct outcome *o)
{
	CLEANUP_JSON json_t *manifest = attempt_json(c, t, "outputs.json");
	const json_t *one = find_output(manifest, path);
	char digest[HASH_HEX];
	size_t found_length = 0;
	CLEANUP_FREE char *name = xasprintf("outputs/%s", path);
	if (!one)
		return outcome_fail(o, "%s: there is no output %s", t->id, path);
	hash_bytes(bytes, length, digest);
	if (json_integer_value(json_object_get(one, "size")) != (json_int_t)length ||
	    !str_eq(json_string_value(json_object_get(one, "sha256")), digest))
		return outcome_fail(o, "%s: the manifest has another size or digest of %s", t->id,
				    path);
	CLEANUP_FREE char *found = attempt_file(c, t, name, &found_length);
	if (!found || found_length != length || memcmp(found, bytes, length) != 0)
		return outcome_fail(o, "%s: %s is not what was written", t->id, path);
	return true;
}
