#include "run/shown.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/path.h"
#include "box/kernel_fs.h"
#include "box/search.h"
#include "box/userns.h"
#include "spec/caller.h"

/* One thing that is shown. */
struct shown {
	const struct config *c; /* whose caller may read it; NULL: cupel's own */
	const char *path;       /* real */
	const char *origin;     /* who says so */
};

/* A disk that is mounted below such a place (/run/media) is data; a tmpfs there (/run/user, /dev/shm) is what programs keep for each other. */
static bool is_disk_below(const char *place, const struct stat *st, const struct statfs *fs)
{
	struct stat above = { 0 };
	return stat(place, &above) == 0 && above.st_dev != st->st_dev && !kernel_fs_memory(fs);
}

static int check_place(const struct shown *s, const struct stat *st, struct err *err)
{
	static const char *const places[] = { "/proc", "/sys", "/dev", "/run" };
	struct statfs fs = { 0 };
	if (statfs(s->path, &fs) < 0)
		return err_set(err, ERR_CALLER, errno, "%s: %s: %s", s->origin, s->path,
			       strerrordesc_np(errno));
	if (kernel_fs_magic(&fs))
		return err_set(
			err, ERR_CALLER, EPERM,
			"%s: %s is on a file system of the kernel; analyses are shown data only. Give a copy of the "
			"file",
			s->origin, s->path);
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		if (path_within(places[i], s->path))
			return err_set(err, ERR_CALLER, EPERM,
				       "%s: %s would show %s; give a narrower directory", s->origin,
				       s->path, places[i]);
		if (path_within(s->path, places[i]) && !is_disk_below(places[i], st, &fs))
			return err_set(
				err, ERR_CALLER, EPERM,
				"%s: %s is below %s, where the kernel and running programs keep their state; analyses are shown "
				"data only. Give a copy of the file",
				s->origin, s->path, places[i]);
	}
	return 0;
}

/* Keys and passwords, which nobody hands to an analysis on purpose. That all may read some of these files is the host's decision. */
static const char *secret_of(const char *path, bool is_dir)
{
	static const char *const places[] = { "/etc", "/boot" };
	static const char *const names[] = { ".ssh", ".gnupg" };
	for (size_t i = 0; i < sizeof places / sizeof *places; i++)
		if (path_within(path, places[i]))
			return places[i];
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		CLEANUP_FREE char *inside = path_join(path, names[i]);
		CLEANUP_FREE char *component = xasprintf("/%s/", names[i]);
		CLEANUP_FREE char *closed = xasprintf("%s/", path);
		if (strstr(closed, component) || (is_dir && access(inside, F_OK) == 0))
			return names[i];
	}
	return NULL;
}

/* With the groups that the caller has while files are opened for him. */
static int is_member(const struct config *c, gid_t gid)
{
	CLEANUP(caller_leave) struct caller_before before = { 0 };
	int r = caller_enter(c, &before);
	int n = r < 0 ? -1 : getgroups(0, NULL);
	if (n < 0)
		return r < 0 ? r : -errno;
	CLEANUP_FREE gid_t *groups = xcalloc((size_t)n + 1, sizeof *groups);
	n = getgroups(n, groups);
	for (int i = 0; i < n; i++)
		if (groups[i] == gid)
			return 1;
	return gid == c->caller.gid;
}

/* By the one right that lets the caller read it, the owner's or the group's: then the run has no other right of his. With one of the two
 * unmapped the kernel still refuses every write access, also to a socket that somebody makes there later. */
static int share(const struct shown *s, const struct stat *st, struct plan *p, struct err *err)
{
	bool is_other = s->c && caller_is_other(s->c);
	mode_t need = S_ISDIR(st->st_mode) ? 05 : 04;
	bool by_owner = ((st->st_mode >> 6) & need) == need;
	bool by_group = ((st->st_mode >> 3) & need) == need;
	int member = is_other && by_group ? is_member(s->c, st->st_gid) : 1;
	if (member < 0)
		return err_set(err, ERR_HOST, -member, "%s: %s: %s", s->origin, s->path,
			       strerrordesc_np(-member));
	if (is_other ? s->c->caller.uid == st->st_uid : by_owner)
		plan_show_as(p, s->path, st->st_uid, USERNS_NO_GID);
	else if (by_group && member)
		plan_show_as(p, s->path, USERNS_NO_UID, st->st_gid);
	else if (is_other) /* an access control list names him */
		plan_show_as(p, s->path, s->c->caller.uid, USERNS_NO_GID);
	else
		return err_set(
			err, ERR_CALLER, EACCES,
			"%s: %s: neither its owner nor its group may read it (mode %04o). Give a copy of the data",
			s->origin, s->path, (unsigned)st->st_mode & 07777);
	return 0;
}

