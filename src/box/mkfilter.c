/* Runs at build time: turns the policy below into a BPF program as a C header, and into a profile for container engines.
 *
 * Allowed calls are listed; calls that are refused on purpose answer EPERM; whatever else there is or will be
 * answers ENOSYS, which programs take as "an older kernel" and fall back. Another architecture's call table
 * (i386, x32) kills the process. libseccomp makes a program of this; a launch loads a shorter one, which filter.c makes and
 * holds against the first. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
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
#include "box/filter.h"

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

/* The ways to number memory and files that a program may ask for, and the question which one it has. */
static const unsigned personalities[] = { 0, 0x20000, 0x40000, 0xffffffff };

static void rules_for_personality(scmp_filter_ctx ctx)
{
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

static void add_judged(struct filter *f)
{
	const struct sock_filter judged[] = {
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
	filter_add(f, judged, sizeof judged / sizeof *judged);
}

/* What libseccomp can't say, in front of what it can. */
static void make_model(struct filter *f, scmp_filter_ctx ctx)
{
	struct sock_filter begin[] = { LOAD(arch), IF_EQ(seccomp_arch_native(), 0, 0), LOAD(nr) };
	FILE *bpf = tmpfile();
	if (!bpf)
		check(-errno, "temporary file");
	filter_add(f, begin, sizeof begin / sizeof *begin);
	add_judged(f);
	f->code[1].jf = (uint8_t)(f->n - 2); /* past these: the general part judges it */
	check(seccomp_export_bpf(ctx, fileno(bpf)), "export");
	rewind(bpf);
	f->n += fread(f->code + f->n, sizeof *f->code, sizeof f->code / sizeof *f->code - f->n,
		      bpf);
	(void)fclose(bpf);
}

/* The same answers from fewer instructions. */
static void make_short(struct filter *f, const struct filter *model)
{
	struct seccomp_data call = { 0 };
	const struct sock_filter begin[] = {
		LOAD(arch),
		IF_EQ(seccomp_arch_native(), 1, 0),
		ANSWER(SECCOMP_RET_KILL_PROCESS),
		LOAD(nr),
		IF_EQ((unsigned)SCMP_SYS(personality), 0, 7),
		LOAD(args[0]),
		IF_EQ(personalities[0], 3, 0),
		IF_EQ(personalities[1], 2, 0),
		IF_EQ(personalities[2], 1, 0),
		IF_EQ(personalities[3], 0, 1),
		ANSWER(SECCOMP_RET_ALLOW),
		ANSWER(SECCOMP_RET_ERRNO | ENOSYS),
	};
	filter_add(f, begin, sizeof begin / sizeof *begin);
	add_judged(f);
	if (!filter_add_search(f, model, seccomp_arch_native()))
		check(-E2BIG, "search");
	if (!filter_same(f, model, seccomp_arch_native(), &call)) {
		fprintf(stderr,
			"mkfilter: call %d of %#x (%#llx, %#llx, %#llx) is judged differently\n",
			call.nr, call.arch, call.args[0], call.args[1], call.args[2]);
		exit(1);
	}
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

static bool is_among(const char *name, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

static json_t *names_json(const char *const *names, size_t count)
{
	json_t *list = json_array();
	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, json_string(names[i]));
	return list;
}

/* Engines that know no default errno answer EPERM to what is not named, from which programs do not fall back: every call that there
 * is gets named. */
static json_t *others_json(void)
{
	static const char *const judged[] = { "clone",     "socket",     "ioctl",      "prlimit64",
					      "setrlimit", "socketpair", "personality" };
	json_t *list = json_array();
	for (int i = 0; i < 1024; i++) {
		char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, i);
		if (name && !is_among(name, allowed, sizeof allowed / sizeof *allowed) &&
		    !is_among(name, denied, sizeof denied / sizeof *denied) &&
		    !is_among(name, judged, sizeof judged / sizeof *judged))
			json_array_append_new(list, json_string(name));
		free(name);
	}
	return list;
}

static void add_answer(json_t *calls, json_t *names, int code)
{
	json_array_append_new(
		calls, code ? json_pack("{s:o,s:s,s:i}", "names", names, "action", "SCMP_ACT_ERRNO",
					"errnoRet", code)
			    : json_pack("{s:o,s:s}", "names", names, "action", "SCMP_ACT_ALLOW"));
}

/* Allowed if the first argument is `value`, or has none of its bits. */
static void add_if(json_t *calls, const char *name, unsigned value, const char *how)
{
	json_array_append_new(calls,
			      json_pack("{s:[s],s:s,s:[{s:i,s:I,s:i,s:s}]}", "names", name,
					"action", "SCMP_ACT_ALLOW", "args", "index", 0, "value",
					(json_int_t)value, "valueTwo", 0, "op", how));
}

/* The same lists as container engines and OCI runtimes read them, for the boxes that these make. What is judged by an argument is
 * coarser here, or left to the filter itself. */
static int write_profile(const char *path)
{
	static const unsigned families[] = { AF_UNIX, AF_INET, AF_INET6, AF_NETLINK };
	static const char *const coarse[] = { "ioctl", "prlimit64", "setrlimit", "socketpair" };
	json_t *calls = json_array();
	add_answer(calls, names_json(allowed, sizeof allowed / sizeof *allowed), 0);
	add_answer(calls, names_json(coarse, sizeof coarse / sizeof *coarse), 0);
	add_answer(calls, names_json(denied, sizeof denied / sizeof *denied), EPERM);
	add_answer(calls, others_json(), ENOSYS);
	add_if(calls, "clone", NAMESPACE_FLAGS, "SCMP_CMP_MASKED_EQ");
	for (size_t i = 0; i < sizeof families / sizeof *families; i++)
		add_if(calls, "socket", families[i], "SCMP_CMP_EQ");
	for (size_t i = 0; i < sizeof personalities / sizeof *personalities; i++)
		add_if(calls, "personality", personalities[i], "SCMP_CMP_EQ");
	json_t *profile = json_pack("{s:s,s:i,s:[s],s:o}", "defaultAction", "SCMP_ACT_ERRNO",
				    "defaultErrnoRet", ENOSYS, "architectures",
				    seccomp_arch_native() == SCMP_ARCH_X86_64 ? "SCMP_ARCH_X86_64"
									      : "SCMP_ARCH_AARCH64",
				    "syscalls", calls);
	int r = json_dump_file(profile, path, JSON_COMPACT);
	json_decref(profile);
	return r;
}

int main(int argc, char **argv)
{
	static struct filter model, program;
	if (argc != 3)
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
	make_model(&model, ctx);
	seccomp_release(ctx);
	make_short(&program, &model);
	FILE *out = fopen(argv[1], "we");
	if (!out)
		return 1;
	write_header(out, program.code, program.n);
	return fclose(out) == 0 && write_profile(argv[2]) == 0 ? 0 : 1;
}
