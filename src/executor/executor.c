/* Executors by name, what they must give a run, and the words for what they say. */
#include "executor/executor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "executor/kinds.h"
#include "spec/caller.h"
#include "spec/show.h"

const char *const staging_names[] = {
	[STAGING_HERE] = "here", [STAGING_SHARED] = "shared", [STAGING_COPY] = "copy"
};
const char *const job_state_names[] = { [JOB_UNKNOWN] = "unknown",
					[JOB_QUEUED] = "queued",
					[JOB_RUNNING] = "running",
					[JOB_ENDED] = "ended",
					[JOB_GONE] = "gone" };
const char *const job_why_names[] = {
	[JOB_WHY_NONE] = "none",           [JOB_WHY_OOM] = "oom",
	[JOB_WHY_DEADLINE] = "deadline",   [JOB_WHY_CANCELLED] = "cancelled",
	[JOB_WHY_PREEMPTED] = "preempted", [JOB_WHY_NODE] = "node-failed",
	[JOB_WHY_START] = "start-failed",
};

void job_report_release(struct job_report *r)
{
	json_decref(r->evidence);
	*r = (struct job_report){ 0 };
}

static int no_such(const struct config *config, const char *name, struct err *err)
{
	CLEANUP_STR struct str known = { 0 };
	char shown[SHOW_ROOM];
	str_add(&known, "local");
	for (size_t i = 0; i < config->n_executors; i++)
		str_addf(&known, ", %s", config->executors[i].name);
	return err_caller(err,
			  "there is no executor '%s'; known: %s. Others are set up under "
			  "'executors:' in cupel.yaml",
			  show_text(name, shown), str_text(&known));
}

int executor_open(const struct config *config, const char *name, struct executor **ret,
		  struct err *err)
{
	static int (*const openers[EXECUTOR_KIND_COUNT_])(struct executor *, struct err *) = {
		[EXECUTOR_ENGINE] = executor_open_engine,
		[EXECUTOR_SLURM] = executor_open_slurm,
		[EXECUTOR_PROGRAM] = executor_open_program,
	};
	*ret = NULL;
	if (str_eq(name, "local"))
		return 0;
	const struct executor_settings *settings = config_executor(config, name);
	if (!settings)
		return no_such(config, name, err);
	if (!openers[settings->kind])
		return 0;
	CLEANUP_EXECUTOR struct executor *x = xcalloc(1, sizeof *x);
	x->settings = settings;
	x->config = config;
	int r = openers[settings->kind](x, err);
	if (r < 0)
		return err_wrap(err, "executor %s", name);
	if (config->executors_may_be_away)
		executor_may_be_away(&x);
	*ret = take_ptr(x);
	return 0;
}

void executor_release(struct executor **x)
{
	if (*x && (*x)->ops && (*x)->ops->release)
		(*x)->ops->release(*x);
	free(*x);
	*x = NULL;
}

char *executor_job_name(const char *home, const char *id)
{
	char tag[HASH_TAG];
	fs_tag(home, tag);
	return xasprintf("cupel-%s-%s", tag, id);
}

static void lack(struct str *list, const char *what, const char *name)
{
	str_addf(list, "%s%s%s", list->length ? ", " : "", what, name);
}

/* Limits that are layers by another name. */
static bool is_layer(enum limit_id id)
{
	return id == LIMIT_MEMORY || id == LIMIT_CPUS || id == LIMIT_PIDS || id == LIMIT_DISK ||
	       id == LIMIT_INODES;
}

static void lacking_layers(const struct executor *x, const struct capability *c,
			   const struct job *job, struct str *ret)
{
	for (size_t i = 0; i < layer_count; i++) {
		const char *layer = layer_names[i];
		if (c->layers[i] || plan_may_miss(job->plan, layer) ||
		    strv_has(&x->settings->allow_missing, layer) ||
		    (str_eq(layer, "net") && !job->plan->own_network))
			continue;
		lack(ret, "", layer);
	}
}

