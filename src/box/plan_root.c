/* The private root of a box: small, read-only, made for it. */
#include <string.h>

#include "box/plan_parts.h"

/* Kernel-wide views that tell of the host or let it be changed. A box's procfs is mounted read-only as a whole;
 * these are not even to be read. Not masked, since programs and libraries read them: cgroups, cpuinfo, devices, filesystems, loadavg, meminfo,
 * stat, uptime, version, vmstat. */
static const char *const proc_masks[] = {
	"acpi",          "asound",     "buddyinfo",  "bus",           "cmdline",    "config.gz",
	"consoles",      "crypto",     "diskstats",  "dma",           "driver",     "dynamic_debug",
	"execdomains",   "fb",         "fs",         "interrupts",    "iomem",      "ioports",
	"irq",           "kallsyms",   "kcore",      "key-users",     "keys",       "kmsg",
	"kpagecgroup",   "kpagecount", "kpageflags", "latency_stats", "locks",      "mdstat",
	"misc",          "modules",    "mtrr",       "pagetypeinfo",  "partitions", "pressure",
	"sched_debug",   "schedstat",  "scsi",       "slabinfo",      "softirqs",   "swaps",
	"sysrq-trigger", "sysvipc",    "timer_list", "timer_stats",   "tty",        "vmallocinfo",
	"zoneinfo",
};

static struct step *plan_file(struct plan *p, const char *target, const char *content)
{
	struct step *s = plan_step(p, STEP_FILE, target, content);
	s->mode = 0444;
	return s;
}

static struct step *plan_dir(struct plan *p, const char *target)
{
	struct step *s = plan_step(p, STEP_DIR, target, NULL);
	s->mode = 0755;
	return s;
}

static struct step *plan_tmpfs(struct plan *p, const char *target, uint64_t bytes, uint64_t inodes,
			       mode_t mode)
{
	struct step *s = plan_step(p, STEP_TMPFS, target, NULL);
	s->size_bytes = bytes;
	s->inodes = inodes;
	s->mode = mode;
	s->writable = true;
	return s;
}

static void plan_links(struct plan *p, const char *directory, const struct host_link *links,
		       size_t n)
{
	for (size_t i = 0; i < n; i++) {
		CLEANUP_FREE char *path = xasprintf("%s/%s", directory, links[i].name);
		plan_step(p, links[i].target ? STEP_LINK : STEP_BIND, path,
			  links[i].target ? links[i].target : path);
	}
}

static void plan_etc(const struct plan_request *q, struct plan *p)
{
	CLEANUP_FREE char *passwd =
		xasprintf("root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n" BOX_USER
			  ":x:%d:%d:analysis:%s/home:/bin/sh\n"
			  "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
			  BOX_UID, BOX_GID, p->work_dir);
	CLEANUP_FREE char *group =
		xasprintf("root:x:0:\n" BOX_USER ":x:%d:\nnogroup:x:65534:\n", BOX_GID);
	CLEANUP_FREE char *hosts =
		xasprintf("127.0.0.1 localhost %s\n::1 localhost ip6-localhost\n", p->hostname);
	CLEANUP_FREE char *hostname = xasprintf("%s\n", p->hostname);
	plan_dir(p, "/etc");
	plan_file(p, "/etc/passwd", passwd);
	plan_file(p, "/etc/group", group);
	plan_file(p, "/etc/hosts", hosts);
	plan_file(p, "/etc/hostname", hostname);
	plan_file(p, "/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n");
	if (p->own_network)
		plan_file(p, "/etc/resolv.conf", "");
	else if (q->host->resolv_conf)
		plan_step(p, STEP_BIND, "/etc/resolv.conf", q->host->resolv_conf);
	if (!q->runtime->tree)
		plan_links(p, "/etc", q->host->etc, q->host->n_etc);
}

static void plan_dev(const struct plan_request *q, struct plan *p)
{
	uint64_t memory = q->limits->at[LIMIT_MEMORY].value;
	plan_dir(p, "/dev");
	for (size_t i = 0; i < q->host->devices.n; i++) {
		CLEANUP_FREE char *path = xasprintf("/dev/%s", q->host->devices.v[i]);
		plan_step(p, STEP_DEVICE, path, path);
	}
	plan_step(p, STEP_LINK, "/dev/fd", "/proc/self/fd");
	plan_step(p, STEP_LINK, "/dev/stdin", "/proc/self/fd/0");
	plan_step(p, STEP_LINK, "/dev/stdout", "/proc/self/fd/1");
	plan_step(p, STEP_LINK, "/dev/stderr", "/proc/self/fd/2");
	plan_tmpfs(p, "/dev/shm", memory, q->limits->at[LIMIT_INODES].value, 01777);
}

/* glibc counts cpus in /sys/devices/system/cpu/online: a made file there makes programs see the budget. */
static void plan_sys(struct plan *p)
{
	CLEANUP_FREE char *range = p->n_cpus > 1 ? xasprintf("0-%d\n", p->n_cpus - 1)
						 : xstrdup("0\n");
	static const char *const names[] = { "online", "possible", "present" };
	plan_dir(p, "/sys/devices/system/cpu");
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		CLEANUP_FREE char *path = xasprintf("/sys/devices/system/cpu/%s", names[i]);
		plan_file(p, path, range);
	}
}

/* R and libuv count the blocks of /proc/cpuinfo: as many as the budget has cpus. Left alone where the host's facts hold fewer. */
static void plan_cpuinfo(const struct plan_request *q, struct plan *p)
{
	const char *end = q->host->cpuinfo;
	int blocks = 0;
	while (end && blocks < p->n_cpus && (end = strstr(end, "\n\n"))) {
		end += 2;
		blocks++;
	}
	if (!end || !blocks || p->n_cpus == q->host->n_cpus)
		return;
	CLEANUP_FREE char *text = xstrndup(q->host->cpuinfo, (size_t)(end - q->host->cpuinfo));
	plan_file(p, "/run/cupel/cpuinfo", text);
	plan_step(p, STEP_COVER, "/proc/cpuinfo", "/run/cupel/cpuinfo");
}

static void plan_proc(const struct plan_request *q, struct plan *p)
{
	plan_step(p, STEP_PROC, "/proc", NULL);
	for (size_t i = 0; i < sizeof proc_masks / sizeof *proc_masks; i++) {
		CLEANUP_FREE char *path = xasprintf("/proc/%s", proc_masks[i]);
		plan_step(p, STEP_MASK, path, NULL);
	}
	plan_cpuinfo(q, p);
}

void plan_root(const struct plan_request *q, struct plan *p)
{
	plan_tmpfs(p, "/", 4 << 20, 2048, 0755);
	if (!q->runtime->tree) {
		plan_step(p, STEP_BIND, "/usr", "/usr");
		plan_links(p, "", q->host->links, q->host->n_links);
	}
	plan_etc(q, p);
	plan_dev(q, p);
	plan_sys(p);
	plan_proc(q, p);
	plan_dir(p, "/run");
	if (!q->grant)
		plan_file(p, PLAN_PROVENANCE, "{}\n");
	plan_dir(p, "/home");
	plan_dir(p, q->runtime->tree ? "/var" : "/var/lib");
	plan_tmpfs(p, "/tmp", q->limits->at[LIMIT_MEMORY].value, q->limits->at[LIMIT_INODES].value,
		   01777);
	plan_step(p, STEP_LINK, "/var/tmp", "../tmp");
}
