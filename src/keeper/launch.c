#include "keeper/launch_parts.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/proc.h"
#include "box/userns.h"
#include "keeper/oci.h"

#define GROUPS_MAX 65536 /* of /proc/PID/cgroup */
#define DYING_MSEC 1000

void launch_ends_release(struct launch_ends *e)
{
	cleanup_fd(&e->null_fd);
	cleanup_fd(&e->out_fd);
	cleanup_fd(&e->err_fd);
	cleanup_fd(&e->control_fd);
}

/* The analysis may open /dev/stdout by name, so the pipe must belong to its user. */
static int make_pipe(int *ret_ours, int *ret_theirs, const struct launch_request *q,
		     struct err *err)
{
	int fds[2];
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_errno(err, "make a pipe");
	*ret_ours = fds[0];
	*ret_theirs = fds[1];
	if (fcntl(fds[0], F_SETFL, O_NONBLOCK) < 0 || fchown(fds[1], q->uid, q->gid) < 0)
		return err_errno(err, "prepare a pipe");
	return 0;
}

int launch_open(const struct launch_request *q, struct launched *l, struct launch_ends *ret,
		struct err *err)
{
	int sockets[2];
	ret->null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (ret->null_fd < 0)
		return err_errno(err, "open /dev/null");
	int r = make_pipe(&l->out_fd, &ret->out_fd, q, err);
	if (r >= 0)
		r = make_pipe(&l->err_fd, &ret->err_fd, q, err);
	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		return err_errno(err, "make the control socket");
	/* Only the box may hold its ends: their end is how its death is seen. */
	l->control_fd = sockets[0];
	ret->control_fd = sockets[1];
	l->budget = q->budget;
	l->entry = (struct box_entry){
		.plan = q->plan,
		.control_fd = ret->control_fd,
		.stdin_fd = ret->null_fd,
		.stdout_fd = ret->out_fd,
		.stderr_fd = ret->err_fd,
		.uid = q->uid,
		.gid = q->gid,
		.is_root = q->is_root,
		.image_fd = q->image_fd,
	};
	return 0;
}

/* The namespaces by layer. `user` is first: an ordinary user gets the others only inside one. */
static const struct {
	uint64_t flag;
	const char *layer;
	const char *limit; /* its name in /proc/sys/user */
} namespaces[] = {
	{ CLONE_NEWUSER, "user", "user" }, { CLONE_NEWNS, "mount", "mnt" },
	{ CLONE_NEWPID, "pid", "pid" },    { CLONE_NEWNET, "net", "net" },
	{ CLONE_NEWIPC, "ipc", "ipc" },    { CLONE_NEWUTS, "uts", "uts" },
};

/* Does the kernel give this namespace, in the way and to the user that the box gets it? Tried in a child. Returns the errno, 0 if it
 * does. */
static int try_namespace(const struct box_entry *e, uint64_t flag)
{
	bool later = flag == CLONE_NEWCGROUP || (flag == CLONE_NEWUSER && e->is_root);
	struct clone_args args = { .flags = (later ? 0 : flag) | (e->is_root ? 0 : CLONE_NEWUSER),
				   .exit_signal = SIGCHLD };
	int status = 0;
	long pid = syscall(SYS_clone3, &args, sizeof args);
	if (pid < 0)
		return errno;
	if (pid == 0) {
		if (later && flag == CLONE_NEWUSER &&
		    (setresgid(e->gid, e->gid, e->gid) < 0 ||
		     setresuid(e->uid, e->uid, e->uid) < 0))
			_exit(errno);
		_exit(later && unshare((int)flag) < 0 ? errno : 0);
	}
	return waitpid((pid_t)pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status)
									   : EIO;
}

static bool has_namespace(const struct box_entry *e, const char *layer, uint64_t flag)
{
	return !plan_may_miss(e->plan, layer) || try_namespace(e, flag) == 0;
}

/* A layer is left out only if the caller allowed that and the host does not give it; otherwise setting it up fails by its name. An
 * ordinary user has no box at all without a user namespace. */
void launch_choose_layers(struct box_entry *e)
{
	e->has_user_ns = !e->is_root || has_namespace(e, "user", CLONE_NEWUSER);
	e->has_cgroup_ns = has_namespace(e, "cgroup", CLONE_NEWCGROUP);
	e->has_net_ns = e->plan->own_network && has_namespace(e, "net", CLONE_NEWNET);
	e->has_ipc_ns = has_namespace(e, "ipc", CLONE_NEWIPC);
	e->has_uts_ns = has_namespace(e, "uts", CLONE_NEWUTS);
}

