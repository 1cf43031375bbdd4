/* What was said by options, laid over the analysis file, script or command that is named. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/path.h"
#include "cli/cli.h"
#include "spec/parameters.h"

void run_args_release(struct run_args *a)
{
	analysis_release(&a->said);
	strv_release(&a->force);
	free(a->key);
}

static void replace_text(char **to, char **from)
{
	if (!*from)
		return;
	free(*to);
	*to = take_ptr(*from);
}

/* Options win over the file; lists of things to show or set are added to, the list of outputs is replaced. */
static void lay_over(struct analysis *a, struct analysis *said)
{
	replace_text(&a->runtime, &said->runtime);
	replace_text(&a->runtime_origin, &said->runtime_origin);
	replace_text(&a->id, &said->id);
	replace_text(&a->profile, &said->profile);
	replace_text(&a->executor, &said->executor);
	replace_text(&a->quest, &said->quest);
	replace_text(&a->name, &said->name);
	replace_text(&a->db_snapshot, &said->db_snapshot);
	replace_text(&a->db_snapshot_origin, &said->db_snapshot_origin);
	replace_text(&a->post_process, &said->post_process);
	replace_text(&a->post_process_origin, &said->post_process_origin);
	replace_text(&a->checkpoint, &said->checkpoint);
	if (said->checkpoint_exit_code)
		a->checkpoint_exit_code = said->checkpoint_exit_code;
	limits_merge(&a->limits, &said->limits);
	for (size_t i = 0; i < said->n_inputs; i++)
		analysis_add_input(a, &said->inputs[i]);
	said->n_inputs = 0; /* their contents moved */
	if (said->n_outputs) {
		for (size_t i = 0; i < a->n_outputs; i++) {
			free(a->outputs[i].pattern);
			free(a->outputs[i].media_type);
		}
		a->n_outputs = 0;
		for (size_t i = 0; i < said->n_outputs; i++)
			analysis_add_output(a, said->outputs[i].pattern, NULL, false);
	}
	for (size_t i = 0; i < said->env.n; i++)
		pairs_set(&a->env, said->env.v[i].key, said->env.v[i].value);
	for (size_t i = 0; i < said->labels.n; i++)
		pairs_set(&a->labels, said->labels.v[i].key, said->labels.v[i].value);
	parameters_merge(&a->parameters, said->parameters);
	strv_copy(&a->allow_missing, &said->allow_missing);
	a->allow_drift |= said->allow_drift;
	if (said->network_said)
		a->network = said->network;
	if (said->keep_said)
		a->keep = said->keep;
	a->keep_said |= said->keep_said;
	a->network_said |= said->network_said;
	if (said->scratch_said)
		a->scratch = said->scratch;
	a->scratch_said |= said->scratch_said;
	if (said->warn_signal)
		a->warn_signal = said->warn_signal;
}

/* An option of cupel behind the script is the script's: it may be meant so, and mostly is not. */
static void warn_of_options(int argc, char **argv, const struct operands *rest)
{
	for (int i = rest->first + 1; i < argc && !str_eq(argv[i], "--"); i++) {
		const char *word = argv[i];
		size_t n = strcspn(word, "=");
		for (size_t k = 0; str_starts(word, "--") && k < run_options.n_rows; k++) {
			const char *name = run_options.rows[k].name;
			if (strlen(name) != n - 2 || memcmp(name, word + 2, n - 2) != 0)
				continue;
			log_warning(
				"%.60s comes after %.200s and is passed to it; options of cupel come before: "
				"cupel run %.60s ... %.200s (--quiet hides this warning)",
				word, argv[rest->first], word, argv[rest->first]);
			return;
		}
	}
}

static bool is_program(const char *name)
{
	const char *path = getenv("PATH");
	for (const char *at = path ? path : ""; *at;) {
		size_t n = strcspn(at, ":");
		CLEANUP_FREE char *file = xasprintf("%.*s/%s", (int)n, at, name);
		if (n && access(file, X_OK) == 0)
			return true;
		at += n + (at[n] == ':');
	}
	return false;
}

