/* Acts that ask the kernel for power or for code paths no analysis needs. Where success would harm the host
 * the arguments are wrong on purpose: outside, the kernel then says so (EINVAL, ENOENT, EFAULT), while the box
 * refuses the call as such (EPERM, ENOSYS). */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "probe.h"

static int io_uring(const char *a, const char *b)
{
	char params[120] = { 0 };
	return answer_fd(syscall(SYS_io_uring_setup, 1, params));
}

static int bpf_map(const char *a, const char *b)
{
	union bpf_attr attr = {
		.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1
	};
	return answer_fd(syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof attr));
}

static int key_control(const char *a, const char *b)
{
	return answer(syscall(SYS_keyctl, 0 /* KEYCTL_GET_KEYRING_ID */, -3 /* session */, 0));
}

static int key_add(const char *a, const char *b)
{
	return answer(syscall(SYS_add_key, "user", "probe", "x", 1, -1 /* thread keyring */));
}

static int key_request(const char *a, const char *b)
{
	return answer(syscall(SYS_request_key, "no-such-type", "probe", NULL, 0));
}

static int user_fault(const char *a, const char *b)
{
	return answer_fd(syscall(SYS_userfaultfd, O_CLOEXEC));
}

static int perf(const char *a, const char *b)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
					.size = sizeof attr,
					.config = PERF_COUNT_SW_TASK_CLOCK,
					.exclude_kernel = 1 };
	return answer_fd(syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0));
}

static int time_of_day(const char *a, const char *b)
{
	struct timeval tv = { .tv_usec = -1 };
	return answer(syscall(SYS_settimeofday, &tv, NULL));
}

static int clock_set(const char *a, const char *b)
{
	struct timespec ts = { .tv_nsec = 2000000000 };
	return answer(syscall(SYS_clock_settime, CLOCK_REALTIME, &ts));
}

static int clock_adjust(const char *a, const char *b)
{
	char timex[208] = { 0 }; /* modes 0: only reads */
	return answer(syscall(SYS_adjtimex, timex));
}

static int real_time(const char *a, const char *b)
{
	struct sched_param param = { .sched_priority = 1 };
	return answer(sched_setscheduler(0, SCHED_FIFO, &param));
}

static int nice_up(const char *a, const char *b)
{
	return answer(setpriority(PRIO_PROCESS, 0, -5));
}

static int io_real_time(const char *a, const char *b)
{
	return answer(syscall(SYS_ioprio_set, 1, 0, 1 << 13 /* class RT */));
}

/* What is left after trying everything. */
static int core_limit(const char *a, const char *b)
{
	struct rlimit limit = { 0, 0 };
	(void)setrlimit(RLIMIT_CORE, &limit);
	(void)syscall(SYS_setrlimit, RLIMIT_CORE, &limit);
	limit = (struct rlimit){ RLIM_INFINITY, RLIM_INFINITY };
	(void)setrlimit(RLIMIT_CORE, &limit);
	if (getrlimit(RLIMIT_CORE, &limit) < 0)
		return -errno;
	say("%ld %ld", (long)limit.rlim_cur, (long)limit.rlim_max);
	return 0;
}

static int crash(const char *a, const char *b)
{
	struct rlimit limit = { 0 };
	(void)getrlimit(RLIMIT_CORE, &limit);
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_CORE, &limit);
	(void)raise(SIGSEGV);
	return 0;
}

/* Zero is less than the limit that keeps a crash away from a core handler. */
static int crash_at_zero(const char *a, const char *b)
{
	struct rlimit limit = { 0 };
	(void)setrlimit(RLIMIT_CORE, &limit);
	(void)raise(SIGSEGV);
	return 0;
}

static int capabilities_take(const char *a, const char *b)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct all[2] = { { 1 << CAP_CHOWN, 1 << CAP_CHOWN, 0 }, { 0 } };
	return answer(syscall(SYS_capset, &header, all));
}

static int become_root(const char *a, const char *b)
{
	return answer(setresuid(0, 0, 0));
}

static int become_root_group(const char *a, const char *b)
{
	return answer(setresgid(0, 0, 0));
}

static int take_groups(const char *a, const char *b)
{
	gid_t groups[] = { 0 };
	return answer(syscall(SYS_setgroups, 1, groups));
}

