/* The layers of a box one by one: Landlock, capabilities, user namespace, network. Each in a child of its own, each act that is
 * refused shown to work before. */
#include "child.h"

#include <grp.h>
#include <linux/securebits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include "../skip.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/str.h"
#include "box/caps.h"
#include "box/landlock.h"
#include "box/net.h"
#include "box/userns.h"

/* in/ may be written, out/ may not. */
struct place {
	char base[64];
	char in[80], out[80];
};

static int setup(void **state)
{
	struct place *p = xcalloc(1, sizeof(*p));
	(void)snprintf(p->base, sizeof(p->base), "/tmp/cupel-box-XXXXXX");
	if (!mkdtemp(p->base) || chmod(p->base, 0755) < 0)
		return -1;
	(void)snprintf(p->in, sizeof(p->in), "%s/in", p->base);
	(void)snprintf(p->out, sizeof(p->out), "%s/out", p->base);
	if (mkdir(p->in, 0755) < 0 || mkdir(p->out, 0755) < 0)
		return -1;
	*state = p;
	return 0;
}

static int teardown(void **state)
{
	struct place *p = *state;
	(void)fs_remove_tree(AT_FDCWD, p->base, NULL, NULL);
	free(p);
	return 0;
}

static int errno_of_open(const char *path, int flags)
{
	CLEANUP_FD int fd = open(path, flags | O_CLOEXEC, 0600);
	return fd < 0 ? errno : 0;
}

static int errno_of_create(const char *directory, const char *name)
{
	CLEANUP_FREE char *path = xasprintf("%s/%s", directory, name);
	return errno_of_open(path, O_CREAT | O_WRONLY | O_EXCL);
}

static void landlock(const struct place *p)
{
	const struct rule rules[] = {
		{ (char *)"/", ACCESS_READ },
		{ (char *)p->in, ACCESS_WRITE },
		{ (char *)"/dev/null", ACCESS_DEVICE },
	};
	struct err err = { 0 };
	EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	EXPECT_OK(landlock_confine(rules, sizeof(rules) / sizeof(*rules), landlock_abi(), &err),
		  &err);
}

static void landlock_files_body(void *data)
{
	const struct place *p = data;
	CLEANUP_FREE char *file = xasprintf("%s/control", p->out);
	CLEANUP_FREE char *second = xasprintf("%s/second", p->out);
	CLEANUP_FREE char *moved = xasprintf("%s/moved", p->in);
	EXPECT(errno_of_create(p->out, "control"), 0);
	EXPECT(errno_of_create(p->out, "other"), 0);
	EXPECT(ERRNO_OF(rename(file, second)), 0);
	EXPECT(ERRNO_OF(rename(second, moved)), 0);
	EXPECT(ERRNO_OF(rename(moved, file)), 0);
	EXPECT(ERRNO_OF(truncate(file, 1)), 0);
	EXPECT(errno_of_open("/dev/zero", O_WRONLY), 0);
	landlock(p);
	EXPECT(errno_of_create(p->in, "in"), 0);
	EXPECT(errno_of_create(p->out, "out"), EACCES);
	EXPECT(errno_of_open(file, O_WRONLY), EACCES);
	EXPECT(errno_of_open(file, O_RDONLY), 0);
	EXPECT(ERRNO_OF(unlink(file)), EACCES);
	EXPECT(ERRNO_OF(mkdir(second, 0700)), EACCES);
	EXPECT(ERRNO_OF(symlink("x", second)), EACCES);
	EXPECT(ERRNO_OF(rename(file, second)), EACCES);
	EXPECT(ERRNO_OF(rename(file, moved)), EACCES);
	if (landlock_abi() >= 3)
		EXPECT(ERRNO_OF(truncate(file, 0)), EACCES);
	EXPECT(errno_of_open("/dev/null", O_WRONLY), 0);
	EXPECT(errno_of_open("/dev/zero", O_WRONLY), EACCES);
}

static void landlock_keeps_writes_in_their_place(void **state)
{
	SKIP_UNLESS(landlock_abi() >= 1, "landlock", "the kernel has none");
	in_child(landlock_files_body, *state);
	assert_int_equal(errno_of_create(((struct place *)*state)->out, "after"), 0);
}

static void landlock_devices_body(void *data)
{
	const struct place *p = data;
	CLEANUP_FREE char *before = xasprintf("%s/before", p->in);
	CLEANUP_FREE char *after = xasprintf("%s/after", p->in);
	CLEANUP_FREE char *fifo = xasprintf("%s/fifo", p->in);
	EXPECT(ERRNO_OF(mknod(before, S_IFCHR | 0600, makedev(1, 3))), 0);
	landlock(p);
	EXPECT(ERRNO_OF(mknod(after, S_IFCHR | 0600, makedev(1, 3))), EACCES);
	EXPECT(ERRNO_OF(mknod(after, S_IFBLK | 0600, makedev(7, 0))), EACCES);
	EXPECT(ERRNO_OF(mkfifo(fifo, 0600)), 0);
	EXPECT(ERRNO_OF(mount("none", p->in, "tmpfs", 0, NULL)), EPERM);
}

