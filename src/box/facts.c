/* The receipt's inner half: read from the kernel as the last thing before the analysis starts, as the process that becomes it. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/path.h"
#include "base/str.h"
#include "box/enter.h"
#include "box/kernel_fs.h"

#define READ_ROOM 4096 /* what the kernel gives of it at once */

const char *const box_ns_names[BOX_NS_COUNT_] = { "user", "mnt", "pid",   "net",
						  "ipc",  "uts", "cgroup" };

static const char *field(const char *status, const char *key)
{
	const char *at = strstr(status, key);
	return at ? at + strlen(key) : NULL;
}

static int read_numbers(const char *status, const char *key, uint32_t *ret, int count)
{
	const char *at = field(status, key);
	if (!at)
		return -ENODATA;
	for (int i = 0; i < count; i++) {
		char *end;
		ret[i] = (uint32_t)strtoul(at, &end, 10);
		if (end == at)
			return -ENODATA;
		at = end;
	}
	return 0;
}

static int read_status(struct box_facts *f, struct err *err)
{
	static const char *const sets[] = { "\nCapInh:", "\nCapPrm:", "\nCapEff:", "\nCapBnd:",
					    "\nCapAmb:" };
	CLEANUP_FREE char *status = xmalloc(8192);
	if (fs_read_small(AT_FDCWD, "/proc/self/status", status, 8192) < 0)
		return err_errno(err, "read back /proc/self/status");
	int r = read_numbers(status, "\nUid:", f->uid, 4);
	if (r >= 0)
		r = read_numbers(status, "\nGid:", f->gid, 4);
	if (r >= 0)
		r = read_numbers(status, "\nNoNewPrivs:", &f->no_new_privs, 1);
	if (r >= 0)
		r = read_numbers(status, "\nSeccomp:", &f->seccomp_mode, 1);
	(void)read_numbers(status, "\nSeccomp_filters:", &f->seccomp_filters, 1);
	for (size_t i = 0; r >= 0 && i < sizeof sets / sizeof *sets; i++) {
		const char *at = field(status, sets[i]);
		if (!at)
			r = -ENODATA;
		else
			f->caps[i] = strtoull(at, NULL, 16);
	}
	f->n_groups = (uint32_t)getgroups(0, NULL);
	if (r < 0)
		return err_set(err, ERR_HOST, -r,
			       "read back /proc/self/status: a field is missing");
	return 0;
}

static int read_namespaces(struct box_facts *f, struct err *err)
{
	CLEANUP_FD int dir_fd = open("/proc/self/ns", O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < BOX_NS_COUNT_; i++) {
		char link[64] = "";
		if (readlinkat(dir_fd, box_ns_names[i], link, sizeof link - 1) < 0)
			return err_errno(err, "read back /proc/self/ns/%s", box_ns_names[i]);
		const char *number = strchr(link, '[');
		f->ns[i] = number ? strtoull(number + 1, NULL, 10) : 0;
	}
	return 0;
}

