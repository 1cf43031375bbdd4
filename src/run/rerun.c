#include "run/rerun.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/cleanup.h"
#include "runtime/driver.h"
#include "spec/id.h"
#include "spec/secret.h"
#include "spec/spec_json.h"

#define RECORD_MAX (8 << 20)

void rerun_release(struct rerun *r)
{
	analysis_release(&r->analysis);
	json_decref(r->record);
	json_decref(r->verdict);
	r->record = r->verdict = NULL;
}

static int read_record(const struct config *config, const char *id, struct rerun *r,
		       struct err *err)
{
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s", config->home, id);
	CLEANUP_FREE char *origin = xasprintf("run %s", id);
	CLEANUP_FD int dir_fd = open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (dir_fd < 0)
		return id_no_run(config->home, id, err);
	if (json_read_file(dir_fd, "verdict.json", RECORD_MAX, &r->verdict, NULL) < 0)
		return err_set(err, ERR_CALLER, EBUSY,
			       "the run '%s' has not ended: it has no verdict yet", id);
	int e = json_read_file(dir_fd, "analysis.json", RECORD_MAX, &r->record, err);
	const json_t *labels = json_object_get(r->record, "labels");
	const char *parent = json_string_value(json_object_get(labels, "post_process_of"));
	if (e >= 0 && parent &&
	    str_eq(json_string_value(json_object_get(labels, "cupel")), "post_process"))
		return err_caller(
			err,
			"the run '%s' is the step that took the outputs of '%s': run that one again",
			id, parent);
	if (e >= 0)
		e = analysis_from_json(r->record, origin, &r->analysis, err);
	return e < 0 ? err_wrap(err, "the run '%s' can't be run again", id) : 0;
}

int rerun_read(const struct config *config, const char *id, struct rerun *ret, struct err *err)
{
	struct rerun r = { 0 };
	int e = id_check(id, err);
	if (e >= 0)
		e = read_record(config, id, &r, err);
	if (e < 0) {
		rerun_release(&r);
		return e;
	}
	r.analysis.rerun_of = xstrdup(id);
	*ret = r;
	return 0;
}

static int changed(struct err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int changed(struct err *err, const char *format, ...)
{
	va_list args;
	char text[700];
	va_start(args, format);
	(void)vsnprintf(text, sizeof text, format, args);
	va_end(args);
	return err_set(err, ERR_CALLER, ESTALE, "not the same analysis any more: %s", text);
}

static int check_contents(const char *path, const json_t *recorded, const struct contents *now,
			  struct err *err)
{
	struct contents then = { 0 };
	if (contents_from_json(recorded, &then) < 0 || !then.kind)
		return changed(err, "the record does not say what %s was", path);
	if (then.sha256[0] && now->sha256[0])
		return str_eq(then.sha256, now->sha256)
			       ? 0
			       : changed(err, "%s has changed: SHA-256 %.12s then, %.12s now", path,
					 then.sha256, now->sha256);
	if (then.stat[0] && str_eq(then.stat, now->stat))
		return 0;
	return changed(
		err,
		"%s is too large for its SHA-256 to be taken, and its size or times have changed",
		path);
}

static int check_shown(const struct rerun *r, struct err *err)
{
	const struct analysis *a = &r->analysis;
	const json_t *code = json_object_get(r->record, "code_contents");
	const json_t *inputs = json_object_get(r->record, "inputs");
	int e = 0;
	for (size_t i = 0; e >= 0 && i < a->code.n; i++)
		e = check_contents(a->code.v[i], json_array_get(code, i), &a->code_contents[i],
				   err);
	for (size_t i = 0; e >= 0 && i < a->n_inputs; i++)
		e = check_contents(a->inputs[i].path, json_array_get(inputs, i),
				   &a->inputs[i].contents, err);
	return e;
}

/* What ran a notebook is a part of this program, which may be another one now. */
static int check_driver(const struct rerun *r, const struct resolved *now, struct err *err)
{
	char have[HASH_HEX];
	const char *then =
		json_string_value(json_object_get(json_object_get(r->record, "driver"), "sha256"));
	if (!then || !driver_runs(&now->runtime, &r->analysis))
		return 0;
	driver_digest(have);
	return str_eq(then, have)
		       ? 0
		       : changed(err,
				 "what runs notebooks has changed: SHA-256 %.12s then, %.12s now",
				 then, have);
}

int rerun_give(struct rerun *r, const struct config *config, const struct pairs *values,
	       bool may_differ, struct err *err)
{
	struct analysis *a = &r->analysis;
	for (size_t i = 0; i < values->n; i++) {
		const struct pair *p = &values->v[i];
		if (!pairs_get(&a->secrets, p->key))
			return err_caller(
				err,
				"--env %.100s: only the secret variables of the run can be given again, and this is none "
				"of them; start another run with `cupel run` to change a variable",
				p->key);
		pairs_set(&a->env, p->key, p->value);
	}
	int e = secrets_check_given(a, err);
	return e < 0 || may_differ ? e : secrets_check_same(config->home, a, err);
}

/* defaults.env_pass may have let something in that was not there then. */
static int check_env(const struct rerun *r, struct err *err)
{
	const json_t *then = json_object_get(r->record, "env");
	const json_t *secrets = json_object_get(r->record, "secret_env");
	for (size_t i = 0; i < r->analysis.env.n; i++)
		if (!json_object_get(then, r->analysis.env.v[i].key) &&
		    !json_object_get(secrets, r->analysis.env.v[i].key))
			return changed(
				err,
				"the variable %s is passed on now (defaults.env_pass), and was not then",
				r->analysis.env.v[i].key);
	return 0;
}

static int check_runtime(const struct rerun *r, const struct resolved *now, struct err *err)
{
	const json_t *then = json_object_get(r->record, "runtime");
	const char *identity = json_string_value(
		json_object_get(json_object_get(then, "fingerprint"), depth_names[DEPTH_IDENTITY]));
	const char *version = json_string_value(json_object_get(then, "version"));
	const char *have = now->chosen.fingerprint.hex[DEPTH_IDENTITY];
	if (chosen_refused(&now->chosen)) {
		*err = now->chosen.unfit;
		return err_wrap(err, "the runtime '%s' can't be relied on", now->runtime.name);
	}
	if (!identity || !have[0])
		return changed(err, "the record does not say what the runtime '%s' was",
			       now->runtime.name);
	if (str_eq(identity, have))
		return 0;
	return changed(err,
		       "the runtime '%s' has changed: %s, identity %.12s then, %s, %.12s now; "
		       "`cupel runtime check %s` says more where it has a lock",
		       now->runtime.name, version ? version : "?", identity, now->runtime.version,
		       have, now->runtime.name);
}

int rerun_check(const struct rerun *r, const struct resolved *now, struct err *err)
{
	int e = check_shown(r, err);
	if (e >= 0)
		e = check_env(r, err);
	if (e >= 0)
		e = check_driver(r, now, err);
	return e < 0 ? e : check_runtime(r, now, err);
}
