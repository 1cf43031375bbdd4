#include "flow/past.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "flow/finished.h"
#include "flow/record.h"
#include "keeper/record.h"
#include "runtime/key_items.h"

#define CHAIN_MAX    16 /* records that are looked at */
#define RECORD_MAX   (8 << 20)
#define RUNTIME_PART "runtime " /* and its name: see flow/key.c */

struct flow_past {
	const struct config *config; /* borrowed */
	char next[ID_MAX + 1];       /* the next older record; "": no more */
	unsigned read;               /* records that were */
	json_t *tasks;               /* owned; label -> {run, key, parts or none} */
	json_t *attempts;            /* owned; label -> number, of the newest record */
};

struct flow_past *flow_past_new(const struct config *c, const char *id)
{
	struct flow_past *p = xcalloc(1, sizeof *p);
	p->config = c;
	(void)snprintf(p->next, sizeof p->next, "%s", id);
	p->tasks = json_object();
	p->attempts = json_object();
	return p;
}

void flow_past_free(struct flow_past *p)
{
	if (!p)
		return;
	json_decref(p->tasks);
	json_decref(p->attempts);
	free(p);
}

static char *label_of(const json_t *line)
{
	const char *step = json_string_value(json_object_get(line, "step"));
	const char *shard = json_string_value(json_object_get(line, "shard"));
	if (!step)
		return NULL;
	return shard ? xasprintf("%s[%s]", step, shard) : xstrdup(step);
}

struct reading {
	struct flow_past *past;
	json_t *tasks; /* of this record */
};

static bool take_line(void *data, json_t *line)
{
	struct reading *r = data;
	CLEANUP_FREE char *label = label_of(line);
	const char *event = json_string_value(json_object_get(line, "event"));
	json_t *not_kept = json_object_get(line, "not_kept");
	if (label && not_kept && json_object_get(r->tasks, label))
		json_object_set(json_object_get(r->tasks, label), "not_kept", not_kept);
	if (!label || (!str_eq(event, "started") && !str_eq(event, "reused")))
		return true;
	if (r->past->read == 0 && json_is_integer(json_object_get(line, "attempt")))
		json_object_set(r->past->attempts, label, json_object_get(line, "attempt"));
	if (json_object_get(line, "key"))
		json_object_set(r->tasks, label, line);
	return true;
}

/* Goes one record back; false if there is none. */
static bool read_older(struct flow_past *p)
{
	struct err unused = { 0 };
	CLEANUP_JSON json_t *tasks = json_object();
	CLEANUP_JSON json_t *asked = NULL;
	struct reading r = { .past = p, .tasks = tasks };
	const char *label;
	json_t *line;
	if (!p->next[0] || p->read >= CHAIN_MAX)
		return false;
	(void)flow_record_lines(p->config, p->next, take_line, &r, &unused);
	json_object_foreach(tasks, label, line) if (!json_object_get(p->tasks, label))
		json_object_set(p->tasks, label, line);
	const char *previous = NULL;
	if (flow_record_read(p->config, p->next, "pipeline.json", &asked, &unused) >= 0)
		previous = json_string_value(json_object_get(asked, "previous"));
	bool is_id = previous && id_check(previous, &unused) >= 0;
	(void)snprintf(p->next, sizeof p->next, "%s",
		       is_id && flow_record_is_visible(p->config, previous) ? previous : "");
	p->read++;
	return true;
}

unsigned flow_past_attempts(struct flow_past *p, const char *label)
{
	if (p->read == 0)
		(void)read_older(p);
	return (unsigned)json_integer_value(json_object_get(p->attempts, label));
}

/* The parts of a task that was reused are those of the run that it was reused from. */
static json_t *parts_of(const struct flow_past *p, const json_t *line)
{
	struct err unused = { 0 };
	json_t *parts = json_object_get(line, "parts");
	const char *run = json_string_value(json_object_get(line, "run"));
	if (parts || !run || id_check(run, &unused) < 0)
		return json_incref(parts);
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s", p->config->home, run);
	CLEANUP_JSON json_t *record = NULL;
	CLEANUP_FD int dir_fd = open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (dir_fd < 0 || json_read_file(dir_fd, "analysis.json", RECORD_MAX, &record, &unused) < 0)
		return NULL;
	return json_incref(json_object_get(json_object_get(record, "key"), "parts"));
}

static void say(struct str *to, const char *what, const char *how)
{
	str_addf(to, "%s%s %s", to->length ? ", " : "", what, how);
}

