/* Acts that ask for namespaces and mounts, by the old calls and the new ones. Without a path they name one that
 * does not exist, so that they change nothing outside the box either. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

/* a: "user", "mount"... */
static unsigned long namespace_flag(const char *name)
{
	static const struct {
		const char *name;
		unsigned long flag;
	} rows[] = { { "user", CLONE_NEWUSER },     { "mount", CLONE_NEWNS },
		     { "pid", CLONE_NEWPID },       { "net", CLONE_NEWNET },
		     { "ipc", CLONE_NEWIPC },       { "uts", CLONE_NEWUTS },
		     { "cgroup", CLONE_NEWCGROUP }, { "time", CLONE_NEWTIME } };
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (strcmp(rows[i].name, name) == 0)
			return rows[i].flag;
	return 0;
}

static int ns_unshare(const char *a, const char *b)
{
	return answer(unshare((int)namespace_flag(a)));
}

static int reap(long pid)
{
	if (pid == 0)
		_exit(0);
	if (pid < 0)
		return -errno;
	return answer(waitpid((pid_t)pid, NULL, 0));
}

static int ns_clone(const char *a, const char *b)
{
	return reap(syscall(SYS_clone, namespace_flag(a) | SIGCHLD, 0, 0, 0, 0));
}

static int ns_clone3(const char *a, const char *b)
{
	struct clone_args args = { .flags = namespace_flag(a), .exit_signal = SIGCHLD };
	return reap(syscall(SYS_clone3, &args, sizeof args));
}

static int ns_join(const char *a, const char *b)
{
	int fd = open(a, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : answer(setns(fd, 0));
}

static int mount_old(const char *a, const char *b)
{
	return answer(mount("none", "/", "no-such-type", 0, NULL));
}

static int mount_bind(const char *a, const char *b)
{
	return answer(mount(a ? a : "/no-such", b ? b : "/no-such", NULL, MS_BIND, NULL));
}

static int mount_remount(const char *a, const char *b)
{
	return answer(mount(NULL, a ? a : "/no-such", NULL, MS_REMOUNT | MS_BIND, NULL));
}

static int unmount(const char *a, const char *b)
{
	return answer(umount2(a ? a : "/no-such", MNT_DETACH));
}

static int pivot(const char *a, const char *b)
{
	return answer(syscall(SYS_pivot_root, "/no-such", "/no-such"));
}

static int new_fsopen(const char *a, const char *b)
{
	return answer_fd(fsopen("tmpfs", FSOPEN_CLOEXEC));
}

static int new_open_tree(const char *a, const char *b)
{
	return answer_fd(open_tree(AT_FDCWD, "/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
}

static int new_fspick(const char *a, const char *b)
{
	return answer_fd(fspick(AT_FDCWD, "/", FSPICK_CLOEXEC));
}

static int new_fsconfig(const char *a, const char *b)
{
	return answer(fsconfig(-1, FSCONFIG_CMD_CREATE, NULL, NULL, 0));
}

static int new_fsmount(const char *a, const char *b)
{
	return answer_fd(fsmount(-1, FSMOUNT_CLOEXEC, 0));
}

static int new_move_mount(const char *a, const char *b)
{
	return answer(move_mount(AT_FDCWD, "/no-such", AT_FDCWD, "/no-such", 0));
}

static int new_setattr(const char *a, const char *b)
{
	struct mount_attr attr = { .attr_clr = MOUNT_ATTR_RDONLY };
	return answer(mount_setattr(AT_FDCWD, "/no-such", 0, &attr, sizeof attr));
}

const struct act mount_acts[] = {
	{ "unshare", ns_unshare },
	{ "clone", ns_clone },
	{ "clone3", ns_clone3 },
	{ "setns", ns_join },
	{ "mount", mount_old },
	{ "mount-bind", mount_bind },
	{ "remount", mount_remount },
	{ "umount", unmount },
	{ "pivot_root", pivot },
	{ "fsopen", new_fsopen },
	{ "open_tree", new_open_tree },
	{ "fspick", new_fspick },
	{ "fsconfig", new_fsconfig },
	{ "fsmount", new_fsmount },
	{ "move_mount", new_move_mount },
	{ "mount_setattr", new_setattr },
	{ NULL, NULL },
};
