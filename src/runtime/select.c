/* The first rules of selection: option, analysis file, default. */
#include "runtime/select.h"

#include "base/str.h"

const char *const select_rule_names[] = {
	[RULE_OPTION] = "option",   [RULE_ANALYSIS] = "analysis",
	[RULE_SCRIPT] = "script",   [RULE_KERNELSPEC] = "kernelspec",
	[RULE_IMPORTS] = "imports", [RULE_EXTENSION] = "extension",
	[RULE_DEFAULT] = "default",
};

void selection_release(struct selection *s)
{
	free(s->name);
	free(s->why);
	for (size_t i = 0; i < s->n_considered; i++) {
		free(s->considered[i].name);
		free(s->considered[i].why_not);
	}
	free(s->considered);
	strv_release(&s->requires);
	*s = (struct selection){ 0 };
}

int runtime_select(const struct config *config, const struct analysis *a, struct selection *ret,
		   struct err *err)
{
	bool by_option = a->runtime && a->runtime_by_option;
	*ret = (struct selection){
		.rule = by_option    ? RULE_OPTION
			: a->runtime ? RULE_ANALYSIS
				     : RULE_DEFAULT,
		.name = xstrdup(a->runtime ? a->runtime : config->default_runtime),
		.why = xstrdup(by_option    ? "it was named on the command line"
			       : a->runtime ? "the analysis file names it"
					    : "nothing names another"),
	};
	return 0;
}

json_t *selection_json(const struct selection *s)
{
	json_t *considered = json_array();
	json_t *needs = json_array();
	for (size_t i = 0; i < s->n_considered; i++)
		json_array_append_new(considered,
				      json_pack("{s:s,s:o}", "name", s->considered[i].name,
						"why_not", json_text(s->considered[i].why_not)));
	for (size_t i = 0; i < s->requires.n; i++)
		json_array_append_new(needs, json_text(s->requires.v[i]));
	return json_pack("{s:s,s:o,s:o,s:o,s:o}", "rule", select_rule_names[s->rule], "name",
			 json_text(s->name), "why", json_text(s->why), "considered", considered,
			 "requires", needs);
}
