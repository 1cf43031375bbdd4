#include "keeper/oci.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/num.h"
#include "base/proc.h"
#include "box/userns.h"
#include "keeper/launch_parts.h"

bool oci_is_guest(const struct launched *l)
{
	return l->oci && l->oci->runtime.kind == OCI_RUNSC;
}

static int clone_maker(const struct launch_request *q, struct launched *l, struct err *err)
{
	const struct oci_making making = { .q = q, .entry = &l->entry, .oci = l->oci };
	int pid_fd = -1;
	struct clone_args args = { .flags = CLONE_NEWNS | CLONE_PIDFD,
				   .pidfd = (uint64_t)(uintptr_t)&pid_fd,
				   .exit_signal = SIGCHLD };
	long pid = syscall(SYS_clone3, &args, sizeof args);
	if (pid < 0)
		return namespace_refused("mount", "mnt", errno, err);
	if (pid == 0)
		oci_make(&making);
	FAULT_PHASE("oci-maker-cloned");
	l->oci->maker_fd = pid_fd;
	return 0;
}

static int oci_begin(const struct launch_request *q, struct launched *l, struct err *err)
{
	CLEANUP_LAUNCH_ENDS struct launch_ends ends = LAUNCH_ENDS_INIT;
	int join_fds[BUDGET_JOIN_MAX];
	/* The container's first process is the runtime's grandchild: it becomes our child, so that we can wait for it. */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		return err_errno(err, "take in the runtime's children");
	int r = oci_bundle_make(q, &l->oci, err);
	FAULT_PHASE("oci-bundle-made");
	if (r >= 0)
		r = launch_open(q, l, &ends, err);
	if (r < 0)
		return r;
	launch_choose_layers(&l->entry);
	/* The runtime joins by path; only how many there are counts. */
	int n = q->budget->ops->join_fds(q->budget, join_fds, err);
	if (n < 0)
		return n;
	for (int i = 0; i < n; i++)
		cleanup_fd(&join_fds[i]);
	l->entry.n_join = n;
	r = oci_bundle_config(q, l->oci, &l->entry, err);
	return r < 0 ? r : clone_maker(q, l, err);
}

/* What the maker said last, if it did not get as far as the runtime. */
static int maker_failed(struct launched *l, struct err *err)
{
	struct box_msg msg;
	ssize_t n = proc_recv(l->control_fd, &msg, sizeof msg, MSG_DONTWAIT);
	if (n != sizeof msg || msg.kind != BOX_MSG_ERROR)
		return oci_failed(l->oci, "create", err);
	if (err)
		*err = msg.err;
	return -(msg.err.code ? msg.err.code : EIO);
}

static int wait_created(struct launched *l, struct err *err)
{
	int status = 0;
	struct pollfd ended = { .fd = l->oci->maker_fd, .events = POLLIN };
	if (poll(&ended, 1, LAUNCH_TIMEOUT_MS) <= 0)
		return err_set(err, ERR_HOST, ETIMEDOUT,
			       "setting the box up took more than a minute");
	int r = proc_wait(l->oci->maker_fd, &status);
	cleanup_fd(&l->oci->maker_fd);
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "wait for the runtime");
	return status == 0 ? 0 : maker_failed(l, err);
}

static int find_init(struct launched *l, struct err *err)
{
	char text[32] = "";
	uint64_t pid = 0;
	CLEANUP_FREE char *path = xasprintf("%s/pid", l->oci->dir);
	(void)fs_read_small(AT_FDCWD, path, text, sizeof text);
	text[strcspn(text, "\n")] = 0;
	if (num_u64(text, INT32_MAX, &pid) < 0 || !pid)
		return err_set(err, ERR_HOST, ENODATA, "the runtime left no pid");
	int fd = proc_pidfd_open((pid_t)pid);
	siginfo_t info = { 0 };
	/* Only of our own children we can know how they end; and their numbers are nobody else's until we have waited. */
	if (fd < 0 || waitid(P_PIDFD, (id_t)fd, &info, WEXITED | WNOHANG | WNOWAIT) < 0) {
		cleanup_fd(&fd);
		return err_set(err, ERR_HOST, ECHILD,
			       "the container's first process (%llu) is not the keeper's child",
			       (unsigned long long)pid);
	}
	l->pid = (pid_t)pid;
	l->pid_fd = fd;
	return 0;
}

