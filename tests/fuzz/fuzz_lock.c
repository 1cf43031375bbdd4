/* What fingerprints read and others may have written: lock, manifest, RECORD, a conda package, dpkg's status. Whatever stands there
 * is refused with its place or read, no path of a record leads outside, and a manifest survives being written again. */
#include "fuzz.h"

#include "runtime/fingerprint_parts.h"

static void fuzz_lock(const char *text, size_t size)
{
	char name[] = "r", prefix[] = "/p", file[] = "/locks/r.lock";
	const struct runtime r = {
		.name = name, .kind = RUNTIME_CONDA, .prefix = prefix, .lock = file
	};
	CLEANUP_LOCK struct lock l = { 0 };
	struct err err = { 0 };

	if (!fuzz_accepted(lock_parse(&r, text, size, &l, &err), &err))
		return;
	CHECK(l.exists && l.time && str_starts(l.manifest, "/locks/r.lock"));
	CHECK(!strchr(l.manifest + strlen("/locks/"), '/'));
}

static void fuzz_manifest(const char *text, size_t size)
{
	CLEANUP_SNAPSHOT struct snapshot s = SNAPSHOT_INIT, again = SNAPSHOT_INIT;
	CLEANUP_STR struct str out = { 0 };
	CLEANUP_DRIFTS struct drifts d = { 0 };
	struct err err = { 0 };

	if (!fuzz_accepted(manifest_parse("m", "r", text, size, &s, &err), &err))
		return;
	manifest_write("r", &s, &out);
	CHECK(fuzz_accepted(manifest_parse("m", "r", out.text, out.length, &again, &err), &err));
	drifts_items(&d, &s.items, &again.items);
	drifts_trees(&d, &s.tree, &again.tree, DEPTH_STAT);
	drifts_trees(&d, &s.tree, &again.tree, DEPTH_CONTENT);
	CHECK(d.n_all == 0);
}

static void check_records(const struct records *list)
{
	for (size_t i = 0; i < list->n; i++) {
		CLEANUP_FREE char *whole = xasprintf("/%s/", list->v[i].path);
		size_t length = strlen(list->v[i].hex);
		CHECK(list->v[i].path[0] && list->v[i].path[0] != '/');
		CHECK(!strstr(whole, "/../") && !strstr(whole, "/./"));
		CHECK(length == 0 || length == HASH_HEX - 1);
	}
}

static void fuzz_records(const char *text, size_t size)
{
	CLEANUP(records_release) struct records python = { 0 }, conda = { 0 };
	CLEANUP_DRIFTS struct drifts d = { 0 };
	CLEANUP_JSON json_t *package = NULL;
	const struct tree none = TREE_INIT;
	struct err err = { 0 };

	if (fuzz_accepted(records_parse_python(&python, "RECORD", "lib/python3.11/site-packages",
					       "p", text, size, &err),
			  &err))
		check_records(&python);
	drifts_records(&d, &python, &none);
	for (size_t i = 0; i < d.n; i++)
		fuzz_check_line(d.v[i].what);
	err = (struct err){ 0 };
	if (fuzz_accepted(text_json("p.json", text, size, &package, &err), &err) &&
	    fuzz_accepted(records_parse_conda(&conda, "p.json", package, &err), &err))
		check_records(&conda);
}

static void fuzz_status(const char *text, size_t size)
{
	CLEANUP(dpkg_release) struct dpkg d = { 0 };
	CLEANUP_STRV struct strv names = { 0 }, absent = { 0 };
	struct err err = { 0 };
	char *copy = xmalloc(size + 1);

	memcpy(copy, text, size);
	copy[size] = '\0';
	strv_add(&names, "a");
	CHECK(fuzz_accepted(dpkg_parse(copy, size, &d, &err), &err));
	dpkg_want(&d, &names, &absent);
	for (size_t i = 0; i < d.n; i++)
		CHECK(d.v[i].name && d.v[i].version);
}

static void fuzz_names(const uint8_t *data, size_t size)
{
	CLEANUP_FREE char *text = fuzz_text(data, size), *back = NULL;
	CLEANUP_STR struct str line = { 0 };

	if (!*text)
		return;
	text_escape(&line, text);
	fuzz_check_line(line.text);
	back = xstrdup(line.text);
	CHECK(text_unescape(back) && str_eq(back, text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Exactly as large as it is, and with a NUL behind it, as text_read gives it. */
	CLEANUP_FREE char *text = xmalloc(size + 1);

	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	fuzz_lock(text, size);
	fuzz_manifest(text, size);
	fuzz_records(text, size);
	fuzz_status(text, size);
	fuzz_names(data, size);
	return 0;
}
