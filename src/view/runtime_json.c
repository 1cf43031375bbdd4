/* Runtimes as values. */
#include "runtime/state.h"
#include "spec/spec_json.h"
#include "view/runtime_view.h"

json_t *runtime_row_json(const struct runtime *r, const struct standing *s)
{
	bool verified = s->state.verified_time != NULL;
	json_t *o = json_pack(
		"{s:o,s:s,s:o,s:o,s:s,s:o,s:o,s:o,s:o,s:b,s:o,s:o}", "name", json_text(r->name),
		"kind", runtime_kind_names[r->kind], "version", json_text(r->version), "summary",
		json_text(r->summary), "health", health_names[s->state.health], "reason",
		json_text(s->state.reason), "verified", json_text(s->state.verified_time), "depth",
		verified ? json_string(depth_names[s->state.verified_depth]) : json_null(),
		"fingerprint", fingerprint_json(&s->now), "locked", s->lock.exists, "limits",
		limits_json(&r->limits), "origin", json_text(r->origin));
	return o;
}

json_t *runtime_fault_json(const struct catalog_fault *f)
{
	return json_pack("{s:o,s:n,s:n,s:n,s:s,s:o,s:n,s:n,s:n,s:b,s:{},s:o}", "name",
			 json_text(f->name), "kind", "version", "summary", "health",
			 health_names[HEALTH_BROKEN], "reason", json_text(f->err.text), "verified",
			 "depth", "fingerprint", "locked", 0, "limits", "origin",
			 json_text(f->file));
}

static json_t *interpreters_json(const struct runtime *r)
{
	json_t *list = json_array();
	for (size_t i = 0; i < r->n_interpreters; i++) {
		const struct interpreter *in = &r->interpreters[i];
		json_array_append_new(
			list, json_pack("{s:o,s:o,s:o,s:o}", "extension", json_text(in->extension),
					"language", json_text(in->language), "argv",
					strv_json(&in->argv), "package", json_text(in->package)));
	}
	return list;
}

static json_t *checks_json(const struct runtime *r)
{
	static const char *const kinds[] = { "import", "version", "run" };
	json_t *list = json_array();
	for (size_t i = 0; i < r->n_checks; i++) {
		const struct runtime_check *c = &r->checks[i];
		json_array_append_new(list, json_pack("{s:o,s:s,s:o,s:o}", "name",
						      json_text(c->name), "kind", kinds[c->kind],
						      "command", strv_json(&c->command), "expect",
						      json_text(c->expect)));
	}
	return list;
}

static json_t *lock_json(const struct runtime *r, const struct lock *l)
{
	return json_pack("{s:o,s:b,s:o,s:o,s:o}", "file", json_text(r->lock), "exists", l->exists,
			 "time", json_text(l->time), "manifest", json_text(l->manifest),
			 "fingerprint",
			 l->exists ? fingerprint_json(&l->fingerprint) : json_null());
}

static json_t *env_json(const struct pairs *env)
{
	json_t *o = json_object();
	for (size_t i = 0; i < env->n; i++)
		json_object_set_new(o, env->v[i].key, json_text(env->v[i].value));
	return o;
}

/* The one command that brings what the entry says it needs. */
static json_t *install_json(const struct runtime *r)
{
	CLEANUP_STR struct str command = { 0 };
	if (!r->packages.n)
		return json_null();
	str_add(&command, "apt-get install");
	for (size_t i = 0; i < r->packages.n; i++)
		str_addf(&command, " %s", r->packages.v[i]);
	return json_text(str_text(&command));
}

/* The entry's own word for its place. */
static bool has_root(const struct runtime *r)
{
	return r->kind == RUNTIME_ROOTFS || r->kind == RUNTIME_IMAGE;
}

json_t *runtime_json(const struct runtime *r, const struct standing *s,
		     const struct strv *overrides)
{
	json_t *o = runtime_row_json(r, s);
	const struct {
		const char *key;
		json_t *value;
	} more[] = {
		{ "overrides", strv_json(overrides) },
		{ "from_project", json_boolean(r->from_project) },
		{ "prefix", json_text(has_root(r) ? NULL : r->prefix) },
		{ "root", json_text(has_root(r) ? r->prefix : NULL) },
		{ "path", json_text(r->path) },
		{ "interpreters", interpreters_json(r) },
		{ "env", env_json(&r->env) },
		{ "read_only", strv_json(&r->read_only) },
		{ "devices", strv_json(&r->devices) },
		{ "packages", strv_json(&r->packages) },
		{ "install", install_json(r) },
		{ "provides", strv_json(&r->provides) },
		{ "checks", checks_json(r) },
		{ "check_limits", limits_json(&r->check_limits) },
		{ "results", s->state.checks ? json_incref(s->state.checks) : json_null() },
		{ "drift", s->state.drift ? json_incref(s->state.drift) : json_null() },
		{ "lock", lock_json(r, &s->lock) },
	};
	for (size_t i = 0; i < sizeof more / sizeof *more; i++)
		json_object_set_new(o, more[i].key, more[i].value);
	return o;
}

json_t *check_json(const char *name, const struct runtime_state *s)
{
	return json_pack("{s:o,s:s,s:o,s:o,s:s,s:o,s:O?,s:O?}", "name", json_text(name), "health",
			 health_names[s->health], "reason", json_text(s->reason), "verified",
			 json_text(s->verified_time), "depth", depth_names[s->verified_depth],
			 "fingerprint", fingerprint_json(&s->fingerprint), "checks", s->checks,
			 "drift", s->drift);
}
