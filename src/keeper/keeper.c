/* The story of one run, a call a step. Whatever fails before the box runs ends as the cause `setup`; whatever happens afterwards,
 * the box is dead, what was made for it is removed, and verdict.json is written last. */
#include "keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/path.h"
#include "keeper/describe.h"
#include "keeper/state.h"

/* Signals become readable events; the box's init resets them for the analysis. */
static int take_signals(struct keeping *k, struct err *err)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGPIPE);
	sigaddset(&set, SIGCHLD);
	if (sigprocmask(SIG_SETMASK, &set, NULL) < 0)
		return err_errno(err, "block signals");
	k->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return k->signal_fd < 0 ? err_errno(err, "read signals") : 0;
}

static int claim(struct keeper_state *s, struct err *err)
{
	struct keeping *k = &s->k;
	const struct keeper_request *q = k->q;
	struct record_traces traces = { .work_dir = q->plan->host_work_dir,
					.cgroup_parent = q->config->cgroup_parent };
	if (q->again)
		return record_adopt(q->config->home, q->id, &k->record, err);
	s->accepted_real_ns = clock_real_ns();
	int r = keeper_take_checkpoint(s, err);
	if (r >= 0)
		r = record_claim(q->config->home, q->id, &traces, &k->record, err);
	if (r < 0)
		return r;
	r = record_event(&k->record, "accepted", describe_caller(q), err);
	if (r >= 0 && q->analysis->checkpoint) /* an id that is refused never had it */
		r = checkpoint_sign(&k->checkpoint, q->id, err);
	if (r < 0)
		(void)record_unclaim(&k->record);
	stages_mark(&k->stages, STAGE_CLAIM);
	return r;
}