static int check_readable(const struct shown *s, const struct stat *st, struct plan *p,
			  struct err *err)
{
	bool is_dir = S_ISDIR(st->st_mode);
	mode_t need = is_dir ? 0005 : 0004;
	int r = caller_may_read(s->c, s->path);
	if (r >= 0 && geteuid() != 0 && access(s->path, R_OK) < 0)
		r = -errno;
	if (r < 0)
		return err_set(err, ERR_CALLER, -r, "%s: %s: %s", s->origin, s->path,
			       strerrordesc_np(-r));
	if (geteuid() != 0 || (st->st_mode & need) == need)
		return 0;
	const char *secret = secret_of(s->path, is_dir);
	if (secret)
		return err_set(
			err, ERR_CALLER, EPERM,
			"%s: %s: not all users may read it (mode %04o), and private files of %s are never shown to an "
			"analysis. Give a copy of the data that it needs",
			s->origin, s->path, (unsigned)st->st_mode & 07777, secret);
	return share(s, st, p, err);
}

/* A socket or FIFO leads to a program, a device to the kernel. */
static int check_kind(const struct shown *s, const struct stat *st, struct err *err)
{
	if (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode))
		return 0;
	return err_set(err, ERR_CALLER, EPERM,
		       "%s: %s is a %s; an input is a file or a directory. Give a copy of the data",
		       s->origin, s->path,
		       S_ISSOCK(st->st_mode)   ? "socket"
		       : S_ISFIFO(st->st_mode) ? "FIFO"
					       : "device");
}

static int check_one(const struct shown *s, struct plan *p, struct err *err)
{
	struct stat st = { 0 };
	if (stat(s->path, &st) < 0)
		return err_set(err, ERR_CALLER, errno, "%s: %s: %s", s->origin, s->path,
			       strerrordesc_np(errno));
	int r = s->c ? check_place(s, &st, err) : 0;
	if (r >= 0)
		r = check_kind(s, &st, err);
	return r < 0 ? r : check_readable(s, &st, p, err);
}

int shown_check(const struct config *c, const struct analysis *a, struct plan *p, struct err *err)
{
	int r = 0;
	for (size_t i = 0; r >= 0 && i < a->code.n; i++)
		r = check_one(&(struct shown){ c, a->code.v[i], analysis_code_origin(a, i) }, p,
			      err);
	for (size_t i = 0; r >= 0 && i < a->n_inputs; i++) /* what a step made is cupel's own */
		r = check_one(&(struct shown){ a->inputs[i].is_own ? NULL : c, a->inputs[i].path,
					       a->inputs[i].origin },
			      p, err);
	return r;
}

int shown_to_all(const struct plan *p, const char *executor, struct err *err)
{
	for (size_t i = 0; i < p->n_steps; i++)
		if (p->steps[i].ids == IDS_RUN)
			return err_set(
				err, ERR_CALLER, EACCES,
				"%s: not all users may read it, and the executor %s can't show it to one run alone. Give a copy, or "
				"run it on this host: --executor local",
				p->steps[i].source, executor);
	return 0;
}

int shown_elsewhere(const struct plan *p, const char *executor, struct err *err)
{
	int r = shown_to_all(p, executor, err);
	for (size_t i = 0; r >= 0 && i < p->n_steps; i++) {
		const struct step *s = &p->steps[i];
		struct search found = { 0 };
		if (s->kind != STEP_BIND || !s->is_searched)
			continue;
		CLEANUP_FD int fd =
			open(s->source, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (fd >= 0 && search_special(fd, &found) > 0)
			return err_set(
				err, ERR_CALLER, EPERM,
				"%s/%s is a %s: an analysis could reach a program of the host through it. Give a directory without "
				"sockets and FIFOs, or a copy of the files",
				s->source, found.found, found.is_fifo ? "FIFO" : "socket");
	}
	return r;
}
