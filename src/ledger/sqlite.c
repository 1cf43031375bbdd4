/* The ledger in an SQLite file: WAL, every commit synced. libsqlite3 is loaded here, when a ledger is used. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "ledger/backend.h"

#define BUSY_MS     10000
#define COLUMNS_MAX 32
#define LIBRARY     "libsqlite3.so.0"

/* The functions used, by their own names without "sqlite3_". */
#define SQLITE_FUNCTIONS(ROW)                                                                      \
	ROW(open_v2)                                                                               \
	ROW(close_v2)                                                                              \
	ROW(busy_timeout)                                                                          \
	ROW(exec)                                                                                  \
	ROW(prepare_v3)                                                                            \
	ROW(bind_text)                                                                             \
	ROW(bind_null)                                                                             \
	ROW(step)                                                                                  \
	ROW(reset)                                                                                 \
	ROW(finalize)                                                                              \
	ROW(column_count)                                                                          \
	ROW(column_text)                                                                           \
	ROW(get_autocommit)                                                                        \
	ROW(errmsg)

struct sqlite {
	struct ledger ledger;
	void *library;                         /* owned */
	sqlite3 *db;                           /* owned */
	char *path;                            /* owned */
	bool is_others;                        /* somebody else's, which is only read */
	bool is_immutable;                     /* read without locks: nobody had it open */
	struct stat seen;                      /* of such a file, when it was opened */
	sqlite3_stmt *prepared[STATEMENT_MAX]; /* owned */
#define SQLITE_MEMBER(name) __typeof__(sqlite3_##name) *name;
	SQLITE_FUNCTIONS(SQLITE_MEMBER)
#undef SQLITE_MEMBER
};

static struct sqlite *of(struct ledger *l)
{
	return (struct sqlite *)l;
}

static int load(struct sqlite *s, struct err *err)
{
	s->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!s->library)
		return err_set(
			err, ERR_HOST, EOPNOTSUPP,
			"the ledger is written by " LIBRARY
			", which cannot be loaded (%s). Remedy: apt-get install libsqlite3-0",
			dlerror());
		/* POSIX gives data and function pointers one size; the copy says so to the compiler. */
