/* Adding to the chain of runs; by whoever holds the lock of delivery. A line counts when it is synced, and only then is the mark of its run
 * changed: a crash between the two leaves a mark whose run is among the last lines. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/path.h"
#include "ledger/chain_parts.h"

#define TAIL_BYTES 65536 /* more than a batch of lines */
#define BATCH      100

/* The end of the chain. */
struct ending {
	int fd; /* owned */
	struct chain_at at;
};

static void ending_release(struct ending *e)
{
	cleanup_fd(&e->fd);
}

void chain_known_release(struct chain_known *k)
{
	strv_release(&k->pairs);
}

static int note_link(void *data, const struct chain_link *link, struct err *err)
{
	struct chain_known *k = data;
	if (!link->is_removal)
		strv_addf(&k->pairs, "%s %s", link->run, link->last);
	return 0;
}

int chain_known_read(const struct config *c, struct chain_known *k, struct err *err)
{
	struct err why = { 0 };
	struct chain_at at;
	chain_begin(&at);
	int r = chain_read(c, &at, note_link, k, &why);
	if (r < 0)
		*err = why;
	if (r > 0)
		return err_set(err, ERR_HOST, EBADMSG,
			       "%s/" CHAIN_FILE ":%llu: %s. Remedy: cupel audit verify", c->home,
			       (unsigned long long)at.n + 1, why.text);
	strv_sort(&k->pairs);
	return r;
}

/* The first pair that is not before `text`. */
static const char *lower_bound(const struct chain_known *k, const char *text)
{
	size_t from = 0, to = k->pairs.n;
	while (from < to) {
		size_t middle = from + (to - from) / 2;
		if (strcmp(k->pairs.v[middle], text) < 0)
			from = middle + 1;
		else
			to = middle;
	}
	return from < k->pairs.n ? k->pairs.v[from] : "";
}

bool chain_known_has(const struct chain_known *k, const char *id, const char *last)
{
	CLEANUP_FREE char *text = xasprintf("%s %s", id, last ? last : "");
	return str_starts(lower_bound(k, text), text);
}

/* Moves to the end of the last line that is whole; what is behind it a crash has cut off, and it goes. `k` (or NULL) gets the last lines. */
static int find_end(struct ending *e, off_t size, struct chain_known *k, struct err *err)
{
	CLEANUP_FREE char *text = xmalloc(TAIL_BYTES);
	off_t from = size > TAIL_BYTES ? size - TAIL_BYTES : 0;
	ssize_t n = pread(e->fd, text, TAIL_BYTES, from);
	if (n < 0)
		return err_errno(err, "read " CHAIN_FILE);
	const char *end = memrchr(text, '\n', (size_t)n);
	size_t whole = end ? (size_t)(end - text) + 1 : 0;
	if ((!whole && from) || (size_t)n - whole > CHAIN_LINE_MAX - 2) /* no crash leaves that */
		return err_set(err, ERR_HOST, EBADMSG,
			       CHAIN_FILE " is damaged. Remedy: cupel audit verify");
	if (whole < (size_t)n && ftruncate(e->fd, from + (off_t)whole) < 0)
		return err_errno(err, "cut off what a crash left of " CHAIN_FILE);
	const char *line = text, *stop;
	if (from && (stop = memchr(text, '\n', whole)))
		line = stop + 1;
	for (; line < text + whole; line = stop + 1) {
		struct chain_link link;
		stop = memchr(line, '\n', whole - (size_t)(line - text));
		if (chain_parse_alone(line, (size_t)(stop - line), &link) < 0)
			return err_set(err, ERR_HOST, EBADMSG,
				       CHAIN_FILE " is damaged. Remedy: cupel audit verify");
		if (k)
			(void)note_link(k, &link, NULL);
		e->at.n = link.n;
		memcpy(e->at.sha256, link.sha256, HASH_HEX);
	}
	e->at.offset = from + (off_t)whole;
	return 0;
}