/* By a child that enters init's user namespace: who may make another is told by the one who writes. */
static int forbid_more(const struct launched *l, struct err *err)
{
	int status = 0;
	CLEANUP_FD int proc_fd = open("/proc", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	pid_t pid = fork();
	if (pid < 0)
		return err_errno(err, "start a helper");
	if (pid == 0)
		_exit(setns(l->pid_fd, CLONE_NEWUSER) < 0 ? 1
		      : userns_forbid(proc_fd, NULL) < 0  ? 2
							  : 0);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_errno(err, "wait for a helper");
	return status == 0 ? 0
			   : err_set(err, ERR_HOST, EPERM,
				     "user namespace: forbid further ones (step %d)",
				     WEXITSTATUS(status));
}

static int map_user(struct launched *l, struct err *err)
{
	const struct {
		const char *file;
		unsigned inside, outside;
	} maps[] = { { "gid_map", BOX_GID, l->entry.gid }, { "uid_map", BOX_UID, l->entry.uid } };
	struct box_msg msg;
	char path[32], text[64];
	int r = launch_hear(l, BOX_MSG_MAP, &msg, err);
	if (r < 0)
		return r;
	(void)snprintf(path, sizeof path, "/proc/%d", (int)l->pid);
	CLEANUP_FD int dir_fd = open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	r = dir_fd < 0 ? -errno : fs_write_small(dir_fd, "setgroups", "deny");
	for (size_t i = 0; r >= 0 && i < sizeof maps / sizeof maps[0]; i++) {
		(void)snprintf(text, sizeof text, "%u %u 1", maps[i].inside, maps[i].outside);
		r = fs_write_small(dir_fd, maps[i].file, text);
	}
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "user namespace: map the analysis's user: %s",
			       strerrordesc_np(-r));
	r = forbid_more(l, err);
	if (r >= 0 && launch_say(l, BOX_CMD_MAPPED, 0) < 0)
		r = err_set(err, ERR_HOST, EPIPE, "the box's init ended while it was set up");
	return r;
}

/* On a kernel of its own, whose word is all there is; its groups are the host's. */
static int check_guest(struct launched *l, struct err *err)
{
	const struct box_facts *in = &l->facts;
	const struct plan *p = l->entry.plan;
	int r = outside_read(l->pid, &l->outside, err);
	if (r >= 0)
		r = launch_check_groups(l, err);
	if (r < 0)
		return r;
	for (int i = 0; i < 4; i++)
		if (in->uid[i] != l->entry.uid || in->gid[i] != l->entry.gid || in->caps[i])
			return err_layer(err, "user", "uid %u, gid %u, capabilities %llx differ",
					 in->uid[i], in->gid[i], (unsigned long long)in->caps[i]);
	if (in->n_groups || !in->no_new_privs || in->dumpable || !str_eq(in->cwd, p->cwd))
		return err_set(err, ERR_HOST, EPERM,
			       "%u groups, no_new_privs %u, dumpable %u, directory %s",
			       in->n_groups, in->no_new_privs, in->dumpable, in->cwd);
	if (in->seccomp_mode != 2 && !plan_may_miss(p, "seccomp"))
		return err_layer(err, "seccomp", "no filter is in force (mode %u)",
				 in->seccomp_mode);
	/* The others are of priorities and queues that it does not have. */
	for (size_t i = 0; i < p->n_rlimits; i++)
		if (in->rlimits[i] > p->rlimits[i].value &&
		    (p->rlimits[i].resource == RLIMIT_NOFILE ||
		     p->rlimits[i].resource == RLIMIT_FSIZE ||
		     p->rlimits[i].resource == RLIMIT_CORE))
			return err_set(err, ERR_HOST, EPERM, "the limit %s is %llu, planned %llu",
				       p->rlimits[i].name, (unsigned long long)in->rlimits[i],
				       (unsigned long long)p->rlimits[i].value);
	return 0;
}

static int oci_ready(struct launched *l, struct err *err)
{
	struct box_msg msg;
	const char *const start[] = { "start", l->oci->name, NULL };
	int r = wait_created(l, err);
	FAULT_PHASE("oci-created");
	if (r >= 0)
		r = find_init(l, err);
	if (r >= 0)
		r = oci_command(l->oci, start, err);
	FAULT_PHASE("oci-started");
	if (r >= 0 && l->entry.has_user_ns && !oci_is_guest(l))
		r = map_user(l, err);
	if (r >= 0)
		r = launch_hear(l, BOX_MSG_READY, &msg, err);
	FAULT_PHASE("oci-answered");
	if (r < 0)
		return r;
	l->facts = msg.facts;
	return oci_is_guest(l) ? check_guest(l, err) : launch_check(l, err);
}

static void kill_and_wait(int *pid_fd)
{
	if (*pid_fd < 0)
		return;
	(void)proc_signal(*pid_fd, SIGKILL);
	(void)proc_wait(*pid_fd, NULL);
	cleanup_fd(pid_fd);
}

static void oci_abandon(struct launched *l)
{
	if (!l->oci)
		return;
	kill_and_wait(&l->oci->maker_fd);
	kill_and_wait(&l->pid_fd);
	/* Whatever the runtime had started besides. */
	if (l->budget)
		(void)l->budget->ops->kill_all(l->budget, LAUNCH_TIMEOUT_MS * 1000000ULL, NULL);
}

static int oci_end(struct launched *l, struct err *err)
{
	return l->oci && l->oci->dir ? oci_bundle_remove(l->oci, err) : 0;
}

const struct launch_ops oci_launch_ops = { oci_begin, oci_ready, oci_abandon, oci_end };

json_t *oci_json(const struct launched *l)
{
	const struct oci_runtime *o = &l->oci->runtime;
	return json_pack("{s:s,s:s,s:o,s:o,s:s}", "name", o->settings->name, "kind", "oci",
			 "program", json_text(pairs_get(&o->settings->options, "program")),
			 "engine", json_text(o->version), "kernel",
			 o->kind == OCI_RUNSC ? "gVisor" : "the host's");
}
