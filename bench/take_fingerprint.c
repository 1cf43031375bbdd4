/* take_fingerprint KIND PATH ROUNDS DEPTH [CACHE]: takes the fingerprint of a runtime that often, and writes how long each one took
 * (in seconds, a line each), then files and bytes. With CACHE the identity is taken as before a run. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/num.h"
#include "runtime/fingerprint.h"

static const char *const kinds[] = { "system", "conda", "venv", "rootfs" };

static int take(const struct runtime *r, enum depth depth, const char *cache,
		struct fingerprint *ret, struct err *err)
{
	return cache ? fingerprint_identity(r, cache, ret, err)
		     : fingerprint_take(r, depth, NULL, ret, err);
}

static int run(const struct runtime *r, enum depth depth, uint64_t rounds, const char *cache)
{
	struct fingerprint f = { 0 };
	struct err err = { 0 };

	for (uint64_t i = 0; i < rounds; i++) {
		uint64_t start = clock_monotonic_ns();
		if (take(r, depth, cache, &f, &err) < 0) {
			(void)fprintf(stderr, "%s\n", err.text);
			return 1;
		}
		printf("%.9f\n", (double)(clock_monotonic_ns() - start) / 1e9);
	}
	printf("%llu %llu %s\n", (unsigned long long)f.files, (unsigned long long)f.bytes,
	       f.hex[cache ? DEPTH_IDENTITY : depth]);
	return 0;
}

int main(int argc, char **argv)
{
	char name[] = "bench", path[] = "/usr/local/bin:/usr/bin:/bin", package[] = "python3";
	struct runtime r = { .name = name, .path = path };
	struct interpreter python = { .package = package };
	uint64_t rounds = 0;
	int kind = -1, depth = -1;

	for (size_t i = 0; argc > 4 && i < sizeof(kinds) / sizeof(*kinds); i++)
		if (str_eq(argv[1], kinds[i]))
			kind = (int)i;
	for (int d = 0; argc > 4 && d < DEPTH_COUNT_; d++)
		if (str_eq(argv[4], depth_names[d]))
			depth = d;
	if (kind < 0 || depth < 0 || num_u64(argv[3], 1000000, &rounds) < 0) {
		(void)fprintf(stderr, "usage: %s KIND PATH ROUNDS DEPTH [CACHE]\n", argv[0]);
		return 2;
	}
	r.kind = (enum runtime_kind)kind;
	r.prefix = argv[2];
	strv_add(&python.argv, "python3");
	r.interpreters = &python;
	r.n_interpreters = 1;
	int status = run(&r, (enum depth)depth, rounds, argc > 5 ? argv[5] : NULL);
	strv_release(&python.argv);
	return status;
}
