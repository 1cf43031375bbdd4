/* The maker: the root that the runtime starts from, in a mount namespace of its own; then it is the runtime. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/proc.h"
#include "box/mount.h"
#include "keeper/oci.h"

#define IMAGE_FD 4

static _Noreturn void fail(int control_fd, const struct err *err)
{
	struct box_msg msg = { .kind = BOX_MSG_ERROR, .err = *err };
	(void)send(control_fd, &msg, sizeof msg, MSG_NOSIGNAL);
	_exit(125);
}

/* The socket to the keeper twice: for us, and as stdin for whoever comes after. Nothing else of the keeper's. */
static int set_descriptors(const struct box_entry *e, struct err *err)
{
	int from[] = { e->control_fd, e->stdout_fd, e->stderr_fd, e->control_fd, e->image_fd };
	int n = e->image_fd < 0 ? IMAGE_FD : IMAGE_FD + 1;
	for (int i = 0; i < n; i++) { /* first out of the way of each other */
		from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 16);
		if (from[i] < 0)
			return err_errno(err, "move a descriptor");
	}
	for (int i = 0; i < n; i++)
		if (dup3(from[i], i, i >= BOX_CONTROL_FD ? O_CLOEXEC : 0) < 0)
			return err_errno(err, "place descriptor %d", i);
	return close_range((unsigned)n, ~0U, 0) < 0 ? err_errno(err, "close all other descriptors")
						    : 0;
}

/* The plan's root with init in it, once there is a place to put it. */
static int make_root(const struct oci_making *m, struct err *err)
{
	const struct plan *plan = m->q->plan;
	struct plan with_init = *plan;
	struct root root = { .root_fd = -1, .proc_fd = -1 };
	CLEANUP_FREE char *at = xasprintf("%s/rootfs", m->oci->dir);
	CLEANUP_FREE char *program = xasprintf("%s/init", m->oci->dir);
	CLEANUP_FREE struct step *steps = xcalloc(plan->n_steps + 1, sizeof *steps);
	steps[0] = plan->steps[0];
	steps[1] =
		(struct step){ .kind = STEP_BIND, .target = (char *)OCI_INIT, .source = program };
	for (size_t i = 1; i < plan->n_steps; i++)
		steps[i + 1] = plan->steps[i];
	with_init.steps = steps;
	with_init.n_steps = plan->n_steps + 1;
	struct root_request request = { .plan = &with_init,
					.take_work = box_take_work,
					.uid = m->q->uid,
					.gid = m->q->gid,
					.image_fd = m->entry->image_fd < 0 ? -1 : IMAGE_FD,
					.at = at };
	int r = root_make(&request, &root, err);
	root_release(&root);
	return r;
}

static int settle(const struct oci_making *m, struct err *err)
{
	const struct plan *p = m->q->plan;
	CLEANUP_FD int proc_fd = open("/proc", O_DIRECTORY | O_PATH | O_CLOEXEC);
	int r = box_lower_priority(err);
	if (r >= 0)
		r = box_quell_cores(proc_fd, err);
	if (r >= 0 && sched_setaffinity(0, sizeof p->cpus, &p->cpus) < 0)
		r = err_errno(err, "bind to %d cpus", p->n_cpus);
	if (r >= 0 && m->oci->runtime.hides_unified && oci_hide_unified() < 0)
		r = err_errno(err, "take /sys/fs/cgroup/unified out of sight");
	return r;
}

_Noreturn void oci_make(const struct oci_making *m)
{
	struct err err = { 0 };
	if (set_descriptors(m->entry, &err) < 0)
		fail(m->entry->control_fd, &err);
	/* The runtime too: what it has begun without a keeper nobody would end. */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	FAULT_PHASE("oci-maker-born");
	int r = make_root(m, &err);
	if (r >= 0)
		r = settle(m, &err);
	FAULT_PHASE("oci-root-made");
	if (r < 0)
		fail(BOX_CONTROL_FD, &err);
	CLEANUP_FREE char *pid_file = xasprintf("--pid-file=%s/pid", m->oci->dir);
	CLEANUP_FREE char *bundle = xasprintf("--bundle=%s", m->oci->dir);
	const char *const words[] = { "create", bundle, pid_file, m->oci->name, NULL };
	r = oci_exec(m->oci, words);
	(void)err_set(&err, ERR_HOST, -r, "start %s", m->oci->command.v[0]);
	fail(BOX_CONTROL_FD, &err);
}