static bool has_option(const char *options, const char *name)
{
	size_t n = strlen(name);
	for (const char *at = options; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		if (strncmp(at, name, n) == 0 && (at[n] == ',' || at[n] == 0))
			return true;
	return false;
}

static bool planned_writable(const struct plan *p, const char *target)
{
	for (size_t i = 0; i < p->n_rules; i++)
		if (p->rules[i].access != ACCESS_READ && str_eq(p->rules[i].path, target))
			return true;
	return false;
}

/* What OCI runtimes put over what is to be hidden in /proc: the null device, or an empty directory that stays so. And the root itself, which
 * some mount anew: nothing is in it but what was made there, so read-only is enough. */
static bool is_harmless(const char *target, const char *options)
{
	struct stat st = { 0 };
	if (str_eq(target, "/"))
		return has_option(options, "ro");
	if (!path_within(target, "/proc") || stat(target, &st) < 0)
		return false;
	if (S_ISCHR(st.st_mode))
		return st.st_rdev == makedev(1, 3);
	CLEANUP_DIR DIR *dir = S_ISDIR(st.st_mode) && has_option(options, "ro") ? opendir(target)
										: NULL;
	int n = 0;
	while (dir && n < 3 && readdir(dir))
		n++;
	return dir && n == 2; /* "." and ".." */
}

/* Each mount of the box: only what is planned to be writable is, no set-id program and no device works anywhere. */
static void judge_mount(const struct plan *p, const char *target, const char *options,
			const char *type, struct box_facts *f)
{
	bool device = path_within(target, "/dev") && !str_eq(target, "/dev/shm");
	bool writable = has_option(options, "rw");
	bool weak = (writable && !device && !planned_writable(p, target)) ||
		    !has_option(options, "nosuid") || (!device && !has_option(options, "nodev"));
	f->n_mounts++;
	f->n_writable += writable && !device;
	f->n_id_mapped += has_option(options, "idmapped");
	/* Devices and a procfs have places of their own in a box. */
	if (kernel_fs_named(type) && !path_within(target, "/dev") && !path_within(target, "/proc"))
		(void)snprintf(f->kernel_mount, sizeof f->kernel_mount, "%.200s (%.40s)", target,
			       type);
	f->has_checkpoint |= writable && p->checkpoint && str_eq(target, p->checkpoint);
	if (weak && !f->odd_mount[0] && !is_harmless(target, options))
		(void)snprintf(f->odd_mount, sizeof f->odd_mount, "%.180s (%.60s)", target,
			       options);
}

/* mountinfo writes blanks and the like as \\ooo. */
static void unescape(char *text)
{
	char *to = text;
	for (const char *from = text; *from; to++) {
		bool octal = from[0] == '\\' && from[1] && from[2] && from[3];
		*to = octal ? (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'))
			    : *from;
		from += octal ? 4 : 1;
	}
	*to = 0;
}

/* The fifth and sixth field: where it is, and its flags; then, behind the separator, its type. False where the line has no such. */
static bool split_mount(char *line, char **ret_target, char **ret_options, char **ret_type)
{
	char *at = line, *fields[6];
	for (int i = 0; i < 6; i++) {
		fields[i] = strsep(&at, " ");
		if (!at)
			return false;
	}
	*ret_target = fields[4];
	*ret_options = fields[5];
	char *behind = strncmp(at, "- ", 2) == 0 ? at + 2 : strstr(at, " - ");
	if (!behind)
		return false;
	behind += *behind == ' ' ? 3 : 0;
	*ret_type = strsep(&behind, " ");
	return true;
}

static int read_mounts(const struct plan *p, struct box_facts *f, struct err *err)
{
	char buffer[READ_ROOM], line[8192], *target, *options, *type;
	CLEANUP_FILE FILE *file = fopen("/proc/self/mountinfo", "re");
	if (!file || setvbuf(file, buffer, _IOFBF, sizeof buffer) != 0)
		return err_errno(err, "read back /proc/self/mountinfo");
	while (fgets(line, sizeof line, file))
		if (split_mount(line, &target, &options, &type)) {
			unescape(target);
			judge_mount(p, target, options, type, f);
		}
	return f->n_mounts ? 0
			   : err_set(err, ERR_HOST, ENODATA,
				     "read back /proc/self/mountinfo: it is empty");
}

static int read_process(const struct plan *p, struct box_facts *f, struct err *err)
{
	cpu_set_t cpus;
	for (size_t i = 0; i < p->n_rlimits; i++) {
		struct rlimit have;
		if (getrlimit(p->rlimits[i].resource, &have) < 0)
			return err_errno(err, "read back the limit %s", p->rlimits[i].name);
		f->rlimits[i] = have.rlim_max;
	}
	if (sched_getaffinity(0, sizeof cpus, &cpus) < 0)
		return err_errno(err, "read back the cpus");
	f->n_cpus = (uint32_t)CPU_COUNT(&cpus);
	f->dumpable = (uint32_t)prctl(PR_GET_DUMPABLE);
	if (!getcwd(f->cwd, sizeof f->cwd))
		return err_errno(err, "read back the current directory");
	CLEANUP_DIR DIR *fds = opendir("/proc/self/fd");
	if (!fds)
		return err_errno(err, "read back the descriptors");
	while (readdir(fds))
		f->n_fds++;
	f->n_fds -= 3; /* ".", ".." and the one that looks */
	return 0;
}

/* Landlock cannot be asked, so it is tried: /dev/urandom is writable for all but for it. Where the host itself forbids the
 * write the trial proves nothing, and is not counted. */
static void try_landlock(struct box_facts *f)
{
	struct stat st;
	bool open_to_all = stat("/dev/urandom", &st) == 0 && (st.st_mode & 0002);
	CLEANUP_FD int fd = open("/dev/urandom", O_WRONLY | O_CLOEXEC);
	f->landlock_tried = open_to_all;
	f->landlock_denies = fd < 0 && errno == EACCES && open_to_all;
}

/* What is shown to this run alone has to be readable for it, by whatever rights its caller has: that is tried. */
static void try_private(const struct plan *p, struct box_facts *f)
{
	for (size_t i = 0; i < p->n_steps; i++) {
		const struct step *s = &p->steps[i];
		struct stat st = { 0 };
		bool is_dir = s->ids == IDS_RUN && stat(s->target, &st) == 0 && S_ISDIR(st.st_mode);
		if (s->ids == IDS_RUN && access(s->target, is_dir ? R_OK | X_OK : R_OK) < 0)
			(void)snprintf(f->unreadable, sizeof f->unreadable, "%.250s", s->source);
	}
}

int facts_read(const struct plan *plan, struct box_facts *ret, struct err *err)
{
	struct box_facts f = { .landlock_abi = (uint32_t)plan->landlock_abi };
	int r = read_status(&f, err);
	if (r >= 0)
		r = read_namespaces(&f, err);
	if (r >= 0)
		r = read_mounts(plan, &f, err);
	if (r >= 0)
		r = read_process(plan, &f, err);
	if (r < 0)
		return r;
	try_landlock(&f);
	try_private(plan, &f);
	*ret = f;
	return 0;
}
