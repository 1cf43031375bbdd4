/* An analysis back from the record of a run: what analysis_json and the keeper wrote, and nothing else. A key that is not known here would
 * be left out of the second run without a word, so it is refused. */
#include <errno.h>
#include <string.h>

#include "spec/parameters.h"
#include "spec/spec_json.h"

struct reading {
	struct analysis *a;
	const char *origin;
	struct err *err;
};

struct key {
	const char *name;
	int (*take)(struct reading *r, const json_t *value); /* NULL: of no use here */
};

static int mistyped(struct reading *r, const char *what)
{
	return err_caller(r->err, "%s: '%s' is not what cupel writes there", r->origin, what);
}

/* What stood for bytes that are not UTF-8 can't be told from what they were. */
static int check_exact(struct reading *r, const char *text, const char *what)
{
	if (!strstr(text, "\xef\xbf\xbd"))
		return 0;
	return err_caller(r->err,
			  "%s: '%s' had bytes that are not UTF-8, which the record does not keep",
			  r->origin, what);
}

static int take_text(struct reading *r, const json_t *value, const char *what, char **ret)
{
	if (!json_is_string(value))
		return mistyped(r, what);
	free(*ret);
	*ret = xstrdup(json_string_value(value));
	return check_exact(r, *ret, what);
}

static int take_list(struct reading *r, const json_t *value, const char *what, struct strv *ret)
{
	size_t i;
	json_t *item;
	if (!json_is_array(value))
		return mistyped(r, what);
	json_array_foreach(value, i, item)
	{
		if (!json_is_string(item))
			return mistyped(r, what);
		if (check_exact(r, json_string_value(item), what) < 0)
			return -EINVAL;
		strv_add(ret, json_string_value(item));
	}
	return 0;
}

static int take_pairs(struct reading *r, const json_t *value, const char *what, struct pairs *ret)
{
	const char *key;
	json_t *item;
	if (!json_is_object(value))
		return mistyped(r, what);
	json_object_foreach((json_t *)value, key, item)
	{
		if (!json_is_string(item))
			return mistyped(r, what);
		if (check_exact(r, json_string_value(item), key) < 0)
			return -EINVAL;
		pairs_set(ret, key, json_string_value(item));
	}
	return 0;
}

static int take_name(struct reading *r, const json_t *value)
{
	return take_text(r, value, "name", &r->a->name);
}

static int take_quest(struct reading *r, const json_t *value)
{
	return take_text(r, value, "quest", &r->a->quest);
}

static int take_profile(struct reading *r, const json_t *value)
{
	return take_text(r, value, "profile", &r->a->profile);
}

static int take_executor(struct reading *r, const json_t *value)
{
	return take_text(r, value, "executor", &r->a->executor);
}

static int take_code(struct reading *r, const json_t *value)
{
	return take_list(r, value, "code", &r->a->code);
}

static int take_args(struct reading *r, const json_t *value)
{
	return take_list(r, value, "args", &r->a->args);
}

static int take_command(struct reading *r, const json_t *value)
{
	if (!json_is_string(value)) /* run again, it is executed as it was */
		return take_list(r, value, "command", &r->a->command);
	strv_add(&r->a->command, json_string_value(value));
	r->a->command_is_text = true;
	return check_exact(r, json_string_value(value), "command");
}

static int take_shell(struct reading *r, const json_t *value)
{
	return take_list(r, value, "shell", &r->a->shell_used);
}

static int take_allow_missing(struct reading *r, const json_t *value)
{
	return take_list(r, value, "allow_missing", &r->a->allow_missing);
}

static int take_env(struct reading *r, const json_t *value)
{
	return take_pairs(r, value, "env", &r->a->env);
}

/* The values are asked for again: run/rerun.c. A digest that was never made compares with nothing. */
static int take_secrets(struct reading *r, const json_t *value)
{
	return take_pairs(r, value, "secret_env", &r->a->secrets);
}

static int take_parameters(struct reading *r, const json_t *value)
{
	if (!json_is_object(value))
		return mistyped(r, "parameters");
	free(r->a->parameters);
	r->a->parameters = parameters_text(value);
	return 0;
}