#define SQLITE_LOAD(name)                                                                          \
	do {                                                                                       \
		void *symbol = dlsym(s->library, "sqlite3_" #name);                                \
		if (!symbol)                                                                       \
			return err_set(err, ERR_HOST, EOPNOTSUPP,                                  \
				       LIBRARY " has no sqlite3_" #name);                          \
		memcpy(&s->name, &symbol, sizeof(symbol));                                         \
	} while (0);
	SQLITE_FUNCTIONS(SQLITE_LOAD)
#undef SQLITE_LOAD
	return 0;
}

/* In words, by the kind of failure. */
static int failed(struct sqlite *s, int code, const char *doing, struct err *err)
{
	int e = EIO;
	switch (code & 0xff) {
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		e = EAGAIN;
		break;
	case SQLITE_FULL:
		e = ENOSPC;
		break;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		e = EBADMSG;
		break;
	case SQLITE_READONLY:
	case SQLITE_PERM:
		e = EACCES;
		break;
	case SQLITE_TOOBIG:
	case SQLITE_CONSTRAINT:
	case SQLITE_MISMATCH:
		e = EINVAL;
		break;
	default:
		break;
	}
	/* Only who may write can roll it back. */
	const char *why =
		s->is_others && e == EACCES
			? "whoever wrote it last died and left a journal; open it once with its own program"
		: s->db ? s->errmsg(s->db)
			: "out of memory";
	return err_set(err, ERR_HOST, e, "%s in %s: %s", doing, s->path, why);
}

static int script(struct ledger *l, const char *sql, struct err *err)
{
	struct sqlite *s = of(l);
	int code = s->exec(s->db, sql, NULL, NULL, NULL);
	return code == SQLITE_OK ? 0 : failed(s, code, "write", err);
}

/* The write lock at once: a reader that becomes a writer could find that it has read what is old. */
static int begin(struct ledger *l, enum ledger_lock lock, struct err *err)
{
	return script(l, "BEGIN IMMEDIATE", err);
}

static int commit(struct ledger *l, struct err *err)
{
	return script(l, "COMMIT", err);
}

static void rollback(struct ledger *l)
{
	struct sqlite *s = of(l);
	if (!s->get_autocommit(s->db)) /* some failures have ended it already */
		(void)s->exec(s->db, "ROLLBACK", NULL, NULL, NULL);
}

static int step_all(struct sqlite *s, sqlite3_stmt *statement, ledger_row row, void *data,
		    struct err *err)
{
	int code;
	while ((code = s->step(statement)) == SQLITE_ROW) {
		const char *columns[COLUMNS_MAX] = { NULL };
		int n = s->column_count(statement);
		for (int i = 0; i < n && i < COLUMNS_MAX; i++)
			columns[i] = (const char *)s->column_text(statement, i);
		int r = row ? row(data, columns, (size_t)n, err) : 0;
		if (r < 0)
			return r;
	}
	return code == SQLITE_DONE ? 0 : failed(s, code, "run a statement", err);
}

static int prepare(struct sqlite *s, const struct statement *statement, sqlite3_stmt **ret,
		   struct err *err)
{
	bool kept = statement->number < STATEMENT_MAX;
	if (kept && s->prepared[statement->number]) {
		*ret = s->prepared[statement->number];
		return 0;
	}
	int code = s->prepare_v3(s->db, statement->sql, -1, kept ? SQLITE_PREPARE_PERSISTENT : 0,
				 ret, NULL);
	if (code != SQLITE_OK)
		return failed(s, code, "prepare a statement", err);
	if (kept)
		s->prepared[statement->number] = *ret;
	return 0;
}

static int run(struct ledger *l, const struct statement *statement, const char *const *values,
	       ledger_row row, void *data, struct err *err)
{
	struct sqlite *s = of(l);
	sqlite3_stmt *compiled = NULL;
	int r = prepare(s, statement, &compiled, err);
	for (size_t i = 0; r >= 0 && i < statement->n_params; i++) {
		int at = (int)i + 1;
		int code = values && values[i]
				   ? s->bind_text(compiled, at, values[i], -1, SQLITE_STATIC)
				   : s->bind_null(compiled, at);
		if (code != SQLITE_OK)
			r = failed(s, code, "set a parameter", err);
	}
	if (r >= 0)
		r = step_all(s, compiled, row, data, err);
	if (statement->number < STATEMENT_MAX)
		(void)s->reset(compiled); /* its failure was that of the last step */
	else
		(void)s->finalize(compiled);
	return r;
}

static int note_row(void *data, const char *const *columns, size_t n, struct err *err)
{
	*(bool *)data = true;
	return 0;
}

static int is_empty(struct ledger *l, struct err *err)
{
	static const struct statement find = {
		STATEMENT_ONCE, "SELECT 1 FROM sqlite_master WHERE name = 'cupel_schema'", 0
	};
	bool found = false;
	int r = run(l, &find, NULL, note_row, &found, err);
	return r < 0 ? r : !found;
}

static int prepare_schema(struct ledger *l, struct err *err)
{
	return 0;
}

static int judge_page(void *data, const char *const *columns, size_t n, struct err *err)
{
	const struct sqlite *s = data;
	return str_eq(columns[0], "ok")
		       ? 0
		       : err_set(err, ERR_HOST, EBADMSG, "%s is damaged: %s", s->path, columns[0]);
}

static int verify(struct ledger *l, struct err *err)
{
	static const struct statement check = { STATEMENT_ONCE, "PRAGMA integrity_check", 0 };
	return run(l, &check, NULL, judge_page, l, err);
}

static void sqlite_free(struct ledger *l)
{
	struct sqlite *s = of(l);
	if (s->db) {
		for (size_t i = 0; i < STATEMENT_MAX; i++)
			(void)s->finalize(s->prepared[i]);
		(void)s->close_v2(s->db);
	}
	if (s->library)
		(void)dlclose(s->library);
	free(s->path);
	free(s);
}

static int be_patient(struct ledger *l, struct err *err)
{
	return 0; /* no statement has an end of its own */
}

static const struct ledger_ops ops = {
	.name = "sqlite",
	.begin = begin,
	.commit = commit,
	.rollback = rollback,
	.script = script,
	.run = run,
	.is_empty = is_empty,
	.prepare_schema = prepare_schema,
	.verify = verify,
	.be_patient = be_patient,
	.free = sqlite_free,
};

/* SQLite would make it readable for all; the files beside it get its mode. One that is there is looked at and not opened: to close a file ends every
 * POSIX lock that this process has on it, also those of its other connections. Another process would then take the log for nobody's, and
 * remove it with all that is committed to it from here on. */
static int make_file(const char *path, struct err *err)
{
	struct stat st = { 0 };
	if (lstat(path, &st) == 0) {
		errno = S_ISREG(st.st_mode) ? 0 : ELOOP; /* no link is followed */
		if (!errno && faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS) == 0)
			return 0;
		return err_errno(err, "open the ledger %s", path);
	}
	CLEANUP_FD int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return fd < 0 && errno != EEXIST ? err_errno(err, "open the ledger %s", path) : 0;
}

