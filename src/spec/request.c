#include "spec/request.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "spec/parameters.h"
#include "spec/show.h"

struct making {
	json_t *o;
	const char *wrong; /* the first text that is no UTF-8, borrowed */
};

static json_t *text(struct making *m, const char *value)
{
	if (!str_is_utf8(value, strlen(value)) && !m->wrong)
		m->wrong = value;
	return json_text(value);
}

static void add_text(struct making *m, const char *key, const char *value)
{
	if (value)
		json_object_set_new(m->o, key, text(m, value));
}

static void add_list(struct making *m, const char *key, const struct strv *list)
{
	json_t *array = json_array();
	for (size_t i = 0; i < list->n; i++)
		json_array_append_new(array, text(m, list->v[i]));
	json_object_set_new(m->o, key, array);
}

static void add_pairs(struct making *m, const char *key, const struct pairs *pairs)
{
	json_t *o = json_object();
	for (size_t i = 0; i < pairs->n; i++) {
		CLEANUP_JSON json_t *name = text(m, pairs->v[i].key);
		json_object_set_new(o, json_string_value(name), text(m, pairs->v[i].value));
	}
	json_object_set_new(m->o, key, o);
}

/* A text goes as a text: whoever runs it finds the shell, unless that was said or found here. */
static void add_command(struct making *m, const struct analysis *a)
{
	const struct strv *shell = a->shell_used.n ? &a->shell_used : &a->shell;
	if (!a->command.n)
		return;
	if (!a->command_is_text) {
		add_list(m, "command", &a->command);
		return;
	}
	add_text(m, "command", a->command.v[0]);
	if (shell->n)
		add_list(m, "shell", shell);
}

static void add_inputs(struct making *m, const struct analysis *a)
{
	json_t *array = json_array();
	for (size_t i = 0; i < a->n_inputs; i++) {
		json_t *o = json_pack("{s:o,s:o}", "path", text(m, a->inputs[i].path), "name",
				      text(m, a->inputs[i].name));
		if (a->inputs[i].step)
			json_object_set_new(o, "step", text(m, a->inputs[i].step));
		json_array_append_new(array, o);
	}
	json_object_set_new(m->o, "inputs", array);
}

static void add_outputs(struct making *m, const struct analysis *a)
{
	json_t *array = json_array();
	for (size_t i = 0; i < a->n_outputs; i++) {
		const struct output *output = &a->outputs[i];
		json_t *o = json_pack("{s:o,s:b}", "path", text(m, output->pattern), "required",
				      output->required);
		if (output->media_type)
			json_object_set_new(o, "media_type", text(m, output->media_type));
		if (output->check != OUTPUT_CHECK_AUTO)
			json_object_set_new(o, "check",
					    json_string(output_check_names[output->check]));
		json_array_append_new(array, o);
	}
	json_object_set_new(m->o, "outputs", array);
}

static void add_limits(struct making *m, const struct limits *l)
{
	json_t *o = json_object();
	for (int i = 0; i < LIMIT_COUNT_; i++) {
		char room[64];
		if (l->at[i].value)
			json_object_set_new(
				o, limit_infos[i].key,
				json_string(limit_write(i, l->at[i].value, room, sizeof room)));
	}
	if (json_object_size(o))
		json_object_set(m->o, "limits", o);
	json_decref(o);
}

static void add_words(struct making *m, const struct analysis *a)
{
	if (a->network_said)
		add_text(m, "network", network_names[a->network]);
	if (a->keep_said)
		add_text(m, "keep", keep_names[a->keep]);
	if (a->scratch_said)
		add_text(m, "scratch", scratch_names[a->scratch]);
	if (a->warn_signal)
		add_text(m, "warn_signal", sigabbrev_np(a->warn_signal));
	if (a->checkpoint_exit_code)
		json_object_set_new(m->o, "checkpoint_exit_code",
				    json_integer(a->checkpoint_exit_code));
	if (a->allow_missing.n)
		add_list(m, "allow_missing", &a->allow_missing);
	if (a->allow_drift)
		json_object_set_new(m->o, "allow_drift", json_true());
}

int analysis_request(const struct analysis *a, json_t **ret, struct err *err)
{
	CLEANUP_JSON json_t *o = json_object();
	struct making m = { .o = o };
	char shown[SHOW_ROOM];
	add_text(&m, "name", a->name);
	add_text(&m, "quest", a->quest);
	add_text(&m, "runtime", a->runtime);
	add_text(&m, "profile", a->profile);
	add_text(&m, "executor", a->executor);
	add_text(&m, "db_snapshot", a->db_snapshot);
	add_text(&m, "post_process", a->post_process);
	add_text(&m, "checkpoint", a->checkpoint);
	if (a->code.n)
		add_list(&m, "code", &a->code);
	if (a->args.n)
		add_list(&m, "args", &a->args);
	add_command(&m, a);
	if (a->n_inputs)
		add_inputs(&m, a);
	if (a->n_outputs)
		add_outputs(&m, a);
	if (a->env.n)
		add_pairs(&m, "env", &a->env);
	if (a->labels.n)
		add_pairs(&m, "labels", &a->labels);
	if (a->parameters)
		json_object_set_new(o, "parameters", parameters_json(a->parameters));
	add_limits(&m, &a->limits);
	add_words(&m, a);
	if (m.wrong)
		return err_caller(
			err,
			"'%s' is not UTF-8, and can't be handed to a service; `cupel run` takes it",
			show_text(m.wrong, shown));
	*ret = take_ptr(o);
	return 0;
}
