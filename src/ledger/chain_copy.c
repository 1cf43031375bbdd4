/* The ledger's copy of the chain of runs: made as it grows, and held against it. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/fs.h"
#include "base/num.h"
#include "ledger/chain_parts.h"

#define PAGE 1000

struct copying {
	struct ledger *ledger;
	const char *home;
};

static int take_at(void *data, const char *const *columns, size_t n, struct err *err)
{
	struct chain_at *at = data;
	uint64_t until = 0;
	if (!columns[0] || !columns[1] || !columns[2] ||
	    num_u64(columns[0], INT64_MAX, &at->n) < 0 ||
	    num_u64(columns[2], INT64_MAX, &until) < 0 || strlen(columns[1]) != HASH_HEX - 1)
		return err_set(err, ERR_HOST, EBADMSG, "the ledger's copy of the chain is damaged");
	memcpy(at->sha256, columns[1], HASH_HEX);
	at->offset = (off_t)until;
	return 0;
}

static int last_copied(struct ledger *l, const char *home, struct chain_at *at, struct err *err)
{
	static const struct statement ask = {
		STATEMENT_ONCE,
		"SELECT n, sha256, until FROM chain WHERE home = $1 ORDER BY n DESC LIMIT 1", 1
	};
	chain_begin(at);
	return l->ops->run(l, &ask, &home, take_at, at, err);
}

static int insert_link(void *data, const struct chain_link *link, struct err *err)
{
	static const struct statement put = {
		STATEMENT_ONCE,
		"INSERT INTO chain (home, n, event, run, sha256, until) VALUES ($1, $2, $3, $4, $5, $6)",
		6
	};
	const struct copying *to = data;
	CLEANUP_FREE char *n = xasprintf("%llu", (unsigned long long)link->n);
	CLEANUP_FREE char *until = xasprintf("%lld", (long long)link->end);
	const char *const values[] = {
		to->home, n, link->is_removal ? "removed" : "run", link->run, link->sha256, until
	};
	return to->ledger->ops->run(to->ledger, &put, values, NULL, NULL, err);
}

int chain_copy(struct ledger *l, const struct config *c, const char *home, struct err *err)
{
	CLEANUP_TRANSACTION struct transaction t = { 0 };
	struct copying to = { l, home };
	struct chain_at at;
	int r = last_copied(l, home, &at, err);
	if (r >= 0)
		r = chain_check_at(c, &at, err);
	if (r)
		return r;
	r = transaction_begin(&t, l, LEDGER_SHARED, err);
	if (r >= 0)
		r = chain_read(c, &at, insert_link, &to, err);
	return r ? r : transaction_commit(&t, err);
}

int chain_uncopy(struct ledger *l, const char *home, struct err *err)
{
	static const struct statement forget = { STATEMENT_ONCE,
						 "DELETE FROM chain WHERE home = $1", 1 };
	return l->ops->run(l, &forget, &home, NULL, NULL, err);
}

/* The copy, a page at a time, beside the file. */
struct comparing {
	struct copying of;
	struct {
		uint64_t n;
		char sha256[HASH_HEX];
	} page[PAGE];
	size_t n_page, at;
	uint64_t last; /* the last that was asked for */
	bool has_ended;
	uint64_t differs; /* a line; 0: none */
};

static int take_copy(void *data, const char *const *columns, size_t n, struct err *err)
{
	struct comparing *k = data;
	if (k->n_page == PAGE || !columns[0] || !columns[1] ||
	    num_u64(columns[0], INT64_MAX, &k->page[k->n_page].n) < 0)
		return err_set(err, ERR_HOST, EBADMSG, "the ledger's copy of the chain is damaged");
	(void)snprintf(k->page[k->n_page].sha256, HASH_HEX, "%s", columns[1]);
	k->last = k->page[k->n_page++].n;
	return 0;
}

static int next_page(struct comparing *k, struct err *err)
{
	static const struct statement ask = {
		STATEMENT_ONCE,
		"SELECT n, sha256 FROM chain WHERE home = $1 AND n > $2 ORDER BY n LIMIT 1000", 2
	};
	CLEANUP_FREE char *after = xasprintf("%llu", (unsigned long long)k->last);
	const char *const values[] = { k->of.home, after };
	k->n_page = k->at = 0;
	int r = k->of.ledger->ops->run(k->of.ledger, &ask, values, take_copy, k, err);
	k->has_ended = k->n_page == 0;
	return r;
}

static int compare_link(void *data, const struct chain_link *link, struct err *err)
{
	struct comparing *k = data;
	int r = k->at == k->n_page && !k->has_ended ? next_page(k, err) : 0;
	if (r < 0 || k->at == k->n_page)
		return r; /* the copy goes no further yet */
	if (k->page[k->at].n == link->n && str_eq(k->page[k->at].sha256, link->sha256)) {
		k->at++;
		return 0;
	}
	k->differs = link->n;
	return err_set(err, ERR_HOST, EBADMSG, "the ledger has another link there");
}

/* Does the copy go on where the file ends? The file may have grown since its end was read. */
static int compare_ends(const struct config *c, struct comparing *k, struct chain_at *at,
			struct err *err)
{
	for (;;) {
		uint64_t before = at->n;
		int r = k->at == k->n_page ? next_page(k, err) : 0;
		if (r < 0 || k->at == k->n_page)
			return r;
		r = chain_read(c, at, compare_link, k, err);
		if (r)
			return r;
		if (at->n == before) {
			k->differs = at->n + 1;
			return err_set(err, ERR_HOST, EBADMSG,
				       "the chain ends before it, and the ledger has that link");
		}
	}
}

static int compare(const struct config *c, struct comparing *k, struct err *err)
{
	struct chain_at at;
	chain_begin(&at);
	int r = next_page(k, err);
	if (r >= 0 && k->has_ended)
		return -ENODATA;
	k->has_ended = false;
	if (r >= 0)
		r = chain_read(c, &at, compare_link, k, err);
	if (r > 0)
		return 0; /* the file itself is broken there, and whoever read it has said so */
	return r < 0 ? r : compare_ends(c, k, &at, err);
}

int chain_compare(const struct config *c, uint64_t *ret_line, struct err *err)
{
	CLEANUP_LEDGER struct ledger *l = NULL;
	char home[HOME_ID];
	int r = home_id(c, home, NULL);
	if (r < 0)
		return -ENODATA;
	r = ledger_open_existing(c, &l, err);
	if (r < 0)
		return r;
	CLEANUP_FREE struct comparing *k = xcalloc(1, sizeof *k);
	k->of = (struct copying){ l, home };
	r = compare(c, k, err);
	*ret_line = k->differs;
	return k->differs ? 1 : r;
}
