/* The graph of a pipeline: what was planned (workflow, steps, tools) and what was done (an action for the whole, one for each run). */
#include "view/crate_pipeline.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/path.h"
#include "view/crate_parts.h"
#include "view/crate_runs.h"

#define WFRUN             "https://w3id.org/ro/wfrun/"
#define WORKFLOW_RO_CRATE "https://w3id.org/workflowhub/workflow-ro-crate/1.0"
#define LANGUAGE_ID       "#language"

static json_t *add_root(struct crate_runs *b)
{
	const struct pipeline_dossier *p = b->p;
	const char *name = dossier_text(p->pipeline, "name");
	CLEANUP_FREE char *otherwise = xasprintf("pipeline %s", p->id);
	CLEANUP_FREE char *description = xasprintf(
		"A pipeline of %zu steps, %llu runs in all: %llu done of which %llu were reused, %llu failed.",
		p->n_steps, (unsigned long long)p->total, (unsigned long long)pipeline_done(p),
		(unsigned long long)p->counts[TASK_REUSED],
		(unsigned long long)p->counts[TASK_FAILED]);
	struct crate_root r = { p->id,
				name[0] ? name : otherwise,
				description,
				dossier_text(p->result, "ended"),
				dossier_text(p->pipeline, "quest"),
				json_object_get(p->pipeline, "labels") };
	json_t *root = crate_begin(&b->c, &r);
	crate_profile(&b->c, root, WFRUN "process/0.5", "Process Run Crate", "0.5");
	crate_profile(&b->c, root, WFRUN "workflow/0.5", "Workflow Run Crate", "0.5");
	crate_profile(&b->c, root, WFRUN "provenance/0.5", "Provenance Run Crate", "0.5");
	crate_profile(&b->c, root, WORKFLOW_RO_CRATE, "Workflow RO-Crate", "1.0");
	json_t *descriptor = crate_find(&b->c, CRATE_METADATA);
	json_object_set_new(descriptor, "conformsTo", json_array());
	crate_add_ref(descriptor, "conformsTo", "https://w3id.org/ro/crate/1.1");
	crate_add_ref(descriptor, "conformsTo", WORKFLOW_RO_CRATE);
	return root;
}

/* The file as it was run, or else its place on the host. */
static json_t *workflow_entity(struct crate_runs *b)
{
	const char *file = dossier_text(b->p->pipeline, "file");
	const char *sha256 = dossier_text(b->p->pipeline, "file_sha256");
	const struct crate_file *copy = crate_runs_workflow(b, file, sha256);
	if (copy)
		return crate_add_file(&b->c, copy);
	CLEANUP_FREE char *uri = crate_uri(file);
	CLEANUP_FREE char *id = xasprintf("file://%s", uri);
	json_t *e = crate_entity(&b->c, file[0] ? id : "#workflow-file", "File");
	crate_set(e, "sha256", sha256);
	json_array_append_new(b->c.parts, crate_ref(dossier_text(e, "@id")));
	return e;
}

static void add_workflow(struct crate_runs *b, json_t *root)
{
	const json_t *parameters = json_object_get(b->p->pipeline, "parameters");
	const char *name = dossier_text(b->p->pipeline, "name");
	json_t *e = b->workflow = workflow_entity(b);
	json_object_set_new(e, "@type",
			    json_pack("[s,s,s,s]", "File", "SoftwareSourceCode",
				      "ComputationalWorkflow", "HowTo"));
	crate_set(e, "name", name[0] ? name : path_base(dossier_text(b->p->pipeline, "file")));
	crate_set(e, "encodingFormat", "application/yaml");
	json_object_set_new(e, "programmingLanguage", crate_ref(LANGUAGE_ID));
	json_object_set_new(e, "hasPart", json_array());
	json_object_set_new(e, "step", json_array());
	json_t *language = crate_entity(&b->c, LANGUAGE_ID, "ComputerLanguage");
	crate_set(language, "name", "cupel analysis file");
	crate_set(language, "description", "YAML, as cupel-analysis(5) tells");
	json_object_set_new(root, "mainEntity", crate_ref(dossier_text(e, "@id")));
	crate_parameter_slots(&b->c, e, parameters, "#workflow/parameter/");
}

