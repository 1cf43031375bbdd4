#include "runtime/chosen.h"

#include "runtime/state.h"

void chosen_release(struct chosen *c)
{
	selection_release(&c->selection);
	free(c->activation);
	*c = (struct chosen){ 0 };
}

json_t *chosen_summary_json(const struct chosen *c, const struct runtime *r)
{
	return json_pack("{s:s,s:s,s:o,s:o,s:s,s:o}", "name", r->name, "kind",
			 runtime_kind_names[r->kind], "version", json_text(r->version),
			 "fingerprint", fingerprint_json(&c->fingerprint), "rule",
			 select_rule_names[c->selection.rule], "allowed_drift",
			 c->unfit.code && c->allowed ? json_text(c->unfit.text) : json_null());
}

json_t *chosen_json(const struct chosen *c, const struct runtime *r)
{
	json_t *o = chosen_summary_json(c, r);
	const char *const texts[][2] = { { "origin", r->origin },
					 { "prefix", r->prefix },
					 { "digest", r->digest },
					 { "activation", c->activation } };
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		if (texts[i][1])
			json_object_set_new(o, texts[i][0], json_text(texts[i][1]));
	json_object_set_new(o, "selection", selection_json(&c->selection));
	return o;
}