static void mount_control(void *data)
{
	const struct place *p = data;
	EXPECT(ERRNO_OF(unshare(CLONE_NEWNS)), 0);
	EXPECT(ERRNO_OF(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)), 0);
	EXPECT(ERRNO_OF(mount("none", p->in, "tmpfs", 0, NULL)), 0);
}

static void landlock_makes_no_device_and_no_mount(void **state)
{
	SKIP_UNLESS(landlock_abi() >= 1, "landlock", "the kernel has none");
	SKIP_UNLESS(geteuid() == 0, "root", "to make devices");
	in_child(mount_control, *state);
	in_child(landlock_devices_body, *state);
}

/* A child of the confined process is confined too, and a rule for "/" is what gives reading. */
static void landlock_inherited_body(void *data)
{
	const struct place *p = data;
	const struct rule narrow = { (char *)p->in, ACCESS_WRITE };
	struct err err = { 0 };
	int status = -1;
	EXPECT(errno_of_open("/etc/passwd", O_RDONLY), 0);
	landlock(p);
	EXPECT_OK(landlock_confine(&narrow, 1, landlock_abi(), &err), &err);
	pid_t pid = fork();
	if (pid == 0)
		_exit(errno_of_open("/etc/passwd", O_RDONLY) == EACCES &&
				      errno_of_create(p->in, "child") == 0
			      ? 0
			      : 1);
	EXPECT(waitpid(pid, &status, 0), pid);
	EXPECT(status, 0);
}

static void landlock_is_inherited(void **state)
{
	SKIP_UNLESS(landlock_abi() >= 1, "landlock", "the kernel has none");
	in_child(landlock_inherited_body, *state);
}

static void landlock_missing_path_body(void *data)
{
	const struct rule rule = { (char *)"/no/such/place", ACCESS_READ };
	struct err err = { 0 };
	EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	EXPECT(landlock_confine(&rule, 1, landlock_abi(), &err), -ENOENT);
	EXPECT(strstr(err.text, "/no/such/place") != NULL, 1);
	EXPECT(errno_of_open("/etc/passwd", O_RDONLY), 0); /* nothing was confined by half */
}

static void landlock_names_a_path_that_is_missing(void **state)
{
	SKIP_UNLESS(landlock_abi() >= 1, "landlock", "the kernel has none");
	in_child(landlock_missing_path_body, NULL);
}

/* ABI 6: signals and abstract sockets stay among the confined. */
static void landlock_scope_body(void *data)
{
	const struct place *p = data;
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	socklen_t length =
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			    (size_t)snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1,
					     "%s", p->base));
	int ends[2];
	char byte;
	EXPECT(ERRNO_OF(pipe2(ends, O_CLOEXEC)), 0);
	CLEANUP_FD int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	EXPECT(ERRNO_OF(bind(listener, (struct sockaddr *)&address, length)), 0);
	EXPECT(ERRNO_OF(listen(listener, 4)), 0);
	pid_t outside = fork(); /* never confined */
	if (outside == 0) {
		(void)close(ends[1]);
		_exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
	}
	CLEANUP_FD int first = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CLEANUP_FD int second = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	EXPECT(ERRNO_OF(kill(outside, 0)), 0);
	EXPECT(ERRNO_OF(connect(first, (struct sockaddr *)&address, length)), 0);
	landlock(p);
	EXPECT(ERRNO_OF(kill(outside, 0)), EPERM);
	EXPECT(ERRNO_OF(kill(getpid(), 0)), 0);
	EXPECT(ERRNO_OF(connect(second, (struct sockaddr *)&address, length)), EPERM);
	(void)close(ends[1]);
	EXPECT(waitpid(outside, NULL, 0), outside);
}

static void landlock_scopes_signals_and_sockets(void **state)
{
	SKIP_UNLESS(landlock_abi() >= 6, "landlock-6", "the kernel is older");
	in_child(landlock_scope_body, *state);
}

static uint64_t status_field(const char *key, int base)
{
	char text[8192] = "";
	EXPECT(fs_read_small(AT_FDCWD, "/proc/self/status", text, sizeof(text)) > 0, 1);
	const char *at = strstr(text, key);
	EXPECT(at != NULL, 1);
	return strtoull(at + strlen(key), NULL, base);
}

