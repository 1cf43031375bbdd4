/* Reads HOME/pipelines/ID: the steps and how they hang together. */
#include "view/pipeline_dossier.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fs.h"
#include "flow/record.h"
#include "view/dossier.h"

#define PIPELINE_MAX ((size_t)64 << 20)
#define RESULT_MAX   ((size_t)256 << 20)
#define STEPS_MAX    10000
#define SHARDS_MAX   100000000 /* of one, as far as it is believed */

const char *const task_state_names[] = { "waiting", "running",   "ok",     "reused",
					 "failed",  "cancelled", "skipped" };

static void task_release(struct dossier_task *t)
{
	cleanup_free(&t->shard);
	cleanup_free(&t->key);
	cleanup_free(&t->why);
	cleanup_free(&t->attempts);
	json_decrefp(&t->parts);
}

void pipeline_dossier_release(struct pipeline_dossier *d)
{
	for (size_t i = 0; i < d->n_steps; i++) {
		for (size_t j = 0; j < d->steps[i].n_tasks; j++)
			task_release(&d->steps[i].tasks[j]);
		cleanup_free(&d->steps[i].tasks);
		cleanup_free(&d->steps[i].needs);
	}
	cleanup_free(&d->steps);
	cleanup_free(&d->id);
	cleanup_free(&d->directory);
	cleanup_fd(&d->dir_fd);
	cleanup_fd(&d->runs_fd);
	json_decrefp(&d->pipeline);
	json_decrefp(&d->result);
	*d = (struct pipeline_dossier)PIPELINE_DOSSIER_INIT;
}

uint64_t pipeline_time_ms(const char *text)
{
	uint64_t ns = 0;
	return clock_read(text, &ns) < 0 ? 0 : ns / NS_PER_MS;
}

