/* Runs at build time: turns the policy below into a BPF program as a C header.
 *
 * Allowed calls are listed; calls that are refused on purpose answer EPERM; whatever else there is or will be
 * answers ENOSYS, which programs take as "an older kernel" and fall back. Another architecture's call table
 * (i386, x32) kills the process. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/hash.h"

/* clang-format off */
static const char *const allowed[] = {
	/* files */
	"read", "write", "open", "close", "stat", "fstat", "lstat", "lseek", "pread64", "pwrite64", "readv", "writev",
	"access", "pipe", "select", "dup", "dup2", "dup3", "pipe2", "openat", "openat2", "mkdir", "mkdirat", "rmdir",
	"creat", "link", "linkat", "unlink", "unlinkat", "symlink", "symlinkat", "readlink", "readlinkat", "rename",
	"renameat", "renameat2", "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat",
	"umask", "truncate", "ftruncate", "getdents", "getdents64", "getcwd", "chdir", "fchdir", "fcntl", "flock",
	"fsync", "fdatasync", "sync", "syncfs", "sync_file_range", "fallocate", "fadvise64", "readahead", "statfs",
	"fstatfs", "statx", "newfstatat", "faccessat", "faccessat2", "futimesat", "utime", "utimes", "utimensat", "mknod",
	"mknodat", "sendfile", "splice", "tee", "vmsplice", "copy_file_range", "preadv", "pwritev", "preadv2", "pwritev2",
	"getxattr", "lgetxattr", "fgetxattr", "setxattr", "lsetxattr", "fsetxattr", "listxattr", "llistxattr",
	"flistxattr", "removexattr", "lremovexattr", "fremovexattr", "inotify_init", "inotify_init1",
	"inotify_add_watch", "inotify_rm_watch", "close_range", "io_setup", "io_destroy", "io_getevents", "io_submit",
	"io_cancel", "io_pgetevents", "cachestat",
	/* memory */
	"mmap", "munmap", "mremap", "mprotect", "brk", "madvise", "mincore", "msync", "mlock", "munlock", "mlock2",
	"mlockall", "munlockall", "memfd_create", "pkey_mprotect", "pkey_alloc", "pkey_free", "mbind", "set_mempolicy",
	"get_mempolicy", "set_mempolicy_home_node", "map_shadow_stack", "mseal", "membarrier", "remap_file_pages",
	/* processes and threads */
	"fork", "vfork", "execve", "execveat", "exit", "exit_group", "wait4", "waitid", "kill", "tkill", "tgkill",
	"getpid", "getppid", "gettid", "getpgid", "setpgid", "getpgrp", "setsid", "getsid", "getuid", "geteuid",
	"getgid", "getegid", "getresuid", "getresgid", "setuid", "setgid", "setreuid", "setregid", "setresuid",
	"setresgid", "setfsuid", "setfsgid", "getgroups", "setgroups", "capget", "capset", "prctl", "arch_prctl",
	"set_tid_address", "set_thread_area", "get_thread_area", "set_robust_list", "get_robust_list", "futex",
	"futex_waitv", "futex_wake", "futex_wait", "futex_requeue", "rseq", "sched_yield", "sched_setaffinity",
	"sched_getaffinity", "sched_setparam", "sched_getparam", "sched_setscheduler", "sched_getscheduler",
	"sched_get_priority_max", "sched_get_priority_min", "sched_rr_get_interval", "sched_setattr", "sched_getattr",
	"getpriority", "setpriority", "ioprio_get", "ioprio_set", "getrlimit", "getrusage",
	"times", "getcpu", "pidfd_open", "pidfd_send_signal", "restart_syscall", "seccomp", "landlock_create_ruleset",
	"landlock_add_rule", "landlock_restrict_self",
	/* signals and time */
	"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "rt_sigtimedwait", "rt_sigqueueinfo",
	"rt_tgsigqueueinfo", "rt_sigsuspend", "sigaltstack", "pause", "alarm", "getitimer", "setitimer", "nanosleep",
	"clock_nanosleep", "clock_gettime", "clock_getres", "gettimeofday", "time", "timer_create", "timer_settime",
	"timer_gettime", "timer_getoverrun", "timer_delete", "timerfd_create", "timerfd_settime", "timerfd_gettime",
	"signalfd", "signalfd4", "eventfd", "eventfd2", "poll", "ppoll", "pselect6", "epoll_create", "epoll_create1",
	"epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2",
	/* sockets (which families: below) and System V IPC, which has a namespace of its own (POSIX queues: none, Landlock would refuse them) */
	"bind", "listen", "accept", "accept4", "connect", "getsockname", "getpeername", "sendto",
	"recvfrom", "sendmsg", "recvmsg", "sendmmsg", "recvmmsg", "shutdown", "setsockopt", "getsockopt", "shmget",
	"shmat", "shmctl", "shmdt", "semget", "semop", "semtimedop", "semctl", "msgget", "msgsnd", "msgrcv", "msgctl",
	/* the machine */
	"uname", "sysinfo", "getrandom",
};

