/* What a run of the pipeline would do: as far as it can be told without running anything. What depends on a step that would be run can't be: its
 * inputs may turn out the same. */
#include <stdio.h>
#include <string.h>

#include "flow/engine_parts.h"

static char *waits_for(const struct engine *e, size_t task)
{
	const struct flow *f = e->flow;
	const struct flow_step *s = &f->steps[f->tasks[task].step];
	struct str text = { 0 };
	for (size_t i = 0; i < s->n_needs; i++)
		if (e->done[s->needs[i].step] < f->steps[s->needs[i].step].n_tasks)
			str_addf(&text, "%s%s", text.length ? ", " : "depends on what comes of ",
				 f->steps[s->needs[i].step].name);
	return str_take(&text);
}

int flow_foresee(const struct flow_request *q, struct flow_foresight **ret, struct err *err)
{
	CLEANUP(engine_release)
	struct engine e = { .record = FLOW_RECORD_INIT,
			    .finished = FINISHED_READER_INIT,
			    .signal_fd = -1 };
	char previous[ID_MAX + 1];
	flow_record_last(q->config, q->flow, previous);
	flow_past_recover(q->config, previous, false, &e.ongoing);
	int r = engine_open(&e, q, previous, err);
	if (r < 0)
		return r;
	while (e.ready.first < e.ready.n)
		engine_look_ahead(&e), engine_look(&e, e.ready.v[e.ready.first++]);
	struct flow_foresight *all = xcalloc(q->flow->n_tasks, sizeof *all);
	for (size_t t = 0; t < q->flow->n_tasks; t++) {
		const struct task_state *s = &e.tasks[t];
		const struct ongoing *ongoing = ongoing_find(&e.ongoing, s->key);
		all[t].state = s->state;
		if (s->state == FLOW_REUSED)
			(void)snprintf(all[t].run, sizeof all[t].run, "%s", e.made[t].run);
		else if (s->state == FLOW_WAITING)
			all[t].why = waits_for(&e, t);
		else if (ongoing && engine_may_reuse(&e, &q->flow->steps[q->flow->tasks[t].step]))
			all[t].why = xasprintf(
				"unless %s, which was begun before and goes on elsewhere, makes it",
				ongoing->run);
		else if (s->reason)
			all[t].why = xstrdup(s->reason);
	}
	*ret = all;
	return 0;
}