/* Says which namespace the kernel refuses, by trying each alone. */
static int name_refused(const struct box_entry *e, int error, struct err *err)
{
	uint64_t flags = box_clone_flags(e);
	if (error == ENOSYS)
		return err_layer(
			err, "pid",
			"clone3 is refused. Remedy: boot Linux 5.7 or later; in a container, have its seccomp filter "
			"pass clone3 (a newer container engine does)");
	for (size_t i = 0; i < sizeof namespaces / sizeof *namespaces; i++) {
		int why = flags & namespaces[i].flag ? try_namespace(e, namespaces[i].flag) : 0;
		if (why)
			return namespace_refused(namespaces[i].layer, namespaces[i].limit, why,
						 err);
	}
	return err_set(err, ERR_HOST, error, "clone the box: %s", strerrordesc_np(error));
}

static int clone_init(const struct launch_request *q, struct launched *l, struct err *err)
{
	const struct box_entry *e = &l->entry;
	int cgroup_fd = q->budget->ops->clone_fd(q->budget);
	int pid_fd = -1;
	struct clone_args args = {
		.flags = box_clone_flags(e) | CLONE_PIDFD |
			 (cgroup_fd >= 0 ? CLONE_INTO_CGROUP : 0),
		.pidfd = (uint64_t)(uintptr_t)&pid_fd,
		.exit_signal = SIGCHLD,
		.cgroup = cgroup_fd >= 0 ? (uint64_t)cgroup_fd : 0,
	};
	long pid = syscall(SYS_clone3, &args, sizeof args);
	if (pid < 0)
		return name_refused(e, errno, err);
	if (pid == 0)
		box_enter(e);
	FAULT_PHASE("box-cloned");
	l->pid = (pid_t)pid;
	l->pid_fd = pid_fd;
	return 0;
}

int launch_say(const struct launched *l, enum box_cmd_kind kind, int signal_number)
{
	struct box_cmd cmd = { .kind = kind, .signal = signal_number };
	return send(l->control_fd, &cmd, sizeof cmd, MSG_NOSIGNAL) == sizeof cmd ? 0 : -EPIPE;
}

static int init_ended(struct err *err)
{
	return err_set(err, ERR_HOST, EPIPE, "the box's init ended while it was set up (killed?)");
}

static int hear(struct launched *l, enum box_msg_kind kind, struct box_msg *ret, int *ret_fd,
		struct err *err)
{
	struct pollfd poll_fd = { .fd = l->control_fd, .events = POLLIN };
	int n = poll(&poll_fd, 1, LAUNCH_TIMEOUT_MS);
	if (n == 0)
		return err_set(err, ERR_HOST, ETIMEDOUT,
			       "setting the box up took more than a minute");
	ssize_t length = ret_fd ? proc_recv_fd(l->control_fd, ret, sizeof *ret, ret_fd)
				: proc_recv(l->control_fd, ret, sizeof *ret, 0);
	if (length != sizeof *ret)
		return init_ended(err);
	if (ret->kind == BOX_MSG_ERROR) {
		if (err)
			*err = ret->err;
		return -(ret->err.code ? ret->err.code : EIO);
	}
	return ret->kind == kind
		       ? 0
		       : err_set(err, ERR_HOST, EPROTO, "unexpected word from the box's init");
}

int launch_hear(struct launched *l, enum box_msg_kind kind, struct box_msg *ret, struct err *err)
{
	return hear(l, kind, ret, NULL, err);
}

int launch_take_work(struct launched *l, int *ret_mount_fd, struct err *err)
{
	struct box_msg msg;
	CLEANUP_FD int fd = -1;
	int r = hear(l, BOX_MSG_WORK, &msg, &fd, err);
	if (r < 0)
		return r;
	*ret_mount_fd = take_fd(&fd);
	return 0;
}

static int wait_ready(struct launched *l, struct err *err)
{
	struct box_msg msg;
	int r = launch_hear(l, BOX_MSG_READY, &msg, err);
	if (r >= 0)
		l->facts = msg.facts;
	return r;
}

static int begin(const struct launch_request *q, struct launched *l, struct err *err)
{
	CLEANUP_LAUNCH_ENDS struct launch_ends ends = LAUNCH_ENDS_INIT;
	int r = launch_open(q, l, &ends, err);
	if (r < 0)
		return r;
	launch_choose_layers(&l->entry);
	static_assert(BOX_JOIN_MAX >= BUDGET_JOIN_MAX, "room for every tree");
	int n = q->budget->ops->join_fds(q->budget, l->entry.join_fds, err);
	if (n < 0)
		return n;
	l->entry.n_join = n;
	r = clone_init(q, l, err);
	for (int i = 0; i < n; i++)
		cleanup_fd(&l->entry.join_fds[i]);
	FAULT_PHASE("box-begun");
	return r;
}

