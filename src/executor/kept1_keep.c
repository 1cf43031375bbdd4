/* The tail of box/enter.c where the head was another program's: the same confinement, receipt and words with the keeper, whose socket is
 * this process's stdin. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/proc.h"
#include "box/caps.h"
#include "box/landlock.h"
#include "box/seccomp.h"
#include "executor/kept1.h"

static _Noreturn void fail(const struct err *err)
{
	struct box_msg msg = { .kind = BOX_MSG_ERROR, .err = *err };
	(void)send(BOX_CONTROL_FD, &msg, sizeof msg, MSG_NOSIGNAL);
	_exit(KEPT1_FAILED);
}

static int set_descriptors(void)
{
	int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null_fd < 0 || (null_fd != BOX_CONTROL_FD && dup3(0, BOX_CONTROL_FD, O_CLOEXEC) < 0))
		return -errno;
	/* Descriptor 3 was free if it is the one just opened. */
	if (null_fd == BOX_CONTROL_FD) {
		int control_fd = fcntl(0, F_DUPFD_CLOEXEC, BOX_CONTROL_FD + 1);
		if (control_fd < 0 || dup3(null_fd, 0, 0) < 0 ||
		    dup3(control_fd, BOX_CONTROL_FD, O_CLOEXEC) < 0)
			return -errno;
	} else if (dup3(null_fd, 0, 0) < 0) {
		return -errno;
	}
	/* gVisor takes the last one for a signed number. */
	return close_range(BOX_CONTROL_FD + 1, INT_MAX, 0) < 0 ? -errno : 0;
}

static int wait_for(enum box_cmd_kind kind, struct err *err)
{
	struct box_cmd cmd = { 0 };
	ssize_t n = proc_recv(BOX_CONTROL_FD, &cmd, sizeof cmd, 0);
	if (n == 0)
		_exit(1); /* the keeper is gone */
	if (n != sizeof cmd || cmd.kind != kind)
		return err_set(err, ERR_HOST, EPROTO, "unexpected word from the keeper");
	return 0;
}

/* As the run's user, without any power on the host; the map is written from outside, by who has it. */
static int enter_user(struct err *err)
{
	struct box_msg msg = { .kind = BOX_MSG_MAP };
	if (unshare(CLONE_NEWUSER) < 0)
		return err_layer(
			err, "user",
			"the kernel refuses a namespace: %s. Remedy, as root: sysctl -w user.max_user_namespaces=10000",
			strerrordesc_np(errno));
	if (send(BOX_CONTROL_FD, &msg, sizeof msg, MSG_NOSIGNAL) != sizeof msg)
		return err_errno(err, "ask for the user's map");
	int r = wait_for(BOX_CMD_MAPPED, err);
	if (r < 0)
		return r;
	if (setresgid(BOX_GID, BOX_GID, BOX_GID) < 0 || setresuid(BOX_UID, BOX_UID, BOX_UID) < 0)
		return err_errno(err, "become the analysis's user");
	return caps_drop_all(err);
}

static int lower_limits(const struct kept1 *pid1, struct err *err)
{
	const struct plan *p = &pid1->plan;
	for (size_t i = 0; i < p->n_rlimits; i++) {
		struct rlimit have = { 0 };
		const struct plan_rlimit *l = &p->rlimits[i];
		if (getrlimit(l->resource, &have) < 0)
			return err_errno(err, "read limit %d", l->resource);
		rlim_t value = l->value < have.rlim_max ? l->value : have.rlim_max;
		const struct rlimit want = { value, value };
		/* gVisor knows some of them only by name: priorities and queues, which it does not have. */
		if (setrlimit(l->resource, &want) < 0 && !(pid1->is_guest && errno == EPERM))
			return err_errno(err, "set limit %d", l->resource);
	}
	return 0;
}

int kept1_confine(struct kept1 *p, struct err *err)
{
	if (prctl(PR_SET_DUMPABLE, 0) < 0) /* nothing in the container reads or traces it */
		return err_errno(err, "hide init's memory");
	if (!p->is_guest && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return err_errno(err, "die with the keeper");
	int r = lower_limits(p, err);
	if (r >= 0 && p->plan.landlock_abi)
		r = landlock_confine(p->plan.rules, p->plan.n_rules, p->plan.landlock_abi, err);
	if (r >= 0 && p->has_seccomp)
		r = seccomp_confine(err);
	return r;
}

/* What a kernel that is not Linux tells of itself; its namespaces, mounts and the like mean nothing on the host. */
static int guest_facts(const struct kept1 *p, struct box_facts *ret, struct err *err)
{
	struct box_facts f = { 0 };
	struct rlimit have = { 0 };
	cpu_set_t cpus;
	char status[4096] = "";
	if (getresuid(&f.uid[0], &f.uid[1], &f.uid[2]) < 0 ||
	    getresgid(&f.gid[0], &f.gid[1], &f.gid[2]) < 0 || !getcwd(f.cwd, sizeof f.cwd))
		return err_errno(err, "read back the user");
	f.uid[3] = f.uid[1];
	f.gid[3] = f.gid[1];
	f.n_groups = (uint32_t)getgroups(0, NULL);
	f.no_new_privs = (uint32_t)prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
	f.dumpable = (uint32_t)prctl(PR_GET_DUMPABLE);
	(void)fs_read_small(AT_FDCWD, "/proc/self/status", status, sizeof status);
	static const char *const sets[] = { "\nCapInh:", "\nCapPrm:", "\nCapEff:", "\nCapBnd:" };
	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
		const char *at = strstr(status, sets[i]);
		f.caps[i] = at ? strtoull(at + strlen(sets[i]), NULL, 16) : UINT64_MAX;
	}
	const char *mode = strstr(status, "\nSeccomp:");
	f.seccomp_mode = mode ? (uint32_t)strtoul(mode + strlen("\nSeccomp:"), NULL, 10) : 0;
	for (size_t i = 0; i < p->plan.n_rlimits; i++)
		f.rlimits[i] = getrlimit(p->plan.rlimits[i].resource, &have) == 0 ? have.rlim_max
										  : UINT64_MAX;
	if (sched_getaffinity(0, sizeof cpus, &cpus) == 0)
		f.n_cpus = (uint32_t)CPU_COUNT(&cpus);
	*ret = f;
	return 0;
}

_Noreturn void kept1_keep(struct kept1 *p)
{
	struct err err = { 0 };
	struct box_msg msg = { .kind = BOX_MSG_READY };
	const struct box_entry entry = { .plan = &p->plan, .control_fd = BOX_CONTROL_FD };
	if (set_descriptors() < 0)
		_exit(KEPT1_FAILED);
	(void)umask(022);
	(void)prctl(PR_SET_NAME, "cupel-init");
	int r = p->own_user ? enter_user(&err) : 0;
	if (r >= 0)
		r = kept1_confine(p, &err);
	if (r >= 0)
		r = p->is_guest ? guest_facts(p, &msg.facts, &err)
				: facts_read(&p->plan, &msg.facts, &err);
	if (r < 0)
		fail(&err);
	msg.facts.seccomp_own = p->has_seccomp;
	if (send(BOX_CONTROL_FD, &msg, sizeof msg, MSG_NOSIGNAL) != sizeof msg)
		_exit(1);
	if (wait_for(BOX_CMD_GO, &err) < 0)
		fail(&err);
	init_run(&entry, BOX_CONTROL_FD);
}
