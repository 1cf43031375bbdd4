/* Between clone and exec: the order of the handshake in enter.h, one call a step. The process is a copy of a single-threaded keeper,
 * so ordinary functions are safe here; whatever fails is sent to the keeper, and the box is gone. */
#include "box/enter.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/proc.h"
#include "box/caps.h"
#include "box/landlock.h"
#include "box/mount.h"
#include "box/net.h"
#include "box/seccomp.h"
#include "box/userns.h"

#define IMAGE_FD 4 /* the runtime's own file system, if it has one, until the root is made */

struct entering {
	const struct box_entry *e;
	struct root root;
	bool has_seccomp;
	struct root made; /* its counts; the descriptors are closed by then */
};

uint64_t box_clone_flags(const struct box_entry *e)
{
	uint64_t flags = CLONE_NEWNS | CLONE_NEWPID;
	flags |= e->has_net_ns ? CLONE_NEWNET : 0;
	flags |= e->has_ipc_ns ? CLONE_NEWIPC : 0;
	flags |= e->has_uts_ns ? CLONE_NEWUTS : 0;
	flags |= e->is_root ? 0 : CLONE_NEWUSER;
	return flags;
}

static _Noreturn void fail(int control_fd, const struct err *err)
{
	struct box_msg msg = { .kind = BOX_MSG_ERROR, .err = *err };
	(void)send(control_fd, &msg, sizeof msg, MSG_NOSIGNAL);
	_exit(1);
}

int box_lower_priority(struct err *err)
{
	struct sched_param none = { 0 };
	int policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
	if (policy != SCHED_OTHER && policy != SCHED_BATCH && policy != SCHED_IDLE &&
	    sched_setscheduler(0, SCHED_OTHER, &none) < 0)
		return err_errno(err, "leave the real-time policy");
	if (getpriority(PRIO_PROCESS, 0) < 0 && setpriority(PRIO_PROCESS, 0, 0) < 0)
		return err_errno(err, "leave the raised priority");
	return 0;
}

/* Before anything else, so that all that follows is counted. */
static int join_budget(struct entering *s, struct err *err)
{
	int r = box_lower_priority(err);
	if (r < 0)
		return r;
	for (int i = 0; i < s->e->n_join; i++)
		if (write(s->e->join_fds[i], "0", 1) != 1)
			return err_errno(err, "join the run's group");
	return 0;
}

/* Then: standard streams on 0, 1, 2, the control socket on 3, nothing else of the keeper's. With the keeper's own end of that
 * socket open here too, its death would not be seen, and with its report open, whoever waits for it would wait for this process. */
static int set_descriptors(struct entering *s, struct err *err)
{
	const struct box_entry *e = s->e;
	int from[] = { e->stdin_fd, e->stdout_fd, e->stderr_fd, e->control_fd, e->image_fd };
	int n = e->image_fd < 0 ? IMAGE_FD : IMAGE_FD + 1;
	for (int i = 0; i < n; i++) { /* first out of the way of each other */
		from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 16);
		if (from[i] < 0)
			return err_errno(err, "move a descriptor");
	}
	for (int i = 0; i < n; i++)
		if (dup3(from[i], i, i >= BOX_CONTROL_FD ? O_CLOEXEC : 0) < 0 && errno != EINVAL)
			return err_errno(err, "place descriptor %d", i);
	if (close_range((unsigned)n, ~0U, 0) < 0)
		return err_errno(err, "close all other descriptors");
	return 0;
}

static size_t arguments_length(void)
{
	char buffer[4096];
	size_t length = 0;
	CLEANUP_FD int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	for (ssize_t n; fd >= 0 && (n = read(fd, buffer, sizeof buffer)) > 0;)
		length += (size_t)n;
	return length ? length : strlen(program_invocation_name) + 1;
}

/* The caller's arguments and environment lie on the stack of every copy of the keeper, one string after the other; the analysis
 * would find them in /proc/1/cmdline and, but for its being undumpable, /proc/1/environ. */
static int wipe_caller(struct entering *s, struct err *err)
{
	char *start = program_invocation_name;
	char *end = start + arguments_length();
	for (char **v = environ; v && *v; v++)
		if (*v + strlen(*v) + 1 > end && *v > start)
			end = *v + strlen(*v) + 1;
	explicit_bzero(start, (size_t)(end - start));
	environ = NULL;
	if (prctl(PR_SET_NAME, "cupel-init") < 0)
		return err_errno(err, "name init");
	return 0;
}

