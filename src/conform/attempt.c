/* A run of a conformance test: its analysis is a file, and a process of its own follows it, which can be killed. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/proc.h"
#include "conform/parts.h"
#include "keeper/alive.h"
#include "run/run.h"

#define LOOK_MS 20
#define WAIT_NS (300 * NS_PER_SEC) /* a busy queue has its time */

int conform_inside(int argc, char **argv, int *ret_status, struct err *err)
{
	CLEANUP_CONFIG struct config read = { 0 };
	CLEANUP_ANALYSIS struct analysis analysis = { 0 };
	CLEANUP_RESOLVED struct resolved resolved = { 0 };
	struct config config;
	if (argc != 3)
		return err_caller(err, "HOME EXECUTOR FILE are needed");
	int r = config_read(&(struct config_where){ .home = argv[0] }, &read, err);
	if (r >= 0)
		r = analysis_read(argv[2], &analysis, err);
	if (r < 0)
		return r;
	conform_config(&read, argv[0], &config);
	analysis.executor = xstrdup(argv[1]);
	r = run_resolve(&config, &analysis, &resolved, err);
	struct run_request request = {
		.config = &config, .analysis = &analysis, .resolved = &resolved, .is_silent = true
	};
	return r < 0 ? r : run_local(&request, ret_status, err);
}

json_t *shell_analysis(const char *script)
{
	return json_pack("{s:[s,s,s,s],s:s,s:{s:s,s:s,s:s,s:s,s:s,s:s}}", "command", "/bin/sh",
			 "-c", script, "sh", "runtime", "base", "limits", "memory", "256M", "cpus",
			 "1", "pids", "600", "time", "120s", "disk", "256M", "grace", "2s");
}

void set_limit(json_t *analysis, const char *key, const char *text)
{
	json_object_set_new(json_object_get(analysis, "limits"), key, json_string(text));
}

void attempt_release(struct attempt *t)
{
	cleanup_fd(&t->fd);
	if (t->pid > 0) {
		(void)kill(t->pid, SIGTERM);
		while (waitpid(t->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	t->pid = 0;
	free(t->id);
	t->id = NULL;
	json_decref(t->asked);
	json_decref(t->verdict);
	t->asked = t->verdict = NULL;
}

static char *asked_path(const struct conform *c, const struct attempt *t, const char *suffix)
{
	return xasprintf("%s/%s%s", c->top, t->id, suffix);
}

static void allow_missing(const struct conform *c, json_t *analysis)
{
	json_t *list = json_array();
	for (size_t i = 0; i < c->without->n; i++)
		json_array_append_new(list, json_string(c->without->v[i]));
	if (json_object_get(analysis, "allow_missing") || !c->without->n)
		json_decref(list);
	else
		json_object_set_new(analysis, "allow_missing", list);
}

bool attempt_begin_as(struct conform *c, json_t *analysis, const char *id, struct attempt *t,
		      struct outcome *o)
{
	struct err err = { 0 };
	t->asked = analysis;
	t->id = xstrdup(id);
	json_object_set_new(analysis, "id", json_string(id));
	allow_missing(c, analysis);
	CLEANUP_FREE char *file = asked_path(c, t, ".yaml");
	CLEANUP_FREE char *said = asked_path(c, t, ".said");
	if (json_write_file(AT_FDCWD, file, analysis, &err) < 0)
		return outcome_fail(o, "%s", err.text);
	const char *const words[] = {
		"/bin/sh",  "-c",        "said=$1; shift; exec \"$@\" >\"$said\" 2>&1 </dev/null",
		"sh",       said,        c->self,
		"executor", CONFORM_RUN, c->home,
		c->name,    file
	};
	CLEANUP_STRV struct strv argv = { 0 };
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		strv_add(&argv, words[i]);
	int r = proc_start(argv.v, &t->pid, &t->fd);
	if (r < 0)
		return outcome_fail(o, "start %s: %s", c->self, strerrordesc_np(-r));
	return true;
}

bool attempt_begin(struct conform *c, json_t *analysis, struct attempt *t, struct outcome *o)
{
	char made[ID_MAX + 1];
	id_generate(made);
	CLEANUP_FREE char *id = xasprintf("conform-%.40s", made);
	strv_add(&c->ids, id);
	return attempt_begin_as(c, analysis, id, t, o);
}

bool conform_pause(struct conform *c)
{
	struct pollfd fd = { .fd = c->signal_fd, .events = POLLIN };
	if (!c->is_interrupted && poll(&fd, 1, LOOK_MS) > 0)
		c->is_interrupted = true;
	return !c->is_interrupted;
}

bool attempt_until(struct conform *c, struct attempt *t, attempt_condition *met, const char *what,
		   struct outcome *o)
{
	uint64_t until_ns = clock_monotonic_ns() + WAIT_NS;
	while (!met(c, t)) {
		if (!conform_pause(c))
			return outcome_fail(o, "interrupted");
		if (clock_monotonic_ns() < until_ns && (t->pid || met == attempt_has_verdict))
			continue;
		CLEANUP_FREE char *said = attempt_said(c, t);
		return outcome_fail(o, "%s: waited in vain%s%s%s", t->id, what, said[0] ? ": " : "",
				    said);
	}
	return true;
}

bool attempt_is_followed_to_its_end(struct conform *c, struct attempt *t)
{
	pid_t pid = t->pid > 0 ? waitpid(t->pid, &t->status, WNOHANG) : 0;
	if (pid == t->pid || (pid < 0 && errno == ECHILD))
		t->pid = 0;
	return t->pid == 0;
}

bool attempt_end(struct conform *c, struct attempt *t, struct outcome *o)
{
	if (!attempt_until(c, t, attempt_is_followed_to_its_end, " for its end", o))
		return false;
	t->verdict = attempt_json(c, t, "verdict.json");
	if (!t->verdict) {
		CLEANUP_FREE char *said = attempt_said(c, t);
		return outcome_fail(o, "%s: there is no verdict: %s", t->id, said);
	}
	int status = WIFEXITED(t->status) ? WEXITSTATUS(t->status) : -1;
	if (status != attempt_number(t, "exit_status"))
		return outcome_fail(o, "%s: `cupel run` ended with %d, and the verdict says %ld",
				    t->id, status, attempt_number(t, "exit_status"));
	return true;
}

bool attempt_run(struct conform *c, json_t *analysis, struct attempt *t, const char *cause,
		 struct outcome *o)
{
	return attempt_begin(c, analysis, t, o) && attempt_end(c, t, o) &&
	       attempt_cause_is(t, cause, o);
}
