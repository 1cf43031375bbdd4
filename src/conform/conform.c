/* The story of a conformance test: a home of its own, case after case, and nothing left. */
#include "conform/conform.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/path.h"
#include "conform/parts.h"
#include "keeper/alive.h"
#include "keeper/record.h"
#include "run/run.h"

static const struct {
	const char *name, *summary;
	conform_case *run;
} cases[] = {
	{ "success", "a success with outputs, their sizes and digests", case_success },
	{ "exit", "an exit status is told exactly", case_exit },
	{ "signal", "a signal is told from an exit status", case_signal },
	{ "oom", "the memory limit ends it, and is the cause", case_oom },
	{ "deadline", "the time limit ends it, and is the cause", case_deadline },
	{ "pids", "the limit of processes holds, and is the cause", case_pids },
	{ "disk", "the limit of the working directory holds, and is the cause", case_disk },
	{ "cancel", "a cancel while it runs", case_cancel },
	{ "cancel-queued", "a cancel while it waits there: it is never started",
	  case_cancel_queued },
	{ "follower-killed", "the program that follows it is killed: it is cancelled",
	  case_follower_killed },
	{ "logs", "what it prints is there while it goes on", case_logs },
	{ "large-output", "an output of 64 MiB arrives whole", case_large },
	{ "many-outputs", "500 outputs arrive, each with its content", case_many },
	{ "missing-output", "an output that had to be there and is not, is the cause",
	  case_missing },
	{ "bytes", "arguments and variables arrive byte by byte", case_bytes },
	{ "inputs", "inputs can be read, and not changed", case_inputs },
	{ "network", "there is no network", case_network },
	{ "powers", "it has no capabilities, and can gain none", case_powers },
	{ "killed-submitted", "its keeper is killed just after it was submitted",
	  case_killed_submitted },
	{ "killed-running", "its keeper is killed while it runs", case_killed_running },
	{ "killed-ended", "its keeper is killed after it ended, before it was collected",
	  case_killed_ended },
	{ "away-start", "it is out of reach at first: refused, or submitted later",
	  case_away_start },
	{ "away-running", "it is out of reach while it runs and when it ends", case_away_running },
	{ "away-cancel", "it is out of reach when it is cancelled", case_away_cancel },
	{ "away-left", "it is out of reach in the end: the rest is removed later", case_away_left },
	{ "submit-twice", "submitted twice under one name, it is one job", case_submit_twice },
	{ "same-id", "an id is not used twice", case_same_id },
	{ "refusal", "what can't be enforced is refused before anything starts", case_refusal },
	{ "left", "nothing is left of any of these runs, here or there", case_left },
};
#define N_CASES (sizeof cases / sizeof *cases)
_Static_assert(N_CASES <= CONFORM_CASES_MAX, "room for all");

void conform_names(struct str *ret)
{
	for (size_t i = 0; i < N_CASES; i++)
		str_addf(ret, "%s%s", i ? ", " : "", cases[i].name);
}

/* Nothing of the user's, nor of a project's: neither files nor limits nor a ledger. */
void conform_config(const struct config *from, char *home, struct config *ret)
{
	*ret = *from; /* borrows */
	ret->home = home;
	ret->runtime_dirs = ret->protect = ret->watch = ret->env_pass = (struct strv){ 0 };
	ret->has_project_runtimes = false;
	ret->project_root = ret->project_data = ret->project_docs = NULL;
	ret->defaults = ret->ceilings = (struct limits){ 0 };
	ret->profiles = NULL;
	ret->n_profiles = 0;
	ret->post_processes = NULL;
	ret->n_post_processes = 0;
	ret->ledger_url = NULL;
	ret->default_profile = (char *)"default";
	ret->default_runtime = (char *)"base";
	ret->executors_may_be_away = true;
}

