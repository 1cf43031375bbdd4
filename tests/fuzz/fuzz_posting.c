/* A run directory as anybody could have left it, on its way into the ledger: read or refused, and what
 * was read comes back from the database as it went in. The input is verdict, analysis, outputs and
 * events with NULs between them. */
#include "fuzz.h"

#include <sys/stat.h>

#include "ledger/parts.h"

#define HOME "0123456789abcdef"

struct place {
	struct config config;
	struct ledger *ledger;
};

static struct place *place_get(void)
{
	static char home[256];
	static struct place place;
	struct err err = { 0 };

	if (place.ledger)
		return &place;
	(void)snprintf(home, sizeof(home), "%s/home", fuzz_folder());
	place.config.home = home;
	CLEANUP_FREE char *runs = xasprintf("%s/runs", home);
	CLEANUP_FREE char *run = xasprintf("%s/r", runs);
	CHECK(mkdir(home, 0700) == 0 && mkdir(runs, 0700) == 0 && mkdir(run, 0700) == 0);
	CHECK(fuzz_accepted(ledger_open(&place.config, &place.ledger, &err), &err));
	CHECK(fuzz_accepted(put_home(place.ledger, &place.config, HOME, &err), &err));
	return &place;
}

static void write_parts(const struct place *p, const uint8_t *data, size_t size)
{
	static const char *const names[] = { "verdict.json", "analysis.json", "outputs.json",
					     "events.jsonl" };
	for (size_t i = 0; i < 4; i++) {
		CLEANUP_FREE char *path = xasprintf("%s/runs/r/%s", p->config.home, names[i]);
		const uint8_t *end = i < 3 && size ? memchr(data, '\0', size) : NULL;
		size_t n = end ? (size_t)(end - data) : size;
		(void)unlink(path);
		if (n)
			fuzz_write(path, data, n);
		data += n + (end ? 1 : 0);
		size -= n + (end ? 1 : 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct place *p = place_get();
	CLEANUP_POSTING struct posting posting = { 0 };
	CLEANUP_TRANSACTION struct transaction t = { 0 };
	struct err err = { 0 };
	char found[HASH_HEX];

	write_parts(p, data, size);
	int r = posting_read(&p->config, "r", &posting, &err);
	if (r < 0)
		return 0;
	CHECK(fuzz_accepted(transaction_begin(&t, p->ledger, LEDGER_SHARED, &err), &err));
	CHECK(put_posting(p->ledger, HOME, &posting, PUT_ROWS, &err) == 1);
	CHECK(put_posting(p->ledger, HOME, &posting, PUT_RECORD, &err) == 0);
	CHECK(fuzz_accepted(put_digest(p->ledger, HOME, "r", found, &err), &err));
	CHECK(str_eq(found, posting.record));
	return 0; /* rolled back */
}
