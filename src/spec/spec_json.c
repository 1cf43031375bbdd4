#include "spec/spec_json.h"

#include <string.h>

#include "spec/parameters.h"
#include "spec/secret.h"

json_t *strv_json(const struct strv *list)
{
	json_t *array = json_array();
	for (size_t i = 0; i < list->n; i++)
		json_array_append_new(array, json_text(list->v[i]));
	return array;
}

static json_t *pairs_json(const struct pairs *pairs)
{
	json_t *o = json_object();
	for (size_t i = 0; i < pairs->n; i++)
		json_object_set_new(o, pairs->v[i].key, json_text(pairs->v[i].value));
	return o;
}

json_t *limits_json(const struct limits *l)
{
	json_t *o = json_object();
	for (int i = 0; i < LIMIT_COUNT_; i++) {
		char text[64];
		if (!l->at[i].value)
			continue;
		json_object_set_new(o, limit_infos[i].key,
				    json_pack("{s:s,s:o,s:o}", "value",
					      limit_write(i, l->at[i].value, text, sizeof text),
					      "raw", json_u64(l->at[i].value), "origin",
					      json_text(l->at[i].origin)));
	}
	return o;
}

static void set_text(json_t *o, const char *key, const char *text)
{
	if (text)
		json_object_set_new(o, key, json_text(text));
}

/* What is no UTF-8 is written lossily, for people; here are its bytes. */
static void set_exact(json_t *o, const char *key, const char *text)
{
	CLEANUP_STR struct str hex = { 0 };
	if (str_is_utf8(text, strlen(text)))
		return;
	for (const char *c = text; *c; c++)
		str_addf(&hex, "%02x", (unsigned char)*c);
	json_object_set_new(o, key, json_string(str_text(&hex)));
}

static json_t *inputs_json(const struct analysis *a)
{
	json_t *array = json_array();
	for (size_t i = 0; i < a->n_inputs; i++) {
		json_t *o = json_pack("{s:o,s:o}", "path", json_text(a->inputs[i].path), "name",
				      json_text(a->inputs[i].name));
		set_exact(o, "name_hex", a->inputs[i].name);
		set_text(o, "step", a->inputs[i].step);
		contents_to_json(&a->inputs[i].contents, o);
		json_array_append_new(array, o);
	}
	return array;
}

static json_t *code_json(const struct analysis *a)
{
	json_t *array = json_array();
	for (size_t i = 0; i < a->code.n; i++) {
		json_t *o = json_pack("{s:o}", "path", json_text(a->code.v[i]));
		contents_to_json(&a->code_contents[i], o);
		json_array_append_new(array, o);
	}
	return array;
}

static json_t *outputs_json(const struct analysis *a)
{
	json_t *array = json_array();
	for (size_t i = 0; i < a->n_outputs; i++) {
		json_t *o = json_pack("{s:o,s:b}", "path", json_text(a->outputs[i].pattern),
				      "required", a->outputs[i].required);
		set_text(o, "media_type", a->outputs[i].media_type);
		if (a->outputs[i].check != OUTPUT_CHECK_AUTO)
			set_text(o, "check", output_check_names[a->outputs[i].check]);
		json_array_append_new(array, o);
	}
	return array;
}

/* What is executed; a text alone if no shell was found for it, since its runtime is out of reach. */
static void set_command(json_t *o, const struct analysis *a)
{
	CLEANUP_STRV struct strv argv = { 0 };
	if (!a->command.n)
		return;
	analysis_argv(a, &argv);
	if (a->command_is_text && !a->shell_used.n)
		set_text(o, "command", a->command.v[0]);
	else
		json_object_set_new(o, "command", strv_json(&argv));
	if (a->shell_used.n)
		json_object_set_new(o, "shell", strv_json(&a->shell_used));
	else if (a->command_is_text && a->shell.n)
		json_object_set_new(o, "shell", strv_json(&a->shell));
}

/* Values that are secret stay out of every record; what can be known of them is whether they changed. */
static void set_env(json_t *o, const struct analysis *a)
{
	json_t *env = json_object(), *secrets = json_object();
	for (size_t i = 0; i < a->env.n; i++) {
		const struct pair *p = &a->env.v[i];
		const char *digest = pairs_get(&a->secrets, p->key);
		if (!digest && !env_is_secret(p->key, p->value))
			json_object_set_new(env, p->key, json_text(p->value));
		else
			json_object_set_new(secrets, p->key,
					    digest ? json_string(digest) : json_null());
	}
	json_object_set_new(o, "env", env);
	if (json_object_size(secrets))
		json_object_set(o, "secret_env", secrets);
	json_decref(secrets);
}

json_t *analysis_json(const struct analysis *a)
{
	static const char *const keeps[] = {
		[KEEP_NEVER] = "never", [KEEP_FAILED] = "failed", [KEEP_ALWAYS] = "always"
	};
	json_t *o = json_object();
	set_text(o, "file", a->file);
	set_text(o, "name", a->name);
	set_text(o, "quest", a->quest);
	set_text(o, "profile", a->profile);
	set_text(o, "executor", a->executor);
	set_text(o, "rerun_of", a->rerun_of);
	if (a->code.n)
		json_object_set_new(o, "code", strv_json(&a->code));
	if (a->code_contents)
		json_object_set_new(o, "code_contents", code_json(a));
	if (a->args.n)
		json_object_set_new(o, "args", strv_json(&a->args));
	set_command(o, a);
	json_object_set_new(o, "inputs", inputs_json(a));
	if (a->db_snapshot) /* its digest is known when it is made: keeper/prepare.c */
		json_object_set_new(o, "db_snapshot",
				    json_pack("{s:o}", "path", json_text(a->db_snapshot)));
	set_text(o, "post_process", a->post_process);
	json_object_set_new(o, "outputs", outputs_json(a));
	set_env(o, a);
	if (a->parameters)
		json_object_set_new(o, "parameters", parameters_json(a->parameters));
	json_object_set_new(o, "labels", pairs_json(&a->labels));
	if (a->place.pipeline)
		json_object_set_new(o, "pipeline",
				    json_pack("{s:o,s:o,s:i}", "id", json_text(a->place.pipeline),
					      "step", json_text(a->place.step), "attempt",
					      (int)a->place.attempt));
	if (a->key.sha256[0])
		json_object_set_new(o, "key",
				    json_pack("{s:s,s:o}", "sha256", a->key.sha256, "parts",
					      pairs_json(&a->key.parts)));
	json_object_set_new(o, "network",
			    json_string(a->network == NETWORK_HOST ? "host" : "none"));
	json_object_set_new(o, "keep", json_string(keeps[a->keep]));
	json_object_set_new(o, "scratch", json_string(scratch_names[a->scratch]));
	json_object_set_new(o, "warn_signal", json_integer(a->warn_signal));
	set_text(o, "checkpoint", a->checkpoint);
	if (a->checkpoint_exit_code)
		json_object_set_new(o, "checkpoint_exit_code",
				    json_integer(a->checkpoint_exit_code));
	if (a->checkpoint && a->checkpoint_key[0])
		set_text(o, "checkpoint_key", a->checkpoint_key);
	json_object_set_new(o, "allow_missing", strv_json(&a->allow_missing));
	json_object_set_new(o, "allow_drift", json_boolean(a->allow_drift));
	return o;
}