static int hand_over(struct launched *l, enum box_cmd_kind kind, int dir_fd, int mount_fd,
		     struct err *err)
{
	struct stat st = { 0 };
	if (fstat(dir_fd, &st) < 0)
		return err_errno(err, "look at what is handed over");
	struct box_cmd cmd = { .kind = kind, .work_dev = st.st_dev, .work_ino = st.st_ino };
	/* An init that died has left a last word that says why. */
	return proc_send_fd(l->control_fd, &cmd, sizeof cmd, mount_fd) < 0 ? wait_ready(l, err) : 0;
}

int launch_work(struct launched *l, int dir_fd, int mount_fd, struct err *err)
{
	return hand_over(l, BOX_CMD_WORK, dir_fd, mount_fd, err);
}

int launch_checkpoint(struct launched *l, int dir_fd, int mount_fd, struct err *err)
{
	return hand_over(l, BOX_CMD_CHECKPOINT, dir_fd, mount_fd, err);
}

int launch_check_groups(const struct launched *l, struct err *err)
{
	char name[32];
	CLEANUP_FREE char *groups = xmalloc(GROUPS_MAX);
	const char *path = l->budget->ops->path(l->budget);
	if (!path[0])
		return 0;
	(void)snprintf(name, sizeof name, "/proc/%d/cgroup", (int)l->pid);
	ssize_t n = fs_read_small(AT_FDCWD, name, groups, GROUPS_MAX);
	if (n < 0)
		return err_set(err, ERR_HOST, (int)-n, "read back %s", name);
	int found = 0;
	for (const char *at = groups; (at = strstr(at, path)); at += strlen(path))
		found += at[strlen(path)] == '\n' || at[strlen(path)] == 0;
	int want = l->entry.n_join + (l->budget->ops->clone_fd(l->budget) >= 0);
	return found >= want ? 0
			     : err_set(err, ERR_HOST, EIO,
				       "the box is in %d of the %d groups of its budget %s", found,
				       want, path);
}

int launch_check(struct launched *l, struct err *err)
{
	int r = outside_read(l->pid, &l->outside, err);
	if (r >= 0)
		r = launch_check_groups(l, err);
	if (r >= 0)
		r = receipt_check(&l->entry, &l->facts, &l->outside, err);
	/* What is read of a dead process says nothing of the box. One that is dying has left its groups
	 * before its pidfd tells. */
	struct pollfd dead = { .fd = l->pid_fd, .events = POLLIN };
	return r < 0 && poll(&dead, 1, DYING_MSEC) == 1 ? init_ended(err) : r;
}

static int ready(struct launched *l, struct err *err)
{
	int r = wait_ready(l, err);
	FAULT_PHASE("box-answered");
	return r < 0 ? r : launch_check(l, err);
}

static void abandon(struct launched *l)
{
	if (l->pid_fd < 0)
		return;
	(void)proc_signal(l->pid_fd, SIGKILL);
	(void)proc_wait(l->pid_fd, NULL);
}

/* The kernel has removed all of it with its last process. */
static int end(struct launched *l, struct err *err)
{
	return 0;
}

static const struct launch_ops own_ops = { begin, ready, abandon, end };

int launch_begin(const struct launch_request *request, struct launched *ret, struct err *err)
{
	struct launched l = LAUNCHED_INIT;
	l.ops = request->oci ? &oci_launch_ops : &own_ops;
	int r = l.ops->begin(request, &l, err);
	if (r < 0) {
		l.ops->abandon(&l);
		(void)l.ops->end(&l, NULL); /* what it leaves is gc's */
		launched_release(&l);
		return r;
	}
	*ret = l;
	return 0;
}

int launch_ready(struct launched *l, struct err *err)
{
	return l->ops->ready(l, err);
}

void launch_abandon(struct launched *l)
{
	if (l->ops)
		l->ops->abandon(l);
}

int launch_end(struct launched *l, struct err *err)
{
	return l->ops ? l->ops->end(l, err) : 0;
}

int launch_go(const struct launched *l, struct err *err)
{
	return launch_say(l, BOX_CMD_GO, 0) < 0
		       ? err_set(err, ERR_HOST, EPIPE, "the box's init ended before its go")
		       : 0;
}

void launch_signal(const struct launched *l, enum box_cmd_kind whom, int signal_number)
{
	(void)launch_say(l, whom, signal_number); /* a box that is gone needs no signal */
}

void launched_release(struct launched *l)
{
	cleanup_fd(&l->pid_fd);
	cleanup_fd(&l->control_fd);
	cleanup_fd(&l->out_fd);
	cleanup_fd(&l->err_fd);
	oci_box_free(&l->oci);
}