static int map_first_user(struct entering *s, struct err *err)
{
	if (s->e->is_root)
		return 0;
	CLEANUP_FD int proc_fd = open("/proc", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (proc_fd < 0)
		return err_errno(err, "open /proc");
	return userns_map_self(proc_fd, BOX_UID, s->e->uid, BOX_GID, s->e->gid, err);
}

int box_take_work(void *data, enum step_kind which, struct root_work *ret, struct err *err)
{
	struct box_cmd cmd;
	int fd = -1;
	ssize_t n = proc_recv_fd(BOX_CONTROL_FD, &cmd, sizeof cmd, &fd);
	if (n == 0)
		_exit(1); /* the keeper is gone */
	if (n != sizeof cmd || cmd.kind != (which == STEP_WORK ? BOX_CMD_WORK : BOX_CMD_CHECKPOINT))
		return err_set(err, ERR_HOST, EPROTO, "unexpected word from the keeper");
	*ret = (struct root_work){ .mount_fd = fd, .dev = cmd.work_dev, .ino = cmd.work_ino };
	return 0;
}

static int give_work(void *data, int mount_fd, struct err *err)
{
	struct box_msg msg = { .kind = BOX_MSG_WORK };
	int r = proc_send_fd(BOX_CONTROL_FD, &msg, sizeof msg, mount_fd);
	return r < 0 ? err_set(err, ERR_HOST, -r, "hand over the working directory: %s",
			       strerrordesc_np(-r))
		     : 0;
}

static int make_root(struct entering *s, struct err *err)
{
	struct root_request request = { .plan = s->e->plan,
					.take_work = box_take_work,
					.give_work = give_work,
					.uid = s->e->is_root ? s->e->uid : (uid_t)-1,
					.gid = s->e->gid,
					.image_fd = s->e->image_fd < 0 ? -1 : IMAGE_FD };
	int r = root_make(&request, &s->root, err);
	s->made = s->root;
	return r;
}

int box_quell_cores(int proc_fd, struct err *err)
{
	const struct rlimit one = { 1, 1 };
	char pattern[256] = "";
	if (setrlimit(RLIMIT_CORE, &one) == 0)
		return 0;
	(void)fs_read_small(proc_fd, "sys/kernel/core_pattern", pattern, sizeof pattern);
	if (pattern[0] != '|' && pattern[0] != '@')
		return 0;
	return err_set(
		err, ERR_HOST, EPERM,
		"this host hands crashes to '%.60s' as root, and a hard core limit of 0 lets it; start cupel with a hard limit "
		"of at least 1 (ulimit -Hc, LimitCORE=)",
		pattern);
}

/* Before the root, which has to wait for the working directory anyway. */
static int make_names(struct entering *s, struct err *err)
{
	const struct plan *p = s->e->plan;
	if (s->e->has_uts_ns && sethostname(p->hostname, strlen(p->hostname)) < 0)
		return err_errno(err, "set the host name");
	if (sched_setaffinity(0, sizeof p->cpus, &p->cpus) < 0)
		return err_errno(err, "bind to %d cpus", p->n_cpus);
	if (setsid() < 0)
		return err_errno(err, "leave the terminal");
	return s->e->has_net_ns ? net_loopback_up(err) : 0;
}

static int make_killable(struct entering *s, struct err *err)
{
	char score[16];
	(void)snprintf(score, sizeof score, "%d", BOX_OOM_SCORE);
	int r = fs_write_small(s->root.proc_fd, "self/oom_score_adj", score);
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "set oom_score_adj: %s", strerrordesc_np(-r));
	return box_quell_cores(s->root.proc_fd, err);
}

static int wait_for(int control_fd, enum box_cmd_kind kind, struct err *err)
{
	struct box_cmd cmd;
	ssize_t n = recv(control_fd, &cmd, sizeof cmd, 0);
	if (n == 0)
		_exit(1); /* the keeper is gone */
	if (n != sizeof cmd || cmd.kind != kind)
		return err_set(err, ERR_HOST, EPROTO, "unexpected word from the keeper");
	return 0;
}

/* The mount namespace belongs to the user namespace in which it was made: the host's as root, the outer one of an ordinary user. The
 * analysis is in an inner one, so that even with all capabilities there nobody has power over the mounts: no flag can be cleared,
 * nothing can be unmounted. */
static int lock_in(struct entering *s, struct err *err)
{
	const struct box_entry *e = s->e;
	uid_t outer_uid = e->is_root ? e->uid : BOX_UID;
	gid_t outer_gid = e->is_root ? e->gid : BOX_GID;
	if (!e->has_user_ns && e->has_cgroup_ns && unshare(CLONE_NEWCGROUP) < 0)
		return namespace_refused("cgroup", "cgroup", errno, err);
	/* Without a namespace of its own the last power to drop these goes with the uid. */
	int r = e->has_user_ns ? 0 : caps_seal(err);
	if (r >= 0 && e->is_root)
		r = userns_become(e->uid, e->gid, err);
	if (r < 0 || !e->has_user_ns)
		return r;
	if (unshare(CLONE_NEWUSER) < 0)
		return namespace_refused("user", "user", errno, err);
	if (e->has_cgroup_ns && unshare(CLONE_NEWCGROUP) < 0)
		return namespace_refused("cgroup", "cgroup", errno, err);
	r = userns_map_self(s->root.proc_fd, BOX_UID, outer_uid, BOX_GID, outer_gid, err);
	if (r >= 0 &&
	    (setresgid(BOX_GID, BOX_GID, BOX_GID) < 0 || setresuid(BOX_UID, BOX_UID, BOX_UID) < 0))
		r = err_errno(err, "become the analysis's user");
	return r < 0 ? r : userns_forbid(s->root.proc_fd, err);
}