bool pipeline_is_there(const struct config *c, const char *id)
{
	struct stat st = { 0 };
	if (id_check(id, NULL) < 0)
		return false;
	CLEANUP_FREE char *path = xasprintf("%s/pipelines/%s", c->home, id);
	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Numbers of the steps by their names. */
static json_t *name_steps(const struct pipeline_dossier *d)
{
	json_t *names = json_object();
	for (size_t i = 0; i < d->n_steps; i++)
		json_object_set_new(names, d->steps[i].name, json_integer((json_int_t)i));
	return names;
}

static void read_needs(struct dossier_step *step, const json_t *needs, const json_t *names)
{
	size_t i;
	json_t *need;
	step->needs = xcalloc(json_array_size(needs) + 1, sizeof *step->needs);
	json_array_foreach(needs, i, need)
	{
		const char *name = json_string_value(need);
		const json_t *at = name ? json_object_get(names, name) : NULL;
		if (at)
			step->needs[step->n_needs++] = (size_t)json_integer_value(at);
	}
}

/* As many rounds as it is deep; a record that has a circle, which cupel writes none of, ends after as many as there are steps. */
static void find_layers(struct pipeline_dossier *d)
{
	bool moved = true;
	for (size_t round = 0; moved && round < d->n_steps; round++) {
		moved = false;
		for (size_t i = 0; i < d->n_steps; i++)
			for (size_t j = 0; j < d->steps[i].n_needs; j++) {
				size_t least = d->steps[d->steps[i].needs[j]].layer + 1;
				if (d->steps[i].layer >= least || least >= d->n_steps)
					continue;
				d->steps[i].layer = least;
				moved = true;
			}
	}
}

static int read_steps(struct pipeline_dossier *d, struct err *err)
{
	size_t i;
	json_t *o;
	const json_t *list = json_object_get(d->pipeline, "steps");
	size_t n = json_array_size(list);
	if (!n || n > STEPS_MAX)
		return err_set(err, ERR_CALLER, EBADMSG,
			       "pipeline.json has %zu steps; cupel writes 1 to %d", n, STEPS_MAX);
	d->steps = xcalloc(n, sizeof *d->steps);
	json_array_foreach(list, i, o)
	{
		struct dossier_step *step = &d->steps[d->n_steps++];
		step->name = dossier_text(o, "name");
		step->summary = dossier_text(o, "summary");
		step->runtime = dossier_text(o, "runtime");
		step->line = dossier_number(o, "line");
		step->is_scattered = json_is_array(json_object_get(o, "scatter"));
		step->shards = step->is_scattered ? dossier_number(o, "shards") : 1;
		if (step->shards > SHARDS_MAX)
			step->shards = SHARDS_MAX;
	}
	CLEANUP_JSON json_t *names = name_steps(d);
	json_array_foreach(list, i, o)
	{
		read_needs(&d->steps[i], json_object_get(o, "needs"), names);
	}
	find_layers(d);
	return 0;
}

/* A pipeline that is gone on with has the result of the time before until it ends again. */
static void drop_stale_result(const struct config *c, struct pipeline_dossier *d, bool *ret_alive)
{
	*ret_alive = flow_record_alive(c, d->id);
	if (d->result &&
	    (*ret_alive || d->last_ms > pipeline_time_ms(dossier_text(d->result, "ended"))))
		json_decrefp(&d->result);
}

static void find_state(struct pipeline_dossier *d, bool is_alive)
{
	static const char *const known[] = { "ok", "failed", "cancelled" };
	const char *said = dossier_text(d->result, "state");
	uint64_t ended = pipeline_time_ms(dossier_text(d->result, "ended"));
	uint64_t started = pipeline_time_ms(dossier_text(d->result, "started"));
	d->began_ms = started ? started : pipeline_time_ms(dossier_text(d->pipeline, "created"));
	d->ended_ms = ended ? ended : d->last_ms;
	d->state = d->result ? "failed" : is_alive ? "running" : "lost?";
	for (size_t i = 0; d->result && i < sizeof known / sizeof *known; i++)
		if (str_eq(said, known[i]))
			d->state = known[i];
}

/* One that goes on has none. */
static int read_result(struct pipeline_dossier *d, struct err *err)
{
	struct err why = { 0 };
	int r = json_read_file(d->dir_fd, "result.json", RESULT_MAX, &d->result, &why);
	if (r >= 0 || r == -ENOENT)
		return 0;
	if (err)
		*err = why;
	return r;
}

int pipeline_dossier_read(const struct config *c, const char *id, struct pipeline_dossier *ret,
			  struct err *err)
{
	CLEANUP_PIPELINE_DOSSIER struct pipeline_dossier d = PIPELINE_DOSSIER_INIT;
	bool is_alive = false;
	int r = id_check(id, err);
	if (r < 0)
		return r;
	d.id = xstrdup(id);
	d.directory = xasprintf("%s/pipelines/%s", c->home, id);
	d.dir_fd = open(d.directory, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (d.dir_fd < 0)
		return err_set(
			err, ERR_CALLER, errno,
			"there is no pipeline '%s' in %s/pipelines; `cupel list --pipelines` shows them",
			id, c->home);
	CLEANUP_FREE char *runs = xasprintf("%s/runs", c->home);
	d.runs_fd = open(runs, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	r = json_read_file(d.dir_fd, "pipeline.json", PIPELINE_MAX, &d.pipeline, err);
	if (r >= 0)
		r = read_result(&d, err);
	if (r >= 0)
		r = read_steps(&d, err);
	if (r >= 0)
		r = pipeline_fold_events(&d, err);
	if (r < 0)
		return err_wrap(err, "read the record of the pipeline '%s'", id);
	drop_stale_result(c, &d, &is_alive);
	pipeline_fold_result(&d);
	find_state(&d, is_alive);
	*ret = d;
	d = (struct pipeline_dossier)PIPELINE_DOSSIER_INIT;
	return 0;
}

uint64_t pipeline_done(const struct pipeline_dossier *d)
{
	return d->counts[TASK_OK] + d->counts[TASK_REUSED];
}

char *task_name(const struct dossier_step *step, const struct dossier_task *task)
{
	return task->shard[0] ? xasprintf("%s[%s]", step->name, task->shard) : xstrdup(step->name);
}
