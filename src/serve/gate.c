/* Everything that is known under an id must be the viewer's: the record of a run, that of a pipeline, and what waits or runs. What has no
 * record was heard of lately, or is known to the ledger. */
#include "serve/gate.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "flow/record.h"
#include "ledger/page.h"
#include "serve/news.h"
#include "serve/route.h"

struct gated {
	const struct config *config; /* borrowed */
	struct viewer viewer;
	char *id; /* owned */
	/* What the loop knows of it; NULL: nothing. */
	char *queued, *lately; /* owned */
	bool is_visible;
};

static void gated_release(void *data)
{
	struct gated *g = data;
	free(g->id);
	free(g->queued);
	free(g->lately);
	free(g);
}

char *gate_submitter(const struct config *c, const char *id)
{
	char *name = NULL, of_pipeline[VIEWER_NAME_MAX + 1];
	if (viewer_submitter_of_run(c, id, &name) >= 0)
		return name;
	for (const char *end = strrchr(id, '-'); end; end = memrchr(id, '-', (size_t)(end - id))) {
		char part[ID_MAX + 1];
		(void)snprintf(part, sizeof part, "%.*s", (int)(end - id), id);
		if (flow_record_submitter(c, part, of_pipeline) >= 0)
			return xstrdup(of_pipeline);
		if (viewer_submitter_of_run(c, part, &name) >= 0)
			return name;
	}
	return NULL;
}

static bool is_beginning(const struct gated *g)
{
	CLEANUP_FREE char *path = xasprintf("%s/active/%s", g->config->home, g->id);
	return faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool is_visible_in_ledger(const struct gated *g)
{
	CLEANUP_JSON json_t *row = NULL;
	CLEANUP_LEDGER struct ledger *l = NULL;
	return ledger_open(g->config, &l, NULL) >= 0 &&
	       ledger_page_row(l, g->config, g->id, &row, NULL) >= 0 &&
	       viewer_sees(&g->viewer, json_string_value(json_object_get(row, "submitter")));
}

/* What has no record: it is about to, it never began, or its record was removed. */
static bool is_visible_without_record(const struct gated *g)
{
	if (g->lately)
		return viewer_sees(&g->viewer, g->lately);
	if (!is_beginning(g))
		return is_visible_in_ledger(g);
	CLEANUP_FREE char *submitter = gate_submitter(g->config, g->id);
	return viewer_sees(&g->viewer, submitter);
}

static void look(void *data)
{
	struct gated *g = data;
	CLEANUP_FREE char *of_run = NULL;
	char of_pipeline[VIEWER_NAME_MAX + 1];
	int run = viewer_submitter_of_run(g->config, g->id, &of_run);
	int pipeline = flow_record_submitter(g->config, g->id, of_pipeline);
	/* A record that can't be read is nobody's. */
	if ((run < 0 && run != -ENOENT) || (pipeline < 0 && pipeline != -ENOENT))
		return;
	if (run < 0 && pipeline < 0 && !g->queued) {
		g->is_visible = is_visible_without_record(g);
		return;
	}
	g->is_visible = (run < 0 || viewer_sees(&g->viewer, of_run)) &&
			(pipeline < 0 || viewer_sees(&g->viewer, of_pipeline)) &&
			(!g->queued || viewer_sees(&g->viewer, g->queued));
}

static void answer(struct request *r, void *data)
{
	static const struct problem unknown = { 404, "not-found", NULL };
	const struct gated *g = data;
	if (g->is_visible)
		r->route->handle(r);
	else
		respond_problem(r, &unknown, "there is no run or pipeline '%s'", g->id);
}

void gate_handle(struct request *r)
{
	static const struct reading reading = { look, answer, gated_release };
	if (r->route->rule != ROUTE_OF_ID || r->viewer.sees_all) {
		r->route->handle(r);
		return;
	}
	const char *queued = service_submitter_of(r->context->service, r->arg[0]);
	const char *lately = news_submitter(r->context->news, r->arg[0]);
	struct gated *g = xcalloc(1, sizeof *g);
	*g = (struct gated){ .config = r->context->config,
			     .viewer = r->viewer,
			     .id = xstrdup(r->arg[0]),
			     .queued = queued ? xstrdup(queued) : NULL,
			     .lately = lately ? xstrdup(lately) : NULL };
	request_read(r, &reading, g);
}
