/* The table, and finding a request's place in it. */
#include "serve/route.h"

#include <string.h>

#include "serve/news.h"
#include "serve/routes.h"
#include "spec/id.h"

const char *const method_names[] = { "GET", "POST" };

#define GET  METHOD_GET
#define POST METHOD_POST
const char *const route_rule_names[] = { "unruled", "open", "id", "share", "submit", "admin" };

const struct route routes[] = {
	{ GET, "/", 0, ROUTE_OPEN, page_shell, "pageRuns", "The page of runs." },
	{ GET, "/runs/{id}", 0, ROUTE_OPEN, page_shell, "pageRun", "The page of one run." },
	{ GET, "/quests", 0, ROUTE_OPEN, page_shell, "pageQuests", "Work by quest." },
	{ GET, "/senate", 0, ROUTE_OPEN, page_shell, "pageSenate", "Governance." },
	{ GET, "/assets/{name}", 0, ROUTE_OPEN, page_asset, "pageAsset",
	  "What pages are made of." },
	{ GET, "/healthz", 0, ROUTE_OPEN, about_health, "getHealth",
	  "Whether the service takes work." },
	{ GET, "/v1", SCOPE_READ, ROUTE_OPEN, about_service, "getService",
	  "The service, and who asks." },
	{ GET, "/v1/openapi.json", 0, ROUTE_OPEN, about_api, "getApi", "This document." },
	{ GET, "/v1/runs", SCOPE_READ, ROUTE_SHARE, runs_list, "listRuns", "Runs, page by page." },
	{ POST, "/v1/runs", SCOPE_SUBMIT, ROUTE_SUBMIT, submit_run, "submitRun",
	  "Submit an analysis." },
	{ GET, "/v1/runs/{id}", SCOPE_READ, ROUTE_OF_ID, runs_show, "getRun",
	  "All that is known of a run." },
	{ POST, "/v1/runs/{id}/cancel", SCOPE_SUBMIT, ROUTE_OF_ID, submit_cancel, "cancelRun",
	  "End a run." },
	{ GET, "/v1/runs/{id}/log/{name}", SCOPE_READ, ROUTE_OF_ID, files_log, "getLog",
	  "What a run wrote: bytes, or live as events." },
	{ GET, "/v1/runs/{id}/events", SCOPE_READ, ROUTE_OF_ID, runs_events, "getRunEvents",
	  "What happened to a run: a list, or live as events." },
	{ GET, "/v1/runs/{id}/usage", SCOPE_READ, ROUTE_OF_ID, runs_usage, "getUsage",
	  "What a run used, as time went on." },
	{ GET, "/v1/runs/{id}/outputs", SCOPE_READ, ROUTE_OF_ID, files_outputs, "listOutputs",
	  "What a run left behind." },
	{ GET, "/v1/runs/{id}/outputs/{path}", SCOPE_READ, ROUTE_OF_ID, files_output, "getOutput",
	  "One file that a run left behind." },
	{ GET, "/v1/runs/{id}/preview/{path}", SCOPE_READ, ROUTE_OF_ID, files_preview,
	  "previewOutput",
	  "The beginning of an output: a table, a text, or where its picture is." },
	{ POST, "/v1/runs/{id}/rerun", SCOPE_SUBMIT, ROUTE_OF_ID, submit_rerun, "rerunRun",
	  "Submit the analysis of a run again; refused if what it was made of has changed." },
	{ GET, "/v1/runs/{id}/why", SCOPE_READ, ROUTE_OF_ID, ask_why, "whyRun",
	  "Why the step of this run was run, or was not." },
	{ GET, "/v1/runs/{id}/report", SCOPE_READ, ROUTE_OF_ID, ask_report, "getReport",
	  "A run as one page." },
	{ GET, "/v1/runs/{id}/crate", SCOPE_READ, ROUTE_OF_ID, ask_crate, "getCrate",
	  "A run as an RO-Crate." },
	{ POST, "/v1/plan", SCOPE_SUBMIT, ROUTE_SUBMIT, ask_plan, "planRun",
	  "What a run would be, without running it." },
	{ GET, "/v1/pipelines", SCOPE_READ, ROUTE_SHARE, state_pipelines, "listPipelines",
	  "Pipelines, page by page." },
	{ GET, "/v1/pipelines/{id}", SCOPE_READ, ROUTE_OF_ID, state_pipeline, "getPipeline",
	  "One pipeline." },
	{ GET, "/v1/pipelines/{id}/why", SCOPE_READ, ROUTE_OF_ID, ask_why, "whyPipeline",
	  "Why each step of a pipeline was run, or was not." },
	{ POST, "/v1/pipelines/{id}/resume", SCOPE_SUBMIT, ROUTE_OF_ID, submit_resume,
	  "resumePipeline", "Submit a pipeline to be gone on with." },
	{ GET, "/v1/events", SCOPE_READ, ROUTE_SHARE, news_follow, "followEvents",
	  "Everything that changes, live." },
	{ GET, "/v1/queue", SCOPE_READ, ROUTE_SHARE, submit_queue, "getQueue",
	  "What waits, and for what." },
	{ GET, "/v1/quests", SCOPE_READ, ROUTE_SHARE, state_quests, "listQuests",
	  "Work by quest." },
	{ POST, "/v1/quests", SCOPE_ADMIN, ROUTE_ADMIN, state_set_quest, "setQuest",
	  "Set the title, layer, priority, status or link of a quest." },
	{ GET, "/v1/senate", SCOPE_READ, ROUTE_SHARE, state_senate, "getSenate", "Governance." },
	{ GET, "/v1/runtimes", SCOPE_READ, ROUTE_OPEN, ask_runtimes, "listRuntimes",
	  "The runtimes of the catalog." },
	{ GET, "/v1/runtimes/{name}", SCOPE_READ, ROUTE_OPEN, ask_runtime, "getRuntime",
	  "One runtime." },
	{ POST, "/v1/runtimes/{name}/check", SCOPE_ADMIN, ROUTE_ADMIN, ask_check, "checkRuntime",
	  "Begin a check of a runtime." },
	{ GET, "/v1/host", SCOPE_READ, ROUTE_SHARE, state_host, "getHost",
	  "The host, and what was found of its health." },
	{ GET, "/v1/config", SCOPE_ADMIN, ROUTE_ADMIN, state_config, "getConfig",
	  "Each effective setting." },
	{ GET, "/v1/ledger", SCOPE_READ, ROUTE_SHARE, state_ledger, "getLedger",
	  "The database of runs." },
	{ GET, "/metrics", SCOPE_READ, ROUTE_SHARE, state_metrics, "getMetrics",
	  "Numbers for Prometheus." },
};
#undef GET
#undef POST
const size_t n_routes = sizeof routes / sizeof *routes;

