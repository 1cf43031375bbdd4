#include "run/post.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/path.h"
#include "keeper/verdict.h"

#define SUFFIX      "-post"
#define VERDICT_MAX (1 << 20)

void post_release(struct post *p)
{
	running_release(&p->run);
	relay_stop(&p->relay);
	resolved_release(&p->resolved);
	analysis_release(&p->analysis);
	dburl_release(&p->url);
	strv_release(&p->others);
	char **const texts[] = { &p->runs,        &p->outputs, &p->database_dir, &p->socket,
				 &p->socket_name, &p->pgpass,  &p->inside,       &p->written_by };
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		cleanup_free(texts[i]);
	*p = (struct post)POST_INIT;
}

void post_id(const char *parent_id, char ret[ID_MAX + 1])
{
	char tag[HASH_TAG];
	int room = ID_MAX - (int)strlen(SUFFIX);
	hash_tag(parent_id, tag);
	if ((int)strlen(parent_id) <= room)
		(void)snprintf(ret, ID_MAX + 1, "%s" SUFFIX, parent_id);
	else /* two long ids may begin alike */
		(void)snprintf(ret, ID_MAX + 1, "%.*s-%s" SUFFIX, room - HASH_TAG, parent_id, tag);
}

static int find_step(const struct config *c, const struct analysis *a, struct post *p,
		     struct err *err)
{
	CLEANUP_STR struct str known = { 0 };
	p->step = config_post_process(c, a->post_process);
	if (p->step)
		return 0;
	for (size_t i = 0; i < c->n_post_processes; i++)
		str_addf(&known, "%s%s", i ? ", " : "; there are: ", c->post_processes[i].name);
	return err_caller(
		err,
		"%s: there is no step '%.100s'%s. A step is declared under post_processes in /etc/cupel/cupel.yaml or in your "
		"own ~/.config/cupel/cupel.yaml",
		a->post_process_origin ? a->post_process_origin : "post_process", a->post_process,
		str_text(&known));
}

/* A project could otherwise have the step run in a runtime of its making, or show it files of its own. */
static void trust_only(const struct config *c, struct config *ret)
{
	*ret = *c;
	if (c->has_project_runtimes && c->runtime_dirs.n)
		ret->runtime_dirs.n--;
	ret->has_project_runtimes = false;
	ret->project_root = ret->project_data = ret->project_docs = NULL;
}

static void describe_step(struct post *p)
{
	const struct post_process *step = p->step;
	struct analysis *a = &p->analysis;
	char id[ID_MAX + 1];
	post_id(p->parent_id, id);
	a->id = xstrdup(id);
	a->name = xasprintf("post_process %s of %s", step->name, p->parent_id);
	a->quest = p->parent->quest ? xstrdup(p->parent->quest) : NULL;
	a->runtime = xstrdup(step->runtime ? step->runtime : "base");
	a->runtime_origin = xstrdup(step->origin);
	a->profile = xstrdup("post_process");
	if (step->script)
		strv_add(&a->code, step->script);
	strv_copy(&a->args, &step->args);
	strv_copy(&a->command, &step->command);
	for (size_t i = 0; i < step->env.n; i++)
		pairs_set(&a->env, step->env.v[i].key, step->env.v[i].value);
	a->limits = step->limits;
	strv_copy(&a->allow_missing, &p->parent->allow_missing);
	pairs_set(&a->labels, "cupel", "post_process");
	pairs_set(&a->labels, "post_process_of", p->parent_id);
	a->keep = KEEP_NEVER;
	a->keep_said = true;
}

static int check_id(const struct post *p, struct err *err)
{
	CLEANUP_FREE char *path = path_join(p->runs, p->analysis.id);
	if (access(path, F_OK) < 0)
		return 0;
	return err_set(
		err, ERR_CALLER, EEXIST,
		"the step would be the run '%s', which there is already; choose another --id",
		p->analysis.id);
}

static void find_places(const struct config *c, struct post *p)
{
	CLEANUP_FREE char *home = path_real(c->home);
	p->runs = xasprintf("%s/runs", home ? home : c->home);
	CLEANUP_FREE char *outputs = xasprintf("%s/%s/outputs", p->runs, p->parent_id);
	if (access(outputs, F_OK) == 0)
		p->outputs = take_ptr(outputs);
}

static int resolve(struct post *p, enum activation_how how, struct err *err)
{
	/* Those of the box are found out anew; this is who it runs as. */
	bool has_uid = p->resolved.has_uid;
	uid_t uid = p->resolved.uid;
	gid_t gid = p->resolved.gid;
	struct plan_grant grant = {
		.run_id = p->parent_id,
		.outputs = p->outputs,
		.database_dir = p->database_dir,
		.others = &p->others,
		.socket = p->socket,
		.socket_name = p->socket_name,
		.pgpass = p->pgpass,
		.url = p->inside,
	};
	int r = run_resolve_granted(&p->config, &p->analysis, how, &grant, &p->resolved, err);
	if (r < 0)
		return err_wrap(err, "%s: the step '%s'", p->step->origin, p->step->name);
	p->resolved.has_uid = has_uid;
	p->resolved.uid = uid;
	p->resolved.gid = gid;
	if (chosen_refused(&p->resolved.chosen)) {
		*err = p->resolved.chosen.unfit;
		return err_wrap(err, "%s: the step '%s'", p->step->origin, p->step->name);
	}
	return 0;
}

