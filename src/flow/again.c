/* A pipeline that was begun, read again: as it was asked for then, for whom it was then. */
#include <errno.h>
#include <unistd.h>

#include "base/path.h"
#include "flow/record.h"
#include "spec/parameters.h"
#include "spec/spec_json.h"

void flow_lay_over(struct flow *f, const struct analysis *said)
{
	for (size_t t = 0; t < f->n_tasks; t++) {
		struct analysis *a = &f->tasks[t].analysis;
		if (said->quest) {
			free(a->quest);
			a->quest = xstrdup(said->quest);
		}
		for (size_t i = 0; i < said->labels.n; i++)
			pairs_set(&a->labels, said->labels.v[i].key, said->labels.v[i].value);
		strv_copy(&a->allow_missing, &said->allow_missing);
		a->allow_drift |= said->allow_drift;
		if (said->keep_said) {
			a->keep = said->keep;
			a->keep_said = true;
		}
	}
}

/* Whom it was for stays, in name and rights: the steps belong to the submitter of the pipeline, whoever resumes it. The submission is that of
 * now, and so is what it was given. */
static int take_submitter(const char *id, const json_t *asked, struct config *config)
{
	char name[VIEWER_NAME_MAX + 1] = "";
	const char *submitter = json_string_value(json_object_get(asked, "submitter"));
	struct config_caller caller = { 0 };
	if (!submitter)
		return 0;
	int r = config_caller_parse(submitter, &caller);
	if (r < 0)
		return r;
	config->caller.is_set = true;
	config->caller.uid = caller.uid;
	config->caller.gid = caller.gid;
	if (flow_record_submitter(config, id, name) >= 0)
		(void)snprintf(config->submitter, sizeof config->submitter, "%s", name);
	return 0;
}

/* A service keeps no text with secret values once the pipeline has ended. */
static int check_copy(const struct config *c, const char *file, const char *keyed, const char *id,
		      struct err *err)
{
	CLEANUP_FREE char *home = path_real(c->home);
	CLEANUP_FREE char *copies = home ? path_join(home, FLOW_SUBMITTED) : NULL;
	if (!keyed || !copies || !path_within(file, copies) || access(file, F_OK) == 0)
		return 0;
	return err_set(
		err, ERR_CALLER, ENOKEY,
		"the pipeline '%s' has secret variables, whose values are not kept; submit it again: finished steps are reused",
		id);
}

int flow_read_again(struct config *config, const char *id, struct flow *ret, struct err *err)
{
	CLEANUP_ANALYSIS struct analysis options = { 0 };
	CLEANUP_FREE char *origin = xasprintf("pipeline %.64s", id);
	CLEANUP_JSON json_t *asked = NULL;
	int r = flow_record_read(config, id, "pipeline.json", &asked, err);
	if (r < 0)
		return r;
	const char *file = json_string_value(json_object_get(asked, "file"));
	const char *sha256 = json_string_value(json_object_get(asked, "file_sha256"));
	const char *keyed = json_string_value(json_object_get(asked, "file_digest"));
	char now[HASH_HEX] = "";
	const json_t *said = json_object_get(asked, "said");
	CLEANUP_FREE char *parameters = json_object_size(said) ? parameters_text(said) : NULL;
	if (!file || (!sha256 && !keyed) || take_submitter(id, asked, config) < 0)
		return err_set(err, ERR_HOST, EINVAL, "the record of the pipeline '%s' is damaged",
			       id);
	if (json_object_get(asked, "options"))
		r = analysis_from_json(json_object_get(asked, "options"), origin, &options, err);
	if (r >= 0)
		r = check_copy(config, file, keyed, id, err);
	if (r >= 0)
		r = flow_read(config, file, parameters, ret, err);
	if (r >= 0)
		flow_lay_over(ret, &options);
	if (r >= 0 && keyed)
		r = flow_record_digest(config, ret, now, err);
	if (r >= 0 && !str_eq(keyed ? now : ret->sha256, keyed ? keyed : sha256))
		return err_set(
			err, ERR_CALLER, ESTALE,
			"%s was changed since '%s' began; `cupel run %s` runs it as it is now, and reuses what still holds",
			file, id, file);
	return r;
}
