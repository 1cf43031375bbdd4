/* Runs that are carried out elsewhere: which executor one has and whether it suffices; and keepers for those that lost theirs. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "keeper/record.h"
#include "run/attended.h"
#include "run/post.h"
#include "run/shown.h"
#include "spec/spec_json.h"

#define RECORD_MAX (8 << 20)

/* The analysis's own word, its runtime's, the configuration's. */
static void choose(const struct config *config, struct analysis *a, const struct runtime *r)
{
	if (!a->executor)
		a->executor = xstrdup(r->executor ? r->executor : config->default_executor);
}

/* A keeper on this host carries it out: in cupel's own box, or in one that an OCI runtime makes. */
static int resolve_here(const struct config *config, const struct analysis *a, struct resolved *r,
			struct err *err)
{
	const struct executor_settings *s = config_executor(config, a->executor);
	if (!s || chosen_refused(&r->chosen))
		return 0;
	int e = oci_suffices(s, &r->plan, &r->oci, err);
	if (e >= 0 && r->oci.kind == OCI_RUNSC)
		e = shown_to_all(&r->plan, a->executor, err);
	if (e < 0)
		return e;
	r->has_oci = true;
	for (size_t i = 0; i < s->allow_missing.n; i++)
		if (!plan_may_miss(&r->plan, s->allow_missing.v[i]))
			strv_add(&r->plan.missing, s->allow_missing.v[i]);
	return 0;
}

int attended_foresee(const struct config *config, struct analysis *a, const struct runtime *r,
		     struct err *err)
{
	CLEANUP_EXECUTOR struct executor *x = NULL;
	choose(config, a, r);
	return executor_open(config, a->executor, &x, err);
}

int attended_resolve(const struct config *config, struct analysis *a, struct resolved *r,
		     struct err *err)
{
	CLEANUP_EXECUTOR struct executor *x = NULL;
	choose(config, a, &r->runtime);
	int e = executor_open(config, a->executor, &x, err);
	if (e < 0)
		return e;
	if (!x)
		return resolve_here(config, a, r, err);
	e = x->ops->probe(x, &r->capability, err);
	if (e < 0)
		return err_wrap(err, "executor %s", a->executor);
	struct job job = { .id = r->id,
			   .config = config,
			   .analysis = a,
			   .runtime = &r->runtime,
			   .plan = &r->plan };
	e = executor_suffices(x, &r->capability, &job, err);
	if (e >= 0)
		e = shown_elsewhere(&r->plan, a->executor, err);
	r->attended = e >= 0;
	return e;
}

/* What a keeper needs to go on with a job that is there already; nothing of it is made or run again. */
static int read_again(const struct config *config, const char *id, struct analysis *a,
		      struct resolved *r, struct err *err)
{
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s", config->home, id);
	CLEANUP_JSON json_t *record = NULL;
	CLEANUP_FD int dir_fd = open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (dir_fd < 0)
		return err_errno(err, "open %s", path);
	int e = json_read_file(dir_fd, "analysis.json", RECORD_MAX, &record, err);
	if (e >= 0)
		e = analysis_from_json(record, path, a, err);
	if (e >= 0)
		e = host_read(&r->host, err);
	if (e < 0)
		return e;
	const json_t *runtime = json_object_get(record, "runtime");
	const char *name = json_string_value(json_object_get(runtime, "name"));
	const char *version = json_string_value(json_object_get(runtime, "version"));
	(void)snprintf(r->id, sizeof r->id, "%s", id);
	r->runtime.name = xstrdup(name ? name : "");
	r->runtime.version = xstrdup(version ? version : "");
	r->limits = a->limits;
	r->keep = a->keep;
	struct plan_request request = {
		.id = r->id,
		.analysis = a,
		.config = config,
		.runtime = &r->runtime,
		.host = &r->host,
		.limits = &r->limits,
	};
	plan_refused(&request, &r->plan);
	r->plan.own_network = a->network == NETWORK_NONE;
	strv_copy(&r->plan.missing, &a->allow_missing);
	return 0;
}

/* As it was when the run was accepted: who takes over goes by the same, and asks nobody. */
static int read_capability(const struct config *config, struct resolved *r, struct err *err)
{
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s", config->home, r->id);
	CLEANUP_JSON json_t *o = NULL;
	CLEANUP_FD int dir_fd = open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	int e = dir_fd < 0 ? -errno : json_read_file(dir_fd, "executor.json", RECORD_MAX, &o, err);
	if (e >= 0)
		e = capability_read(json_object_get(o, "capability"), &r->capability);
	r->attended = e >= 0;
	return e;
}

/* Others sweep too, and what comes first may take seconds: one of us is enough. The lock goes with our descriptors, just before the
 * keeper takes it for itself; signals wait for it. */
static bool is_first(const struct config *config, const char *id)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	CLEANUP_FREE char *path = xasprintf("%s/active/%s", config->home, id);
	sigset_t all;
	sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	return fd >= 0 && fcntl(fd, F_SETLK, &lock) == 0;
}

_Noreturn static void attend(const struct config *config, const char *id)
{
	CLEANUP_ANALYSIS struct analysis a = { 0 };
	CLEANUP_RESOLVED struct resolved r = { 0 };
	struct err err = { 0 };
	if (!is_first(config, id))
		_exit(0);
	CLEANUP_EXECUTOR struct executor *x = NULL;
	if (read_again(config, id, &a, &r, &err) < 0 || read_capability(config, &r, &err) < 0 ||
	    executor_open(config, a.executor, &x, &err) < 0 || !x)
		_exit(125); /* the next sweep tries again */
	run_keep_again(config, &a, &r);
}

/* Whoever reads what this command prints must not wait for a run of somebody else's. */
static void let_go(void)
{
	CLEANUP_FD int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = STDIN_FILENO; null_fd >= 0 && fd <= STDERR_FILENO; fd++)
		(void)dup2(null_fd, fd);
	(void)setsid();
}

/* Apart from us, and nobody's child: whoever sweeps goes on, and may end. */
static void have_attended(const struct config *config, const char *id)
{
	pid_t pid = fork();
	if (pid == 0) {
		if (fork() == 0) {
			let_go();
			attend(config, id);
		}
		_exit(0);
	}
	run_reap(&pid);
}

static void have_all_attended(const struct config *config, const struct gc_report *report)
{
	for (size_t i = 0; i < report->n_unattended; i++)
		have_attended(config, report->unattended[i]);
}

int run_sweep(const struct config *config, struct gc_report *ret, struct err *err)
{
	int r = gc_sweep(config, ret, err);
	if (r >= 0)
		have_all_attended(config, ret);
	return r;
}

int run_sweep_all(const struct config *config, struct gc_report *ret, struct err *err)
{
	int r = gc_sweep_all(config, ret, err);
	if (r >= 0)
		have_all_attended(config, ret);
	return r;
}
