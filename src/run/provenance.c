/* Only what names the result: paths of the host, variables and who started it are not the analysis's to publish. */
#include "run/provenance.h"

#include <string.h>

#include "base/json.h"
#include "base/path.h"
#include "spec/spec_json.h"

/* The root of a box holds four MiB. */
#define PROVENANCE_MAX (1 << 20)

/* Where the box has what is at `source` on the host. */
static const char *place_of(const struct plan *p, const char *source)
{
	for (size_t i = 0; i < p->n_steps; i++)
		if (p->steps[i].kind == STEP_BIND && str_eq(p->steps[i].source, source))
			return p->steps[i].target;
	return NULL;
}

static void add_shown(json_t *list, const struct plan *p, const char *source,
		      const struct contents *c)
{
	const char *place = place_of(p, source);
	json_t *o = json_pack("{s:o}", "path", place ? json_text(place) : json_null());
	contents_to_json(c, o);
	json_object_del(o, "stat"); /* tells of the host */
	json_array_append_new(list, o);
}

static json_t *labels_json(const struct pairs *labels)
{
	json_t *o = json_object();
	for (size_t i = 0; i < labels->n; i++)
		json_object_set_new(o, labels->v[i].key, json_text(labels->v[i].value));
	return o;
}

static json_t *text_or_null(const char *text)
{
	return text ? json_text(text) : json_null();
}

static json_t *made(const struct analysis *a, const struct resolved *r)
{
	json_t *code = json_array(), *inputs = json_array(), *limits = json_object();
	for (size_t i = 0; a->code_contents && i < a->code.n; i++)
		add_shown(code, &r->plan, a->code.v[i], &a->code_contents[i]);
	for (size_t i = 0; i < a->n_inputs; i++)
		add_shown(inputs, &r->plan, a->inputs[i].path, &a->inputs[i].contents);
	for (int id = 0; id < LIMIT_COUNT_; id++)
		if (r->limits.at[id].value)
			json_object_set_new(limits, limit_infos[id].key,
					    json_u64(r->limits.at[id].value));
	const char *identity = r->chosen.fingerprint.hex[DEPTH_IDENTITY];
	json_t *parameters = a->parameters ? json_loads(a->parameters, 0, NULL) : NULL;
	return json_pack("{s:s,s:s,s:o,s:o,s:o,s:{s:o,s:o},s:o,s:o,s:o,s:o,s:o,s:o}", "cupel",
			 CUPEL_VERSION, "run", r->id, "name", text_or_null(a->name), "quest",
			 text_or_null(a->quest), "labels", labels_json(&a->labels), "runtime",
			 "name", json_text(r->runtime.name), "identity",
			 identity[0] ? json_string(identity) : json_null(), "command",
			 strv_json(&r->plan.argv), "code", code, "inputs", inputs, "parameters",
			 parameters ? parameters : json_null(), "limits", limits, "key",
			 a->key.sha256[0] ? json_string(a->key.sha256) : json_null());
}

/* What is too much is left out, the longest first, and that is said. */
static char *written(json_t *all)
{
	static const char *const dispensable[] = { "inputs", "command", "code", "parameters",
						   "labels" };
	json_t *left_out = json_array();
	json_object_set_new(all, "left_out", left_out);
	for (size_t i = 0;; i++) {
		CLEANUP_FREE char *text = json_dumps(all, JSON_COMPACT);
		if (text && strlen(text) <= PROVENANCE_MAX)
			return xasprintf("%s\n", text);
		if (i == sizeof dispensable / sizeof *dispensable)
			return xstrdup("{}\n");
		json_object_set_new(all, dispensable[i], json_null());
		json_array_append_new(left_out, json_string(dispensable[i]));
	}
}

void provenance_show(const struct analysis *a, struct resolved *r)
{
	for (size_t i = 0; i < r->plan.n_steps; i++) {
		struct step *s = &r->plan.steps[i];
		if (s->kind != STEP_FILE || !str_eq(s->target, PLAN_PROVENANCE))
			continue;
		CLEANUP_JSON json_t *all = made(a, r);
		free(s->source);
		s->source = written(all);
	}
}
