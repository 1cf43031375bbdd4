/* The pipelines there are. Of one that is complete two files are read and not its events: there may be many. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "flow/record.h"
#include "view/dossier.h"
#include "view/pipeline_view.h"

#define RECORD_MAX ((size_t)256 << 20)

static void copy_keys(json_t *to, const json_t *from, const char *const *keys, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (json_object_get(from, keys[i]))
			json_object_set(to, keys[i], json_object_get(from, keys[i]));
}

/* As result.json has it. -ENOENT if it goes on. */
static int read_complete(const char *directory, json_t *o)
{
	static const char *const of_pipeline[] = { "name", "quest", "file", "created" };
	static const char *const of_result[] = { "state", "started", "ended" };
	CLEANUP_JSON json_t *pipeline = NULL;
	CLEANUP_JSON json_t *result = NULL;
	CLEANUP_FD int fd = open(directory, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	int r = json_read_file(fd, "pipeline.json", RECORD_MAX, &pipeline, NULL);
	copy_keys(o, pipeline, of_pipeline, sizeof of_pipeline / sizeof *of_pipeline);
	if (r >= 0)
		r = json_read_file(fd, "result.json", RECORD_MAX, &result, NULL);
	if (r < 0)
		return r;
	const json_t *counts = json_object_get(result, "counts");
	copy_keys(o, result, of_result, sizeof of_result / sizeof *of_result);
	json_object_set_new(
		o, "done",
		json_u64(dossier_number(counts, "ok") + dossier_number(counts, "reused")));
	json_object_set_new(o, "total", json_u64(dossier_number(counts, "total")));
	return 0;
}

static json_t *one(const struct config *c, const char *id)
{
	CLEANUP_PIPELINE_DOSSIER struct pipeline_dossier d = PIPELINE_DOSSIER_INIT;
	CLEANUP_FREE char *directory = xasprintf("%s/pipelines/%s", c->home, id);
	struct err err = { 0 };
	json_t *o = json_pack("{s:s,s:o}", "id", id, "directory", json_text(directory));
	if (read_complete(directory, o) >= 0)
		return o;
	if (pipeline_dossier_read(c, id, &d, &err) < 0) {
		json_object_set_new(o, "state", json_string("unreadable"));
		json_object_set_new(o, "error", json_text(err.text));
		return o;
	}
	json_object_set_new(o, "state", json_string(d.state));
	json_object_set_new(o, "done", json_u64(pipeline_done(&d)));
	json_object_set_new(o, "total", json_u64(d.total));
	return o;
}

static bool is_visible(const struct config *c, const struct viewer *viewer, const char *id)
{
	char submitter[VIEWER_NAME_MAX + 1];
	return viewer->sees_all ||
	       (flow_record_submitter(c, id, submitter) >= 0 && viewer_sees(viewer, submitter));
}

struct created {
	const char *id; /* borrowed */
	char time[40];
};

static void read_created(const struct config *c, const char *id, struct created *ret)
{
	CLEANUP_FREE char *path = xasprintf("%s/pipelines/%s/pipeline.json", c->home, id);
	CLEANUP_JSON json_t *o = NULL;
	(void)json_read_file(AT_FDCWD, path, RECORD_MAX, &o, NULL);
	ret->id = id;
	(void)snprintf(ret->time, sizeof ret->time, "%s", dossier_text(o, "created"));
}

static int by_time(const void *a, const void *b, void *data)
{
	const struct created *x = a, *y = b;
	int order = strcmp(x->time, y->time);
	order = order ? order : strcmp(x->id, y->id);
	return *(const bool *)data ? order : -order;
}

int pipelines_json(const struct config *c, const struct pipelines_query *q, json_t **ret,
		   struct err *err)
{
	CLEANUP_STRV struct strv ids = { 0 };
	struct created after = { 0 };
	bool is_oldest_first = q->is_oldest_first;
	int r = id_list(c->home, "pipelines", &ids, err);
	if (r < 0)
		return r;
	if (q->after && (!strv_has(&ids, q->after) || !is_visible(c, q->viewer, q->after)))
		return err_set(err, ERR_CALLER, ENOENT,
			       "there is no pipeline '%.64s' to go on after", q->after);
	CLEANUP_FREE struct created *all = xcalloc(ids.n + 1, sizeof *all);
	for (size_t i = 0; i < ids.n; i++)
		read_created(c, ids.v[i], &all[i]);
	qsort_r(all, ids.n, sizeof *all, by_time, &is_oldest_first);
	if (q->after)
		read_created(c, q->after, &after);
	json_t *list = json_array();
	for (size_t i = 0; i < ids.n && (!q->limit || json_array_size(list) < q->limit); i++)
		if ((!q->after || by_time(&all[i], &after, &is_oldest_first) > 0) &&
		    is_visible(c, q->viewer, all[i].id))
			json_array_append_new(list, one(c, all[i].id));
	*ret = list;
	return 0;
}

static const char *began(const json_t *o)
{
	const char *started = dossier_text(o, "started");
	return started[0] ? started : dossier_text(o, "created");
}

int pipelines_print(const json_t *pipelines, struct err *err)
{
	static const struct table_column columns[] = {
		{ "PIPELINE", TABLE_TEXT }, { "STATE", TABLE_TEXT, true }, { "DONE", TABLE_NUMBER },
		{ "STARTED", TABLE_TEXT },  { "TIME", TABLE_NUMBER },      { "NAME", TABLE_CUT },
	};
	CLEANUP_TABLE struct table t = { columns, sizeof columns / sizeof *columns };
	size_t i;
	json_t *o;
	json_array_foreach(pipelines, i, o)
	{
		char wall[32] = "", done[48] = "";
		uint64_t from = pipeline_time_ms(began(o));
		uint64_t to = pipeline_time_ms(dossier_text(o, "ended"));
		if (to > from && from)
			num_print_duration((to - from) * NS_PER_MS, wall, sizeof wall);
		if (json_object_get(o, "total"))
			(void)snprintf(done, sizeof done, "%llu/%llu",
				       (unsigned long long)dossier_number(o, "done"),
				       (unsigned long long)dossier_number(o, "total"));
		table_add(&t, dossier_text(o, "id"));
		table_add(&t, dossier_text(o, "state"));
		table_add(&t, done);
		table_add(&t, began(o));
		table_add(&t, wall);
		table_add(&t, dossier_text(o, "name"));
	}
	return table_print(&t, err);
}
