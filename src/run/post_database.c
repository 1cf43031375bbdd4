/* The database of a step, as the host has it: looked at before anything runs, so that what is wrong is said then. */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "run/post.h"

#define OTHERS_MAX 1000

static int mistake(const struct post *p, struct err *err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static int mistake(const struct post *p, struct err *err, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	CLEANUP_FREE char *text = xvasprintf(format, args);
	va_end(args);
	return err_caller(err, "%s: the database of the step '%s': %s", p->step->database_origin,
			  p->step->name, text);
}

/* Root's group is nobody's: "chown USER FILE" leaves a file in it. */
static gid_t group_of(uid_t uid, gid_t gid)
{
	const struct passwd *entry = gid ? NULL : getpwuid(uid);
	return gid ? gid : entry && entry->pw_gid ? entry->pw_gid : (gid_t)uid;
}

/* As root: the named user, or the database's own; never root itself. */
static int choose_user(struct post *p, const struct stat *owner, struct err *err)
{
	const char *name = p->step->user;
	const struct passwd *entry = name ? getpwnam(name) : NULL;
	if (name && !entry)
		return err_caller(err, "%s: the step '%s': there is no user '%s'", p->step->origin,
				  p->step->name, name);
	if (geteuid() != 0 && entry && entry->pw_uid != geteuid())
		return err_caller(err,
				  "%s: the step '%s' is to run as '%s', which only root can do",
				  p->step->origin, p->step->name, name);
	if (geteuid() != 0 || (!entry && !owner))
		return 0;
	p->resolved.has_uid = true;
	p->resolved.uid = entry ? entry->pw_uid : owner->st_uid;
	p->resolved.gid = group_of(p->resolved.uid, entry ? entry->pw_gid : owner->st_gid);
	if (p->resolved.uid)
		return 0;
	return mistake(
		p, err,
		"it belongs to root, and no step runs as root: give it and its directory to a user of its own "
		"(chown USER FILE), or name one with 'user:'");
}

static bool may(const struct post *p, const struct stat *st, mode_t bits)
{
	if (!p->resolved.has_uid)
		return true; /* asked of the kernel */
	unsigned shift = st->st_uid == p->resolved.uid ? 6 : st->st_gid == p->resolved.gid ? 3 : 0;
	return ((st->st_mode >> shift) & bits) == bits;
}

static int check_access(const struct post *p, const struct stat *file, struct err *err)
{
	struct stat dir = { 0 };
	if (stat(p->database_dir, &dir) < 0)
		return err_errno(err, "look at %s", p->database_dir);
	bool own = geteuid() != 0;
	if (!may(p, file, 6) || (own && access(p->url.path, R_OK | W_OK) < 0))
		return mistake(p, err, "%s is not the step's to write; see 'user:'", p->url.path);
	if (!may(p, &dir, 3) || (own && access(p->database_dir, W_OK | X_OK) < 0))
		return mistake(
			p, err,
			"SQLite keeps its journal beside %s, and %s is not the step's to write; give it a directory of its own",
			p->url.path, p->database_dir);
	return 0;
}

static bool is_of_database(const char *entry, const char *name)
{
	static const char *const ends[] = { "", "-journal", "-wal", "-shm" };
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		if (str_starts(entry, name) && str_eq(entry + strlen(name), ends[i]))
			return true;
	return false;
}

/* A link needs no cover: it leads to something that has one, or to nothing in the box. */
static int list_others(struct post *p, struct err *err)
{
	CLEANUP_DIR DIR *dir = opendir(p->database_dir);
	if (!dir)
		return err_errno(err, "open %s", p->database_dir);
	for (struct dirent *entry; (entry = readdir(dir));) {
		struct stat st = { 0 };
		if (str_eq(entry->d_name, ".") || str_eq(entry->d_name, "..") ||
		    is_of_database(entry->d_name, path_base(p->url.path)) ||
		    fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    S_ISLNK(st.st_mode))
			continue;
		if (p->others.n == OTHERS_MAX)
			return mistake(
				p, err,
				"%s has more than %d other entries, which would have to be hidden; give it a directory of its own",
				p->database_dir, OTHERS_MAX);
		strv_add(&p->others, entry->d_name);
	}
	return 0;
}

static int look_at_sqlite(struct post *p, struct err *err)
{
	static const char magic[16] = "SQLite format 3";
	char head[sizeof magic] = "";
	struct stat st = { 0 };
	char *real = path_real(p->url.path);
	if (!real)
		return mistake(p, err, "%s: %s; make it first", p->url.path,
			       strerrordesc_np(errno));
	free(p->url.path);
	p->url.path = real;
	CLEANUP_FD int fd = open(real, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) < 0)
		return mistake(p, err, "%s: %s", real, strerrordesc_np(errno));
	if (!S_ISREG(st.st_mode) ||
	    (st.st_size && (pread(fd, head, sizeof head, 0) != sizeof head ||
			    memcmp(head, magic, sizeof head) != 0)))
		return mistake(p, err, "%s is not an SQLite file", real);
	p->database_dir = path_parent(real);
	int r = choose_user(p, &st, err);
	if (r >= 0)
		r = check_access(p, &st, err);
	return r < 0 ? r : list_others(p, err);
}

static int look_at_server(struct post *p, struct err *err)
{
	struct stat st = { 0 };
	int r = choose_user(p, NULL, err);
	if (r < 0)
		return r;
	p->socket_name = xasprintf(".s.PGSQL.%u", p->url.port);
	p->pgpass = dburl_pgpass(&p->url);
	if (p->url.host[0] != '/') {
		p->socket = xasprintf("%s/%s/" RELAY_NAME, p->runs, p->parent_id);
		return 0;
	}
	CLEANUP_FREE char *path = path_join(p->url.host, p->socket_name);
	p->socket = path_real(path);
	if (p->socket && stat(p->socket, &st) == 0 && S_ISSOCK(st.st_mode))
		return 0;
	return mistake(
		p, err,
		"there is no server's socket %s; start PostgreSQL, or correct host= and port=",
		path);
}

int post_database(struct post *p, struct err *err)
{
	int r = dburl_parse(p->step->database, &p->url, err);
	if (r >= 0)
		r = p->url.kind == DB_SQLITE ? look_at_sqlite(p, err) : look_at_server(p, err);
	if (r >= 0)
		p->inside = dburl_inside(&p->url, PLAN_DATABASE_DIR);
	return r;
}
