/* An analysis from its YAML file: one row a key, the first mistake with its place. */
#include <string.h>

#include "base/path.h"
#include "spec/analysis_reading.h"
#include "spec/id.h"
#include "spec/parameters.h"
#include "spec/show.h"

static int read_id(const struct document *d, const struct node *n, void *target, struct err *err)
{
	struct reading *to = target;
	CLEANUP_FREE char *text = NULL;
	struct err why = { 0 };
	int r = node_string(d, n, &text, err);

	if (r < 0)
		return r;
	r = reading_checked(d, n, id_check(text, &why), &why, err);
	if (r < 0)
		return r;
	to->analysis.id = take_ptr(text);
	return 0;
}

static int read_name(const struct document *d, const struct node *n, void *target, struct err *err)
{
	return reading_label(d, n, &((struct reading *)target)->analysis.name, err);
}

static int read_quest(const struct document *d, const struct node *n, void *target, struct err *err)
{
	return reading_label(d, n, &((struct reading *)target)->analysis.quest, err);
}

static int component_read(const struct document *d, const struct node *n, const char *what,
			  char **ret, struct err *err)
{
	CLEANUP_FREE char *text = NULL;
	char shown[SHOW_ROOM];
	int r = reading_label(d, n, &text, err);

	if (r < 0)
		return r;
	if (!path_name_ok(text))
		return node_error(
			d, n, err, "'%s' is not the name of a %s; a name has no '/'%s",
			show_text(text, shown), what,
			str_eq(what, "runtime")
				? ". To run in a container image, make a runtime of it: cupel-runtime-create(1)"
				: "");
	*ret = take_ptr(text);
	return 0;
}

static int read_runtime(const struct document *d, const struct node *n, void *target,
			struct err *err)
{
	struct reading *to = target;
	int r = component_read(d, n, "runtime", &to->analysis.runtime, err);

	if (r < 0)
		return r;
	to->analysis.runtime_origin = node_place(d, n);
	return 0;
}

static int read_profile(const struct document *d, const struct node *n, void *target,
			struct err *err)
{
	return component_read(d, n, "profile", &((struct reading *)target)->analysis.profile, err);
}

static int read_executor(const struct document *d, const struct node *n, void *target,
			 struct err *err)
{
	return component_read(d, n, "executor", &((struct reading *)target)->analysis.executor,
			      err);
}

static int read_code(const struct document *d, const struct node *n, void *target, struct err *err)
{
	struct reading *to = target;
	size_t count = n->kind == NODE_LIST ? n->n : 1;

	if (count == 0)
		return node_error(d, n, err, "the list is empty; name the script first");
	if (count > ANALYSIS_ARGS_MAX)
		return node_error(d, n, err, "%zu files; at most %d are allowed", count,
				  ANALYSIS_ARGS_MAX);
	for (size_t i = 0; i < count; i++) {
		const struct node *one = n->kind == NODE_LIST ? n->values[i] : n;
		char *path = NULL;
		int r = reading_path(d, one, to->base, &path, err);
		if (r < 0)
			return r;
		strv_take(&to->analysis.code, path);
		strv_take(&to->analysis.code_origins, node_place(d, one));
	}
	return 0;
}

static int read_db_snapshot(const struct document *d, const struct node *n, void *target,
			    struct err *err)
{
	struct reading *to = target;
	int r = reading_path(d, n, to->base, &to->analysis.db_snapshot, err);

	if (r >= 0)
		to->analysis.db_snapshot_origin = node_place(d, n);
	return r;
}

static int read_post_process(const struct document *d, const struct node *n, void *target,
			     struct err *err)
{
	struct reading *to = target;
	if (n->kind != NODE_SCALAR)
		return node_error(
			d, n, err,
			"expected the name of a step; what a step is, is the host's to say: 'post_processes' in "
			"/etc/cupel/cupel.yaml or in your own ~/.config/cupel/cupel.yaml");
	int r = component_read(d, n, "step", &to->analysis.post_process, err);

