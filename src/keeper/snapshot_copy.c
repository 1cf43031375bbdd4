/* The copy itself. The source is opened read-only. The destination is memory that is the file: so SQLite needs no path to it, and the child
 * no right to any directory. libsqlite3 is loaded here, in the child, when a snapshot is made. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "keeper/snapshot.h"

#define LIBRARY   "libsqlite3.so.0"
#define BUSY_MS   10000
#define WAIT_NS   ((uint64_t)120 * NS_PER_SEC)
#define PAGES     4096 /* at once, so that writers get their turn */
#define ALL_PAGES (-1)
#define RESTARTS_MAX                                                                               \
	3 /* then all at once: those who write wait for it, where their journal makes them */

#define SQLITE_FUNCTIONS(ROW)                                                                      \
	ROW(open_v2)                                                                               \
	ROW(close_v2)                                                                              \
	ROW(busy_timeout)                                                                          \
	ROW(deserialize)                                                                           \
	ROW(backup_init)                                                                           \
	ROW(backup_step)                                                                           \
	ROW(backup_remaining)                                                                      \
	ROW(backup_pagecount)                                                                      \
	ROW(backup_finish)                                                                         \
	ROW(errstr)                                                                                \
	ROW(errmsg)

struct copier {
	const char *path;
	const struct stat *source; /* what it leads to */
	sqlite3 *from, *to;        /* owned */
	sqlite3_backup *backup;    /* owned */
	unsigned char *bytes;      /* the copy */
	uint64_t room;
	uint64_t copied;
#define SQLITE_MEMBER(name) __typeof__(sqlite3_##name) *name;
	SQLITE_FUNCTIONS(SQLITE_MEMBER)
#undef SQLITE_MEMBER
};

static int load(struct copier *c, struct err *err)
{
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return err_set(
			err, ERR_HOST, EOPNOTSUPP,
			"a snapshot is made by " LIBRARY
			", which cannot be loaded (%s). Remedy: apt-get install libsqlite3-0",
			dlerror());
#define SQLITE_LOAD(name)                                                                          \
	do {                                                                                       \
		void *symbol = dlsym(library, "sqlite3_" #name);                                   \
		if (!symbol)                                                                       \
			return err_set(err, ERR_HOST, EOPNOTSUPP,                                  \
				       LIBRARY " has no sqlite3_" #name);                          \
		memcpy(&c->name, &symbol, sizeof(symbol));                                         \
	} while (0);
	SQLITE_FUNCTIONS(SQLITE_LOAD)
#undef SQLITE_LOAD
	return 0;
}

static int failed(const struct copier *c, int code, struct err *err)
{
	const char *remedy = "";
	if (code == SQLITE_FULL)
		remedy = "; it has grown beyond what may be copied: raise --disk";
	else if ((code & 0xff) == SQLITE_READONLY)
		remedy =
			"; somebody who wrote it died and left a journal: open it once with its own program";
	else if ((code & 0xff) == SQLITE_CANTOPEN)
		remedy =
			"; it keeps a write-ahead log, and its directory is not its owner's to write";
	return err_set(err, ERR_HOST, EBADMSG, "copy the database %s: %s%s", c->path,
		       c->errstr(code), remedy);
}

/* SQLite opens by name, and tells no descriptor: whether the file that was looked at is among those that are open. */
static int check_opened(const struct copier *c, struct err *err)
{
	CLEANUP_DIR DIR *dir = opendir("/proc/self/fd");
	for (const struct dirent *d; dir && (d = readdir(dir));) {
		struct stat st = { 0 };
		if (fstatat(dirfd(dir), d->d_name, &st, 0) == 0 && st.st_dev == c->source->st_dev &&
		    st.st_ino == c->source->st_ino)
			return 0;
	}
	return err_set(err, ERR_HOST, ESTALE, "%s was exchanged while it was opened", c->path);
}

static int open_both(struct copier *c, struct err *err)
{
	int code = c->open_v2(c->path, &c->from,
			      SQLITE_OPEN_READONLY | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_NOMUTEX,
			      NULL);
	if (code == SQLITE_OK)
		code = c->open_v2(":memory:", &c->to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
				  NULL);
	if (code == SQLITE_OK)
		code = c->deserialize(c->to, "main", c->bytes, 0, (sqlite3_int64)c->room, 0);
	if (code != SQLITE_OK)
		return failed(c, code, err);
	(void)c->busy_timeout(c->from, BUSY_MS);
	c->backup = c->backup_init(c->to, "main", c->from, "main");
	return c->backup ? 0
			 : err_set(err, ERR_HOST, EBADMSG, "copy the database %s: %s", c->path,
				   c->errmsg(c->to));
}

/* A change by another process makes the backup begin again, so a database that is written all the time would never be done in pieces. */
static int copy_pages(struct copier *c, struct err *err)
{
	const struct timespec pause = { .tv_nsec = 20 * NS_PER_MS };
	uint64_t until = clock_monotonic_ns() + WAIT_NS;
	int pages = PAGES, before = INT_MAX, restarts = 0, code;
	while ((code = c->backup_step(c->backup, pages)) != SQLITE_DONE) {
		if (code == SQLITE_BUSY || code == SQLITE_LOCKED) {
			if (clock_monotonic_ns() > until)
				return failed(c, code, err);
			(void)nanosleep(&pause, NULL);
			continue;
		}
		if (code != SQLITE_OK)
			return failed(c, code, err);
		int left = c->backup_remaining(c->backup);
		restarts += left > before;
		before = left;
		pages = restarts >= RESTARTS_MAX ? ALL_PAGES : PAGES;
	}
	unsigned page = (unsigned)c->bytes[16] << 8 | c->bytes[17];
	c->copied = (uint64_t)c->backup_pagecount(c->backup) * (page == 1 ? 65536 : page);
	code = c->backup_finish(c->backup);
	return code == SQLITE_OK ? 0 : failed(c, code, err);
}

static int copy(struct copier *c, struct err *err)
{
	int r = load(c, err);
	if (r >= 0)
		r = open_both(c, err);
	if (r >= 0)
		r = check_opened(c, err);
	if (r >= 0)
		r = copy_pages(c, err);
	if (r < 0)
		return r;
	/* 2 here means that it keeps a write-ahead log, which on a read-only place nobody could open. */
	c->bytes[18] = c->bytes[19] = 1;
	return c->copied ? 0 : err_caller(err, "the database %s is empty", c->path);
}

int snapshot_copy(const char *path, const struct stat *source, int out_fd, uint64_t room,
		  struct err *err)
{
	CLEANUP_FREE struct copier *c = xcalloc(1, sizeof *c);
	c->path = path;
	c->source = source;
	c->room = room;
	c->bytes = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED, out_fd, 0);
	if (c->bytes == MAP_FAILED)
		return err_errno(err, "map the copy of %s", path);
	int r = copy(c, err);
	if (c->from)
		(void)c->close_v2(c->from);
	if (r >= 0 && ftruncate(out_fd, (off_t)c->copied) < 0)
		return err_errno(err, "cut the copy of %s to its size", path);
	return r; /* memory and library go with the process */
}