static int set_rlimits(const struct plan *p, struct err *err)
{
	for (size_t i = 0; i < p->n_rlimits; i++) {
		const struct plan_rlimit *l = &p->rlimits[i];
		struct rlimit have;
		if (getrlimit(l->resource, &have) < 0)
			return err_errno(err, "read the limit %s", l->name);
		rlim_t value = l->value < have.rlim_max ? l->value : have.rlim_max;
		struct rlimit want = { value, value };
		if (setrlimit(l->resource, &want) < 0)
			return err_errno(err, "limit %s to %llu", l->name,
					 (unsigned long long)value);
	}
	return 0;
}

static int set_process(struct entering *s, struct err *err)
{
	const struct plan *p = s->e->plan;
	int r = set_rlimits(p, err);
	if (r < 0)
		return r;
	if (chdir(p->cwd) < 0)
		return err_errno(err, "enter %s", p->cwd);
	return caps_drop_all(err);
}

/* Whatever setting up opened, or a library might have. */
static int close_rest(struct entering *s, struct err *err)
{
	root_release(&s->root);
	if (close_range(BOX_CONTROL_FD + 1, ~0U, 0) < 0)
		return err_errno(err, "close all other descriptors");
	return 0;
}

/* Last, so that no step needs what they forbid. */
static int confine(struct entering *s, struct err *err)
{
	const struct plan *p = s->e->plan;
	if (prctl(PR_SET_DUMPABLE, 0) < 0) /* nothing in the box reads or traces init */
		return err_errno(err, "hide init's memory");
	/* After the last change of credentials, which would clear it. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return err_errno(err, "die with the keeper");
	int r = p->landlock_abi ? landlock_confine(p->rules, p->n_rules, p->landlock_abi, err) : 0;
	if (r < 0)
		return r;
	r = seccomp_confine(err);
	s->has_seccomp = r >= 0;
	return plan_may_miss(p, "seccomp") ? 0 : r;
}

typedef int entering_step(struct entering *, struct err *);

static entering_step *const steps[] = { join_budget, set_descriptors, wipe_caller,   map_first_user,
					make_names,  make_root,       make_killable, lock_in,
					set_process, close_rest,      confine };
#define N_STEPS (sizeof steps / sizeof *steps)
const char *const box_step_names[BOX_STEPS_MAX] = { "join",     "descriptors", "wipe",
						    "user_map", "names",       "root",
						    "killable", "lock_in",     "process",
						    "close",    "confine",     "read_back" };

_Noreturn void box_enter(const struct box_entry *e)
{
	struct entering state = { .e = e, .root = { .root_fd = -1, .proc_fd = -1 } };
	struct err err = { 0 };
	struct box_msg msg = { .kind = BOX_MSG_READY };
	uint32_t usec[BOX_STEPS_MAX] = { 0 };
	int control_fd = e->control_fd;
	FAULT_PHASE("init-born");
	(void)umask(022); /* the caller's may hide from the analysis what is made for it */
	uint64_t before = clock_monotonic_ns();
	for (size_t i = 0; i < N_STEPS; i++) {
		if (steps[i](&state, &err) < 0)
			fail(control_fd, &err);
		if (steps[i] == set_descriptors)
			control_fd = BOX_CONTROL_FD;
		uint64_t now = clock_monotonic_ns();
		usec[i] = (uint32_t)((now - before) / 1000);
		before = now;
	}
	FAULT_PHASE("init-confined");
	if (facts_read(e->plan, &msg.facts, &err) < 0)
		fail(control_fd, &err);
	usec[N_STEPS] = (uint32_t)((clock_monotonic_ns() - before) / 1000);
	memcpy(msg.facts.step_usec, usec, sizeof usec);
	msg.facts.seccomp_own = state.has_seccomp;
	msg.facts.n_id_mapped_made = state.made.n_id_mapped;
	msg.facts.n_searched = state.made.n_searched;
	msg.facts.n_in_part = state.made.n_in_part;
	if (send(control_fd, &msg, sizeof msg, MSG_NOSIGNAL) != sizeof msg)
		_exit(1);
	if (wait_for(control_fd, BOX_CMD_GO, &err) < 0)
		fail(control_fd, &err);
	FAULT_PHASE("init-go");
	init_run(e, control_fd);
}