/* "align[s2]: oom, publish: exit": the first few. */
static void describe_failures(const struct pipeline_dossier *p, struct str *s)
{
	size_t n = 0;
	for (size_t i = 0; i < p->n_steps; i++)
		for (size_t j = 0; j < p->steps[i].n_tasks; j++) {
			const struct dossier_task *t = &p->steps[i].tasks[j];
			if (t->state != TASK_FAILED || n++ >= 5)
				continue;
			CLEANUP_FREE char *name = task_name(&p->steps[i], t);
			str_addf(s, "%s%s: %s", n > 1 ? ", " : "", name, t->cause);
		}
	if (n > 5)
		str_addf(s, " and %zu more", n - 5);
	if (!n)
		str_add(s, p->state);
}

static void add_run_of_workflow(struct crate_runs *b)
{
	const struct pipeline_dossier *p = b->p;
	CLEANUP_STR struct str failures = { 0 };
	CLEANUP_FREE char *id = xasprintf("#pipeline/%s", p->id);
	describe_failures(p, &failures);
	json_t *e = b->run = crate_entity(&b->c, id, "CreateAction");
	json_object_set_new(e, "name", json_sprintf("run of pipeline %s", p->id));
	json_object_set_new(e, "instrument", crate_ref(dossier_text(b->workflow, "@id")));
	json_object_set_new(e, "agent", crate_ref("#caller"));
	crate_set_time(e, "startTime", dossier_text(p->result, "started"));
	crate_set_time(e, "endTime", dossier_text(p->result, "ended"));
	json_object_set_new(e, "object", json_array());
	json_object_set_new(e, "result", json_array());
	crate_set_status(e, str_eq(p->state, "ok"), str_text(&failures));
	json_array_append_new(b->c.mentions, crate_ref(id));
	crate_parameters(&b->c, e, json_object_get(p->pipeline, "parameters"),
			 "#workflow/parameter/");
}

static void add_control(struct crate_runs *b, const struct dossier_task *t, const char *run)
{
	CLEANUP_FREE char *step = crate_fragment(b->step.name);
	CLEANUP_FREE char *shard = crate_fragment(t->shard);
	CLEANUP_FREE char *id = xasprintf("#control/%s%s%s", step, t->shard[0] ? "/" : "", shard);
	json_t *e = crate_find(&b->c, id);
	bool is_ok = t->state == TASK_OK || t->state == TASK_REUSED;
	if (!e) {
		e = crate_entity(&b->c, id, "ControlAction");
		json_object_set_new(e, "name",
				    json_sprintf("%s%s%s%s", b->step.name, t->shard[0] ? "[" : "",
						 t->shard, t->shard[0] ? "]" : ""));
		json_object_set_new(e, "instrument",
				    crate_ref(dossier_text(b->step.how_to, "@id")));
		crate_set(e, "stepState", task_state_names[t->state]);
		crate_set_status(e, is_ok, t->cause[0] ? t->cause : task_state_names[t->state]);
		json_array_append_new(b->controls, crate_ref(id));
	}
	crate_add_ref(e, "object", run);
}

static int add_task_run(struct crate_runs *b, const struct dossier_task *t, const char *run,
			struct err *err)
{
	CLEANUP_FREE char *id = xasprintf("#run/%s", run);
	int r = crate_find(&b->c, id) ? 0 : crate_runs_add(b, t, run, id, err);
	if (r >= 0)
		add_control(b, t, id);
	return r;
}

/* What was not run has no action: the step stands in the plan all the same. */
static int add_task(struct crate_runs *b, const struct dossier_task *t, struct err *err)
{
	bool has_last = false;
	int r = 0;
	for (size_t i = 0; r >= 0 && i < t->n_attempts; i++) {
		if (!t->attempts[i].run[0])
			continue;
		has_last |= str_eq(t->attempts[i].run, t->run);
		r = add_task_run(b, t, t->attempts[i].run, err);
	}
	if (r >= 0 && t->run[0] && !has_last)
		r = add_task_run(b, t, t->run, err);
	return r;
}

static void add_plan(struct crate_runs *b, const struct dossier_step *s)
{
	CLEANUP_FREE char *name = crate_fragment(s->name);
	CLEANUP_FREE char *tool_id = xasprintf("#tool/%s", name);
	CLEANUP_FREE char *step_id = xasprintf("#step/%s", name);
	json_t *tool = crate_entity(&b->c, tool_id, "SoftwareApplication");
	json_t *how_to = crate_entity(&b->c, step_id, "HowToStep");
	crate_set(tool, "name", s->name);
	crate_set(tool, "description", s->summary);
	crate_set(how_to, "name", s->name);
	crate_set(how_to, "description", s->summary);
	json_object_set_new(how_to, "position", json_sprintf("%zu", s->layer));
	json_object_set_new(how_to, "workExample", crate_ref(tool_id));
	crate_add_ref(b->workflow, "hasPart", tool_id);
	crate_add_ref(b->workflow, "step", step_id);
	b->step = (struct crate_step){ .tool = tool,
				       .name = s->name,
				       .is_scattered = s->is_scattered,
				       .runs = b->runs,
				       .made = b->made,
				       .ranges = b->ranges,
				       .outs = b->outs,
				       .used = b->used,
				       .how_to = how_to,
				       .workflow = b->workflow,
				       .run = b->run };
}