/* Known to be dangerous or pointless in a box: a clear EPERM, whether or not privileges would stop them too. */
static const char *const denied[] = {
	"io_uring_setup", "io_uring_enter", "io_uring_register", "bpf", "keyctl", "add_key", "request_key", "userfaultfd",
	"mount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount", "fspick",
	"mount_setattr", "unshare", "setns", "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise",
	"process_mrelease", "kcmp", "pidfd_getfd", "perf_event_open", "open_by_handle_at", "name_to_handle_at",
	"fanotify_init", "fanotify_mark", "quotactl", "quotactl_fd", "swapon", "swapoff", "reboot", "kexec_load",
	"kexec_file_load", "init_module", "finit_module", "delete_module", "create_module", "get_kernel_syms",
	"query_module", "acct", "settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "sethostname",
	"setdomainname", "iopl", "ioperm", "lookup_dcookie", "vhangup", "modify_ldt", "uselib", "ustat", "sysfs",
	"nfsservctl", "syslog", "_sysctl", "move_pages", "migrate_pages", "memfd_secret",
};
/* clang-format on */

#define NAMESPACE_FLAGS                                                                            \
	(CLONE_NEWNS | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | \
	 CLONE_NEWCGROUP)

static void check(int r, const char *what)
{
	if (r < 0) {
		fprintf(stderr, "mkfilter: %s: %s\n", what, strerror(-r));
		exit(1);
	}
}

/* A call that libseccomp or this architecture does not know simply gets the default. */
static void rules(scmp_filter_ctx ctx, const char *const *names, size_t count, uint32_t action)
{
	for (size_t i = 0; i < count; i++) {
		int number = seccomp_syscall_resolve_name(names[i]);
		if (number >= 0)
			check(seccomp_rule_add(ctx, action, number, 0), names[i]);
	}
}

static void rules_for_personality(scmp_filter_ctx ctx)
{
	static const unsigned personalities[] = { 0, 0x20000, 0x40000, 0xffffffff };
	for (size_t i = 0; i < sizeof personalities / sizeof *personalities; i++)
		check(seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(personality), 1,
				       SCMP_A0(SCMP_CMP_MASKED_EQ, 0xffffffff, personalities[i])),
		      "personality");
}

/* Calls that are judged by an argument come first, written by hand: libseccomp has no way to say "anything but these two",
 * and its comparisons look at 64 bits where the kernel looks at 32. Clone: no namespace (clone3 hides its flags in memory:
 * ENOSYS, libc falls back to clone). Sockets: unix, TCP and UDP over IPv4 and IPv6, and the routing socket, which name
 * look-ups ask for the box's own addresses; asking for any other family or protocol makes the host load its module.
 * Ioctl: nothing types into a terminal (TIOCSTI, TIOCLINUX). Limits: that of core dumps stays as it is (plan.c says why);
 * whoever sets it, mostly to have none, is told that it worked. */
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define LOAD_UPPER(field)                                                                          \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field) + 4)
#define IF_EQ(k, yes, no)  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, yes, no)
#define IF_SET(k, yes, no) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, k, yes, no)
#define ANSWER(action)     BPF_STMT(BPF_RET | BPF_K, action)

