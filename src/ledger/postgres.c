/* The ledger in PostgreSQL, in a schema of its own, `cupel`, so that it may live beside a platform's tables. libpq is loaded here, when
 * ledger.url says so. */
#include <dlfcn.h>
#include <errno.h>
#include <libpq-fe.h>
#include <string.h>

#include "base/str.h"
#include "ledger/backend.h"

#define COLUMNS_MAX 32
#define LIBRARY     "libpq.so.5"

/* The functions used, by their own names without "PQ". */
#define POSTGRES_FUNCTIONS(ROW)                                                                    \
	ROW(connectdbParams)                                                                       \
	ROW(finish)                                                                                \
	ROW(status)                                                                                \
	ROW(errorMessage)                                                                          \
	ROW(setNoticeReceiver)                                                                     \
	ROW(transactionStatus)                                                                     \
	ROW(exec)                                                                                  \
	ROW(execParams)                                                                            \
	ROW(prepare)                                                                               \
	ROW(execPrepared)                                                                          \
	ROW(resultStatus)                                                                          \
	ROW(resultErrorField)                                                                      \
	ROW(ntuples)                                                                               \
	ROW(nfields)                                                                               \
	ROW(getisnull)                                                                             \
	ROW(getvalue)                                                                              \
	ROW(clear)

struct postgres {
	struct ledger ledger;
	void *library; /* owned */
	PGconn *link;  /* owned */
	bool prepared[STATEMENT_MAX];
#define POSTGRES_MEMBER(name) __typeof__(PQ##name) *name;
	POSTGRES_FUNCTIONS(POSTGRES_MEMBER)
#undef POSTGRES_MEMBER
};

static struct postgres *of(struct ledger *l)
{
	return (struct postgres *)l;
}

static int load(struct postgres *p, struct err *err)
{
	p->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!p->library)
		return err_set(err, ERR_HOST, EOPNOTSUPP,
			       "ledger.url names PostgreSQL, but " LIBRARY
			       " cannot be loaded (%s). Remedy: apt-get install libpq5",
			       dlerror());
		/* POSIX gives data and function pointers one size; the copy says so to the compiler. */
