/* An analysis as a value: its parts, its lifetime, and the checks that hold however it was said. */
#include "spec/analysis.h"

#include <signal.h>
#include <string.h>

#include "base/path.h"
#include "spec/show.h"

const char *const scratch_names[] = { [SCRATCH_DISK] = "disk", [SCRATCH_MEMORY] = "memory" };
const char *const keep_names[] = {
	[KEEP_NEVER] = "never", [KEEP_FAILED] = "failed", [KEEP_ALWAYS] = "always"
};
const char *const output_check_names[] = { [OUTPUT_CHECK_AUTO] = "auto",
					   [OUTPUT_CHECK_OFF] = "off",
					   [OUTPUT_CHECK_WARN] = "warn",
					   [OUTPUT_CHECK_REQUIRE] = "require" };
const char *const network_names[] = { [NETWORK_NONE] = "none", [NETWORK_HOST] = "host" };

void pairs_set(struct pairs *pairs, const char *key, const char *value)
{
	for (size_t i = 0; i < pairs->n; i++) {
		if (!str_eq(pairs->v[i].key, key))
			continue;
		char *copy = xstrdup(value);
		free(pairs->v[i].value);
		pairs->v[i].value = copy;
		return;
	}
	pairs->v = xreallocarray(pairs->v, pairs->n + 1, sizeof(pairs->v[0]));
	pairs->v[pairs->n++] = (struct pair){ .key = xstrdup(key), .value = xstrdup(value) };
}

const char *pairs_get(const struct pairs *pairs, const char *key)
{
	for (size_t i = 0; i < pairs->n; i++) {
		if (str_eq(pairs->v[i].key, key))
			return pairs->v[i].value;
	}
	return NULL;
}

void pairs_release(struct pairs *pairs)
{
	for (size_t i = 0; i < pairs->n; i++) {
		free(pairs->v[i].key);
		free(pairs->v[i].value);
	}
	free(pairs->v);
	*pairs = (struct pairs){ 0 };
}

static void input_release(struct input *input)
{
	free(input->path);
	free(input->name);
	free(input->origin);
	free(input->step);
	*input = (struct input){ 0 };
}

void analysis_release(struct analysis *a)
{
	if (!a)
		return;
	free(a->file);
	free(a->id);
	free(a->name);
	free(a->quest);
	free(a->runtime);
	free(a->runtime_origin);
	free(a->profile);
	free(a->executor);
	free(a->rerun_of);
	free(a->db_snapshot);
	free(a->db_snapshot_origin);
	free(a->post_process);
	free(a->post_process_origin);
	free(a->checkpoint);
	free(a->code_contents);
	strv_release(&a->code);
	strv_release(&a->code_origins);
	strv_release(&a->args);
	strv_release(&a->command);
	strv_release(&a->shell);
	strv_release(&a->shell_used);
	for (size_t i = 0; i < a->n_inputs; i++)
		input_release(&a->inputs[i]);
	free(a->inputs);
	for (size_t i = 0; i < a->n_outputs; i++) {
		free(a->outputs[i].pattern);
		free(a->outputs[i].media_type);
	}
	free(a->outputs);
	pairs_release(&a->env);
	strv_release(&a->passed);
	pairs_release(&a->secrets);
	pairs_release(&a->labels);
	free(a->parameters);
	free(a->place.pipeline);
	free(a->place.step);
	pairs_release(&a->key.parts);
	strv_release(&a->allow_missing);
	*a = (struct analysis){ 0 };
}

const char *analysis_code_origin(const struct analysis *a, size_t i)
{
	return i < a->code_origins.n ? a->code_origins.v[i] : "code";
}

void analysis_add_input(struct analysis *a, struct input *input)
{
	a->inputs = xreallocarray(a->inputs, a->n_inputs + 1, sizeof(a->inputs[0]));
	a->inputs[a->n_inputs++] = *input;
	*input = (struct input){ 0 };
}

void analysis_add_output(struct analysis *a, const char *pattern, const char *media_type,
			 bool required)
{
	a->outputs = xreallocarray(a->outputs, a->n_outputs + 1, sizeof(a->outputs[0]));
	a->outputs[a->n_outputs++] =
		(struct output){ .pattern = xstrdup(pattern),
				 .media_type = media_type ? xstrdup(media_type) : NULL,
				 .required = required };
}

void analysis_argv(const struct analysis *a, struct strv *ret)
{
	if (a->command_is_text)
		strv_copy(ret, &a->shell_used);
	strv_copy(ret, &a->command);
}

