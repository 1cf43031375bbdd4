/* Files of one cgroup: written and read back, counters, making and removing. */
#include "budget/group.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/num.h"
#include "base/path.h"
#include "base/str.h"
#include "spec/config.h"

/* How long rmdir may find the group busy after its last member is dead. */
#define REMOVE_WAIT_NS      (2 * NS_PER_SEC)
#define REMOVE_PAUSE_NS     20000
#define REMOVE_PAUSE_MAX_NS 1000000

void settings_release(struct settings *s)
{
	while (s->n > 0)
		cleanup_fd(&s->v[--s->n].fd);
}

/* The text of a file that is open, without its end of line. */
static ssize_t read_again(int fd, char *buffer, size_t room)
{
	ssize_t n = pread(fd, buffer, room - 1, 0);
	if (n < 0)
		return -errno;
	n -= n > 0 && buffer[n - 1] == '\n';
	buffer[n] = '\0';
	return n;
}

int settings_write(struct settings *s, int dir_fd, const char *file, const char *want,
		   struct err *err)
{
	char have[64];
	CLEANUP_FD int fd = openat(dir_fd, file, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || write(fd, want, strlen(want)) < 0)
		return err_errno(err, "write %s to %s", want, file);
	ssize_t n = read_again(fd, have, sizeof(have));
	if (n < 0)
		return err_set(err, ERR_HOST, (int)-n, "read %s back: %s", file, strerror((int)-n));
	if (!str_eq(have, want))
		return err_set(err, ERR_HOST, EIO, "%s: wrote %s, the kernel says %s", file, want,
			       have);
	if (s->n >= BUDGET_VALUES_MAX)
		return err_set(err, ERR_HOST, EOVERFLOW, "%s: too many values", file);
	s->v[s->n].fd = take_fd(&fd);
	(void)snprintf(s->v[s->n].file, sizeof(s->v[s->n].file), "%s", file);
	(void)snprintf(s->v[s->n].want, sizeof(s->v[s->n].want), "%s", want);
	s->n++;
	return 0;
}

int settings_read(const struct settings *s, struct budget_value ret[BUDGET_VALUES_MAX])
{
	for (size_t i = 0; i < s->n; i++) {
		memcpy(ret[i].file, s->v[i].file, sizeof(ret[i].file));
		memcpy(ret[i].want, s->v[i].want, sizeof(ret[i].want));
		ssize_t n = read_again(s->v[i].fd, ret[i].have, sizeof(ret[i].have));
		if (n < 0)
			(void)snprintf(ret[i].have, sizeof(ret[i].have), "unreadable: %s",
				       strerror((int)-n));
	}
	return (int)s->n;
}

int group_write_changed(int dir_fd, const char *file, const char *want, struct err *err)
{
	char have[64] = "";
	if (fs_read_small(dir_fd, file, have, sizeof(have)) >= 0 && str_eq(have, want))
		return 0;
	CLEANUP(settings_release) struct settings once = { 0 };
	return settings_write(&once, dir_fd, file, want, err);
}

bool group_has(int dir_fd, const char *file)
{
	return faccessat(dir_fd, file, F_OK, 0) == 0;
}

uint64_t text_leading_number(const char *text)
{
	char digits[24];
	size_t n = strspn(text, "0123456789");
	uint64_t value = 0;
	if (n == 0 || n >= sizeof(digits))
		return 0;
	memcpy(digits, text, n);
	digits[n] = '\0';
	return num_u64(digits, UINT64_MAX, &value) < 0 ? 0 : value;
}

uint64_t group_number(int dir_fd, const char *file)
{
	char text[64];
	return fs_read_small(dir_fd, file, text, sizeof(text)) < 0 ? 0 : text_leading_number(text);
}