#define POSTGRES_LOAD(name)                                                                        \
	do {                                                                                       \
		void *symbol = dlsym(p->library, "PQ" #name);                                      \
		if (!symbol)                                                                       \
			return err_set(err, ERR_HOST, EOPNOTSUPP, LIBRARY " has no PQ" #name);     \
		memcpy(&p->name, &symbol, sizeof(symbol));                                         \
	} while (0);
	POSTGRES_FUNCTIONS(POSTGRES_LOAD)
#undef POSTGRES_LOAD
	return 0;
}

/* SQLSTATE, by its class where that is enough (PostgreSQL manual, appendix A). */
static int code_of(const struct postgres *p, const PGresult *result)
{
	const char *state = result ? p->resultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
	if (p->status(p->link) != CONNECTION_OK || !state)
		return EAGAIN; /* it is gone, or going */
	if (str_starts(state, "53100"))
		return ENOSPC;
	if (str_starts(state, "XX"))
		return EBADMSG;
	if (str_starts(state, "42501"))
		return EACCES;
	static const char *const later[] = { "08", "40", "53", "55P03", "57" };
	for (size_t i = 0; i < sizeof later / sizeof *later; i++)
		if (str_starts(state, later[i]))
			return EAGAIN;
	/* Data that it cannot hold (a text that its encoding has no characters for), a broken constraint, a limit of its own. */
	static const char *const values[] = { "22", "23", "54" };
	for (size_t i = 0; i < sizeof values / sizeof *values; i++)
		if (str_starts(state, values[i]))
			return EINVAL;
	return EIO;
}

static int failed(const struct postgres *p, const PGresult *result, const char *doing,
		  struct err *err)
{
	CLEANUP_FREE char *text = xstrdup(p->errorMessage(p->link));
	size_t n = 0;
	for (const char *c = text; *c; c++) /* several lines become one */
		if (!strchr("\n\t ", *c))
			text[n++] = *c;
		else if (n > 0 && text[n - 1] != ' ')
			text[n++] = ' ';
	text[n > 0 && text[n - 1] == ' ' ? n - 1 : n] = '\0';
	return err_set(err, ERR_HOST, code_of(p, result), "%s in PostgreSQL: %s", doing, text);
}

static int each_row(const struct postgres *p, const PGresult *result, ledger_row row, void *data,
		    struct err *err)
{
	int n = p->nfields(result), count = row ? p->ntuples(result) : 0;
	for (int i = 0; i < count; i++) {
		const char *columns[COLUMNS_MAX] = { NULL };
		for (int k = 0; k < n && k < COLUMNS_MAX; k++)
			columns[k] = p->getisnull(result, i, k) ? NULL : p->getvalue(result, i, k);
		int r = row(data, columns, (size_t)n, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Takes the result. */
static int take(const struct postgres *p, PGresult *result, ledger_row row, void *data,
		struct err *err)
{
	ExecStatusType status = p->resultStatus(result);
	int r = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK
			? each_row(p, result, row, data, err)
			: failed(p, result, "run a statement", err);
	p->clear(result);
	return r;
}

static int script(struct ledger *l, const char *sql, struct err *err)
{
	struct postgres *p = of(l);
	return take(p, p->exec(p->link, sql), NULL, NULL, err);
}

static int begin(struct ledger *l, enum ledger_lock lock, struct err *err)
{
	/* The number is only a name: nobody else is likely to use it. */
	return script(l,
		      lock == LEDGER_ALONE ? "BEGIN; SELECT pg_advisory_xact_lock(4350218906)"
					   : "BEGIN",
		      err);
}

static int commit(struct ledger *l, struct err *err)
{
	struct postgres *p = of(l);
	/* COMMIT of a transaction that failed is a ROLLBACK, and says so only in its tag. */
	if (p->transactionStatus(p->link) != PQTRANS_INTRANS)
		return err_set(err, ERR_HOST, EAGAIN,
			       "commit in PostgreSQL: the transaction failed");
	return script(l, "COMMIT", err);
}

static void rollback(struct ledger *l)
{
	const struct postgres *p = of(l);
	PGTransactionStatusType status = p->transactionStatus(p->link);
	if (status == PQTRANS_INTRANS || status == PQTRANS_INERROR)
		(void)script(l, "ROLLBACK", NULL);
}

static int run(struct ledger *l, const struct statement *s, const char *const *values,
	       ledger_row row, void *data, struct err *err)
{
	struct postgres *p = of(l);
	int n = (int)s->n_params;
	if (s->number >= STATEMENT_MAX)
		return take(p, p->execParams(p->link, s->sql, n, NULL, values, NULL, NULL, 0), row,
			    data, err);
	CLEANUP_FREE char *name = xasprintf("s%u", s->number);
	if (!p->prepared[s->number]) {
		int r = take(p, p->prepare(p->link, name, s->sql, n, NULL), NULL, NULL, err);
		if (r < 0)
			return r;
		p->prepared[s->number] = true;
	}
	return take(p, p->execPrepared(p->link, name, n, values, NULL, NULL, 0), row, data, err);
}

static int note_row(void *data, const char *const *columns, size_t n, struct err *err)
{
	*(bool *)data = columns[0] != NULL;
	return 0;
}

static int found(struct ledger *l, const char *sql, struct err *err)
{
	const struct statement s = { STATEMENT_ONCE, sql, 0 };
	bool is_there = false;
	int r = run(l, &s, NULL, note_row, &is_there, err);
	return r < 0 ? r : is_there;
}

static int is_empty(struct ledger *l, struct err *err)
{
	int r = found(l, "SELECT to_regclass('cupel.cupel_schema')", err);
	return r < 0 ? r : !r;
}

/* Asked first: CREATE ... IF NOT EXISTS wants the right to create even where there is nothing to do. */
static int prepare_schema(struct ledger *l, struct err *err)
{
	int r = found(l, "SELECT to_regnamespace('cupel')", err);
	if (r == 0)
		r = script(l, "CREATE SCHEMA cupel", err);
	if (r >= 0)
		r = found(l, "SELECT to_regcollation('cupel.\"binary\"')", err);
	/* The order of bytes, by the name that SQLite has for it. */
	return r ? r
		 : script(l, "CREATE COLLATION cupel.\"binary\" (provider = libc, locale = 'C')",
			  err);
}

static int verify(struct ledger *l, struct err *err)
{
	return 0; /* amcheck and checksums are the administrator's */
}

static int be_patient(struct ledger *l, struct err *err)
{
	return script(l, "SET statement_timeout TO '30min'", err);
}

static void postgres_free(struct ledger *l)
{
	struct postgres *p = of(l);
	if (p->link)
		p->finish(p->link);
	if (p->library)
		(void)dlclose(p->library);
	free(p);
}

static const struct ledger_ops ops = {
	.name = "postgresql",
	.begin = begin,
	.commit = commit,
	.rollback = rollback,
	.script = script,
	.run = run,
	.is_empty = is_empty,
	.prepare_schema = prepare_schema,
	.verify = verify,
	.be_patient = be_patient,
	.free = postgres_free,
};

static void no_notice(void *data, const PGresult *result)
{
}

/* Nothing waits for ever: neither for a host that does not answer nor for a lock that another holds. What the URL says goes before. */
static int connect_server(struct postgres *p, const char *url, struct err *err)
{
	static const char *const keys[] = { "connect_timeout",
					    "application_name",
					    "keepalives_idle",
					    "tcp_user_timeout",
					    "client_encoding",
					    "dbname",
					    NULL };
	const char *const values[] = { "10", "cupel", "10", "30000", "UTF8", url, NULL };
	p->link = p->connectdbParams(keys, values, 1);
	if (!p->link || p->status(p->link) != CONNECTION_OK)
		return p->link ? failed(p, NULL, "reach a database", err)
			       : err_set(err, ERR_HOST, ENOMEM, "connect to PostgreSQL");
	(void)p->setNoticeReceiver(p->link, no_notice, NULL);
	return script(
		&p->ledger,
		"SET search_path TO cupel; SET synchronous_commit TO on; SET statement_timeout TO '60s'; "
		"SET lock_timeout TO '20s'; SET idle_in_transaction_session_timeout TO '120s'; "
		"SET standard_conforming_strings TO on",
		err);
}

int ledger_postgres(const char *url, struct ledger **ret, struct err *err)
{
	struct postgres *p = xcalloc(1, sizeof *p);
	p->ledger.ops = &ops;
	int r = load(p, err);
	if (r >= 0)
		r = connect_server(p, url, err);
	if (r < 0) {
		postgres_free(&p->ledger);
		return r;
	}
	*ret = &p->ledger;
	return 0;
}