static size_t write_prelude(struct sock_filter *out)
{
	const struct sock_filter prelude[] = {
		LOAD(arch),
		IF_EQ(seccomp_arch_native(), 0, 46), /* past the end: the general part judges it */
		LOAD(nr),
		IF_EQ((unsigned)SCMP_SYS(ioctl), 0, 5),
		LOAD(args[1]),
		IF_EQ(0x5412, 2, 0),
		IF_EQ(0x541c, 1, 0),
		ANSWER(SECCOMP_RET_ALLOW),
		ANSWER(SECCOMP_RET_ERRNO | EPERM),
		IF_EQ((unsigned)SCMP_SYS(clone), 0, 4),
		LOAD(args[0]),
		IF_SET(NAMESPACE_FLAGS, 1, 0),
		ANSWER(SECCOMP_RET_ALLOW),
		ANSWER(SECCOMP_RET_ERRNO | EPERM),
		IF_EQ((unsigned)SCMP_SYS(prlimit64), 0, 8),
		LOAD(args[1]),
		IF_EQ(RLIMIT_CORE, 0, 4),
		LOAD(args[2]),
		IF_EQ(0, 0, 3),
		LOAD_UPPER(args[2]),
		IF_EQ(0, 0, 1),
		ANSWER(SECCOMP_RET_ALLOW),
		ANSWER(SECCOMP_RET_ERRNO),
		IF_EQ((unsigned)SCMP_SYS(setrlimit), 0, 4),
		LOAD(args[0]),
		IF_EQ(RLIMIT_CORE, 1, 0),
		ANSWER(SECCOMP_RET_ALLOW),
		ANSWER(SECCOMP_RET_ERRNO),
		IF_EQ((unsigned)SCMP_SYS(socketpair), 0, 2),
		LOAD(args[0]),
		IF_EQ(AF_UNIX, 14, 15),
		IF_EQ((unsigned)SCMP_SYS(socket), 0, 16),
		LOAD(args[0]),
		IF_EQ(AF_UNIX, 11, 0),
		IF_EQ(AF_INET, 4, 0),
		IF_EQ(AF_INET6, 3, 0),
		IF_EQ(AF_NETLINK, 0, 9),
		LOAD(args[2]),
		IF_EQ(0, 6, 7),
		LOAD(args[1]),
		IF_SET(0xc, 6, 0), /* beyond stream, datagram and raw */
		LOAD(args[2]),
		IF_EQ(0, 2, 0),
		IF_EQ(IPPROTO_TCP, 1, 0),
		IF_EQ(IPPROTO_UDP, 0, 2),
		ANSWER(SECCOMP_RET_ALLOW),
		ANSWER(SECCOMP_RET_ERRNO | EAFNOSUPPORT),
		ANSWER(SECCOMP_RET_ERRNO | EPROTONOSUPPORT),
	};
	memcpy(out, prelude, sizeof prelude);
	return sizeof prelude / sizeof *prelude;
}

static void write_header(FILE *out, const struct sock_filter *program, size_t count)
{
	char digest[HASH_HEX];
	hash_bytes(program, count * sizeof *program, digest);
	fprintf(out, "/* Made by mkfilter. */\n#define FILTER_DIGEST \"%s\"\n", digest);
	fprintf(out, "static const struct sock_filter filter_program[] = {\n");
	for (size_t i = 0; i < count; i++)
		fprintf(out, "\t{ 0x%04x, %u, %u, 0x%08x },\n", program[i].code, program[i].jt,
			program[i].jf, program[i].k);
	fprintf(out, "};\n");
}

int main(int argc, char **argv)
{
	static struct sock_filter program[4096];
	if (argc != 2)
		return 2;
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
	if (!ctx)
		return 1;
	check(seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS),
	      "bad architecture");
	check(seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2), "binary tree");
	rules(ctx, allowed, sizeof allowed / sizeof *allowed, SCMP_ACT_ALLOW);
	rules(ctx, denied, sizeof denied / sizeof *denied, SCMP_ACT_ERRNO(EPERM));
	rules_for_personality(ctx);
	FILE *bpf = tmpfile();
	FILE *out = fopen(argv[1], "we");
	if (!bpf || !out)
		return 1;
	check(seccomp_export_bpf(ctx, fileno(bpf)), "export");
	rewind(bpf);
	size_t count = write_prelude(program);
	count += fread(program + count, sizeof *program, sizeof program / sizeof *program - count,
		       bpf);
	write_header(out, program, count);
	seccomp_release(ctx);
	(void)fclose(bpf);
	return fclose(out) == 0 ? 0 : 1;
}
