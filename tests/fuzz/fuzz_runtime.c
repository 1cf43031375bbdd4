/* An entry of the catalog, as the user's and as a project's: what is accepted is well formed, and a project's names nothing outside. */
#include "fuzz.h"

#include "base/path.h"
#include "runtime/catalog.h"
#include "runtime/catalog_parts.h"
#include "spec/id.h"

#define PROJECT "/p"

static void check_entry(const struct runtime *r)
{
	CHECK(str_eq(r->name, "x") && r->version && r->origin && r->lock[0] == '/');
	CHECK(r->kind < RUNTIME_KIND_COUNT_ && !r->prefix == (r->kind == RUNTIME_SYSTEM));
	CHECK(!r->prefix || r->prefix[0] == '/');
	CHECK(r->path && !pairs_get(&r->env, "PATH"));
	for (size_t i = 0; i < r->n_interpreters; i++)
		CHECK(r->interpreters[i].extension[0] == '.' && r->interpreters[i].argv.n);
	for (size_t i = 0; i < r->n_checks; i++)
		CHECK(r->checks[i].name && r->checks[i].command.n);
	for (size_t i = 0; i < r->devices.n; i++)
		CHECK(path_within(r->devices.v[i], "/dev"));
	CHECK(r->check_limits.at[LIMIT_TIME].value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP_RUNTIME struct runtime own = { 0 }, theirs = { 0 };
	struct err err = { 0 };
	int r = runtime_parse("/p/runtimes.d/x.yaml", (const char *)data, size, &own, &err);
	if (fuzz_accepted(r, &err))
		check_entry(&own);
	r = entry_parse("/p/runtimes.d/x.yaml", (const char *)data, size, PROJECT, &theirs, &err);
	if (!fuzz_accepted(r, &err))
		return 0;
	check_entry(&theirs);
	CHECK(own.name && theirs.from_project && theirs.devices.n == 0);
	CHECK(!theirs.prefix || path_within(theirs.prefix, PROJECT));
	CHECK(path_within(theirs.lock, PROJECT));
	for (size_t i = 0; i < theirs.read_only.n; i++)
		CHECK(path_within(theirs.read_only.v[i], PROJECT));
	return 0;
}
