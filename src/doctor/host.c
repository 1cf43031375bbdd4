/* What a run needs of the host beside its layers: uids, memory, disk, and a clock. */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/num.h"
#include "base/path.h"
#include "doctor/parts.h"
#include "keeper/uids.h"

#define GROUP "host"

static bool overlaps(const struct config *c, uint64_t first, uint64_t count)
{
	return first < (uint64_t)c->uid_first + c->uid_count && c->uid_first < first + count;
}

/* Somebody's uid within the range: a run with it could reach what is his. Accounts, and what they may use in their namespaces
 * (subuid(5): NAME:FIRST:COUNT). */
static bool uid_is_taken(const struct config *c, char *ret_name, size_t room)
{
	CLEANUP_FILE FILE *file = fopen("/etc/passwd", "re");
	CLEANUP_FILE FILE *more = fopen("/etc/subuid", "re");
	char line[512];
	for (struct passwd *entry; file && (entry = fgetpwent(file));)
		if (overlaps(c, entry->pw_uid, 1)) {
			(void)snprintf(ret_name, room, "%s", entry->pw_name);
			return true;
		}
	while (more && fgets(line, sizeof line, more)) {
		char *end = strchr(line, ':');
		if (!end)
			continue;
		*end++ = '\0';
		uint64_t first = strtoull(end, &end, 10);
		uint64_t count = *end == ':' ? strtoull(end + 1, NULL, 10) : 0;
		if (overlaps(c, first, count)) {
			(void)snprintf(ret_name, room, "%.60s", line);
			return true;
		}
	}
	return false;
}

static void examine_uids(struct examination *x)
{
	const struct config *c = x->config;
	struct finding *f = finding_add(x->d, GROUP, "uids");
	struct uid_lease lease = { .lock_fd = -1 };
	struct err err = { 0 };
	char name[64];
	f->promise = "It gains no privilege";
	if (geteuid() != 0) {
		finding_is(
			f, FINDING_NOTE,
			"runs have your own uid on the host, %u, and are told apart by namespaces; as root each has one of "
			"its own",
			geteuid());
	} else if (uid_take(c->uid_first, c->uid_count, &lease, &err) < 0) {
		finding_refused(f, err.text);
	} else if (uid_is_taken(c, name, sizeof name)) {
		finding_is(f, FINDING_WEAK, "a uid of '%s' is in the range of runs, %u and %u more",
			   name, c->uid_first, c->uid_count - 1);
		finding_remedy(f, "name another range in cupel.yaml: 'uids: {first: N, count: M}'");
	} else {
		finding_is(
			f, FINDING_OK,
			"%u uids from %u on, nobody's in /etc/passwd and /etc/subuid; one was leased and given back",
			c->uid_count, c->uid_first);
	}
	cleanup_fd(&lease.lock_fd);
}

static uint64_t meminfo(const char *key)
{
	char text[4096];
	uint64_t kib = 0;
	if (fs_read_small(AT_FDCWD, "/proc/meminfo", text, sizeof text) < 0)
		return 0;
	const char *at = strstr(text, key);
	if (at)
		kib = strtoull(at + strlen(key), NULL, 10);
	return kib * 1024;
}

static void examine_memory(struct examination *x, const struct limits *defaults)
{
	struct finding *f = finding_add(x->d, GROUP, "free memory");
	uint64_t there = meminfo("MemAvailable:"), wanted = defaults->at[LIMIT_MEMORY].value;
	char have[32], want[32];
	if (!there) {
		finding_is(f, FINDING_UNKNOWN, "/proc/meminfo does not say");
		return;
	}
	finding_is(f, there < wanted ? FINDING_WEAK : FINDING_OK,
		   "%s available; a run may use %s by itself",
		   num_print_size(there, have, sizeof have),
		   num_print_size(wanted, want, sizeof want));
	if (there < wanted)
		finding_remedy(
			f,
			"free memory, or give runs less: 'defaults: {limits: {memory: SIZE}}' in cupel.yaml");
}

