/* The system call filter: what is refused and how, beside what must still work. Everything refused is also done without the
 * filter, by the same process a moment before. */
#include "child.h"

#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <termios.h>

#include "../skip.h"
#include "base/cleanup.h"
#include "box/seccomp.h"

#ifndef AF_VSOCK
#define AF_VSOCK 40
#endif

static void confine(void)
{
	struct err err = { 0 };
	EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	EXPECT_OK(seccomp_confine(&err), &err);
	EXPECT(prctl(PR_GET_SECCOMP), 2);
}

/* Each call with arguments that can do no harm wherever it gets through. `outside` is its errno without the filter, as root;
 * UNSURE where that hangs on how the kernel was built. */
enum { UNSURE = -1 };
struct call {
	const char *name;
	long number;
	long args[5];
	int outside;
};

#define BAD (-1L)
static const struct call denied[] = {
	{ "unshare", SYS_unshare, { 0 }, 0 },
	{ "setns", SYS_setns, { BAD, 0 }, EBADF },
	{ "mount", SYS_mount, { 0, 0, 0, 0, 0 }, EFAULT },
	{ "umount2", SYS_umount2, { 0, 0 }, EFAULT },
	{ "pivot_root", SYS_pivot_root, { 0, 0 }, EFAULT },
	{ "chroot", SYS_chroot, { 0 }, EFAULT },
	{ "open_tree", SYS_open_tree, { BAD, 0, BAD }, EINVAL },
	{ "move_mount", SYS_move_mount, { BAD, 0, BAD, 0, BAD }, EINVAL },
	{ "fsopen", SYS_fsopen, { 0, BAD }, EINVAL },
	{ "fsmount", SYS_fsmount, { BAD, BAD, 0 }, EINVAL },
	{ "fsconfig", SYS_fsconfig, { BAD, 0, 0, 0, 0 }, EINVAL },
	{ "fspick", SYS_fspick, { BAD, 0, BAD }, EINVAL },
	{ "mount_setattr", SYS_mount_setattr, { BAD, 0, BAD, 0, 0 }, EINVAL },
	{ "process_vm_readv", SYS_process_vm_readv, { 1, 0, 0, 0, 0 }, 0 },
	{ "process_vm_writev", SYS_process_vm_writev, { 1, 0, 0, 0, 0 }, 0 },
	{ "pidfd_getfd", SYS_pidfd_getfd, { BAD, 0, 0 }, EBADF },
	{ "open_by_handle_at", SYS_open_by_handle_at, { BAD, 0, 0 }, UNSURE },
	{ "name_to_handle_at", SYS_name_to_handle_at, { BAD, 0, 0, 0, BAD }, EINVAL },
	{ "io_uring_setup", SYS_io_uring_setup, { 0, 0 }, UNSURE },
	{ "io_uring_enter", SYS_io_uring_enter, { BAD, 0, 0, 0, 0 }, UNSURE },
	{ "io_uring_register", SYS_io_uring_register, { BAD, 0, 0, 0 }, UNSURE },
	{ "bpf", SYS_bpf, { BAD, 0, 0 }, UNSURE },
	{ "keyctl", SYS_keyctl, { BAD, 0, 0, 0, 0 }, UNSURE },
	{ "add_key", SYS_add_key, { 0, 0, 0, 0, 0 }, UNSURE },
	{ "request_key", SYS_request_key, { 0, 0, 0, 0 }, UNSURE },
	{ "userfaultfd", SYS_userfaultfd, { BAD }, UNSURE },
	{ "perf_event_open", SYS_perf_event_open, { 0, 0, 0, 0, 0 }, UNSURE },
	{ "fanotify_init", SYS_fanotify_init, { BAD, 0 }, UNSURE },
	{ "kcmp", SYS_kcmp, { 0, 0, 0, 0, 0 }, UNSURE },
	{ "quotactl", SYS_quotactl, { BAD, 0, 0, 0 }, UNSURE },
	{ "swapon", SYS_swapon, { 0, 0 }, UNSURE },
	{ "reboot", SYS_reboot, { 0, 0, 0, 0 }, UNSURE },
	{ "kexec_load", SYS_kexec_load, { 0, BAD, 0, 0 }, UNSURE },
	{ "init_module", SYS_init_module, { 0, 0, 0 }, UNSURE },
	{ "delete_module", SYS_delete_module, { 0, 0 }, UNSURE },
	{ "clock_settime", SYS_clock_settime, { 9999, 0 }, EINVAL },
	{ "adjtimex", SYS_adjtimex, { 0 }, EFAULT },
	{ "sethostname", SYS_sethostname, { 0, 9999 }, EINVAL },
	{ "setdomainname", SYS_setdomainname, { 0, 9999 }, EINVAL },
	{ "syslog", SYS_syslog, { BAD, 0, 0 }, UNSURE },
	{ "move_pages", SYS_move_pages, { 0, 0, 0, 0, BAD }, UNSURE },
	{ "memfd_secret", SYS_memfd_secret, { BAD }, UNSURE },
};