static int take_labels(struct reading *r, const json_t *value)
{
	return take_pairs(r, value, "labels", &r->a->labels);
}

static int take_inputs(struct reading *r, const json_t *value)
{
	size_t i;
	json_t *item;
	json_array_foreach(value, i, item)
	{
		const char *path = json_string_value(json_object_get(item, "path"));
		const char *name = json_string_value(json_object_get(item, "name"));
		const char *step = json_string_value(json_object_get(item, "step"));
		if (!path || !name || path[0] != '/')
			return mistyped(r, "inputs");
		if (check_exact(r, path, "inputs") < 0 || check_exact(r, name, "inputs") < 0)
			return -EINVAL;
		struct input input = { .path = xstrdup(path),
				       .name = xstrdup(name),
				       .origin = xstrdup(r->origin),
				       .step = step ? xstrdup(step) : NULL,
				       .is_own = step }; /* a record is cupel's word */
		analysis_add_input(r->a, &input);
	}
	return json_is_array(value) ? 0 : mistyped(r, "inputs");
}

/* One that was never made has no digest: then there is nothing to compare with. */
static int take_db_snapshot(struct reading *r, const json_t *value)
{
	const char *sha256 = json_string_value(json_object_get(value, "sha256"));
	int e = take_text(r, json_object_get(value, "path"), "db_snapshot", &r->a->db_snapshot);
	if (e >= 0 && (r->a->db_snapshot[0] != '/' || (sha256 && strlen(sha256) != HASH_HEX - 1)))
		return mistyped(r, "db_snapshot");
	if (e < 0)
		return e;
	free(r->a->db_snapshot_origin);
	r->a->db_snapshot_origin = xstrdup(r->origin);
	if (sha256)
		memcpy(r->a->db_snapshot_sha256, sha256, HASH_HEX);
	return 0;
}

static int take_post_process(struct reading *r, const json_t *value)
{
	free(r->a->post_process_origin);
	r->a->post_process_origin = xstrdup(r->origin);
	return take_text(r, value, "post_process", &r->a->post_process);
}

static int take_outputs(struct reading *r, const json_t *value)
{
	size_t i;
	json_t *item;
	json_array_foreach(value, i, item)
	{
		const char *path = json_string_value(json_object_get(item, "path"));
		if (!path)
			return mistyped(r, "outputs");
		analysis_add_output(r->a, path,
				    json_string_value(json_object_get(item, "media_type")),
				    json_is_true(json_object_get(item, "required")));
		const char *check = json_string_value(json_object_get(item, "check"));
		for (int word = OUTPUT_CHECK_AUTO; check && word <= OUTPUT_CHECK_REQUIRE; word++)
			if (str_eq(check, output_check_names[word]))
				r->a->outputs[r->a->n_outputs - 1].check = word;
	}
	return json_is_array(value) ? 0 : mistyped(r, "outputs");
}

static int take_network(struct reading *r, const json_t *value)
{
	r->a->network_said = true;
	for (int i = NETWORK_NONE; i <= NETWORK_HOST; i++)
		if (str_eq(json_string_value(value), network_names[i])) {
			r->a->network = i;
			return 0;
		}
	return mistyped(r, "network");
}

static int take_keep(struct reading *r, const json_t *value)
{
	r->a->keep_said = true;
	for (int i = KEEP_NEVER; i <= KEEP_ALWAYS; i++)
		if (str_eq(json_string_value(value), keep_names[i])) {
			r->a->keep = i;
			return 0;
		}
	return mistyped(r, "keep");
}

static int take_scratch(struct reading *r, const json_t *value)
{
	r->a->scratch_said = true;
	for (int i = SCRATCH_DISK; i <= SCRATCH_MEMORY; i++)
		if (str_eq(json_string_value(value), scratch_names[i])) {
			r->a->scratch = i;
			return 0;
		}
	return mistyped(r, "scratch");
}

static int take_warn_signal(struct reading *r, const json_t *value)
{
	if (!json_is_integer(value))
		return mistyped(r, "warn_signal");
	r->a->warn_signal = (int)json_integer_value(value);
	return 0;
}