uint64_t text_number(const char *text, const char *key)
{
	size_t length = strlen(key);
	for (const char *line = text; line && *line;) {
		if (memcmp(line, key, strnlen(line, length)) == 0 &&
		    strnlen(line, length) == length && line[length] == ' ')
			return text_leading_number(line + length + 1);
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	return 0;
}

const char *group_text(int dir_fd, const char *file, char buffer[GROUP_TEXT_MAX])
{
	if (fs_read_small(dir_fd, file, buffer, GROUP_TEXT_MAX) < 0)
		buffer[0] = '\0';
	return buffer;
}

uint64_t round_to_page(uint64_t bytes)
{
	return bytes & ~((uint64_t)sysconf(_SC_PAGESIZE) - 1);
}

static int group_open_one(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int group_open(int dir_fd, const char *path, bool make)
{
	CLEANUP_FD int at = -1;
	if (!*path)
		return -EINVAL;
	while (*path) {
		int above_fd = at < 0 ? dir_fd : at;
		size_t length = strcspn(path, "/");
		CLEANUP_FREE char *name = xstrndup(path, length);
		path += length;
		path += strspn(path, "/");
		if (!path_name_ok(name))
			return -EINVAL;
		int next = group_open_one(above_fd, name);
		if (next == -ENOENT && make) {
			/* Existing is fine: another run may be making the same parent right now. */
			if (mkdirat(above_fd, name, 0755) < 0 && errno != EEXIST)
				return -errno;
			next = group_open_one(above_fd, name);
		}
		if (next < 0)
			return next;
		cleanup_fd(&at);
		at = next;
	}
	return take_fd(&at);
}

int group_make(int dir_fd, const char *name)
{
	if (mkdirat(dir_fd, name, 0755) < 0)
		return -errno;
	int fd = group_open_one(dir_fd, name);
	if (fd < 0)
		(void)unlinkat(dir_fd, name, AT_REMOVEDIR);
	return fd;
}

int group_remove(int parent_fd, const char *name, struct err *err)
{
	uint64_t deadline_ns = clock_monotonic_ns() + REMOVE_WAIT_NS;
	struct timespec pause = { .tv_nsec = REMOVE_PAUSE_NS };
	for (;;) {
		if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
			return 0;
		if (errno != EBUSY || deadline_ms(deadline_ns) == 0)
			return err_errno(err, "remove group '%s'", name);
		/* A dead task leaves its group a moment after its pidfd says so, and v1 has no event for
		 * that moment: the only bounded way is to look again, soon at first. */
		(void)nanosleep(&pause, NULL);
		pause.tv_nsec = pause.tv_nsec < REMOVE_PAUSE_MAX_NS ? 2 * pause.tv_nsec
								    : pause.tv_nsec;
	}
}

int deadline_ms(uint64_t deadline_ns)
{
	uint64_t now_ns = clock_monotonic_ns();
	if (now_ns >= deadline_ns)
		return 0;
	uint64_t ms = (deadline_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS;
	return ms > 60000 ? 60000 : (int)ms;
}

unsigned request_cpu_weight(const struct budget_request *request)
{
	if (!request->aggregate) /* nothing is said of the parent */
		return 0;
	return request->cpu_weight ? request->cpu_weight : CPU_WEIGHT_DEFAULT;
}

unsigned request_refuses(const struct budget_request *request, unsigned absent, unsigned *missing)
{
	unsigned may = (request->may_miss_memory ? LIMITER_MEMORY : 0) |
		       (request->may_miss_cpu ? LIMITER_CPU : 0) |
		       (request->may_miss_pids ? LIMITER_PIDS : 0);
	*missing |= absent & may;
	return absent & LIMITER_ALL & ~may;
}

const char *limiter_name(unsigned mask)
{
	return mask & LIMITER_MEMORY ? "memory" : mask & LIMITER_CPU ? "cpu" : "pids";
}

const char *limiter_names(unsigned mask)
{
	static const char *const names[] = { "",     "memory",      "cpu",      "memory,cpu",
					     "pids", "memory,pids", "cpu,pids", "memory,cpu,pids" };
	_Static_assert(LIMITER_ALL == 7, "the index is the mask");
	return names[mask & LIMITER_ALL];
}