static int errno_of_call(const struct call *c)
{
	return ERRNO_OF(
		syscall(c->number, c->args[0], c->args[1], c->args[2], c->args[3], c->args[4], 0L));
}

static void denied_body(void *data)
{
	for (int filtered = 0; filtered < 2; filtered++) {
		for (size_t i = 0; i < sizeof(denied) / sizeof(*denied); i++) {
			int have = errno_of_call(&denied[i]);
			int want = filtered ? EPERM : denied[i].outside;
			if (want != UNSURE && have != want) {
				(void)dprintf(2, "%s %s the filter: %s\n", denied[i].name,
					      filtered ? "in" : "without", strerror(have));
				_exit(1);
			}
		}
		if (!filtered)
			confine();
	}
}

static void denied_calls_answer_eperm(void **state)
{
	SKIP_UNLESS(geteuid() == 0, "root", "without it the kernel refuses most of them anyway");
	in_child(denied_body, NULL);
}

static void ptrace_body(void *data)
{
	confine();
	EXPECT(ERRNO_OF(ptrace(PTRACE_TRACEME, 0, NULL, NULL)), EPERM);
}

static void ptrace_control(void *data)
{
	EXPECT(ERRNO_OF(ptrace(PTRACE_TRACEME, 0, NULL, NULL)), 0);
}

static void ptrace_is_denied(void **state)
{
	in_child(ptrace_control, NULL);
	in_child(ptrace_body, NULL);
}

/* What no list names looks like an older kernel. */
static void unknown_body(void *data)
{
	struct clone_args args = { .flags = 1ULL << 63 }; /* refused even where clone3 is known */
	EXPECT(ERRNO_OF(syscall(SYS_clone3, &args, sizeof(args))), EINVAL);
	EXPECT(ERRNO_OF(personality(READ_IMPLIES_EXEC)), 0);
	EXPECT(ERRNO_OF(personality(0)), 0);
	confine();
	EXPECT(ERRNO_OF(syscall(SYS_clone3, &args, sizeof(args))), ENOSYS);
	EXPECT(ERRNO_OF(syscall(9999)), ENOSYS);
	EXPECT(ERRNO_OF(personality(READ_IMPLIES_EXEC)), ENOSYS);
	EXPECT(ERRNO_OF(personality(0xffffffff)), 0);
	EXPECT(ERRNO_OF(personality(0)), 0);
}

static void unknown_calls_answer_enosys(void **state)
{
	in_child(unknown_body, NULL);
}

static void *thread_body(void *data)
{
	*(int *)data = 42;
	return NULL;
}

static void allowed_body(void *data)
{
	int pipe_fds[2], pair[2], number = 0, status = -1;
	char byte = 0;
	pthread_t thread;
	confine();
	EXPECT(getpid() > 0, 1);
	CLEANUP_FD int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	EXPECT(read(fd, &byte, 1), 1);
	EXPECT(ERRNO_OF(pipe2(pipe_fds, O_CLOEXEC)), 0);
	EXPECT(write(pipe_fds[1], "x", 1), 1);
	EXPECT(ERRNO_OF(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)), 0);
	CLEANUP_FD int memory_fd = memfd_create("m", MFD_CLOEXEC);
	EXPECT(ERRNO_OF(memory_fd), 0);
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	EXPECT(page != MAP_FAILED, 1);
	EXPECT(ERRNO_OF(mprotect(page, 4096, PROT_READ | PROT_EXEC)), 0); /* compilers in memory */
	EXPECT(pthread_create(&thread, NULL, thread_body, &number), 0);
	EXPECT(pthread_join(thread, NULL), 0);
	EXPECT(number, 42);
	pid_t pid = fork();
	if (pid == 0)
		_exit(execl("/bin/true", "true", (char *)NULL) < 0 ? 1 : 0);
	EXPECT(waitpid(pid, &status, 0), pid);
	EXPECT(status, 0);
}