/* Those that others need come before them: what is made is known when it is used. */
static size_t *order_steps(const struct pipeline_dossier *p)
{
	size_t *order = xcalloc(p->n_steps + 1, sizeof *order);
	CLEANUP_FREE size_t *starts = xcalloc(p->n_steps + 2, sizeof *starts);
	for (size_t i = 0; i < p->n_steps; i++)
		starts[p->steps[i].layer + 1]++;
	for (size_t i = 0; i < p->n_steps; i++)
		starts[i + 1] += starts[i];
	for (size_t i = 0; i < p->n_steps; i++)
		order[starts[p->steps[i].layer]++] = i;
	return order;
}

static int add_steps(struct crate_runs *b, struct err *err)
{
	const struct pipeline_dossier *p = b->p;
	CLEANUP_FREE size_t *order = order_steps(p);
	for (size_t i = 0; i < p->n_steps; i++) {
		const struct dossier_step *s = &p->steps[order[i]];
		add_plan(b, s);
		for (size_t j = 0; j < s->n_tasks; j++) {
			int r = add_task(b, &s->tasks[j], err);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

/* What the whole made is what its steps made and no other took. */
static void add_results(struct crate_runs *b)
{
	size_t i;
	json_t *out;
	json_array_foreach(b->outs, i, out)
	{
		const char *id = dossier_text(out, "@id");
		json_t *e = crate_find(&b->c, id);
		if (!e || json_object_get(b->used, id))
			continue;
		crate_fill_slot(&b->c, b->workflow, SLOT_OUTPUT, dossier_text(out, "slot"), e);
		crate_add_ref(b->run, "result", id);
	}
}

/* The engine's own action, which has to have steps that it ran. */
static void add_engine(struct crate_runs *b)
{
	CLEANUP_FREE char *caller =
		xasprintf("the user with uid %llu",
			  (unsigned long long)dossier_number(b->p->pipeline, "uid"));
	b->c.cupel = b->version ? b->version : CUPEL_VERSION;
	crate_agents(&b->c, caller);
	if (!json_array_size(b->controls))
		return;
	json_t *e = crate_entity(&b->c, "#engine-run", "OrganizeAction");
	json_object_set_new(e, "name", json_sprintf("run of cupel %s", b->c.cupel));
	json_object_set_new(e, "instrument", crate_ref("#cupel"));
	json_object_set_new(e, "agent", crate_ref("#caller"));
	json_object_set(e, "object", b->controls);
	json_object_set_new(e, "result", crate_ref(dossier_text(b->run, "@id")));
	for (size_t i = 0; i < 2; i++) {
		static const char *const times[] = { "startTime", "endTime" };
		json_t *time = json_object_get(b->run, times[i]);
		if (time)
			json_object_set(e, times[i], time);
	}
	crate_set_status(e, str_eq(b->p->state, "ok"), dossier_text(b->run, "error"));
}

int crate_pipeline(const struct config *c, const struct pipeline_dossier *d, enum crate_with with,
		   struct crate_files *ret_files, json_t **ret, struct err *err)
{
	CLEANUP_CRATE_FILES struct crate_files files = { .with = with };
	CLEANUP_CRATE_RUNS struct crate_runs b = { .config = c, .p = d, .files = &files };
	if (!d->result)
		return err_set(err, ERR_CALLER, EBUSY,
			       "the pipeline '%s' has no result yet; try again when it has ended",
			       d->id);
	CLEANUP_JSON json_t *whole = crate_runs_begin(&b);
	json_t *root = add_root(&b);
	add_workflow(&b, root);
	add_run_of_workflow(&b);
	int r = crate_runs_record(&b, err);
	if (r >= 0)
		r = add_steps(&b, err);
	if (r < 0)
		return r;
	add_results(&b);
	add_engine(&b);
	*ret = take_ptr(whole);
	*ret_files = files;
	files = (struct crate_files){ 0 };
	return 0;
}
