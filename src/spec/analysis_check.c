/* The checks of a whole analysis: what no single value shows. */
#include <string.h>

#include "base/path.h"
#include "spec/analysis.h"
#include "spec/id.h"
#include "spec/show.h"

static int count_check(const char *what, size_t have, size_t most, struct err *err)
{
	if (have <= most)
		return 0;
	return err_caller(err, "%zu %s; at most %zu are allowed", have, what, most);
}

static int strings_check(const char *what, const struct strv *list, struct err *err)
{
	for (size_t i = 0; i < list->n; i++) {
		if (strlen(list->v[i]) >= ANALYSIS_STRING_MAX)
			return err_caller(err,
					  "number %zu of %s is longer than %d bytes; put it into a "
					  "file that is read as an input",
					  i + 1, what, ANALYSIS_STRING_MAX - 1);
	}
	return count_check(what, list->n, ANALYSIS_ARGS_MAX, err);
}

static int program_check(const struct analysis *a, struct err *err)
{
	if (a->code.n && a->command.n)
		return err_caller(err, "both code and command are given; keep one of them");
	if (!a->code.n && !a->command.n)
		return err_caller(err, "nothing to run; give code (a script) or command");
	if (a->args.n && !a->code.n)
		return err_caller(err, "args are the arguments of code; put those of a command "
				       "into the command itself");
	if (a->command.n && a->command.v[0][0] == '\0')
		return err_caller(err, "the command is empty; name a program");
	int r = strings_check("code", &a->code, err);
	if (r < 0)
		return r;
	r = strings_check("args", &a->args, err);
	if (r < 0)
		return r;
	r = strings_check("shell", &a->shell, err);
	return r < 0 ? r : strings_check("command", &a->command, err);
}

/* Files of code lie side by side at code/NAME in the box. */
static int code_check(const struct analysis *a, struct err *err)
{
	char shown[SHOW_ROOM];

	for (size_t i = 0; i < a->code.n; i++) {
		const char *name = path_base(a->code.v[i]);
		if (!path_name_ok(name))
			return err_caller(err, "the code '%s' has no usable file name",
					  show_text(a->code.v[i], shown));
		for (size_t k = 0; k < i; k++) {
			if (str_eq(name, path_base(a->code.v[k])))
				return err_caller(err,
						  "two files of code are named '%s'; rename one, "
						  "they lie in one directory in the box",
						  show_text(name, shown));
		}
	}
	return 0;
}

static bool relative_ok(const char *path)
{
	struct err unused = { 0 };
	return strlen(path) < 2048 && output_pattern_check(path, &unused) >= 0;
}

static int inputs_check(const struct analysis *a, struct err *err)
{
	char shown[SHOW_ROOM];
	int r = count_check("inputs", a->n_inputs, ANALYSIS_INPUTS_MAX, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < a->n_inputs; i++) {
		const struct input *in = &a->inputs[i];
		if (in->step ? !relative_ok(in->name) : !path_name_ok(in->name))
			return err_caller(err, "%s: the input name '%s' is not one path component",
					  in->origin, show_text(in->name, shown));
		for (size_t k = 0; k < i; k++) {
			if (str_eq(in->name, a->inputs[k].name))
				return err_caller(err,
						  "%s: the input name '%s' is taken already by %s; "
						  "give another with PATH:NAME",
						  in->origin, show_text(in->name, shown),
						  a->inputs[k].origin);
		}
	}
	return 0;
}

static int outputs_check(const struct analysis *a, struct err *err)
{
	int r = count_check("outputs", a->n_outputs, ANALYSIS_OUTPUTS_MAX, err);

	for (size_t i = 0; r >= 0 && i < a->n_outputs; i++)
		r = output_pattern_check(a->outputs[i].pattern, err);
	return r;
}

static int env_check(const struct analysis *a, struct err *err)
{
	int r = count_check("variables in env", a->env.n, ANALYSIS_ENV_MAX, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < a->env.n; i++) {
		const struct pair *p = &a->env.v[i];
		r = env_name_check(p->key, err);
		if (r < 0)
			return r;
		/* the kernel counts NAME=VALUE and its NUL */
		if (strlen(p->key) + strlen(p->value) + 2 > ANALYSIS_STRING_MAX)
			return err_caller(err,
					  "the variable %s is longer than %d bytes; put its value "
					  "into a file that is read as an input",
					  p->key, ANALYSIS_STRING_MAX);
	}
	return 0;
}

static int label_check(const char *what, const char *text, struct err *err)
{
	char shown[SHOW_ROOM];

	if (!text || text_is_label(text, ANALYSIS_LABEL_MAX))
		return 0;
	return err_caller(err, "%s '%s' must be 1 to %d bytes of UTF-8 without control characters",
			  what, show_text(text, shown), ANALYSIS_LABEL_MAX);
}

static int labels_check(const struct analysis *a, struct err *err)
{
	int r = label_check("the name", a->name, err);

	if (r < 0)
		return r;
	r = label_check("the quest", a->quest, err);
	if (r < 0)
		return r;
	r = count_check("labels", a->labels.n, ANALYSIS_ENV_MAX, err);
	for (size_t i = 0; r >= 0 && i < a->labels.n; i++) {
		r = label_check("the label", a->labels.v[i].key, err);
		if (r >= 0)
			r = label_check("the label's value", a->labels.v[i].value, err);
	}
	return r;
}

static int names_check(const struct analysis *a, struct err *err)
{
	char shown[SHOW_ROOM];
	int r = a->id ? id_check(a->id, err) : 0;

	if (r < 0)
		return r;
	if (a->runtime && !path_name_ok(a->runtime))
		return err_caller(
			err,
			"'%s' is not the name of a runtime; cupel runtime list shows them. To run in a container image, make "
			"a runtime of it: cupel-runtime-create(1)",
			show_text(a->runtime, shown));
	if (a->profile && !path_name_ok(a->profile))
		return err_caller(err, "'%s' is not the name of a profile; see cupel config",
				  show_text(a->profile, shown));
	if (a->executor && !path_name_ok(a->executor))
		return err_caller(err,
				  "'%s' is not the name of an executor; see cupel executor list",
				  show_text(a->executor, shown));
	for (size_t i = 0; i < a->allow_missing.n; i++) {
		r = layer_check(a->allow_missing.v[i], err);
		if (r < 0)
			return r;
	}
	return 0;
}

int analysis_check(const struct analysis *a, struct err *err)
{
	static int (*const checks[])(const struct analysis *, struct err *) = {
		program_check, code_check,    names_check, labels_check,
		inputs_check,  outputs_check, env_check,   checkpoint_check
	};

	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		int r = checks[i](a, err);
		if (r < 0)
			return r;
	}
	return 0;
}
