/* The handlers, by the file that has them. */
#pragma once

#include "serve/request.h"

/* routes_about.c */
void about_service(struct request *r);
void about_health(struct request *r);
void about_api(struct request *r);
/* routes_pages.c */
void page_shell(struct request *r);
void page_asset(struct request *r);
/* routes_runs.c */
void runs_list(struct request *r);
void runs_show(struct request *r);
void runs_usage(struct request *r);
void runs_events(struct request *r);
/* routes_files.c */
void files_log(struct request *r);
void files_outputs(struct request *r);
void files_output(struct request *r);
/* routes_submit.c: all that asks the queue for something. */
void submit_run(struct request *r);
/* Asks the queue; the answer comes when it is durable, or at once if it is refused. */
void submit_later(struct request *r, const struct submit_request *ask);
/* The header Idempotency-Key; borrowed or NULL. False: the request is answered. */
bool submit_key(struct request *r, const char **ret);
void submit_cancel(struct request *r);
void submit_queue(struct request *r);
/* routes_ask.c: what the program beside us answers. */
void ask_plan(struct request *r);
void ask_why(struct request *r);
void ask_report(struct request *r);
void ask_crate(struct request *r);
void ask_runtimes(struct request *r);
void ask_runtime(struct request *r);
void ask_check(struct request *r);
/* routes_state.c: how things stand. */
void state_host(struct request *r);
void state_config(struct request *r);
void state_ledger(struct request *r);
void state_pipelines(struct request *r);
void state_pipeline(struct request *r);
/* The answer of state_pipeline(), in a thread of the desk. `live`: what the service knows of the pipeline, or NULL. -ENOENT: no such pipeline. */
int state_read_pipeline(const struct config *c, const char *id, const json_t *live, json_t **ret,
			struct err *err);
void state_quests(struct request *r);
void state_set_quest(struct request *r);
void state_senate(struct request *r);
void state_metrics(struct request *r);
/* routes_preview.c */
void files_preview(struct request *r);
/* routes_rerun.c */
void submit_rerun(struct request *r);
void submit_resume(struct request *r);