static int open_end(const struct config *c, struct ending *e, struct chain_known *k,
		    struct err *err)
{
	struct stat st = { 0 };
	CLEANUP_FD int home_fd = open(c->home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (home_fd < 0)
		return err_errno(err, "open %s", c->home);
	e->fd = fs_open_beneath(home_fd, CHAIN_FILE, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (e->fd < 0 || fstat(e->fd, &st) < 0)
		return err_set(err, ERR_HOST, e->fd < 0 ? -e->fd : errno,
			       "open %s/" CHAIN_FILE ": %s", c->home,
			       strerrordesc_np(e->fd < 0 ? -e->fd : errno));
	chain_begin(&e->at);
	if (st.st_size == 0 && fsync(home_fd) < 0)
		return err_errno(err, "sync %s", c->home);
	return find_end(e, st.st_size, k, err);
}

static void write_line(struct ending *e, struct str *lines, const struct chain_link *link)
{
	char time[40];
	CLEANUP_FREE char *line = xasprintf(
		"{\"n\":%llu,\"time\":\"%s\",\"event\":\"%s\",\"run\":\"%s\",\"last\":\"%s\",\"prev\":\"%s\"}",
		(unsigned long long)++e->at.n, clock_write(clock_real_ns(), time, sizeof time),
		link->is_removal ? "removed" : "run", link->run, link->last, e->at.sha256);
	hash_bytes(line, strlen(line), e->at.sha256);
	str_addf(lines, "%s\n", line);
}

static int append(struct ending *e, const struct str *lines, struct err *err)
{
	if (!lines->length)
		return 0;
	int r = fs_append(e->fd, str_text(lines), lines->length);
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "write " CHAIN_FILE ": %s", strerrordesc_np(-r));
	FAULT_PHASE("ledger-chain-written");
	if (fsync(e->fd) < 0)
		return err_errno(err, "sync " CHAIN_FILE);
	FAULT_PHASE("ledger-chain-synced");
	return 0;
}

/* 1: it is to be chained, as *ret says; 0: it is not complete, not there, cannot be read, or is chained already: then its mark says so. */
static int look_at(const struct config *c, const char *id, const struct chain_known *k,
		   struct chain_link *ret)
{
	CLEANUP_FREE char *verdict = xasprintf("%s/runs/%s/verdict.json", c->home, id);
	struct chain_link link = { 0 };
	if (home_is_chained(c, id) || access(verdict, F_OK) < 0 ||
	    chain_last_event(c, id, link.last, NULL) < 0)
		return 0;
	if (chain_known_has(k, id, link.last)) {
		home_mark_chained(c, id);
		return 0;
	}
	(void)snprintf(link.run, sizeof link.run, "%s", id);
	*ret = link;
	return 1;
}

static int add_batch(const struct config *c, struct ending *e, const struct chain_known *k,
		     char *const *ids, size_t n, struct err *err)
{
	CLEANUP_STR struct str lines = { 0 };
	bool added[BATCH] = { false };
	for (size_t i = 0; i < n; i++) {
		struct chain_link link;
		added[i] = look_at(c, ids[i], k, &link) > 0;
		if (added[i])
			write_line(e, &lines, &link);
	}
	int r = append(e, &lines, err);
	for (size_t i = 0; r >= 0 && i < n; i++)
		if (added[i])
			home_mark_chained(c, ids[i]);
	return r;
}

int chain_add(const struct config *c, const struct strv *ids, enum chain_scan scan, struct err *err)
{
	CLEANUP(ending_release) struct ending e = { .fd = -1 };
	CLEANUP_CHAIN_KNOWN struct chain_known k = { 0 };
	size_t chained = 0;
	while (chained < ids->n && home_is_chained(c, ids->v[chained]))
		chained++;
	if (chained == ids->n)
		return 0;
	int r = open_end(c, &e, scan == CHAIN_TAIL ? &k : NULL, err);
	if (r >= 0 && scan == CHAIN_WHOLE)
		r = chain_known_read(c, &k, err);
	strv_sort(&k.pairs);
	for (size_t i = 0; r >= 0 && i < ids->n; i += BATCH)
		r = add_batch(c, &e, &k, ids->v + i, ids->n - i < BATCH ? ids->n - i : BATCH, err);
	return r;
}

struct finding {
	const char *id;
	struct chain_link found; /* n is 0: none, or it was removed since */
};

static int find_run(void *data, const struct chain_link *link, struct err *err)
{
	struct finding *f = data;
	if (!str_eq(link->run, f->id))
		return 0;
	f->found = *link;
	if (link->is_removal)
		f->found.n = 0;
	return 0;
}

int chain_removed(const struct config *c, const char *id, struct err *err)
{
	CLEANUP(ending_release) struct ending e = { .fd = -1 };
	CLEANUP_STR struct str lines = { 0 };
	CLEANUP_FD int lock_fd = -1;
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s", c->home, id);
	struct finding f = { .id = id };
	struct chain_at at;
	chain_begin(&at);
	int r = home_lock(c, LEDGER_WAIT, &lock_fd, err);
	if (r >= 0)
		r = chain_read(c, &at, find_run, &f, err);
	if (r)
		return r < 0 ? r : -EBADMSG;
	if (!f.found.n)
		return err_set(err, ERR_CALLER, ENOENT, "the chain has no run '%s'", id);
	if (access(path, F_OK) == 0)
		return err_set(err, ERR_CALLER, EBUSY, "%s is still there", path);
	f.found.is_removal = true;
	r = open_end(c, &e, NULL, err);
	if (r < 0)
		return r;
	write_line(&e, &lines, &f.found);
	return append(&e, &lines, err);
}