static int take_checkpoint(struct reading *r, const json_t *value)
{
	return take_text(r, value, "checkpoint", &r->a->checkpoint);
}

static int take_checkpoint_exit_code(struct reading *r, const json_t *value)
{
	if (!json_is_integer(value))
		return mistyped(r, "checkpoint_exit_code");
	r->a->checkpoint_exit_code = (int)json_integer_value(value);
	return 0;
}

static int take_allow_drift(struct reading *r, const json_t *value)
{
	if (!json_is_boolean(value))
		return mistyped(r, "allow_drift");
	r->a->allow_drift = json_is_true(value);
	return 0;
}

static int take_limits(struct reading *r, const json_t *value)
{
	const char *key;
	json_t *item;
	json_object_foreach((json_t *)value, key, item)
	{
		uint64_t number;
		int id = limit_find(key);
		const char *text = json_string_value(json_object_get(item, "value"));
		if (id < 0 || !text)
			return mistyped(r, key);
		int e = limit_parse((enum limit_id)id, text, &number, r->err);
		if (e < 0)
			return err_wrap(r->err, "%s: %s", r->origin, key);
		limits_set(&r->a->limits, (enum limit_id)id, number, r->origin);
	}
	return json_is_object(value) ? 0 : mistyped(r, "limits");
}

static int take_runtime(struct reading *r, const json_t *value)
{
	r->a->runtime_origin = xstrdup(r->origin);
	return take_text(r, json_object_get(value, "name"), "runtime", &r->a->runtime);
}

static const struct key keys[] = {
	{ "name", take_name },
	{ "quest", take_quest },
	{ "profile", take_profile },
	{ "executor", take_executor },
	{ "code", take_code },
	{ "args", take_args },
	{ "command", take_command },
	{ "shell", take_shell },
	{ "allow_missing", take_allow_missing },
	{ "env", take_env },
	{ "secret_env", take_secrets },
	{ "parameters", take_parameters },
	{ "labels", take_labels },
	{ "inputs", take_inputs },
	{ "outputs", take_outputs },
	{ "db_snapshot", take_db_snapshot },
	{ "post_process", take_post_process },
	{ "network", take_network },
	{ "keep", take_keep },
	{ "scratch", take_scratch },
	{ "warn_signal", take_warn_signal },
	{ "checkpoint", take_checkpoint },
	{ "checkpoint_exit_code", take_checkpoint_exit_code },
	{ "checkpoint_key", NULL }, /* derived again: the same analysis goes on where it was */
	{ "allow_drift", take_allow_drift },
	{ "limits", take_limits },
	{ "runtime", take_runtime },
	{ "id", NULL },
	{ "file", NULL },
	{ "work_dir", NULL },
	{ "rerun_of", NULL },
	{ "pipeline", NULL }, /* run again, it stands alone */
	{ "key", NULL },
	{ "driver", NULL },
	{ "submitter", NULL },     /* run again, it is whoever does that */
	{ "submitter_ids", NULL }, /* contents are compared: nothing else is shown */
	{ "code_contents", NULL }, /* contents are compared by who runs it again */
};

static const struct key *find(const char *name)
{
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (str_eq(keys[i].name, name))
			return &keys[i];
	return NULL;
}

int analysis_from_json(const json_t *record, const char *origin, struct analysis *ret,
		       struct err *err)
{
	CLEANUP_ANALYSIS struct analysis a = { 0 };
	struct reading r = { .a = &a, .origin = origin, .err = err };
	const char *name;
	json_t *value;
	int e = json_is_object(record) ? 0 : mistyped(&r, "analysis");
	json_object_foreach((json_t *)record, name, value)
	{
		const struct key *key = find(name);
		if (!key)
			e = err_caller(err,
				       "%s: there is a '%.60s', which this cupel does not know",
				       origin, name);
		else if (key->take)
			e = key->take(&r, value);
		if (e < 0)
			return e;
	}
	if (e < 0)
		return e;
	if (a.command_is_text) { /* it never ran: what was recorded is what was said */
		a.shell = a.shell_used;
		a.shell_used = (struct strv){ 0 };
	}
	*ret = a;
	a = (struct analysis){ 0 };
	return 0;
}