static int new_privileges(const char *a, const char *b)
{
	say("%d", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	return 0;
}

static int host_name(const char *a, const char *b)
{
	return answer(syscall(SYS_sethostname, "x", -1));
}

static int restart(const char *a, const char *b)
{
	return answer(syscall(SYS_reboot, 0, 0, 0, 0)); /* without its magic numbers */
}

static int module_load(const char *a, const char *b)
{
	return answer(syscall(SYS_finit_module, -1, "", 0));
}

static int module_unload(const char *a, const char *b)
{
	return answer(syscall(SYS_delete_module, "no_such_module", O_NONBLOCK));
}

static int swap_on(const char *a, const char *b)
{
	return answer(syscall(SYS_swapon, "/no-such", 0));
}

static int accounting(const char *a, const char *b)
{
	return answer(syscall(SYS_acct, "/no-such/file"));
}

static int kernel_log(const char *a, const char *b)
{
	return answer(syscall(SYS_syslog, 10 /* size of the buffer */, NULL, 0));
}

static int quota(const char *a, const char *b)
{
	return answer(syscall(SYS_quotactl, 0x80000100 /* Q_SYNC */, "/no-such", 0, NULL));
}

static int fanotify(const char *a, const char *b)
{
	return answer_fd(syscall(SYS_fanotify_init, 0, O_RDONLY));
}

static int memory_secret(const char *a, const char *b)
{
	return answer_fd(syscall(SYS_memfd_secret, O_CLOEXEC));
}

static int unknown_call(const char *a, const char *b)
{
	return answer(syscall(0x3fff, 0));
}

#ifdef __x86_64__
static int io_privilege(const char *a, const char *b)
{
	return answer(syscall(SYS_iopl, 4)); /* there are levels 0 to 3 */
}

static int local_descriptors(const char *a, const char *b)
{
	char table[64];
	return answer(syscall(SYS_modify_ldt, 0, table, sizeof table));
}

/* getpid by the call table of i386 */
static int table_i386(const char *a, const char *b)
{
	long result = 20;
	__asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
	return result < 0 ? (int)result : 0;
}

static int table_x32(const char *a, const char *b)
{
	return answer(syscall(0x40000000 | SYS_getpid));
}
#endif

/* The argument as the kernel takes it: the upper half is ignored. */
static int type_into(const char *a, const char *b)
{
	char byte = 'x';
	unsigned long upper = b ? 1UL << 32 : 0;
	int fd = a && *a == '/' ? open(a, O_RDWR | O_CLOEXEC) : (int)number(a);
	return fd < 0 ? -errno : answer(syscall(SYS_ioctl, fd, TIOCSTI | upper, &byte));
}

static int type_linux(const char *a, const char *b)
{
	char word = 0;
	return answer(syscall(SYS_ioctl, (int)number(a), TIOCLINUX, &word));
}

const struct act kernel_acts[] = {
	{ "io_uring", io_uring },
	{ "bpf", bpf_map },
	{ "keyctl", key_control },
	{ "add_key", key_add },
	{ "request_key", key_request },
	{ "userfaultfd", user_fault },
	{ "perf", perf },
	{ "settimeofday", time_of_day },
	{ "clock_settime", clock_set },
	{ "adjtimex", clock_adjust },
	{ "sched-fifo", real_time },
	{ "nice", nice_up },
	{ "ioprio-rt", io_real_time },
	{ "core-limit", core_limit },
	{ "crash", crash },
	{ "crash-at-zero", crash_at_zero },
	{ "capset", capabilities_take },
	{ "setuid-0", become_root },
	{ "setgid-0", become_root_group },
	{ "setgroups", take_groups },
	{ "no-new-privs", new_privileges },
	{ "sethostname", host_name },
	{ "reboot", restart },
	{ "finit_module", module_load },
	{ "delete_module", module_unload },
	{ "swapon", swap_on },
	{ "acct", accounting },
	{ "syslog", kernel_log },
	{ "quotactl", quota },
	{ "fanotify", fanotify },
	{ "memfd_secret", memory_secret },
	{ "unknown-call", unknown_call },
#ifdef __x86_64__
	{ "iopl", io_privilege },
	{ "modify_ldt", local_descriptors },
	{ "i386", table_i386 },
	{ "x32", table_x32 },
#endif
	{ "tiocsti", type_into },
	{ "tioclinux", type_linux },
	{ NULL, NULL },
};