static void ordinary_calls_work(void **state)
{
	in_child(allowed_body, NULL);
}

/* A bare clone; the new process does nothing but end. */
static int errno_of_clone(unsigned long flags)
{
	long pid = syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
	int error = errno;
	if (pid == 0)
		syscall(SYS_exit_group, 0);
	if (pid > 0)
		(void)waitpid((pid_t)pid, NULL, 0);
	return pid < 0 ? error : 0;
}

static void clone_body(void *data)
{
	static const unsigned long flags[] = { CLONE_NEWNS,    CLONE_NEWUSER, CLONE_NEWPID,
					       CLONE_NEWNET,   CLONE_NEWIPC,  CLONE_NEWUTS,
					       CLONE_NEWCGROUP };
	size_t n = sizeof(flags) / sizeof(*flags);
	for (size_t i = 0; i < n; i++)
		EXPECT(errno_of_clone(flags[i]), 0);
	confine();
	EXPECT(errno_of_clone(0), 0);
	EXPECT(errno_of_clone(CLONE_PARENT_SETTID), 0);
	for (size_t i = 0; i < n; i++)
		EXPECT(errno_of_clone(flags[i]), EPERM);
	EXPECT(errno_of_clone(CLONE_NEWUSER | CLONE_NEWNS), EPERM);
	EXPECT(errno_of_clone(CLONE_NEWUSER | 1UL << 40), EPERM); /* upper bits hide nothing */
}

static void namespaces_are_not_cloned(void **state)
{
	SKIP_UNLESS(geteuid() == 0, "root", "most namespaces need it");
	SKIP_UNLESS(access("/proc/self/ns/user", F_OK) == 0, "userns", "the kernel has none");
	in_child(clone_body, NULL);
}

static int errno_of_socket(int family, int type, int protocol)
{
	CLEANUP_FD int fd = socket(family, type | SOCK_CLOEXEC, protocol);
	return fd < 0 ? errno : 0;
}

struct socket_row {
	int family, type, protocol;
	int inside;
};

static const struct socket_row socket_rows[] = {
	{ AF_UNIX, SOCK_STREAM, 0, 0 },
	{ AF_UNIX, SOCK_SEQPACKET, 0, 0 },
	{ AF_INET, SOCK_STREAM, 0, 0 },
	{ AF_INET, SOCK_DGRAM, 0, 0 },
	{ AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 6 /* TCP */, 0 },
	{ AF_NETLINK, SOCK_RAW, 0 /* route */, 0 },
	{ AF_NETLINK, SOCK_RAW, 15 /* uevents */, EAFNOSUPPORT },
	{ AF_NETLINK, SOCK_RAW, 9 /* audit */, EAFNOSUPPORT },
	{ AF_NETLINK, SOCK_RAW, 16 /* generic */, EAFNOSUPPORT },
	{ AF_PACKET, SOCK_RAW, 0, EAFNOSUPPORT },
	{ AF_VSOCK, SOCK_STREAM, 0, EAFNOSUPPORT },
	{ 38 /* AF_ALG */, SOCK_SEQPACKET, 0, EAFNOSUPPORT },
	{ 29 /* AF_CAN */, SOCK_RAW, 1, EAFNOSUPPORT },
	{ 44 /* AF_XDP */, SOCK_RAW, 0, EAFNOSUPPORT },
};

