/* The keys of a checkpoint: a directory that survives attempts, and the status that says "saved, run me again". */
#include <string.h>

#include "base/num.h"
#include "base/path.h"
#include "spec/analysis.h"
#include "spec/show.h"

#define EXIT_CODE_MAX 125 /* those above are a shell's, and cupel's own */

int checkpoint_name_check(const char *name, struct err *err)
{
	/* What every working directory has, and what ext4 makes. */
	static const char *const taken[] = { "data", "docs", "code",      "out",
					     "tmp",  "home", "lost+found" };
	char shown[SHOW_ROOM];

	if (!path_name_ok(name))
		return err_caller(err,
				  "the checkpoint '%s' is not the name of a directory in the "
				  "working directory; it has no '/'",
				  show_text(name, shown));
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
		if (str_eq(name, taken[i]))
			return err_caller(err,
					  "the checkpoint can't be '%s', which is there for "
					  "something else; choose another name",
					  name);
	return 0;
}

int checkpoint_exit_code_parse(const char *text, int *ret, struct err *err)
{
	uint64_t number;

	if (num_u64(text, EXIT_CODE_MAX, &number) < 0 || number == 0)
		return err_caller(err, "'%.40s' is not a status from 1 to %d", text, EXIT_CODE_MAX);
	*ret = (int)number;
	return 0;
}

int checkpoint_check(const struct analysis *a, struct err *err)
{
	if (a->checkpoint_exit_code && !a->checkpoint)
		return err_caller(err,
				  "checkpoint_exit_code without a checkpoint; name the directory "
				  "that survives: checkpoint: DIRECTORY");
	if (a->checkpoint_exit_code < 0 || a->checkpoint_exit_code > EXIT_CODE_MAX)
		return err_caller(err, "checkpoint_exit_code: %d is not a status from 1 to %d",
				  a->checkpoint_exit_code, EXIT_CODE_MAX);
	if (!a->checkpoint)
		return 0;
	size_t length = strlen(a->checkpoint);
	for (size_t i = 0; i < a->n_outputs; i++) {
		const char *pattern = a->outputs[i].pattern;
		if (strncmp(pattern, a->checkpoint, length) == 0 &&
		    (pattern[length] == '/' || pattern[length] == '\0'))
			return err_caller(err,
					  "the output '%s' is in the checkpoint, from which "
					  "nothing is collected; write it elsewhere",
					  pattern);
	}
	return checkpoint_name_check(a->checkpoint, err);
}
