/* A process may map just itself without privileges; that is all a box needs, as root and as anyone. */
#include "box/userns.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"

#define STACK_BYTES 16384

static int write_map(int proc_fd, const char *name, unsigned inside, unsigned outside,
		     struct err *err)
{
	char text[64];
	(void)snprintf(text, sizeof text, "%u %u 1", inside, outside);
	int r = fs_write_small(proc_fd, name, text);
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "user namespace: write '%s' to %s: %s", text,
			       name, strerrordesc_np(-r));
	return 0;
}

int userns_map_self(int proc_fd, uid_t inside_uid, uid_t outside_uid, gid_t inside_gid,
		    gid_t outside_gid, struct err *err)
{
	/* A change of uid made the process undumpable, and then its own procfs files belong to root. */
	if (prctl(PR_SET_DUMPABLE, 1) < 0)
		return err_errno(err, "user namespace: dumpable");
	int r = fs_write_small(proc_fd, "self/setgroups", "deny");
	if (r < 0 && r != -ENOENT)
		return err_set(err, ERR_HOST, -r, "user namespace: deny setgroups: %s",
			       strerrordesc_np(-r));
	r = write_map(proc_fd, "self/gid_map", inside_gid, outside_gid, err);
	if (r >= 0)
		r = write_map(proc_fd, "self/uid_map", inside_uid, outside_uid, err);
	return r;
}

int namespace_refused(const char *layer, const char *limit, int error, struct err *err)
{
	const char *remedy =
		error == EINVAL || error == ENOSYS ? "boot a kernel that was built with it"
		: geteuid() == 0
			? "root here lacks CAP_SYS_ADMIN, or a filter refuses it, as in most containers: start that "
			  "container with --privileged, or run cupel on the host"
			: "as root: sysctl -w kernel.unprivileged_userns_clone=1, and where AppArmor restricts them "
			  "kernel.apparmor_restrict_unprivileged_userns=0; in a container its seccomp filter must "
			  "pass clone3 and unshare; in a chroot there are none";
	if (error == ENOSPC || error == EUSERS)
		return err_layer(
			err, layer,
			"the kernel refuses another %s namespace: %s. Remedy, as root: sysctl -w "
			"user.max_%s_namespaces=10000",
			layer, strerrordesc_np(error), limit);
	return err_layer(err, layer, "the kernel refuses a namespace: %s. Remedy: %s",
			 strerrordesc_np(error), remedy);
}

int userns_become(uid_t uid, gid_t gid, struct err *err)
{
	uid_t ruid, euid, suid;
	gid_t rgid, egid, sgid;
	if (setgroups(0, NULL) < 0)
		return err_errno(err, "drop the supplementary groups");
	if (setresgid(gid, gid, gid) < 0)
		return err_errno(err, "become group %u", gid);
	if (setresuid(uid, uid, uid) < 0)
		return err_errno(err, "become user %u", uid);
	if (getresuid(&ruid, &euid, &suid) < 0 || getresgid(&rgid, &egid, &sgid) < 0)
		return err_errno(err, "read back user and group");
	if (ruid != uid || euid != uid || suid != uid || rgid != gid || egid != gid ||
	    sgid != gid || getgroups(0, NULL) != 0)
		return err_set(err, ERR_HOST, EPERM, "user %u, group %u did not take", uid, gid);
	return 0;
}

struct borrowed {
	int ns_fd;
	int proc_fd; /* of the child, for its maps */
};

/* Shares memory and descriptors with us, who wait until it is gone. */
static int open_namespace(void *data)
{
	struct borrowed *b = data;
	b->ns_fd = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
	b->proc_fd = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return 0;
}

/* The maps are written by us, since who is inside may map nobody but itself. The child has ended by then, and is not waited for yet: what it
 * had in /proc is still there. */
static int write_maps(int proc_fd, uid_t from_uid, uid_t to_uid, gid_t from_gid, gid_t to_gid)
{
	int r = fs_write_small(proc_fd, "setgroups", "deny");
	char text[64];
	(void)snprintf(text, sizeof text, "%u %u 1", from_gid, to_gid);
	if (r >= 0)
		r = fs_write_small(proc_fd, "gid_map", text);
	(void)snprintf(text, sizeof text, "%u %u 1", from_uid, to_uid);
	return r < 0 ? r : fs_write_small(proc_fd, "uid_map", text);
}

int userns_for_mount(uid_t from_uid, uid_t to_uid, gid_t from_gid, gid_t to_gid)
{
	_Alignas(16) char stack[STACK_BYTES];
	struct borrowed b = { .ns_fd = -1, .proc_fd = -1 };
	/* Sharing everything makes this several times cheaper than a fork. */
	pid_t pid = clone(open_namespace, stack + sizeof stack,
			  CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_NEWUSER | SIGCHLD, &b);
	if (pid < 0)
		return -errno;
	CLEANUP_FD int ns_fd = b.ns_fd;
	CLEANUP_FD int proc_fd = b.proc_fd;
	int r = ns_fd < 0 || proc_fd < 0 ? -EIO
					 : write_maps(proc_fd, from_uid, to_uid, from_gid, to_gid);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return r < 0 ? r : take_fd(&ns_fd);
}

int userns_forbid(int proc_fd, struct err *err)
{
	int r = fs_write_small(proc_fd, "sys/user/max_user_namespaces", "0");
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "user namespace: forbid further ones: %s",
			       strerrordesc_np(-r));
	return 0;
}