/* Whether the path has this pattern; what stands for its names goes into the request. */
static bool matches(struct request *r, const char *pattern)
{
	size_t at = 0, n_args = 0, n = r->url.path.n;
	r->arg[0] = r->arg[1] = NULL;
	for (const char *p = pattern + 1; *p; at++) {
		size_t length = strcspn(p, "/");
		if (at >= n)
			return false;
		if (length == 6 && strncmp(p, "{path}", 6) == 0) {
			cleanup_free(&r->rest);
			r->rest = url_rest(&r->url, at);
			return true;
		}
		const char *segment = r->url.path.v[at];
		if (p[0] == '{')
			r->arg[n_args++] = segment;
		else if (strlen(segment) != length || strncmp(p, segment, length) != 0)
			return false;
		p += length + (p[length] == '/');
	}
	return at == n;
}

/* Ids are parts of paths: none goes further that is not one. */
static bool is_id_ok(struct request *r)
{
	static const struct problem unknown = { 404, "not-found", NULL };
	struct err err = { 0 };
	if (!strstr(r->route->pattern, "{id}") || id_check(r->arg[0], &err) >= 0)
		return true;
	respond_problem(r, &unknown, "%s", err.text);
	return false;
}

bool route_find(struct request *r, const char *method)
{
	static const struct problem unknown = { 404, "not-found",
						"/v1/openapi.json lists what there is" },
				    not_so = { 405, "method-not-allowed", NULL };
	const char *allowed = NULL;
	const char *wanted = str_eq(method, "HEAD") ? "GET" : method;
	for (size_t i = 0; i < n_routes; i++) {
		if (!matches(r, routes[i].pattern))
			continue;
		r->route = &routes[i];
		if (str_eq(method_names[routes[i].method], wanted))
			return is_id_ok(r);
		allowed = allowed                          ? "GET, HEAD, POST"
			  : routes[i].method == METHOD_GET ? "GET, HEAD"
							   : "POST";
	}
	if (!allowed) {
		respond_problem(r, &unknown, "there is nothing here");
		return false;
	}
	respond_problem(r, &not_so, "this is not to be had by %.20s", method);
	respond_header(r, "Allow", allowed);
	return false;
}
