#include "serve/store_jobs.h"

#include <stdlib.h>

#include "base/cleanup.h"

void store_row_release(struct store_row *row)
{
	for (size_t i = 0; i < SUBMISSION_COLUMNS_; i++)
		cleanup_free(&row->v[i]);
}

void jobs_add(struct jobs *list, struct job *job)
{
	job->next = NULL;
	if (!list->first)
		list->end = &list->first;
	*list->end = job;
	list->end = &job->next;
}

struct job *jobs_take(struct jobs *list)
{
	struct job *job = list->first;
	if (job)
		list->first = job->next;
	return job;
}

void jobs_release(struct jobs *list)
{
	for (struct job *job; (job = jobs_take(list));) {
		store_row_release(&job->row);
		free(job);
	}
}