	if (r >= 0)
		to->analysis.post_process_origin = node_place(d, n);
	return r;
}

static int read_checkpoint(const struct document *d, const struct node *n, void *target,
			   struct err *err)
{
	struct analysis *a = &((struct reading *)target)->analysis;
	CLEANUP_FREE char *text = NULL;
	struct err why = { 0 };
	int r = reading_label(d, n, &text, err);

	if (r >= 0)
		r = reading_checked(d, n, checkpoint_name_check(text, &why), &why, err);
	if (r >= 0)
		a->checkpoint = take_ptr(text);
	return r;
}

static int read_checkpoint_exit_code(const struct document *d, const struct node *n, void *target,
				     struct err *err)
{
	struct analysis *a = &((struct reading *)target)->analysis;
	CLEANUP_FREE char *text = NULL;
	struct err why = { 0 };
	int r = node_string(d, n, &text, err);

	if (r < 0)
		return r;
	return reading_checked(
		d, n, checkpoint_exit_code_parse(text, &a->checkpoint_exit_code, &why), &why, err);
}

static int read_args(const struct document *d, const struct node *n, void *target, struct err *err)
{
	return node_strings(d, n, ANALYSIS_ARGS_MAX, &((struct reading *)target)->analysis.args,
			    err);
}

static int read_command(const struct document *d, const struct node *n, void *target,
			struct err *err)
{
	struct strv *command = &((struct reading *)target)->analysis.command;
	CLEANUP_FREE char *text = NULL;

	if (n->kind == NODE_LIST) {
		if (n->n == 0)
			return node_error(d, n, err, "the list is empty; name a program");
		return node_strings(d, n, ANALYSIS_ARGS_MAX, command, err);
	}
	int r = node_string(d, n, &text, err);
	if (r < 0)
		return r;
	if (text[0] == '\0')
		return node_error(d, n, err, "the command is empty; name a program");
	strv_take(command, take_ptr(text));
	((struct reading *)target)->analysis.command_is_text = true;
	return 0;
}

/* A word for a program that takes the text after -c, or all the words before the text. */
static int read_shell(const struct document *d, const struct node *n, void *target, struct err *err)
{
	struct strv *shell = &((struct reading *)target)->analysis.shell;
	CLEANUP_FREE char *word = NULL;
	char shown[SHOW_ROOM];

	if (n->kind == NODE_LIST) {
		int r = n->n ? node_strings(d, n, ANALYSIS_ARGS_MAX, shell, err)
			     : node_error(d, n, err,
					  "the list is empty; write one such as [bash, -e, -c]");
		return r >= 0 && !shell->v[0][0]
			       ? node_error(d, n, err, "the first word must name a program")
			       : r;
	}
	int r = node_string(d, n, &word, err);
	if (r < 0)
		return r;
	if (!word[0] || strpbrk(word, " \t\r\n"))
		return node_error(
			d, n, err,
			"'%s' is not the name of a program; write sh, bash, a path, or a list of words such as "
			"[bash, -e, -c]",
			show_text(word, shown));
	shell_words(word, shell);
	return 0;
}

static int read_parameters(const struct document *d, const struct node *n, void *target,
			   struct err *err)
{
	return parameters_read(d, n, &((struct reading *)target)->analysis.parameters, err);
}

static int read_limits(const struct document *d, const struct node *n, void *target,
		       struct err *err)
{
	return limits_read(d, n, &((struct reading *)target)->analysis.limits, err);
}

static int read_network(const struct document *d, const struct node *n, void *target,
			struct err *err)
{
	struct analysis *a = &((struct reading *)target)->analysis;
	int word = node_word(d, n, network_names, NETWORK_HOST + 1, err);

	if (word < 0)
		return word;
	a->network = (enum network)word;
	a->network_said = true;
	return 0;
}