/* `sh` is what every text was given to before there was a choice; `bash` is what a runtime with bash has by default. */
void shell_words(const char *word, struct strv *ret)
{
	strv_add(ret, str_eq(word, "sh") ? "/bin/sh" : word);
	if (str_eq(word, "bash")) {
		strv_add(ret, "-euo");
		strv_add(ret, "pipefail");
	}
	strv_add(ret, "-c");
}

void analysis_complete(struct analysis *a, const struct limits *effective)
{
	if (a->n_outputs == 0)
		analysis_add_output(a, "out/**", NULL, false);
	if (effective->at[LIMIT_WARN].value && a->warn_signal == 0)
		a->warn_signal = SIGUSR1;
}

static bool env_name_ok(const char *name)
{
	for (const char *c = name; *c; c++) {
		bool letter = (*c >= 'A' && *c <= 'Z') || (*c >= 'a' && *c <= 'z') || *c == '_';
		if (!letter && (c == name || *c < '0' || *c > '9'))
			return false;
	}
	return name[0] != '\0' && strlen(name) <= ANALYSIS_LABEL_MAX;
}

int env_name_check(const char *name, struct err *err)
{
	char shown[SHOW_ROOM];

	if (!env_name_ok(name))
		return err_caller(err,
				  "'%s' is not the name of a variable; use letters, digits and _, "
				  "not beginning with a digit",
				  show_text(name, shown));
	if (str_starts(name, "CUPEL_"))
		return err_caller(err,
				  "the variable '%s' is reserved: names that begin with CUPEL_ are "
				  "set by cupel itself; choose another name",
				  show_text(name, shown));
	return 0;
}

static bool component_ok(const char *component, size_t length)
{
	CLEANUP_FREE char *name = xstrndup(component, length);

	return path_name_ok(name);
}

int output_pattern_check(const char *pattern, struct err *err)
{
	char shown[SHOW_ROOM];

	show_text(pattern, shown);
	if (pattern[0] == '\0')
		return err_caller(err, "the output pattern is empty; write one such as out/*.csv");
	if (pattern[0] == '/')
		return err_caller(err,
				  "the output '%s' must be relative to the working directory; "
				  "write one such as out/*.csv",
				  shown);
	if (strlen(pattern) >= 4096)
		return err_caller(err, "the output '%s' is longer than any path", shown);
	for (const char *at = pattern; at;) {
		size_t length = strcspn(at, "/");
		if (!component_ok(at, length))
			return err_caller(err,
					  "the output '%s' has a component that is empty, '.', "
					  "'..', too long or not printable; write one such as "
					  "out/*.csv",
					  shown);
		at = at[length] == '/' ? at + length + 1 : NULL;
	}
	return 0;
}

int warn_signal_parse(const char *text, int *ret, struct err *err)
{
	static const struct {
		const char *name;
		int number;
	} signals[] = { { "USR1", SIGUSR1 },
			{ "USR2", SIGUSR2 },
			{ "INT", SIGINT },
			{ "HUP", SIGHUP },
			{ "TERM", SIGTERM } };
	const char *name = str_starts(text, "SIG") ? text + 3 : text;
	char shown[SHOW_ROOM];

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		if (str_eq(name, signals[i].name)) {
			*ret = signals[i].number;
			return 0;
		}
	}
	return err_caller(err,
			  "'%s' is not a warning signal; use SIGUSR1, SIGUSR2, SIGINT, SIGHUP or "
			  "SIGTERM",
			  show_text(text, shown));
}

int input_parse(const char *text, const char *base, const char *origin, struct input *ret,
		struct err *err)
{
	const char *colon = strrchr(text, ':');
	CLEANUP_FREE char *said = xstrndup(text, colon ? (size_t)(colon - text) : strlen(text));
	char shown[SHOW_ROOM];

	show_text(text, shown);
	if (said[0] == '\0')
		return err_caller(err, "the input '%s' has no path; write PATH or PATH:NAME",
				  shown);
	if (strlen(said) >= 4096)
		return err_caller(err, "the input '%s' is longer than any path", shown);
	CLEANUP_FREE char *path = path_normal(base, said);
	if (!path || strpbrk(path, "\n\r"))
		return err_caller(err, "the input '%s' is not a usable path; correct it", shown);
	const char *name = colon ? colon + 1 : path_base(path);
	if (!path_name_ok(name))
		return err_caller(err,
				  "the input '%s' has no usable name; write PATH:NAME with a name "
				  "of one path component (a path that has ':' in it needs the form "
				  "{path: PATH, name: NAME} of an analysis file)",
				  shown);
	*ret = (struct input){ .name = xstrdup(name), .origin = xstrdup(origin) };
	ret->path = take_ptr(path);
	return 0;
}