static void socket_body(void *data)
{
	EXPECT(errno_of_socket(AF_NETLINK, SOCK_RAW, 15), 0);
	EXPECT(errno_of_socket(AF_NETLINK, SOCK_RAW, 16), 0);
	int inet6 = errno_of_socket(AF_INET6, SOCK_STREAM, 0); /* a host may have none */
	confine();
	for (size_t i = 0; i < sizeof(socket_rows) / sizeof(*socket_rows); i++) {
		const struct socket_row *row = &socket_rows[i];
		int have = errno_of_socket(row->family, row->type, row->protocol);
		if (have == row->inside)
			continue;
		(void)dprintf(2, "socket(%d, %d, %d): %s\n", row->family, row->type, row->protocol,
			      strerror(have));
		_exit(1);
	}
	EXPECT(errno_of_socket(AF_INET6, SOCK_STREAM, 0), inet6);
	/* The kernel looks at 32 bits of the family. */
	EXPECT(ERRNO_OF(syscall(SYS_socket, 1UL << 32 | AF_VSOCK, SOCK_STREAM, 0)), EAFNOSUPPORT);
}

static void only_some_families_have_sockets(void **state)
{
	in_child(socket_body, NULL);
}

static void tiocsti_body(void *data)
{
	char name[64], letter = 'x';
	struct winsize size;
	CLEANUP_FD int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	EXPECT(ERRNO_OF(master), 0);
	EXPECT(grantpt(master) == 0 && unlockpt(master) == 0, 1);
	EXPECT(ptsname_r(master, name, sizeof(name)), 0);
	EXPECT(ERRNO_OF(setsid()), 0);
	(void)signal(SIGHUP, SIG_IGN); /* comes when the master is closed */
	CLEANUP_FD int terminal = open(name, O_RDWR | O_CLOEXEC); /* becomes ours */
	EXPECT(ERRNO_OF(terminal), 0);
	EXPECT(ERRNO_OF(ioctl(terminal, TIOCSTI, &letter)), 0);
	confine();
	EXPECT(ERRNO_OF(ioctl(terminal, TIOCSTI, &letter)), EPERM);
	EXPECT(ERRNO_OF(syscall(SYS_ioctl, terminal, 7UL << 32 | TIOCSTI, &letter)), EPERM);
	EXPECT(ERRNO_OF(ioctl(terminal, 0x541c /* TIOCLINUX */, &letter)), EPERM);
	EXPECT(ERRNO_OF(ioctl(terminal, TIOCGWINSZ, &size)), 0);
}

static void nothing_types_into_a_terminal(void **state)
{
	SKIP_UNLESS(geteuid() == 0, "root", "without it the kernel may refuse TIOCSTI itself");
	SKIP_UNLESS(access("/dev/ptmx", F_OK) == 0, "pty", "there is no /dev/ptmx");
	in_child(tiocsti_body, NULL);
}

static void unprivileged_body(void *data)
{
	struct err err = { 0 };
	EXPECT(setresuid(12345, 12345, 12345), 0);
	EXPECT(seccomp_confine(&err), -EOPNOTSUPP); /* no_new_privs was not set */
	EXPECT(err.kind, ERR_HOST);
	EXPECT(strstr(err.text, strerror(EACCES)) != NULL, 1);
	confine();
}

static void an_ordinary_user_needs_no_new_privs(void **state)
{
	SKIP_UNLESS(geteuid() == 0, "root", "to become another user");
	in_child(unprivileged_body, NULL);
}

#ifdef __x86_64__
static long call_i386_getpid(void)
{
	long result = 20;
	__asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
	return result;
}

static void i386_body(void *data)
{
	if (data)
		confine();
	_exit(call_i386_getpid() == getpid() ? 0 : 1);
}

static void x32_body(void *data)
{
	if (data)
		confine();
	(void)syscall(0x40000000 | SYS_getpid);
}

static void foreign_call_tables_kill(void **state)
{
	bool filtered = true;
	in_child(x32_body, NULL); /* without the filter at worst ENOSYS */
	int status = child_status(x32_body, &filtered);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
	SKIP_UNLESS(child_status(i386_body, NULL) == 0, "ia32", "the kernel has no such calls");
	status = child_status(i386_body, &filtered);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(denied_calls_answer_eperm),
		cmocka_unit_test(ptrace_is_denied),
		cmocka_unit_test(unknown_calls_answer_enosys),
		cmocka_unit_test(ordinary_calls_work),
		cmocka_unit_test(namespaces_are_not_cloned),
		cmocka_unit_test(only_some_families_have_sockets),
		cmocka_unit_test(nothing_types_into_a_terminal),
		cmocka_unit_test(an_ordinary_user_needs_no_new_privs),
#ifdef __x86_64__
		cmocka_unit_test(foreign_call_tables_kill),
#endif
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