int post_resolve(const struct config *config, const struct analysis *analysis, const char *id,
		 enum activation_how how, struct post *ret, struct err *err)
{
	ret->parent = analysis;
	ret->parent_id = id;
	trust_only(config, &ret->config);
	int r = find_step(config, analysis, ret, err);
	if (r < 0)
		return r;
	find_places(config, ret);
	describe_step(ret);
	r = check_id(ret, err);
	if (r >= 0)
		r = post_database(ret, err);
	return r < 0 ? r : resolve(ret, how, err);
}

json_t *post_json(const struct post *p)
{
	CLEANUP_FREE char *database = dburl_shown(p->step->database);
	json_t *o = json_pack("{s:o,s:o,s:o,s:o,s:o}", "step", json_text(p->step->name), "run",
			      json_text(p->analysis.id), "origin", json_text(p->step->origin),
			      "runtime", json_text(p->resolved.runtime.name), "database",
			      json_text(database));
	json_object_set_new(o, "uid",
			    p->resolved.has_uid ? json_integer((json_int_t)p->resolved.uid)
						: json_null());
	json_object_set_new(o, "plan", plan_json(&p->resolved.plan));
	return o;
}

static int start_relay(struct post *p, struct err *err)
{
	if (p->url.kind != DB_POSTGRES || p->url.host[0] == '/')
		return 0;
	CLEANUP_FREE char *directory = path_join(p->runs, p->parent_id);
	struct relay_request request = { .directory = directory,
					 .host = p->url.host,
					 .port = p->url.port };
	return relay_start(&request, &p->relay, err);
}

/* Scripts of an activation were run when the step was looked at first. */
static int start(void *data, struct err *err)
{
	struct post *p = data;
	const struct config *config = p->run.config;
	int r = post_resolve(config, p->parent, p->parent_id, ACTIVATION_KNOWN, p, err);
	if (r >= 0)
		r = start_relay(p, err);
	p->written_by = r < 0 ? NULL
			      : xasprintf("the step %s of the run %s", p->step->name, p->parent_id);
	p->resolved.writes = r < 0 ? NULL : p->step->database;
	p->resolved.written_by = p->written_by;
	if (r >= 0)
		r = run_start(config, &p->analysis, &p->resolved, &p->run, err);
	return r < 0 ? r : p->run.fd;
}

static bool hear(void *data)
{
	struct post *p = data;
	struct keeper_msg msg;
	(void)run_hear(&p->run, &msg);
	return p->run.ended;
}

static void cancel(void *data, int signal_number)
{
	run_cancel(&((struct post *)data)->run, signal_number);
}

static void set_text(char *to, size_t room, const char *text)
{
	(void)snprintf(to, room, "%.*s", (int)room - 1, text ? text : "?");
}

static void read_verdict(const struct post *p, struct step_end *ret)
{
	CLEANUP_JSON json_t *verdict = NULL;
	CLEANUP_FREE char *path = xasprintf("%s/%s/verdict.json", p->runs, p->run.id);
	struct err err = { 0 };
	if (json_read_file(AT_FDCWD, path, VERDICT_MAX, &verdict, &err) < 0) {
		set_text(ret->notes, sizeof ret->notes, err.text);
		return;
	}
	const json_t *code = json_object_get(verdict, "exit_code");
	ret->exit_code = json_is_integer(code) ? (int)json_integer_value(code) : -1;
	set_text(ret->cause, sizeof ret->cause,
		 json_string_value(json_object_get(verdict, "cause")));
	set_text(ret->notes, sizeof ret->notes,
		 json_string_value(json_object_get(verdict, "completion_notes")));
}

/* One whose keeper was killed is recorded by the next sweep; not by one from here, which would take our own run for dead: our lock is no
 * hindrance to ourselves. */
static void finish(void *data, struct step_end *ret)
{
	struct post *p = data;
	if (p->run.keeper > 0) {
		set_text(ret->run, sizeof ret->run, p->run.id);
		set_text(ret->cause, sizeof ret->cause, cause_name(CAUSE_LOST));
		set_text(ret->notes, sizeof ret->notes, "Its keeper was killed.");
	}
	if (p->run.last.kind == KEEPER_MSG_ENDED)
		read_verdict(p, ret);
	else if (p->run.last.kind == KEEPER_MSG_REFUSED ||
		 p->run.last.kind == KEEPER_MSG_UNRECORDED) {
		set_text(ret->cause, sizeof ret->cause, cause_name(CAUSE_SETUP));
		set_text(ret->notes, sizeof ret->notes, p->run.last.err.text);
	}
	post_release(p);
}

void post_after(const struct config *config, const struct analysis *analysis, const char *id,
		struct post *p, struct keeper_after *ret)
{
	*p = (struct post)POST_INIT;
	p->parent = analysis;
	p->parent_id = id;
	p->run.config = config;
	*ret = (struct keeper_after){ .data = p,
				      .step = analysis->post_process,
				      .start = start,
				      .hear = hear,
				      .cancel = cancel,
				      .finish = finish };
}