/* Of a runtime, which of its packages made the difference, where that is known. */
static void say_changed(const struct flow_past *p, struct str *to, const char *what,
			const char *then, const char *now)
{
	const char *runtime = str_starts(what, RUNTIME_PART) ? what + strlen(RUNTIME_PART) : NULL;
	CLEANUP_FREE char *difference =
		runtime ? key_items_difference(p->config, runtime, then, now) : NULL;
	CLEANUP_FREE char *how = difference ? xasprintf("changed (%s)", difference) : NULL;
	say(to, what, how ? how : "changed");
}

char *flow_past_why(struct flow_past *p, const char *label, const struct analysis_key *now)
{
	struct str text = { 0 };
	while (!json_object_get(p->tasks, label))
		if (!read_older(p))
			return xstrdup("it was not run before");
	const json_t *line = json_object_get(p->tasks, label);
	CLEANUP_JSON json_t *parts = parts_of(p, line);
	const char *not_kept = json_string_value(json_object_get(line, "not_kept")), *name;
	json_t *then;
	if (str_eq(json_string_value(json_object_get(line, "key")), now->sha256))
		return not_kept
			       ? xasprintf(
					 "it succeeded before, but its result could not be kept: %s",
					 not_kept)
			       : xstrdup("it was begun before, and did not succeed");
	for (size_t i = 0; i < now->parts.n; i++) {
		then = json_object_get(parts, now->parts.v[i].key);
		if (!then)
			say(&text, now->parts.v[i].key, "is new");
		else if (!str_eq(json_string_value(then), now->parts.v[i].value))
			say_changed(p, &text, now->parts.v[i].key, json_string_value(then),
				    now->parts.v[i].value);
	}
	json_object_foreach(parts, name, then) if (!pairs_get(&now->parts, name))
		say(&text, name, "is gone");
	return text.length ? str_take(&text) : xstrdup("what it was made of is not known any more");
}

struct recovery {
	json_t *open; /* owned; run -> key, of runs whose end was not told */
};

static bool take_end(void *data, json_t *line)
{
	struct recovery *r = data;
	const char *event = json_string_value(json_object_get(line, "event"));
	const char *run = json_string_value(json_object_get(line, "run"));
	if (str_eq(event, "started") && run && json_object_get(line, "key") &&
	    !json_is_false(json_object_get(line, "cache")))
		json_object_set(r->open, run, json_object_get(line, "key"));
	else if (str_eq(event, "ended") && run)
		json_object_del(r->open, run);
	return true;
}

/* One pipeline. True if it did not end: what came before it may not have been looked at either. */
static bool recover_one(const struct config *c, const char *id, bool is_ours,
			struct ongoing_set *ongoing)
{
	CLEANUP_JSON json_t *open = json_object();
	struct recovery r = { .open = open };
	struct err unused = { 0 };
	const char *run;
	json_t *key;
	if (flow_record_is_over(c, id))
		return false;
	(void)flow_record_lines(c, id, take_end, &r, &unused);
	json_object_foreach(open, run, key)
	{
		if (!json_is_string(key) || id_check(run, &unused) < 0 ||
		    ongoing_add(ongoing, c, run, json_string_value(key), is_ours))
			continue;
		/* Its keeper saw that nobody waits any more, and is ending it; it may still have succeeded. */
		(void)record_wait(c->home, run);
		(void)finished_put(c, json_string_value(key), run, &unused);
	}
	return true;
}

void flow_past_recover(const struct config *c, const char *id, bool is_ours,
		       struct ongoing_set *ongoing)
{
	char at[ID_MAX + 1];
	struct err unused = { 0 };
	(void)snprintf(at, sizeof at, "%s", id);
	for (unsigned i = 0; i < CHAIN_MAX && at[0]; i++) {
		CLEANUP_JSON json_t *asked = NULL;
		bool own = is_ours && i == 0; /* to look at our own lock would be to let go of it */
		if ((!own && flow_record_alive(c, at)) || !recover_one(c, at, own, ongoing) ||
		    flow_record_read(c, at, "pipeline.json", &asked, &unused) < 0)
			return;
		const char *previous = json_string_value(json_object_get(asked, "previous"));
		bool is_id = previous && id_check(previous, &unused) >= 0;
		(void)snprintf(at, sizeof at, "%s",
			       is_id && flow_record_is_visible(c, previous) ? previous : "");
	}
}