static void lacking_powers(const struct capability *c, const struct job *job, struct str *ret)
{
	const struct analysis *a = job->analysis;
	for (int i = 0; i < LIMIT_COUNT_; i++)
		if (job->plan->limits.at[i].value && !c->limits[i] && !is_layer((enum limit_id)i))
			lack(ret, "the limit ", limit_infos[i].key);
	if (a->checkpoint && !c->checkpoints)
		lack(ret, "", "a checkpoint that survives the run");
	if (a->network == NETWORK_HOST && !c->network_host)
		lack(ret, "", "the host's network");
	if (a->warn_signal && job->plan->limits.at[LIMIT_WARN].value && !c->signals)
		lack(ret, "", "the warning signal");
	if (a->db_snapshot && c->staging != STAGING_HERE)
		lack(ret, "", "a snapshot of a database");
	/* Whoever reads it there does so with rights of his own, unless he is told and takes care of it. */
	if (caller_is_other(job->config) && c->judging == JUDGING_THERE && !c->submitters)
		lack(ret, "", "runs of other users with the rights of these ('submitters')");
}

int executor_suffices(const struct executor *x, const struct capability *c, const struct job *job,
		      struct err *err)
{
	CLEANUP_STR struct str layers = { 0 };
	CLEANUP_STR struct str powers = { 0 };
	lacking_layers(x, c, job, &layers);
	lacking_powers(c, job, &powers);
	if (!layers.length && !powers.length)
		return 0;
	if (!layers.length)
		return err_caller(err, "the executor %s can't give: %s", x->settings->name,
				  str_text(&powers));
	return err_caller(
		err,
		"the executor %s can't give: %s%s%s. Remedy: another executor; or do without layers, which the record will "
		"say: --allow-missing, or 'allow_missing: [%s]' of the executor in cupel.yaml",
		x->settings->name, str_text(&layers), powers.length ? ", " : "",
		powers.length ? str_text(&powers) : "", str_text(&layers));
}

json_t *capability_json(const struct capability *c)
{
	json_t *limits = json_array(), *layers = json_array();
	for (int i = 0; i < LIMIT_COUNT_; i++)
		if (c->limits[i])
			json_array_append_new(limits, json_string(limit_infos[i].key));
	for (size_t i = 0; i < layer_count; i++)
		if (c->layers[i])
			json_array_append_new(layers, json_string(layer_names[i]));
	return json_pack("{s:o,s:o,s:o,s:b,s:b,s:b,s:b,s:b,s:b,s:s,s:s}", "engine",
			 json_text(c->engine), "limits", limits, "layers", layers, "reattaches",
			 c->reattaches, "queues", c->queues, "signals", c->signals, "checkpoints",
			 c->checkpoints, "network_host", c->network_host, "submitters",
			 c->submitters, "staging", staging_names[c->staging], "judged",
			 c->judging == JUDGING_HERE ? "here" : "there");
}

static bool has_word(const json_t *list, const char *word)
{
	size_t i;
	json_t *item;
	json_array_foreach(list, i, item)
	{
		if (str_eq(json_string_value(item), word))
			return true;
	}
	return false;
}

int capability_read(const json_t *o, struct capability *ret)
{
	struct capability c = { .staging = STAGING_HERE };
	const char *staging = json_string_value(json_object_get(o, "staging"));
	const char *engine = json_string_value(json_object_get(o, "engine"));
	while (c.staging <= STAGING_COPY && !str_eq(staging_names[c.staging], staging))
		c.staging++;
	if (c.staging > STAGING_COPY)
		return -EINVAL;
	for (int i = 0; i < LIMIT_COUNT_; i++)
		c.limits[i] = has_word(json_object_get(o, "limits"), limit_infos[i].key);
	for (size_t i = 0; i < layer_count; i++)
		c.layers[i] = has_word(json_object_get(o, "layers"), layer_names[i]);
	c.judging = str_eq(json_string_value(json_object_get(o, "judged")), "there") ? JUDGING_THERE
										     : JUDGING_HERE;
	c.reattaches = json_is_true(json_object_get(o, "reattaches"));
	c.queues = json_is_true(json_object_get(o, "queues"));
	c.signals = json_is_true(json_object_get(o, "signals"));
	c.checkpoints = json_is_true(json_object_get(o, "checkpoints"));
	c.network_host = json_is_true(json_object_get(o, "network_host"));
	c.submitters = json_is_true(json_object_get(o, "submitters"));
	(void)snprintf(c.engine, sizeof c.engine, "%s", engine ? engine : "");
	str_clean(c.engine);
	*ret = c;
	return 0;
}
