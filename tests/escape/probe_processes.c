/* Acts on other processes, and what this one has been given. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

static int send_signal(const char *a, const char *b)
{
	return answer(kill((pid_t)number(a), (int)number(b)));
}

static int open_pidfd(const char *a, const char *b)
{
	return answer_fd(syscall(SYS_pidfd_open, number(a), 0));
}

static int trace(const char *a, const char *b)
{
	int r = answer(ptrace(PTRACE_SEIZE, (pid_t)number(a), NULL, NULL));
	if (r == 0)
		(void)ptrace(PTRACE_DETACH, (pid_t)number(a), NULL, NULL);
	return r;
}

/* A child of one's own: nobody's right to trace but for the filter. */
static int trace_child(const char *a, const char *b)
{
	pid_t pid = fork();
	if (pid == 0)
		for (;;)
			(void)pause();
	int r = answer(ptrace(PTRACE_SEIZE, pid, NULL, NULL));
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	return r;
}

static int read_memory(const char *a, const char *b)
{
	static char source[8] = "memory", target[8];
	struct iovec to = { target, sizeof target }, from = { source, sizeof source };
	return answer(process_vm_readv((pid_t)number(a), &to, 1, &from, 1, 0));
}

static int read_own_memory(const char *a, const char *b)
{
	char pid[16];
	(void)snprintf(pid, sizeof pid, "%d", (int)getpid());
	return read_memory(pid, NULL);
}

static int take_descriptor(const char *a, const char *b)
{
	int pid_fd = (int)syscall(SYS_pidfd_open, a ? number(a) : getpid(), 0);
	return pid_fd < 0 ? -errno : answer_fd(syscall(SYS_pidfd_getfd, pid_fd, 0, 0));
}

static int compare(const char *a, const char *b)
{
	return answer(syscall(SYS_kcmp, getpid(), getpid(), 1 /* KCMP_VM */, 0, 0));
}

static int raise_limit_of(const char *a, const char *b)
{
	struct rlimit old;
	return answer(prlimit((pid_t)number(a), RLIMIT_NOFILE, NULL, &old));
}

static int bind_cpu(const char *a, const char *b)
{
	cpu_set_t set;
	return answer(sched_getaffinity((pid_t)number(a), sizeof set, &set));
}

static int session_of(const char *a, const char *b)
{
	pid_t sid = getsid((pid_t)number(a));
	return answer(sid);
}

/* Descriptors that are open here, by number. */
static int descriptors(const char *a, const char *b)
{
	char list[512] = "";
	struct stat st;
	for (int fd = 0; fd < 4096; fd++) {
		size_t used = strlen(list);
		if (fstat(fd, &st) == 0)
			(void)snprintf(list + used, sizeof list - used, "%s%d", used ? " " : "",
				       fd);
	}
	say("[%s]", list);
	return 0;
}

static int terminal(const char *a, const char *b)
{
	return answer_fd(open("/dev/tty", O_RDWR | O_CLOEXEC));
}

static int parent_dies(const char *a, const char *b)
{
	say("%d", (int)getppid());
	return 0;
}

static int directory(const char *a, const char *b)
{
	char path[1024];
	if (!getcwd(path, sizeof path))
		return -errno;
	say("%s", path);
	return 0;
}

static int limit(const char *a, const char *b)
{
	struct rlimit l;
	if (getrlimit((__rlimit_resource_t)number(a), &l) < 0)
		return -errno;
	say("%ld %ld", (long)l.rlim_cur, (long)l.rlim_max);
	return 0;
}

/* Leaves a grandchild in a session of its own behind, which ignores what it can and holds standard output. */
static int daemon_left(const char *a, const char *b)
{
	pid_t pid = fork();
	if (pid == 0) {
		(void)setsid();
		if (fork() != 0)
			_exit(0);
		for (int s = 1; s < NSIG; s++)
			(void)signal(s, SIG_IGN);
		(void)prctl(PR_SET_NAME, a);
		for (;;)
			(void)pause();
	}
	return answer(waitpid(pid, NULL, 0));
}

/* Stopped processes and zombies, `a` of each. */
static int stopped_and_dead(const char *a, const char *b)
{
	for (long i = 0; i < number(a); i++) {
		pid_t pid = fork();
		if (pid == 0) {
			(void)raise(SIGSTOP);
			for (;;)
				(void)pause();
		}
		pid_t dead = fork();
		if (dead == 0)
			_exit(0);
		if (pid < 0 || dead < 0)
			return -errno;
	}
	return 0;
}

/* Ignores SIGTERM and waits for ever. */
static int stubborn(const char *a, const char *b)
{
	for (int s = 1; s < NSIG; s++)
		(void)signal(s, SIG_IGN);
	for (;;)
		(void)pause();
	return 0;
}

const struct act process_acts[] = {
	{ "kill", send_signal },
	{ "pidfd_open", open_pidfd },
	{ "ptrace", trace },
	{ "ptrace-child", trace_child },
	{ "vm-read", read_memory },
	{ "vm-read-self", read_own_memory },
	{ "pidfd_getfd", take_descriptor },
	{ "kcmp", compare },
	{ "prlimit", raise_limit_of },
	{ "affinity", bind_cpu },
	{ "getsid", session_of },
	{ "descriptors", descriptors },
	{ "tty", terminal },
	{ "getppid", parent_dies },
	{ "getcwd", directory },
	{ "rlimit", limit },
	{ "daemon", daemon_left },
	{ "stopped", stopped_and_dead },
	{ "stubborn", stubborn },
	{ NULL, NULL },
};