static void caps_body(void *data)
{
	static const char *const sets[] = { "CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:" };
	const struct place *p = data;
	struct err err = { 0 };
	char name[65];
	int status = -1;
	EXPECT(ERRNO_OF(unshare(CLONE_NEWUTS)), 0);
	EXPECT(gethostname(name, sizeof(name)), 0);
	EXPECT(ERRNO_OF(sethostname(name, strlen(name))), 0);
	EXPECT(ERRNO_OF(chown(p->out, 12345, 12345)), 0);
	EXPECT_OK(caps_drop_all(&err), &err);
	for (size_t i = 0; i < sizeof(sets) / sizeof(*sets); i++)
		EXPECT(status_field(sets[i], 16), 0);
	EXPECT(status_field("NoNewPrivs:", 10), 1);
	EXPECT(prctl(PR_GET_SECUREBITS) & SECBIT_NOROOT, SECBIT_NOROOT);
	EXPECT(prctl(PR_GET_SECUREBITS) & SECBIT_NOROOT_LOCKED, SECBIT_NOROOT_LOCKED);
	EXPECT(ERRNO_OF(prctl(PR_SET_SECUREBITS, 0, 0, 0, 0)), EPERM);
	EXPECT(ERRNO_OF(sethostname(name, strlen(name))), EPERM);
	EXPECT(ERRNO_OF(chown(p->in, 12345, 12345)), EPERM);
	EXPECT(errno_of_create(p->out, "x"), EACCES); /* root by name only: the mode counts */
	pid_t pid = fork();
	if (pid == 0) { /* an exec as uid 0 would give all of them back */
		(void)execl("/bin/grep", "grep", "-q", "^CapEff:.0000000000000000$",
			    "/proc/self/status", (char *)NULL);
		_exit(2);
	}
	EXPECT(waitpid(pid, &status, 0), pid);
	EXPECT(status, 0);
}

static void capabilities_are_gone_for_good(void **state)
{
	SKIP_UNLESS(geteuid() == 0, "root", "others have none to drop");
	in_child(caps_body, *state);
}

static void become_body(void *data)
{
	const struct place *p = data;
	const gid_t groups[] = { 4, 27 };
	struct err err = { 0 };
	EXPECT(ERRNO_OF(setgroups(2, groups)), 0);
	EXPECT(ERRNO_OF(setresuid(0, 0, 0)), 0);
	EXPECT(ERRNO_OF(chown(p->in, 0, 0)), 0);
	EXPECT_OK(userns_become(12345, 12346, &err), &err);
	EXPECT(getuid(), 12345);
	EXPECT(geteuid(), 12345);
	EXPECT(getegid(), 12346);
	EXPECT(getgroups(0, NULL), 0);
	EXPECT(ERRNO_OF(setresuid(0, 0, 0)), EPERM);
	EXPECT(ERRNO_OF(setresgid(0, 0, 0)), EPERM);
	EXPECT(ERRNO_OF(setgroups(2, groups)), EPERM);
	EXPECT(ERRNO_OF(chown(p->in, 12345, 12346)), EPERM);
	EXPECT(userns_become(0, 0, &err), -EPERM); /* and says so, not -1 silently */
	EXPECT(err.code, EPERM);
}

static void becoming_another_user_is_final(void **state)
{
	SKIP_UNLESS(geteuid() == 0, "root", "to become another user");
	in_child(become_body, *state);
}

/* The order of a box without a user namespace of its own: with the uid goes the power to drop the rest. */
static void sealed_body(void *data)
{
	static const char *const sets[] = { "CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:" };
	const bool *seal = data;
	struct err err = { 0 };
	if (*seal)
		EXPECT_OK(caps_seal(&err), &err);
	EXPECT_OK(userns_become(12345, 12345, &err), &err);
	if (!*seal) {
		EXPECT(caps_drop_all(&err), -EPERM);
		return;
	}
	EXPECT_OK(caps_drop_all(&err), &err);
	for (size_t i = 0; i < sizeof(sets) / sizeof(*sets); i++)
		EXPECT(status_field(sets[i], 16), 0);
	EXPECT(status_field("NoNewPrivs:", 10), 1);
	EXPECT(prctl(PR_GET_SECUREBITS) & SECBIT_NOROOT_LOCKED, SECBIT_NOROOT_LOCKED);
}

static void capabilities_go_with_the_uid_once_sealed(void **state)
{
	bool seal = false; /* the control */
	SKIP_UNLESS(geteuid() == 0, "root", "to become another user");
	in_child(sealed_body, &seal);
	seal = true;
	in_child(sealed_body, &seal);
}

static bool userns_there(void)
{
	pid_t pid = fork();
	int status = -1;
	if (pid == 0)
		_exit(unshare(CLONE_NEWUSER) < 0 ? 1 : 0);
	(void)waitpid(pid, &status, 0);
	return status == 0;
}