static int connect_file(struct sqlite *s, struct err *err)
{
	int code = s->open_v2(s->path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
	if (code != SQLITE_OK)
		return failed(s, code, "open the ledger", err);
	(void)s->busy_timeout(s->db, BUSY_MS);
	/* FULL: each commit is synced before it counts, which in WAL is not the default of every build. */
	return script(
		&s->ledger,
		"PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON",
		err);
}

int ledger_sqlite(const char *path, struct ledger **ret, struct err *err)
{
	struct sqlite *s = xcalloc(1, sizeof *s);
	s->ledger.ops = &ops;
	s->path = xstrdup(path);
	int r = load(s, err);
	if (r >= 0)
		r = make_file(path, err);
	if (r >= 0)
		r = connect_file(s, err);
	if (r < 0) {
		sqlite_free(&s->ledger);
		return r;
	}
	*ret = &s->ledger;
	return 0;
}

#define HEADER_WAL_AT 18 /* of the file format: 2 is WAL, 1 a rollback journal */

/* Is it in WAL mode, by its header? */
static bool is_wal(const char *path)
{
	static const char magic[] = "SQLite format 3";
	char header[HEADER_WAL_AT + 1];
	CLEANUP_FD int fd = open(path, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	return fd >= 0 && read(fd, header, sizeof header) == sizeof header &&
	       memcmp(header, magic, sizeof magic) == 0 && header[HEADER_WAL_AT] == 2;
}

/* Its log, or the index of its log, is there as long as anybody has the database open. */
static bool has_log(const char *path)
{
	CLEANUP_FREE char *log = xasprintf("%s-wal", path);
	CLEANUP_FREE char *index = xasprintf("%s-shm", path);
	struct stat st = { 0 };
	return (stat(log, &st) == 0 && st.st_size > 0) || access(index, F_OK) == 0;
}

/* In WAL mode SQLite would make a log and its index beside the file, even to read it. If nobody has it open, all that counts is in the file, which can
 * be read without them and without locks; ledger_sqlite_is_stale tells whether somebody came meanwhile. Any other file is read under SQLite's locks. */
static char *read_uri(struct sqlite *s)
{
	CLEANUP_STR struct str uri = { 0 };
	s->is_immutable = is_wal(s->path) && !has_log(s->path) && stat(s->path, &s->seen) == 0;
	str_add(&uri, "file:");
	for (const char *path = s->path; *path; path++)
		if (strchr("?#%", *path))
			str_addf(&uri, "%%%02x", (unsigned char)*path);
		else
			str_add_n(&uri, path, 1);
	str_add(&uri, s->is_immutable ? "?mode=ro&immutable=1" : "?mode=ro");
	return str_take(&uri);
}

bool ledger_sqlite_is_stale(struct ledger *l)
{
	const struct sqlite *s = of(l);
	struct stat now = { 0 };
	return s->is_immutable &&
	       (has_log(s->path) || stat(s->path, &now) < 0 || now.st_ino != s->seen.st_ino ||
		now.st_size != s->seen.st_size || now.st_mtim.tv_sec != s->seen.st_mtim.tv_sec ||
		now.st_mtim.tv_nsec != s->seen.st_mtim.tv_nsec);
}

int ledger_sqlite_read(const char *path, struct ledger **ret, struct err *err)
{
	struct sqlite *s = xcalloc(1, sizeof *s);
	s->ledger.ops = &ops;
	s->path = xstrdup(path);
	s->is_others = true;
	int r = access(path, R_OK) < 0 ? err_errno(err, "read %s", path) : load(s, err);
	if (r >= 0) {
		CLEANUP_FREE char *uri = read_uri(s);
		int code = s->open_v2(uri, &s->db,
				      SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX,
				      NULL);
		r = code == SQLITE_OK ? 0 : failed(s, code, "open", err);
	}
	if (r < 0) {
		sqlite_free(&s->ledger);
		return r;
	}
	(void)s->busy_timeout(s->db, BUSY_MS);
	*ret = &s->ledger;
	return 0;
}
