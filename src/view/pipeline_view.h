/* Pipelines for people and programs, in a terminal. */
#pragma once

#include "spec/viewer.h"
#include "view/pipeline_dossier.h"
#include "view/table.h"

/* {"id","name","state","cause","exit_status","created","started","ended","counts":{...},"steps":[{"name","state","shards","counts","tasks":[
 * {"shard","state","run","cause","attempts":[...],...}]}],"failed":[{"step","shard","cause","run","notes","log"}],"directory",...}: also while
 * it goes on. */
json_t *pipeline_json(const struct config *c, const struct pipeline_dossier *d);
int pipeline_print(const struct config *c, const struct pipeline_dossier *d, struct err *err);

/* pipelines_view.c: those there are. */
struct pipelines_query {
	const struct viewer *viewer; /* only those that it may see */
	const char *after;           /* or NULL: all */
	uint64_t limit;              /* 0: none */
	bool is_oldest_first;        /* else the newest, by when they were created */
};
/* {"id","name","state","quest","file","done","total","created","started","ended","directory"} each. One that cannot be read has "error". */
int pipelines_json(const struct config *c, const struct pipelines_query *q, json_t **ret,
		   struct err *err);
int pipelines_print(const json_t *pipelines, struct err *err);
