/* The parts of the page of a pipeline: private to report_*.c. */
#pragma once

#include "view/pipeline_dossier.h"
#include "view/report_parts.h"

struct flow_page {
	const struct config *config;
	const struct pipeline_dossier *d;
	struct previews previews;
	size_t logs; /* ends of logs in the page */
};

/* One word for all shards of a step: the worst of them. */
enum task_state step_state(const struct dossier_step *step);
/* "3 ok, 1 failed". */
void step_describe(const struct dossier_step *step, struct str *s);
void report_add_state(struct str *s, enum task_state state, const char *words);
/* "1.20 s of 10m" with a bar, as a cell. `limit` 0: none is known. */
void report_add_meter(struct str *s, const char *used, const char *limit, double share);

/* What a run was given, and in what; zero or "" where its record does not tell. */
struct flow_given {
	uint64_t time_ns, memory_bytes;
	char runtime[80];
};
void report_read_given(const struct flow_page *page, const char *run, struct flow_given *ret);
/* Two cells: time and memory, against what was given. */
void report_add_use(struct str *s, uint64_t wall_ms, uint64_t time_ns, uint64_t used_bytes,
		    uint64_t memory_bytes);

/* report_dag.c: the steps, from left to right. */
void report_dag(const struct flow_page *page, struct str *s);
/* report_gantt.c: when each attempt ran. */
void report_gantt(const struct flow_page *page, struct str *s);
/* report_steps.c: a row a step. */
void report_steps(struct flow_page *page, struct str *s);
/* report_tasks.c: a section for a step, with its shards and attempts, logs of failures and figures. */
void report_tasks(struct flow_page *page, size_t at, struct str *s);
#define FLOW_SECTIONS_MAX 200 /* steps that have a section */