static int is_image(const char *word, struct err *err)
{
	const char *scheme = strstr(word, "://");
	CLEANUP_FREE char *shown = str_shell(word);
	return err_caller(
		err,
		"'%.200s' is a container image, not a script; make a runtime of it and run a command there: skopeo copy %s%.200s "
		"oci:image && cupel runtime create NAME --kind image --layout image && cupel run -r NAME -- COMMAND",
		word, scheme ? "" : "docker://", shown);
}

/* Words that name no script at all, while it can still be told what was meant. */
static int check_script(const char *word, int argc, char **argv, const struct operands *rest,
			struct err *err)
{
	struct stat st = { 0 };
	if (str_starts(word, "http://") || str_starts(word, "https://"))
		return err_caller(
			err,
			"'%.200s' is an address, not a script; download it, read it, and run the file",
			word);
	if (strstr(word, "://"))
		return is_image(word, err);
	if (stat(word, &st) == 0 || errno != ENOENT)
		return 0;
	if (!strchr(word, '/') && is_program(word)) {
		CLEANUP_STR struct str command = { 0 };
		for (int i = rest->first; i < argc && command.length < 300; i++) {
			CLEANUP_FREE char *one = str_shell(argv[i]);
			str_addf(&command, " %s", one);
		}
		return err_caller(
			err,
			"there is no script '%.200s' here; to run the program of that name, put -- before it: cupel run --%.300s",
			word, str_text(&command));
	}
	const char *colon = strchr(word, ':');
	if (colon && !strchr(colon, '/'))
		return is_image(word, err);
	return 0;
}

static int read_operands(int argc, char **argv, const struct operands *rest, struct analysis *a,
			 struct err *err)
{
	const char *first = argv[rest->first];
	bool is_file = !rest->after_dashes && (str_ends(first, ".yaml") || str_ends(first, ".yml"));
	if (is_file && rest->first + 1 < argc)
		return err_caller(
			err,
			"'%.60s' after the analysis file: options stand before it, and arguments in it as 'args:'",
			argv[rest->first + 1]);
	if (is_file)
		return analysis_read(first, a, err);
	if (!rest->after_dashes) {
		int r = check_script(first, argc, argv, rest, err);
		if (r < 0)
			return r;
		CLEANUP_FREE char *cwd = path_cwd();
		char *script = cwd ? path_normal(cwd, first) : NULL;
		if (!script)
			return err_caller(err, "the script '%.200s' is no path", first);
		strv_take(&a->code, script);
	}
	for (int i = rest->first + !rest->after_dashes; i < argc; i++)
		strv_add(rest->after_dashes ? &a->command : &a->args, argv[i]);
	return 0;
}

/* What only steps have. */
static int check_for_pipelines(const struct run_args *args, const char *word, struct err *err)
{
	const char *option = args->force.n      ? "--force"
			     : args->jobs       ? "--jobs"
			     : args->keep_going ? "--keep-going"
						: NULL;
	return option ? err_caller(
				err,
				"%s is for pipelines, and %.200s is a single analysis, without 'steps:'; leave the option out",
				option, word)
		      : 0;
}

int run_args_analysis(struct run_args *args, int argc, char **argv, const struct operands *rest,
		      struct analysis *ret, struct err *err)
{
	struct analysis a = { 0 };
	if (rest->first >= argc)
		return err_caller(err,
				  "nothing to run: name an analysis file, a script, or -- COMMAND");
	int r = read_operands(argc, argv, rest, &a, err);
	if (r >= 0)
		r = check_for_pipelines(args, argv[rest->first], err);
	if (r >= 0 && a.code.n && !a.file && !args->quiet)
		warn_of_options(argc, argv, rest);
	if (r < 0) {
		analysis_release(&a);
		return r;
	}
	lay_over(&a, &args->said);
	*ret = a;
	return 0;
}