static int read_keep(const struct document *d, const struct node *n, void *target, struct err *err)
{
	struct analysis *a = &((struct reading *)target)->analysis;
	int word = node_word(d, n, keep_names, KEEP_ALWAYS + 1, err);

	if (word < 0)
		return word;
	a->keep = (enum keep)word;
	a->keep_said = true;
	return 0;
}

static int read_scratch(const struct document *d, const struct node *n, void *target,
			struct err *err)
{
	struct analysis *a = &((struct reading *)target)->analysis;
	int word = node_word(d, n, scratch_names, SCRATCH_MEMORY + 1, err);

	if (word < 0)
		return word;
	a->scratch = (enum scratch_place)word;
	a->scratch_said = true;
	return 0;
}

static int read_warn_signal(const struct document *d, const struct node *n, void *target,
			    struct err *err)
{
	struct analysis *a = &((struct reading *)target)->analysis;
	CLEANUP_FREE char *text = NULL;
	struct err why = { 0 };
	int r = node_string(d, n, &text, err);

	if (r < 0)
		return r;
	return reading_checked(d, n, warn_signal_parse(text, &a->warn_signal, &why), &why, err);
}

static int read_allow_missing(const struct document *d, const struct node *n, void *target,
			      struct err *err)
{
	struct strv *layers = &((struct reading *)target)->analysis.allow_missing;
	int r = node_strings(d, n, layer_count, layers, err);

	for (size_t i = 0; r >= 0 && i < layers->n; i++) {
		struct err why = { 0 };
		r = reading_checked(d, n->values[i], layer_check(layers->v[i], &why), &why, err);
	}
	return r;
}

static int read_allow_drift(const struct document *d, const struct node *n, void *target,
			    struct err *err)
{
	return node_bool(d, n, &((struct reading *)target)->analysis.allow_drift, err);
}

/* Keys that pipelines have and whoever reads the pipeline reads. */
static int read_elsewhere(const struct document *d, const struct node *n, void *target,
			  struct err *err)
{
	return 0;
}

/* A list names those of the pipeline's parameters that the step is given. */
static int read_step_parameters(const struct document *d, const struct node *n, void *target,
				struct err *err)
{
	return n->kind == NODE_LIST ? 0 : read_parameters(d, n, target, err);
}

enum { IN_WHOLE = 1, IN_STEP = 2, IN_PIPELINE = 4 };
static const struct {
	struct key_row row;
	unsigned in;
} analysis_keys[] = {
	{ { "name", read_name }, IN_WHOLE | IN_PIPELINE },
	{ { "quest", read_quest }, IN_WHOLE | IN_PIPELINE },
	{ { "runtime", read_runtime }, IN_WHOLE | IN_STEP | IN_PIPELINE },
	{ { "code", read_code }, IN_WHOLE | IN_STEP },
	{ { "args", read_args }, IN_WHOLE | IN_STEP },
	{ { "command", read_command }, IN_WHOLE | IN_STEP },
	{ { "shell", read_shell }, IN_WHOLE | IN_STEP | IN_PIPELINE },
	{ { "inputs", reading_inputs }, IN_WHOLE },
	{ { "inputs", reading_step_inputs }, IN_STEP },
	{ { "db_snapshot", read_db_snapshot }, IN_WHOLE },
	{ { "outputs", reading_outputs }, IN_WHOLE | IN_STEP },
	{ { "post_process", read_post_process }, IN_WHOLE },
	{ { "env", reading_env }, IN_WHOLE | IN_STEP | IN_PIPELINE },
	{ { "parameters", read_parameters }, IN_WHOLE | IN_PIPELINE },
	{ { "parameters", read_step_parameters }, IN_STEP },
	{ { "limits", read_limits }, IN_WHOLE | IN_STEP | IN_PIPELINE },
	{ { "network", read_network }, IN_WHOLE | IN_STEP | IN_PIPELINE },
	{ { "profile", read_profile }, IN_WHOLE | IN_STEP | IN_PIPELINE },
	{ { "executor", read_executor }, IN_WHOLE | IN_STEP | IN_PIPELINE },
	{ { "labels", reading_labels }, IN_WHOLE | IN_STEP | IN_PIPELINE },
	{ { "id", read_id }, IN_WHOLE | IN_PIPELINE },
	{ { "keep", read_keep }, IN_WHOLE | IN_STEP | IN_PIPELINE },
	{ { "scratch", read_scratch }, IN_WHOLE | IN_STEP | IN_PIPELINE },
	{ { "warn_signal", read_warn_signal }, IN_WHOLE | IN_STEP | IN_PIPELINE },
	{ { "checkpoint", read_checkpoint }, IN_WHOLE | IN_STEP },
	{ { "checkpoint_exit_code", read_checkpoint_exit_code }, IN_WHOLE | IN_STEP },
	{ { "allow_missing", read_allow_missing }, IN_WHOLE | IN_STEP | IN_PIPELINE },
	{ { "allow_drift", read_allow_drift }, IN_WHOLE | IN_STEP | IN_PIPELINE },
	{ { "steps", read_elsewhere }, IN_PIPELINE },
	{ { "summary", read_elsewhere }, IN_STEP },
	{ { "needs", read_elsewhere }, IN_STEP },
	{ { "scatter", read_elsewhere }, IN_STEP },
	{ { "retries", read_elsewhere }, IN_STEP },
	{ { "cache", read_elsewhere }, IN_STEP },
};