static void examine_room(struct examination *x, const char *name, const char *path,
			 const struct limits *defaults)
{
	struct finding *f = finding_add(x->d, GROUP, name);
	struct statvfs fs;
	char have[32], want[32];
	if (statvfs(path, &fs) < 0) {
		finding_is(f, FINDING_UNKNOWN, "%s: %s", path, strerrordesc_np(errno));
		return;
	}
	uint64_t there = (uint64_t)fs.f_bavail * fs.f_frsize,
		 wanted = defaults->at[LIMIT_DISK].value;
	uint64_t files = defaults->at[LIMIT_INODES].value;
	bool few_files = fs.f_files &&
			 fs.f_favail < files; /* some file systems have no such limit */
	bool is_weak = there < wanted || few_files;
	finding_is(f, is_weak ? FINDING_WEAK : FINDING_OK,
		   "%s and %llu inodes free below %s; a run may use %s and %llu by itself",
		   num_print_size(there, have, sizeof have), (unsigned long long)fs.f_favail, path,
		   num_print_size(wanted, want, sizeof want), (unsigned long long)files);
	f->promise =
		"After a power cut or on a full disk a record is whole, or the run is lost; never half";
	if (is_weak)
		finding_remedy(f, "cupel gc   # then make room below %s", path);
}

static void newer(const char *path, const char *what, time_t *newest, const char **ret_what)
{
	struct stat st;
	if (stat(path, &st) == 0 && st.st_mtime > *newest) {
		*newest = st.st_mtime;
		*ret_what = what;
	}
}

/* A record with a time before that of the last one sorts wrongly for ever. */
static void examine_clock(struct examination *x)
{
	struct finding *f = finding_add(x->d, GROUP, "clock");
	struct timex state = { 0 };
	time_t newest = 0;
	const char *what = NULL;
	char now_text[40], then_text[40];
	CLEANUP_FREE char *runs = path_join(x->config->home, "runs");
	CLEANUP_FREE char *health = path_join(x->config->home, "health");
	uint64_t now = clock_real_ns(), before = clock_monotonic_ns();
	newer("/proc/self/exe", "this program was installed", &newest, &what);
	newer(runs, "the last run", &newest, &what);
	newer(health, "the last record of health", &newest, &what);
	(void)clock_write(now, now_text, sizeof now_text);
	(void)clock_write((uint64_t)newest * NS_PER_SEC, then_text, sizeof then_text);
	if (clock_monotonic_ns() < before) {
		finding_is(f, FINDING_MISSING,
			   "the monotonic clock goes backwards: limits of time can't hold");
	} else if ((uint64_t)newest * NS_PER_SEC > now + NS_PER_SEC) {
		finding_is(f, FINDING_WEAK,
			   "it is %s, before %s (%s): records would have wrong times", now_text,
			   what, then_text);
		finding_root_remedy(f, "timedatectl set-ntp true   # or: date -s TIME");
	} else {
		bool synchronised = adjtimex(&state) != TIME_ERROR && !(state.status & STA_UNSYNC);
		finding_is(f, synchronised ? FINDING_OK : FINDING_NOTE,
			   "%s, after all that was recorded here; %s", now_text,
			   synchronised ? "kept in time by the kernel" : "nobody keeps it in time");
	}
}

void examine_host(struct examination *x)
{
	struct limits defaults = { 0 }, none = { 0 };
	struct analysis analysis = { 0 };
	struct err err = { 0 };
	struct stat home, work;
	examine_step(x, "the host");
	examine_uids(x);
	if (config_limits(x->config, &none, &analysis, &defaults, &err) < 0)
		(void)limits_profile("default", &defaults);
	examine_memory(x, &defaults);
	examine_room(x, "free disk", x->config->home, &defaults);
	if (stat(x->config->home, &home) == 0 && stat(x->config->work_root, &work) == 0 &&
	    home.st_dev != work.st_dev)
		examine_room(x, "free disk for work", x->config->work_root, &defaults);
	examine_clock(x);
}
