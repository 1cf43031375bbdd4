/* What the end of a trial says of the runtime. */
#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "run/trial.h"

#define SAID_MAX 160 /* of somebody else's words in one line */

void trial_end_release(struct trial_end *e)
{
	free(e->cause);
	free(e->notes);
	free(e->out);
	free(e->errors);
	*e = (struct trial_end){ 0 };
}

/* The first or the last line that says something, cut to be read. */
static char *line_of(const char *text, bool last)
{
	const char *found = "";
	size_t length = 0;
	for (const char *at = text ? text : ""; *at;) {
		size_t n = strcspn(at, "\n");
		if (strspn(at, " \t\r") < n) {
			found = at;
			length = n;
			if (!last)
				break;
		}
		at += n + (at[n] == '\n');
	}
	while (length && strchr(" \t\r", found[length - 1]))
		length--;
	char *line = xasprintf("%.*s%s", (int)(length > SAID_MAX ? SAID_MAX : length), found,
			       length > SAID_MAX ? "..." : "");
	str_clean(line);
	return line;
}

static char *exit_text(const struct trial_end *e)
{
	CLEANUP_FREE char *said = line_of(e->errors, true);
	if (e->exec_errno == ENOENT || e->exec_errno == ENOTDIR)
		return xstrdup("not found in the runtime");
	if (e->exec_errno)
		return xasprintf("can't be executed in the runtime: %s",
				 strerrordesc_np(e->exec_errno));
	return xasprintf("exit status %d%s%s", e->exit_code, *said ? ": " : "", said);
}

/* Why it did not end with 0, in words about checks; the verdict's own speak to whoever runs an analysis. */
static char *failure_text(const struct trial_end *e)
{
	char limit[32];
	if (str_eq(e->cause, "oom"))
		return xasprintf(
			"oom: it needed more memory than its %s; if that is too little: check_limits: {memory: ...}",
			num_print_size(e->limits.at[LIMIT_MEMORY].value, limit, sizeof limit));
	if (str_eq(e->cause, "deadline"))
		return xasprintf(
			"deadline: it did not end within its %s; if that is too little: check_limits: {time: ...}",
			num_print_duration(e->limits.at[LIMIT_TIME].value, limit, sizeof limit));
	if (str_eq(e->cause, "exit"))
		return exit_text(e);
	return xasprintf("%s: %s", e->cause ? e->cause : "?", e->notes ? e->notes : "");
}

static enum trial_result judge_version(const struct runtime_check *c, const struct trial_end *e,
				       char **ret_text)
{
	CLEANUP_FREE char *found = version_find(e->out ? e->out : "");
	if (!found) /* some print it to standard error */
		found = version_find(e->errors ? e->errors : "");
	if (!found) {
		*ret_text = xstrdup("its output holds no version");
		return TRIAL_FAILED;
	}
	if (c->expect && version_compare(found, c->expect) < 0) {
		*ret_text = xasprintf("version %s is older than %s", found, c->expect);
		return TRIAL_FAILED;
	}
	*ret_text = xasprintf("version %s", found);
	return TRIAL_OK;
}

/* The whole output; a last newline is not counted if the text has none. */
static bool is_text(const struct trial_end *e, const char *expect)
{
	size_t length = strlen(expect);
	if (e->out_bytes != e->out_length || e->out_length < length ||
	    memcmp(e->out, expect, length) != 0)
		return false;
	return e->out_length == length || (e->out_length == length + 1 && e->out[length] == '\n');
}

static enum trial_result judge_output(const struct runtime_check *c, const struct trial_end *e,
				      char **ret_text)
{
	static const char digest[] = "sha256:";
	if (!c->expect) {
		*ret_text = line_of(e->out, false);
		return TRIAL_OK;
	}
	if (str_starts(c->expect, digest)) {
		bool same = strcasecmp(c->expect + strlen(digest), e->out_hex) == 0;
		*ret_text = same ? xasprintf("sha256:%.12s...", e->out_hex)
				 : xasprintf("its output has sha256:%s, expected %s", e->out_hex,
					     c->expect);
		return same ? TRIAL_OK : TRIAL_FAILED;
	}
	CLEANUP_FREE char *got = line_of(e->out, false);
	CLEANUP_FREE char *wanted = line_of(c->expect, false);
	bool same = is_text(e, c->expect);
	*ret_text = same ? take_ptr(got)
			 : xasprintf("its output is '%s', expected '%s'", got, wanted);
	return same ? TRIAL_OK : TRIAL_FAILED;
}

/* One whose --version is no option of it still started; 126 and 127 are what a loader says that lacks a library. */
static bool started(const struct trial *t, const struct trial_end *e)
{
	return str_eq(e->cause, "exit") && !e->exec_errno && e->exit_code < 126 &&
	       str_eq(t->argv.v[t->argv.n - 1], "--version");
}

static enum trial_result judge_interpreter(const struct trial *t, const struct trial_end *e,
					   char **ret_text)
{
	const char *package = t->interpreter->package;
	if (str_eq(e->cause, "ok")) {
		*ret_text = line_of(e->out, false);
		return TRIAL_OK;
	}
	if (started(t, e)) {
		*ret_text = xstrdup("starts, but does not tell its version");
		return TRIAL_OK;
	}
	if (t->may_be_absent && e->exec_errno == ENOENT) {
		*ret_text = xasprintf("not installed%s%s", package ? "; apt-get install " : "",
				      package ? package : "");
		return TRIAL_ABSENT;
	}
	*ret_text = failure_text(e);
	return TRIAL_FAILED;
}

enum trial_result trial_judge(const struct trial *t, const struct trial_end *e, char **ret_text)
{
	if (t->fault) {
		*ret_text = xstrdup(t->fault);
		return TRIAL_FAILED;
	}
	if (!t->check)
		return judge_interpreter(t, e, ret_text);
	if (!str_eq(e->cause, "ok")) {
		*ret_text = failure_text(e);
		return TRIAL_FAILED;
	}
	if (t->check->kind == CHECK_VERSION)
		return judge_version(t->check, e, ret_text);
	return judge_output(t->check, e, ret_text);
}
