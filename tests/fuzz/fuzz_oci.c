/* The JSON of an image as it comes from outside: whatever stands there is refused with its place, or becomes digests of the right form
 * in lists of bounded length. */
#include "fuzz.h"

#include "runtime/oci_parts.h"

static void check_hex(const char *digest)
{
	CHECK(strlen(digest) == HASH_HEX - 1);
	CHECK(strspn(digest, "0123456789abcdef") == HASH_HEX - 1);
}

static void check_index(const char *text, size_t size)
{
	CLEANUP(oci_index_release) struct oci_index index = { 0 };
	struct err err = { 0 };

	if (!fuzz_accepted(oci_index_parse("index.json", text, size, &index, &err), &err)) {
		CHECK(!index.v && index.n == 0);
		return;
	}
	CHECK(index.n <= OCI_REFS_MAX);
	for (size_t i = 0; i < index.n; i++) {
		check_hex(index.v[i].blob.digest);
		CHECK(index.v[i].blob.size <= INT64_MAX);
		/* Shown to people: one line, though an image may well have chosen an empty tag. */
		CHECK(index.v[i].name);
		if (index.v[i].name[0])
			fuzz_check_line(index.v[i].name);
	}
}

static void check_manifest(const char *text, size_t size)
{
	CLEANUP(oci_manifest_release) struct oci_manifest m = { 0 };
	struct err err = { 0 };

	if (!fuzz_accepted(oci_manifest_parse("manifest", text, size, &m, &err), &err)) {
		CHECK(!m.layers && m.n_layers == 0);
		return;
	}
	CHECK(m.n_layers <= OCI_LAYERS_MAX);
	check_hex(m.config.digest);
	for (size_t i = 0; i < m.n_layers; i++)
		check_hex(m.layers[i].digest);
}

static void check_settings(const char *text, size_t size)
{
	CLEANUP(oci_settings_release) struct oci_settings s = { 0 };
	struct err err = { 0 };

	if (!fuzz_accepted(oci_settings_parse("config", text, size, &s, &err), &err)) {
		CHECK(!s.platform && s.diff_ids.n == 0 && s.env.n == 0);
		return;
	}
	CHECK(s.diff_ids.n <= OCI_LAYERS_MAX);
	fuzz_check_line(s.platform);
	for (size_t i = 0; i < s.diff_ids.n; i++)
		check_hex(s.diff_ids.v[i]);
	for (size_t i = 0; i < s.env.n; i++)
		CHECK(env_name_check(s.env.v[i].key, NULL) >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Exactly this size and no NUL behind it, so that a read past the end is seen. */
	CLEANUP_FREE char *text = xmalloc(size ? size : 1);

	if (size)
		memcpy(text, data, size);
	check_index(text, size);
	check_manifest(text, size);
	check_settings(text, size);
	return 0;
}
