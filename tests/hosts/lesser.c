/* lesser [-u IDS] [-d CALL=ERROR]... COMMAND...
 * Runs a command on a host that gives less. -u: in a user namespace of its own that maps the first ids to themselves, so that its
 * limits (/proc/sys/user) can be set without touching the machine. -d: that system call fails with that errno, as under an older kernel or
 * a container engine's filter. */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void write_map(pid_t pid, const char *name, const char *ids)
{
	char path[64], map[64];
	int length = snprintf(map, sizeof map, "0 0 %s", ids);
	(void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, map, (size_t)length) != length)
		err(77, "userns: %s", path);
	(void)close(fd);
}

/* Only a process outside may map more than one id: a child waits there until this one has its namespace. */
static void own_user_namespace(const char *ids)
{
	int ready[2];
	char byte = 0;
	pid_t parent = getpid();
	if (pipe2(ready, O_CLOEXEC) < 0)
		err(1, "pipe");
	pid_t child = fork();
	if (child < 0)
		err(1, "fork");
	if (child == 0) {
		(void)close(ready[1]);
		if (read(ready[0], &byte, 1) != 1)
			_exit(77);
		write_map(parent, "gid_map", ids);
		write_map(parent, "uid_map", ids);
		_exit(0);
	}
	int status;
	(void)close(ready[0]);
	if (unshare(CLONE_NEWUSER) < 0)
		err(77, "userns: unshare");
	if (write(ready[1], &byte, 1) != 1 || waitpid(child, &status, 0) != child || status != 0)
		errx(77, "userns: the ids could not be mapped");
}

static void deny(scmp_filter_ctx filter, const char *word)
{
	char name[64];
	int error = 0;
	if (sscanf(word, "%63[a-z0-9_]=%d", name, &error) != 2)
		errx(2, "'%s' is not CALL=NUMBER", word);
	int call = seccomp_syscall_resolve_name(name);
	int r = call == __NR_SCMP_ERROR
			? -ENOENT
			: seccomp_rule_add(filter, SCMP_ACT_ERRNO((unsigned)error), call, 0);
	if (r < 0)
		errx(1, "%s: %s", name, strerror(-r));
}

int main(int argc, char **argv)
{
	bool filtered = false;
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	if (!filter)
		errx(1, "seccomp_init");
	for (int option; (option = getopt(argc, argv, "+u:d:")) != -1;) {
		if (option == 'u')
			own_user_namespace(optarg);
		else if (option == 'd') {
			deny(filter, optarg);
			filtered = true;
		} else
			return 2;
	}
	if (optind == argc)
		errx(2, "no command");
	/* Without capabilities the kernel wants no_new_privs for a filter, and libseccomp sets it. */
	if (filtered && seccomp_load(filter) < 0)
		errx(1, "seccomp_load");
	seccomp_release(filter);
	(void)execvp(argv[optind], argv + optind);
	err(127, "%s", argv[optind]);
}