/* Nothing was started. A record that could not be removed again, on a disk that fails, is one of a lost run: the next sweep finds it. */
static void say_refused(const struct keeper_request *q, int report_fd, const struct err *err)
{
	struct keeper_msg msg = { .kind = KEEPER_MSG_REFUSED, .err = *err };
	CLEANUP_FREE char *run = xasprintf("%s/runs/%s", q->config->home, q->id);
	if (!q->again && err->code != EEXIST &&
	    faccessat(AT_FDCWD, run, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		msg.kind = KEEPER_MSG_UNRECORDED;
	(void)send(report_fd, &msg, sizeof msg, MSG_NOSIGNAL);
}

/* Is every one of these layers, with commas between them, one that may be missing and was not yet allowed to be? */
static bool could_do_without(const struct keeping *k, const char *layers)
{
	const char *rest = layers;
	do {
		CLEANUP_FREE char *layer = xstrndup(rest, strcspn(rest, ","));
		/* Only root has another way to a user of its own. */
		if (layer_check(layer, NULL) < 0 || plan_may_miss(k->q->plan, layer) ||
		    (str_eq(layer, "user") && !k->q->host->is_root))
			return false;
		rest += strlen(layer);
	} while (*rest++ == ',');
	return true;
}

static enum strict_shell strict_shell(const struct analysis *a)
{
	if (!a->command_is_text || a->shell.n || !a->shell_used.n)
		return STRICT_NONE;
	return str_eq(path_base(a->shell_used.v[0]), "bash") ? STRICT_BASH : STRICT_SH;
}

static void begin_ending(struct keeping *k)
{
	k->ending.limits = k->q->plan->limits;
	k->ending.program = k->q->plan->argv.v[0];
	k->ending.strict_shell = strict_shell(k->q->analysis);
	if (k->q->analysis->checkpoint) {
		k->ending.has_checkpoint = true;
		k->ending.checkpoint_exit_code = k->q->analysis->checkpoint_exit_code;
		k->ending.checkpoint_note = k->checkpoint.note;
	}
	k->ending.drift = k->q->chosen->allowed ? k->q->chosen->unfit.text : NULL;
}

/* It is carried out elsewhere. */
static void run_there(struct keeper_state *s)
{
	struct keeping *k = &s->k;
	struct err err = { 0 };
	struct verdict v = { 0 };
	struct keeper_msg msg = { .kind = KEEPER_MSG_ENDED };
	begin_ending(k);
	keeper_attend(s, &v, &err);
	if (err.code)
		msg = (struct keeper_msg){ .kind = KEEPER_MSG_UNRECORDED, .err = err };
	else
		msg.ended.exit_status = v.exit_status;
	if (msg.kind == KEEPER_MSG_ENDED)
		msg.ended.stages = k->stages;
	if (k->report_fd >= 0)
		(void)send(k->report_fd, &msg, sizeof msg, MSG_NOSIGNAL);
}

static void run(struct keeper_state *s)
{
	struct keeping *k = &s->k;
	struct err err = { 0 };
	struct verdict v = { 0 };
	begin_ending(k);
	if (keeper_prepare(s, &err) < 0) {
		if (k->ending.stop == STOP_NONE)
			k->ending.stop = chosen_refused(k->q->chosen) ? STOP_RUNTIME : STOP_SETUP;
		k->ending.setup = err;
		k->ending.setup_optional = could_do_without(k, err.layer);
		launch_abandon(&k->box);
	} else {
		watch(k);
	}
	stages_mark(&k->stages, STAGE_RUN);
	keeper_read_end(s);
	if (k->started_ns) {
		guard_end(s);
		keeper_collect(s);
		keeper_keep(s);
	}
	stages_mark(&k->stages, STAGE_COLLECT);
	keeper_clean(s);
	stages_mark(&k->stages, STAGE_CLEAN);
	struct keeper_msg msg = { .kind = KEEPER_MSG_ENDED };
	if (keeper_finish(s, &v, &err) < 0)
		msg = (struct keeper_msg){ .kind = KEEPER_MSG_UNRECORDED, .err = err };
	else
		msg.ended.exit_status = v.exit_status;
	if (msg.kind == KEEPER_MSG_ENDED && k->checkpoint.path && v.cause == CAUSE_OK)
		(void)checkpoint_drop(&k->checkpoint, NULL); /* what is left of it is gc's */
	checkpoint_release(&k->checkpoint); /* whoever hears the end may start the next attempt */
	stages_mark(&k->stages, STAGE_VERDICT);
	if (msg.kind == KEEPER_MSG_ENDED)
		msg.ended.stages = k->stages;
	FAULT_PHASE("keeper-finished");
	/* This one must arrive: it may wait for room. */
	if (k->report_fd >= 0)
		(void)send(k->report_fd, &msg, sizeof msg, MSG_NOSIGNAL);
}

/* Threads here wait for the disk and allocate little: one heap will do, which neither shrinks nor is mapped anew for what is gone
 * again in a moment. Each of these costs page faults, of which a short run has more than anything else. */
static void save_memory(void)
{
	(void)mallopt(M_ARENA_MAX, 1);
	(void)mallopt(M_TOP_PAD, 512 * 1024);
	(void)mallopt(M_TRIM_THRESHOLD, 4 * 1024 * 1024);
	(void)mallopt(M_MMAP_THRESHOLD, 1024 * 1024);
}

_Noreturn void keeper_main(const struct keeper_request *request)
{
	struct keeper_state s = {
		.k = {
			.q = request,
			.record = RECORD_INIT,
			.box = LAUNCHED_INIT,
			.scratch = { .root_fd = -1, .dir_fd = -1, .beside_fd = -1 },
			.streams = { { .pipe_fd = -1, .file_fd = -1 }, { .pipe_fd = -1, .file_fd = -1 } },
			.usage_fd = -1,
			.signal_fd = -1,
			.checkpoint = CHECKPOINT_INIT,
			.report_fd = request->report_fd,
		},
		.lease = { .lock_fd = -1 },
	};
	struct err err = { 0 };
	save_memory();
	(void)prctl(PR_SET_NAME, "cupel-keeper");
	(void)signal(
		SIGXFSZ,
		SIG_IGN); /* the caller's own limits on files and cpu are errors here, not our end */
	(void)signal(SIGXCPU, SIG_IGN);
	(void)setsid(); /* the terminal's signals go to `cupel run`, which passes them on in words */
	stages_begin(&s.k.stages);
	FAULT_PHASE("keeper-born");
	int r = take_signals(&s.k, &err);
	if (r >= 0)
		r = claim(&s, &err);
	if (r < 0) {
		say_refused(request, s.k.report_fd, &err);
		_exit(125);
	}
	FAULT_PHASE("keeper-claimed");
	if (request->capability)
		run_there(&s);
	else
		run(&s);
	_exit(0); /* the process's end frees the rest, locks included */
}