static int make_top(char **ret, struct err *err)
{
	const char *top = secure_getenv("TMPDIR");
	CLEANUP_FREE char *path =
		xasprintf("%s/cupel-conformance-XXXXXX", top && top[0] == '/' ? top : "/tmp");
	if (!mkdtemp(path))
		return err_errno(err, "make %s", path);
	*ret = path_real(path);
	return *ret ? 0 : err_errno(err, "find %s", path);
}

/* What a case that failed left running is ended, so that nothing of it outlives us. */
static void end_runs(struct conform *c)
{
	for (size_t i = 0; i < c->ids.n; i++) {
		pid_t keeper = 0;
		if (!run_is_alive(&c->config, c->ids.v[i], &keeper) || keeper <= 1)
			continue;
		(void)kill(keeper, SIGCONT);
		(void)kill(keeper, SIGTERM);
		(void)record_wait(c->home, c->ids.v[i]);
	}
}

static void conform_release(struct conform *c)
{
	struct err err = { 0 };
	const char *last = NULL;
	if (c->top) {
		end_runs(c);
		CLEANUP_FD int fd = fs_open_parent(AT_FDCWD, c->top, &last);
		if (fd >= 0)
			(void)fs_remove_tree(fd, last, NULL, &err);
	}
	executor_release(&c->x);
	free(c->top);
	free(c->home);
	free(c->self);
	strv_release(&c->ids);
	cleanup_fd(&c->signal_fd);
}

static int prepare(struct conform *c, const struct conform_request *q, struct conform_report *ret,
		   struct err *err)
{
	int r = make_top(&c->top, err);
	if (r < 0)
		return r;
	c->home = xasprintf("%s/home", c->top);
	conform_config(q->config, c->home, &c->config);
	c->self = path_real("/proc/self/exe");
	if (!c->self)
		return err_errno(err, "find this program");
	c->config.executors_may_be_away = false; /* we ourselves always reach it */
	r = executor_open(&c->config, q->executor, &c->x, err);
	if (r >= 0)
		r = capability_find(&c->config, q->executor, &c->can, err);
	if (r >= 0)
		r = run_prepare(&c->config, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < layer_count; i++)
		if (!c->can.layers[i])
			strv_add(&ret->without, layer_names[i]);
	c->without = &ret->without;
	ret->capability = c->can;
	return 0;
}

static void try_case(struct conform *c, const struct conform_request *q, size_t i,
		     struct conform_report *ret)
{
	const struct conform_viewer *v = q->viewer;
	struct outcome *o = &ret->outcomes[ret->n++];
	uint64_t began_ns = clock_monotonic_ns();
	*o = (struct outcome){ .name = cases[i].name, .summary = cases[i].summary };
	if (v && v->begin)
		v->begin(v->data, o->name);
	cases[i].run(c, o);
	o->wall_ns = clock_monotonic_ns() - began_ns;
	ret->counts[o->status]++;
	if (v && v->end)
		v->end(v->data, o);
}

static int no_such_case(const char *name, struct err *err)
{
	CLEANUP_STR struct str all = { 0 };
	conform_names(&all);
	return err_caller(err, "there is no case '%.60s'; they are: %s", name, str_text(&all));
}

int conform_run(const struct conform_request *q, struct conform_report *ret, struct err *err)
{
	CLEANUP(conform_release) struct conform c = { .name = q->executor, .signal_fd = -1 };
	sigset_t old;
	bool is_known = !q->only;
	for (size_t i = 0; i < N_CASES; i++)
		is_known |= str_eq(q->only, cases[i].name);
	if (!is_known)
		return no_such_case(q->only, err);
	sigemptyset(&old);
	int r = prepare(&c, q, ret, err);
	if (r >= 0)
		r = c.signal_fd = run_take_signals(&old, err);
	for (size_t i = 0; r >= 0 && i < N_CASES && !c.is_interrupted; i++)
		if (!q->only || str_eq(q->only, cases[i].name))
			try_case(&c, q, i, ret);
	ret->is_interrupted = c.is_interrupted;
	return r < 0 ? r : 0;
}
