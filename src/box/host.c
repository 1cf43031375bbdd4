/* Reads the facts; decides nothing. */
#include "box/host.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "base/path.h"
#include "box/landlock.h"

#define CPUINFO_MAX 65536

/* What programs need of /etc and nothing that is a secret or a service's: no shadow, no ssl/private, no
 * ssh, no passwords of anything. passwd, group, hosts and the like are made for the box instead. */
static const char *const etc_names[] = {
	"alternatives", "fonts",           "ImageMagick-6", "ipython",   "java-17-openjdk",
	"julia",        "jupyter",         "ld.so.cache",   "localtime", "magic",
	"matplotlibrc", "mime.types",      "nvidia",        "OpenCL",    "os-release",
	"perl",         "protocols",       "python3.11",    "R",         "services",
	"ssl/certs",    "ssl/openssl.cnf", "timezone",      "vulkan",
};

static const char *const top_names[] = { "bin", "sbin", "lib", "lib32", "lib64", "libx32" };
static const char *const device_names[] = { "null", "zero", "full", "random", "urandom" };

/* Each name below `directory` that exists: links are told apart, since a box makes the same link instead of
 * following it. */
static struct host_link *read_links(const char *directory, const char *const *names, size_t count,
				    size_t *ret_n)
{
	struct host_link *links = xcalloc(count, sizeof *links);
	size_t n = 0;
	for (size_t i = 0; i < count; i++) {
		CLEANUP_FREE char *path = xasprintf("%s/%s", directory, names[i]);
		char target[256];
		ssize_t length = readlink(path, target, sizeof target - 1);
		if (length < 0 && errno != EINVAL) /* which is: there, but no link */
			continue;
		links[n].name = xstrdup(names[i]);
		links[n].target = length > 0 ? xstrndup(target, (size_t)length) : NULL;
		n++;
	}
	*ret_n = n;
	return links;
}

static void free_links(struct host_link *links, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(links[i].name);
		free(links[i].target);
	}
	free(links);
}

/* Enough for the cpus an analysis usually gets; a block is about 1.5 KiB. */
static char *read_cpuinfo(void)
{
	char *text = xmalloc(CPUINFO_MAX);
	CLEANUP_FD int fd = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
	size_t length = 0;
	for (ssize_t n = 1; fd >= 0 && n > 0 && length < CPUINFO_MAX - 1;
	     length += (size_t)(n > 0 ? n : 0))
		n = read(fd, text + length, CPUINFO_MAX - 1 - length);
	text[length] = 0;
	return text;
}

static uint64_t hard_limit(int resource)
{
	struct rlimit limit;
	bool has = getrlimit(resource, &limit) == 0 && limit.rlim_max != RLIM_INFINITY;
	return has ? limit.rlim_max : UINT64_MAX;
}

int host_read(struct host *ret, struct err *err)
{
	struct host h = { .uid = geteuid(), .gid = getegid() };
	struct utsname name;
	if (access("/proc/self/mountinfo", R_OK) < 0)
		return err_layer(
			err, "mount",
			"/proc is not mounted here, or not for this process. Remedy, as root: mount -t proc proc /proc");
	h.is_root = h.uid == 0;
	CPU_ZERO(&h.cpus);
	if (sched_getaffinity(0, sizeof h.cpus, &h.cpus) < 0)
		return err_errno(err, "read the cpus this process may use");
	h.n_cpus = CPU_COUNT(&h.cpus);
	h.open_files_max = hard_limit(RLIMIT_NOFILE);
	h.file_size_max = hard_limit(RLIMIT_FSIZE);
	h.cpuinfo = read_cpuinfo();
	h.landlock_abi = landlock_abi();
	h.kernel = xstrdup(uname(&name) == 0 ? name.release : "unknown");
	h.resolv_conf = path_real("/etc/resolv.conf");
	h.links = read_links("", top_names, sizeof top_names / sizeof *top_names, &h.n_links);
	h.etc = read_links("/etc", etc_names, sizeof etc_names / sizeof *etc_names, &h.n_etc);
	for (size_t i = 0; i < sizeof device_names / sizeof *device_names; i++) {
		CLEANUP_FREE char *path = xasprintf("/dev/%s", device_names[i]);
		if (access(path, F_OK) == 0)
			strv_add(&h.devices, device_names[i]);
	}
	*ret = h;
	return 0;
}

void host_release(struct host *h)
{
	free_links(h->links, h->n_links);
	free_links(h->etc, h->n_etc);
	free(h->kernel);
	free(h->cpuinfo);
	free(h->resolv_conf);
	strv_release(&h->devices);
	*h = (struct host){ 0 };
}
