/* Reads a run directory. What it says was written by cupel, but quotes an analysis: names and texts are hostile. */
#include "view/dossier.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "collect/outputs.h"
#include "spec/id.h"

#define RECORD_MAX MANIFEST_MAX /* the largest of them */
#define EVENTS_MAX 10000        /* a run has a dozen */

void dossier_release(struct dossier *d)
{
	cleanup_free(&d->id);
	cleanup_fd(&d->dir_fd);
	json_decrefp(&d->analysis);
	json_decrefp(&d->plan);
	json_decrefp(&d->receipt);
	json_decrefp(&d->outputs);
	json_decrefp(&d->verdict);
	json_decrefp(&d->events);
	*d = (struct dossier)DOSSIER_INIT;
}

static int read_events(struct dossier *d, struct err *err)
{
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;
	d->events = json_array();
	int r = fs_read_capped(d->dir_fd, "events.jsonl", RECORD_MAX, &text, &length, err);
	if (r < 0)
		return r;
	for (char *line = text; line < text + length;) {
		char *end = memchr(line, '\n', (size_t)(text + length - line));
		size_t n = end ? (size_t)(end - line) : (size_t)(text + length - line);
		json_t *event = json_loadb(line, n, JSON_REJECT_DUPLICATES, NULL);
		if (json_is_object(event) && json_array_size(d->events) < EVENTS_MAX)
			json_array_append_new(d->events, event);
		else
			json_decref(event);
		line += n + 1;
	}
	return 0;
}

/* A file that never came to be is no error; one that cannot be read is. */
static int read_part(int dir_fd, const char *name, json_t **ret, struct err *err)
{
	struct err why = { 0 };
	int r = json_read_file(dir_fd, name, RECORD_MAX, ret, &why);
	if (r >= 0 || r == -ENOENT)
		return 0;
	if (err)
		*err = why;
	return r;
}

static int read_parts(struct dossier *d, struct err *err)
{
	int r = read_part(d->dir_fd, "analysis.json", &d->analysis, err);
	if (r >= 0)
		r = read_part(d->dir_fd, "plan.json", &d->plan, err);
	if (r >= 0)
		r = read_part(d->dir_fd, "receipt.json", &d->receipt, err);
	if (r >= 0)
		r = read_part(d->dir_fd, "outputs.json", &d->outputs, err);
	return r < 0 ? r : read_events(d, err);
}

int dossier_read(const struct config *c, const char *id, struct dossier *ret, struct err *err)
{
	CLEANUP_DOSSIER struct dossier d = DOSSIER_INIT;
	int r = id_check(id, err);
	if (r < 0)
		return r;
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s", c->home, id);
	d.id = xstrdup(id);
	d.dir_fd = open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (d.dir_fd < 0)
		return id_no_run(c->home, id, err);
	r = json_read_file(d.dir_fd, "verdict.json", RECORD_MAX, &d.verdict, err);
	if (r == -ENOENT)
		return err_set(err, ERR_CALLER, EBUSY,
			       "the run '%s' has no verdict yet; try again when it has ended", id);
	if (r >= 0)
		r = read_parts(&d, err);
	if (r < 0)
		return err_wrap(err, "read the record of '%s'", id);
	*ret = d;
	d = (struct dossier)DOSSIER_INIT;
	return 0;
}

const char *dossier_text(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));
	return text ? text : "";
}

uint64_t dossier_number(const json_t *o, const char *key)
{
	json_int_t value = json_integer_value(json_object_get(o, key));
	return value < 0 ? 0 : (uint64_t)value;
}

const json_t *dossier_code(const struct dossier *d, size_t at)
{
	return json_array_get(json_object_get(d->analysis, "code_contents"), at);
}

static const char *event_time(const struct dossier *d, size_t at)
{
	return dossier_text(json_array_get(d->events, at), "time");
}

const char *dossier_began(const struct dossier *d)
{
	const char *started = dossier_text(d->verdict, "started");
	const char *accepted = dossier_text(d->verdict, "accepted");
	return started[0] ? started : accepted[0] ? accepted : event_time(d, 0);
}

const char *dossier_ended(const struct dossier *d)
{
	const char *ended = dossier_text(d->verdict, "ended");
	size_t n = json_array_size(d->events);
	return ended[0] || !n ? ended : event_time(d, n - 1);
}

const char *dossier_outputs_dir(const struct dossier *d)
{
	static const char *const names[] = { "outputs", "partial" };
	struct stat st = { 0 };
	for (size_t i = 0; i < 2; i++)
		if (fstatat(d->dir_fd, names[i], &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISDIR(st.st_mode))
			return names[i];
	return NULL;
}