static void map_body(void *data)
{
	struct err err = { 0 };
	char text[128];
	uid_t uid = geteuid();
	gid_t gid = getegid();
	unsigned inside = 0, outside = 0, n = 0;
	CLEANUP_FD int proc_fd = open("/proc", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	EXPECT(ERRNO_OF(unshare(CLONE_NEWUSER)), 0);
	EXPECT(getuid(), 65534); /* nobody, until it is mapped */
	EXPECT_OK(userns_map_self(proc_fd, 1000, uid, 1001, gid, &err), &err);
	EXPECT(getuid(), 1000);
	EXPECT(getgid(), 1001);
	EXPECT(fs_read_small(proc_fd, "self/uid_map", text, sizeof(text)) > 0, 1);
	EXPECT(sscanf(text, "%u %u %u", &inside, &outside, &n), 3);
	EXPECT(inside == 1000 && n == 1, 1);
	EXPECT(strchr(text, '\n') == NULL, 1); /* one line: nothing else is mapped */
	EXPECT(ERRNO_OF(setresuid(0, 0, 0)), EINVAL);
	EXPECT(ERRNO_OF(setresgid(0, 0, 0)), EINVAL);
	EXPECT(ERRNO_OF(setgroups(0, NULL)), EPERM);
	EXPECT(userns_map_self(proc_fd, 0, uid, 0, gid, &err), -EPERM); /* once only */
}

static void only_the_caller_is_mapped(void **state)
{
	SKIP_UNLESS(userns_there(), "userns", "the kernel gives none");
	in_child(map_body, NULL);
}

static void forbid_body(void *data)
{
	struct err err = { 0 };
	uid_t uid = geteuid();
	gid_t gid = getegid();
	CLEANUP_FD int proc_fd = open("/proc", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	EXPECT(ERRNO_OF(unshare(CLONE_NEWUSER)), 0);
	EXPECT_OK(userns_map_self(proc_fd, 1000, uid, 1000, gid, &err), &err);
	EXPECT(userns_there(), 1);
	EXPECT_OK(userns_forbid(proc_fd, &err), &err);
	EXPECT(ERRNO_OF(unshare(CLONE_NEWUSER)), ENOSPC);
}

static void no_further_user_namespace_is_made(void **state)
{
	SKIP_UNLESS(userns_there(), "userns", "the kernel gives none");
	in_child(forbid_body, NULL);
	assert_true(userns_there()); /* the host's own limit is what it was */
}

static int errno_of_loopback(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(address);
	CLEANUP_FD int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CLEANUP_FD int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(listener, (struct sockaddr *)&address, length) < 0 || listen(listener, 1) < 0 ||
	    getsockname(listener, (struct sockaddr *)&address, &length) < 0)
		return errno;
	return ERRNO_OF(connect(client, (struct sockaddr *)&address, length));
}

static void loopback_body(void *data)
{
	struct err err = { 0 };
	struct sockaddr_in far = { .sin_family = AF_INET,
				   .sin_port = htons(9),
				   .sin_addr.s_addr = htonl(0xc0000201) }; /* 192.0.2.1 */
	int flags = CLONE_NEWNET | (geteuid() == 0 ? 0 : CLONE_NEWUSER);
	EXPECT(ERRNO_OF(unshare(flags)), 0);
	EXPECT(errno_of_loopback() != 0, 1); /* down, as a new one is */
	EXPECT_OK(net_loopback_up(&err), &err);
	EXPECT(errno_of_loopback(), 0);
	struct if_nameindex *all = if_nameindex();
	for (struct if_nameindex *one = all; one && one->if_name; one++) {
		CLEANUP_FD int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		struct ifreq request = { 0 };
		(void)snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", one->if_name);
		EXPECT(ERRNO_OF(ioctl(fd, SIOCGIFFLAGS, &request)), 0);
		EXPECT(!!(request.ifr_flags & IFF_UP), str_eq(one->if_name, "lo"));
	}
	if_freenameindex(all);
	CLEANUP_FD int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	EXPECT(ERRNO_OF(connect(fd, (struct sockaddr *)&far, sizeof(far))), ENETUNREACH);
}

static void the_loopback_is_all_there_is(void **state)
{
	SKIP_UNLESS(geteuid() == 0 || userns_there(), "userns", "the kernel gives none");
	in_child(loopback_body, NULL);
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ROW(landlock_keeps_writes_in_their_place),
		ROW(landlock_makes_no_device_and_no_mount),
		ROW(landlock_is_inherited),
		ROW(landlock_names_a_path_that_is_missing),
		ROW(landlock_scopes_signals_and_sockets),
		ROW(capabilities_are_gone_for_good),
		ROW(capabilities_go_with_the_uid_once_sealed),
		ROW(becoming_another_user_is_final),
		ROW(only_the_caller_is_mapped),
		ROW(no_further_user_namespace_is_made),
		ROW(the_loopback_is_all_there_is),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
