#include "spec/caller.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/openat2.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/num.h"
#include "base/path.h"
#include "spec/id.h"

#define GROUPS_MAX 65536 /* the kernel's own */

int config_caller_parse(const char *text, struct config_caller *ret)
{
	const char *colon = strchr(text, ':');
	CLEANUP_FREE char *user = colon ? xstrndup(text, (size_t)(colon - text)) : NULL;
	uint64_t uid = 0, gid = 0;

	if (!user || num_u64(user, UINT32_MAX - 1, &uid) < 0 ||
	    num_u64(colon + 1, UINT32_MAX - 1, &gid) < 0)
		return -EINVAL;
	*ret = (struct config_caller){ .is_set = true, .uid = (uid_t)uid, .gid = (gid_t)gid };
	return 0;
}

static int given_read(struct config_caller *caller, struct err *err)
{
	const char *said = getenv("CUPEL_GIVEN");
	uint64_t *const to[] = { &caller->memory_bytes, &caller->cpus, &caller->pids };

	for (size_t i = 0; said && i < sizeof to / sizeof *to; i++) {
		size_t n = strcspn(said, ",");
		CLEANUP_FREE char *number = xstrndup(said, n);
		if (num_u64(number, INT64_MAX, to[i]) < 0 || (said[n] == ',') != (i < 2))
			return err_caller(err, "CUPEL_GIVEN must be MEMORY,CPUS,PIDS");
		said += n + (said[n] == ',');
	}
	return 0;
}

int caller_read(struct config_caller *caller, struct err *err)
{
	const char *said = getenv("CUPEL_SUBMITTER");

	if (said && config_caller_parse(said, caller) < 0)
		return err_caller(err, "CUPEL_SUBMITTER must be UID:GID");
	const char *submission = getenv("CUPEL_SUBMISSION");
	if (submission && id_check(submission, err) < 0)
		return err_wrap(err, "CUPEL_SUBMISSION");
	if (submission)
		(void)snprintf(caller->submission, sizeof caller->submission, "%s", submission);
	return given_read(caller, err);
}

bool caller_is_other(const struct config *c)
{
	return c && c->caller.is_set && c->caller.uid != 0 && c->caller.uid != geteuid();
}

/* setfsuid() and setfsgid() tell of no failure: what is in force is asked for. */
static bool fs_is(uid_t uid, gid_t gid)
{
	return (uid_t)setfsuid((uid_t)-1) == uid && (gid_t)setfsgid((gid_t)-1) == gid;
}

/* Those that he would have at a login; a uid without a name has the one. */
static int set_groups(const struct config_caller *caller)
{
	struct passwd entry = { 0 }, *found = NULL;
	char text[4096];
	int n = GROUPS_MAX;
	if (getpwuid_r(caller->uid, &entry, text, sizeof text, &found) != 0 || !found)
		return setgroups(1, &caller->gid) < 0 ? -errno : 0;
	CLEANUP_FREE gid_t *groups = xcalloc(GROUPS_MAX, sizeof *groups);
	if (getgrouplist(found->pw_name, caller->gid, groups, &n) < 0)
		return -E2BIG;
	return setgroups((size_t)n, groups) < 0 ? -errno : 0;
}

void caller_leave(struct caller_before *b)
{
	if (!b->is_other)
		return;
	(void)setfsuid(b->uid);
	(void)setfsgid(b->gid);
	if (setgroups((size_t)b->n_groups, b->groups) < 0 || !fs_is(b->uid, b->gid))
		abort(); /* neither whom we act for nor ourselves */
	cleanup_free(&b->groups);
	b->is_other = false;
}

int caller_enter(const struct config *c, struct caller_before *before)
{
	struct caller_before b = { .uid = geteuid(), .gid = getegid() };
	if (!caller_is_other(c)) {
		*before = b;
		return 0;
	}
	if (b.uid != 0)
		return -EPERM;
	b.n_groups = getgroups(0, NULL);
	b.groups = b.n_groups < 0 ? NULL : xcalloc((size_t)b.n_groups + 1, sizeof *b.groups);
	if (b.n_groups < 0 || getgroups(b.n_groups, b.groups) < 0) {
		int r = -errno;
		free(b.groups);
		return r;
	}
	b.is_other = true;
	int r = set_groups(&c->caller);
	(void)setfsgid(c->caller.gid);
	(void)setfsuid(
		c->caller.uid); /* takes the capabilities over files away too: capabilities(7) */
	if (r < 0 || !fs_is(c->caller.uid, c->caller.gid)) {
		caller_leave(&b);
		return r < 0 ? r : -EPERM;
	}
	*before = b;
	return 0;
}

/* A directory must be open to be listed and to be passed. */
static int may_read(const char *path)
{
	struct stat st = { 0 };
	CLEANUP_FD int at_fd = fs_open_resolve(AT_FDCWD, path, O_PATH | O_CLOEXEC, 0,
					       RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	if (at_fd < 0)
		return at_fd;
	if (fstat(at_fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return 0; /* whoever plans says what is wrong with it */
	CLEANUP_FREE char *by_fd = xasprintf("/proc/self/fd/%d", at_fd);
	CLEANUP_FD int fd = open(by_fd, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	CLEANUP_FD int inside = S_ISDIR(st.st_mode) ? openat(fd, ".", O_PATH | O_CLOEXEC) : -1;
	return S_ISDIR(st.st_mode) && inside < 0 ? -errno : 0;
}

int caller_may_read(const struct config *c, const char *path)
{
	CLEANUP(caller_leave) struct caller_before before = { 0 };
	if (!caller_is_other(c))
		return 0; /* what reads it says so */
	int r = caller_enter(c, &before);
	return r < 0 ? r : may_read(path);
}

int caller_real(const struct config *c, const char *path, char **ret)
{
	CLEANUP(caller_leave) struct caller_before before = { 0 };
	int r = caller_enter(c, &before);
	if (r < 0)
		return r;
	CLEANUP_FREE char *real = path_real(path);
	if (!real)
		return -errno;
	r = caller_is_other(c) ? may_read(real) : 0;
	if (r >= 0)
		*ret = take_ptr(real);
	return r;
}
