/* The chain of runs, whatever its file holds: what is accepted is a chain, reading it again tells the same, and adding to it leaves it one. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"
#include "ledger/chain_parts.h"

struct places {
	char home[256], chain[300];
};

static struct places *places_get(void)
{
	static struct places p;
	if (p.home[0])
		return &p;
	(void)snprintf(p.home, sizeof(p.home), "%s/home", fuzz_folder());
	CHECK(mkdir(p.home, 0700) == 0);
	(void)snprintf(p.chain, sizeof(p.chain), "%s/" CHAIN_FILE, p.home);
	char path[300];
	static const char *const made[] = { "runs", "runs/new", "undelivered" };
	for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
		(void)snprintf(path, sizeof path, "%s/%s", p.home, made[i]);
		CHECK(mkdir(path, 0700) == 0);
	}
	(void)snprintf(path, sizeof path, "%s/runs/new/verdict.json", p.home);
	fuzz_write(path, (const uint8_t *)"{}", 2);
	return &p;
}

struct seen {
	uint64_t n;
	char prev[HASH_HEX];
};

static int see(void *data, const struct chain_link *link, struct err *err)
{
	struct seen *s = data;
	CHECK(link->n == s->n + 1 && str_eq(link->prev, s->prev));
	CHECK(id_check(link->run, NULL) >= 0 && strlen(link->last) == HASH_HEX - 1);
	s->n = link->n;
	memcpy(s->prev, link->sha256, HASH_HEX);
	return 0;
}

/* How many links, and what became of the reading. */
static int read_all(const struct config *c, uint64_t *ret_n, struct err *err)
{
	struct chain_at at;
	struct seen s = { 0 };
	chain_begin(&at);
	memcpy(s.prev, at.sha256, HASH_HEX);
	int r = chain_read(c, &at, see, &s, err);
	CHECK(s.n == at.n && (r == 0 || r == 1));
	*ret_n = at.n;
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct places *p = places_get();
	const struct config c = { .home = p->home };
	struct err err = { 0 };
	uint64_t n = 0, again = 0;

	fuzz_write(p->chain, data, size);
	int r = read_all(&c, &n, &err);
	CHECK(read_all(&c, &again, &err) == r && again == n);

	if (n == 0 && size % 16) /* adding waits for the disk, and most inputs have no link */
		return 0;
	CLEANUP_STRV struct strv ids = { 0 };
	strv_add(&ids, "new");
	if (chain_add(&c, &ids, CHAIN_WHOLE, &err) >= 0) {
		CHECK(r == 0);
		CHECK(read_all(&c, &again, &err) == 0 && again >= n && again <= n + 1);
		CHECK(chain_add(&c, &ids, CHAIN_WHOLE, &err) >= 0); /* once is enough */
		CHECK(read_all(&c, &n, &err) == 0 && n == again);
	} else {
		CHECK(r == 1);
	}
	return 0;
}
