/* What was submitted, looked at before it is durable, in a process of its own and with its submitter's rights: pipelines for what their steps need,
 * analyses that are to be run again for what has changed since. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "flow/record.h"
#include "health/audit.h"
#include "run/rerun.h"
#include "serve/starter_parts.h"

#define LOOK_S     100 /* then whoever waits is told that it takes too long */
#define LOOK_BYTES ((rlim_t)2 << 30)

bool starter_is_trusted(const struct starter_who *who)
{
	/* Root and the service's own user have the scope at the socket. A token of theirs has their rights on files, and no others. */
	return who->is_admin;
}

int starter_no_layer(const char *layer, struct err *err)
{
	return err_set(
		err, ERR_CALLER, EPERM,
		"allow_missing: '%s' may be missing only where the host's policy says so, or for who has the scope admin",
		layer);
}

/* Layers that a host lacks are for its administrator to do without; what has a database of the platform's to write in is for whom he says. */
int starter_rights(const struct config *c, const struct starter_who *who, const struct analysis *a,
		   struct err *err)
{
	if (starter_is_trusted(who))
		return 0;
	for (size_t i = 0; i < a->allow_missing.n; i++)
		if (!strv_has(&c->allow_missing, a->allow_missing.v[i]))
			return starter_no_layer(a->allow_missing.v[i], err);
	const struct post_process *p = a->post_process ? config_post_process(c, a->post_process)
						       : NULL;
	if (p && !strv_has(&p->submitters, who->name))
		return err_set(
			err, ERR_CALLER, EPERM,
			"post_process: the step '%s' is not for %s; the host's configuration would have to say "
			"'submitters: [%s]' there",
			p->name, who->name, who->name);
	return 0;
}

struct starter_who starter_who(const json_t *sent)
{
	const char *name = json_string_value(json_object_get(sent, "submitter"));
	return (struct starter_who){
		.name = name ? name : "",
		.uid = (uid_t)json_integer_value(json_object_get(sent, "uid")),
		.is_admin = json_is_true(json_object_get(sent, "admin")),
	};
}

/* Those of the run's own secret variables that the request has. */
static int give_secrets(const struct config *config, const json_t *sent, struct rerun *rerun,
			struct err *err)
{
	CLEANUP(pairs_release) struct pairs values = { 0 };
	const json_t *env = json_object_get(json_object_get(sent, "analysis"), "env");
	for (size_t i = 0; i < rerun->analysis.secrets.n; i++) {
		const char *name = rerun->analysis.secrets.v[i].key;
		const char *value = json_string_value(json_object_get(env, name));
		if (value)
			pairs_set(&values, name, value);
	}
	return rerun_give(rerun, config, &values, json_is_true(json_object_get(sent, "anyway")),
			  err);
}

int rerun_prepare(struct config *config, const json_t *sent, struct rerun *ret_rerun,
		  struct resolved *ret, struct err *err)
{
	CLEANUP_RERUN struct rerun rerun = { 0 };
	CLEANUP_RESOLVED struct resolved resolved = { 0 };
	const char *first = json_string_value(json_object_get(sent, "rerun_of"));
	const char *run = json_string_value(json_object_get(sent, "run"));
	bool anyway = json_is_true(json_object_get(sent, "anyway"));
	const struct starter_who who = starter_who(sent);
	int r = rerun_read(config, first, &rerun, err);
	if (r < 0)
		return r;
	starter_set_limits(json_object_get(sent, "limits"), &rerun.analysis);
	rerun.analysis.id = xstrdup(run);
	if (anyway) /* of a database, what it is now */
		rerun.analysis.db_snapshot_sha256[0] = '\0';
	r = starter_rights(config, &who, &rerun.analysis, err);
	if (r >= 0)
		r = give_secrets(config, sent, &rerun, err);
	if (r >= 0)
		r = run_resolve(config, &rerun.analysis, &resolved, err);
	if (r >= 0 && !anyway)
		r = rerun_check(&rerun, &resolved, err);
	if (r >= 0 && !anyway)
		r = audit_expect_whole(config, first, AUDIT_RECORDS, err);
	if (r < 0)
		return r;
	*ret_rerun = rerun;
	*ret = resolved;
	rerun = (struct rerun){ 0 };
	resolved = (struct resolved){ 0 };
	return 0;
}

static int look_at_rerun(struct config *config, const json_t *sent, struct starter_said *ret,
			 struct err *err)
{
	CLEANUP_RERUN struct rerun rerun = { 0 };
	CLEANUP_RESOLVED struct resolved resolved = { 0 };
	int r = rerun_prepare(config, sent, &rerun, &resolved, err);
	for (int i = 0; r >= 0 && i < LIMIT_COUNT_; i++)
		ret->limits[i] = ret->wide[i] = resolved.limits.at[i].value;
	return r;
}

static int look_at_pipeline(struct config *config, const json_t *sent, struct starter_said *ret,
			    struct err *err)
{
	CLEANUP_FLOW struct flow flow = { 0 };
	CLEANUP_STR struct str text = { 0 };
	const char *copy = json_string_value(json_object_get(sent, "copy_to"));
	const struct starter_who who = starter_who(sent);
	const json_t *jobs = json_object_get(json_object_get(sent, "analysis"), "jobs");
	const char *run = json_string_value(json_object_get(sent, "run"));
	struct flow_need need = { 0 };
	bool is_resume = json_is_true(json_object_get(sent, "resume"));
	if (is_resume && flow_record_alive(config, run))
		return err_set(err, ERR_CALLER, EBUSY,
			       "the pipeline '%s' is being run by another process", run);
	int r = is_resume ? flow_read_again(config, run, &flow, err)
			  : pipeline_read(config, sent, &flow, &text, err);
	/* As cli/pipeline.c: what a step reads it says. */
	cleanup_free(&config->project_data);
	cleanup_free(&config->project_docs);
	for (size_t i = 0; r >= 0 && i < flow.n_tasks; i++)
		r = starter_rights(config, &who, &flow.tasks[i].analysis, err);
	if (r >= 0)
		r = flow_check(config, &flow, err);
	if (r >= 0 && copy)
		r = fs_write_atomic(AT_FDCWD, copy, text.text, text.length, 0600, err);
	if (r < 0)
		return r;
	json_int_t n = json_integer_value(jobs);
	flow_need(&flow, n > 0 && n <= 1024 ? (unsigned)n : 0, &need);
	memcpy(ret->limits, need.largest, sizeof ret->limits);
	memcpy(ret->wide, need.wide, sizeof ret->wide);
	return 0;
}

/* A text of few bytes may be one of a great many steps: it costs the one who looks, not the host. */
static void set_bounds(void)
{
	const struct rlimit cpu = { LOOK_S, LOOK_S };
	(void)setrlimit(RLIMIT_CPU, &cpu);
#ifndef __SANITIZE_ADDRESS__ /* which has terabytes of addresses */
	const struct rlimit memory = { LOOK_BYTES, LOOK_BYTES };
	(void)setrlimit(RLIMIT_AS, &memory);
#endif
}

int starter_look(struct config *config, const json_t *sent, struct starter_said *ret,
		 struct err *err)
{
	(void)alarm(LOOK_S);
	set_bounds();
	return json_object_get(sent, "rerun_of") ? look_at_rerun(config, sent, ret, err)
						 : look_at_pipeline(config, sent, ret, err);
}