static int read_keys(const struct document *d, const struct node *map, unsigned in,
		     struct reading *reading, struct err *err)
{
	enum { N = sizeof analysis_keys / sizeof *analysis_keys };
	struct key_row rows[N];
	size_t n = 0;
	for (size_t i = 0; i < N; i++)
		if (analysis_keys[i].in & in)
			rows[n++] = analysis_keys[i].row;
	return map_read(d, map, rows, n, reading, err);
}

/* The mistakes of several keys together, at the place of one of them. */
static int program_check(const struct document *d, const struct node *root, struct err *err)
{
	const struct node *code = map_get(root, "code"), *command = map_get(root, "command");
	const struct node *args = map_get(root, "args"), *shell = map_get(root, "shell");

	if (code && command)
		return node_error(d, code->line > command->line ? code : command, err,
				  "both code and command are given; keep one of them");
	if (!code && !command)
		return node_error(
			d, root, err,
			"nothing to run; add 'code: SCRIPT' or 'command: [PROGRAM, ...]'");
	if (args && !code)
		return node_error(d, args, err,
				  "args are the arguments of code; put those of a command into the "
				  "command itself");
	if (shell && (code || command->kind == NODE_LIST))
		return node_error(d, shell, err,
				  "no shell reads %s; 'shell' is for a command that is one text",
				  code ? "code" : "a command that is a list");
	return 0;
}

static void reading_release(struct reading *reading)
{
	analysis_release(&reading->analysis);
}

int analysis_read_map(const struct document *d, const struct node *map, const char *base,
		      enum analysis_part part, struct analysis *ret, struct err *err)
{
	static const unsigned in[] = { [ANALYSIS_WHOLE] = IN_WHOLE,
				       [ANALYSIS_STEP] = IN_STEP,
				       [ANALYSIS_PIPELINE] = IN_PIPELINE };
	CLEANUP(reading_release) struct reading reading = { .base = base };
	struct err why = { 0 };

	int r = read_keys(d, map, in[part], &reading, err);
	if (r >= 0 && part != ANALYSIS_PIPELINE)
		r = program_check(d, map, err);
	if (r >= 0 && part != ANALYSIS_PIPELINE)
		r = reading_checked(d, part == ANALYSIS_WHOLE ? NULL : map,
				    analysis_check(&reading.analysis, &why), &why, err);
	if (r < 0)
		return r;
	if (!str_eq(document_file(d), DOCUMENT_SENT))
		reading.analysis.file = xstrdup(document_file(d));
	*ret = reading.analysis;
	reading.analysis = (struct analysis){ 0 };
	return 0;
}
