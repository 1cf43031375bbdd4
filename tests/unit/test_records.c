/* What package managers recorded, compared with what is there, where no lock is: conda, pip, dpkg. Their files are hostile input. */
#include "prefix.h"

static void assert_drifts(const struct runtime *r, size_t n, const char *what, const char *detail,
			  const char *owner)
{
	CLEANUP_DRIFTS struct drifts d = { 0 };
	struct fingerprint now = { 0 };
	struct err err = { 0 };

	if (lock_compare(r, DEPTH_CONTENT, NULL, &d, &now, &err) < 0)
		fail_msg("%s", err.text);
	for (size_t i = 0; i < d.n && d.n_all != n; i++)
		print_message("%s: %s\n", d.v[i].what, d.v[i].detail ? d.v[i].detail : "-");
	assert_int_equal(d.n_all, n);
	if (n == 0)
		return;
	assert_string_equal(d.v[0].what, what);
	if (detail)
		assert_non_null(strstr(d.v[0].detail, detail));
	else
		assert_int_equal(d.v[0].kind, DRIFT_MISSING);
	if (owner)
		assert_string_equal(d.v[0].owner, owner);
}

static void conda_records(void **state)
{
	struct made *m = *state;

	assert_drifts(&m->r, 0, NULL, NULL, NULL);
	put(m->prefix, "share/own-notes", "nobody's"); /* belongs to nobody, harms nobody */
	assert_drifts(&m->r, 0, NULL, NULL, NULL);
	forge(m->prefix, "lib/libblas.so.3", "a_library\n");
	assert_drifts(&m->r, 1, "lib/libblas.so.3", "not what conda-meta says of libblas",
		      "libblas");
	drop(m->prefix, "lib/libblas.so.3");
	assert_drifts(&m->r, 1, "lib/libblas.so.3", NULL, "libblas");
}

static void other_paths_version(void **state)
{
	struct made *m = *state;

	put(m->prefix, "conda-meta/libblas-3.9.0-0.json",
	    "{\"name\": \"libblas\", \"paths_data\": {\"paths_version\": 2, \"paths\": [{\"_path\":"
	    " \"lib/libblas.so.3\", \"sha256_in_prefix\":"
	    " \"0000000000000000000000000000000000000000000000000000000000000000\"}]}}");
	assert_drifts(&m->r, 0, NULL, NULL, NULL);
	drop(m->prefix, "lib/libblas.so.3"); /* that it is there is all that is known */
	assert_drifts(&m->r, 1, "lib/libblas.so.3", NULL, "libblas");
}

static void pip_records(void **state)
{
	struct made *m = *state;

	put(m->prefix, "bin/f2py", "#!other\n");
	assert_drifts(&m->r, 1, "bin/f2py", "not what extra's RECORD says", "extra");
	put(m->prefix, "bin/f2py", F2PY);
	put(m->prefix, SITE "/extra.py", "by hand\n");
	assert_drifts(&m->r, 1, SITE "/extra.py", "not what extra's RECORD says", "extra");
}

/* pip replaced what conda had installed: it is as one of the two says. */
static void two_owners(void **state)
{
	struct made *m = *state;
	char sum[44];

	sum_base64("newer\n", sum);
	CLEANUP_FREE char *record = xasprintf("numpy/core.py,sha256=%s,6\r\n", sum);
	put(m->prefix, SITE "/numpy-2.0.dist-info/RECORD", record);
	assert_drifts(&m->r, 0, NULL, NULL, NULL);
	put(m->prefix, SITE "/numpy/core.py", "newer\n");
	assert_drifts(&m->r, 0, NULL, NULL, NULL);
	put(m->prefix, SITE "/numpy/core.py", "third\n");
	assert_drifts(&m->r, 1, SITE "/numpy/core.py", "conda-meta", "numpy");
}

static void leads_outside(void **state)
{
	struct made *m = *state;

	put(m->prefix, SITE "/evil-1.dist-info/RECORD",
	    "/etc/shadow,sha256=x,1\n../../../../../etc/passwd,,\n");
	assert_drifts(&m->r, 2, SITE "/evil-1.dist-info/RECORD: /etc/shadow", "outside", NULL);
}

static void damaged_records(void **state)
{
	struct made *m = *state;
	CLEANUP_FREE char *deep = xmalloc(100002);
	CLEANUP_DRIFTS struct drifts d = { 0 };
	struct fingerprint now = { 0 };
	struct err err = { 0 };

	memset(deep, '[', 100001);
	deep[100001] = '\0';
	put(m->prefix, "conda-meta/numpy-1.26.4-0.json", deep);
	assert_int_equal(lock_compare(&m->r, DEPTH_CONTENT, NULL, &d, &now, &err), -EINVAL);
	assert_non_null(strstr(err.text, "conda-meta/numpy-1.26.4-0.json:1:"));
	put(m->prefix, "conda-meta/numpy-1.26.4-0.json", "{\"name\": 3}");
	assert_int_equal(lock_compare(&m->r, DEPTH_CONTENT, NULL, &d, &now, &err), -EINVAL);
	assert_non_null(strstr(err.text, "no name"));
}

static void csv(void **state)
{
	CLEANUP(records_release) struct records list = { 0 };
	struct err err = { 0 };
	char sum[44], hex[HASH_HEX];
	(void)state;

	sum_base64("x", sum);
	sum_hex("x", hex);
	CLEANUP_FREE char *text = xasprintf("\"a,\"\"b\"\"\",sha256=%s,1\nplain,sha512=abc,1\n"
					    "short,sha256=abc,1\n\n,,\nlast,sha256=%s",
					    sum, sum);
	assert_int_equal(
		records_parse_python(&list, "RECORD", "lib", "p", text, strlen(text), &err), 0);
	assert_int_equal(list.n, 4);
	assert_string_equal(list.v[0].path, "lib/a,\"b\"");
	assert_string_equal(list.v[0].hex, hex);
	assert_string_equal(list.v[1].hex, "");
	assert_string_equal(list.v[2].hex, "");
	assert_string_equal(list.v[3].path, "lib/last");
	assert_string_equal(list.v[3].hex, hex);
	assert_int_equal(records_parse_python(&list, "RECORD", "lib", "p", "a\0b,,\n", 6, &err),
			 -EINVAL);
}

#define STANZA(name, version, more)                                                                \
	"Package: " name "\nStatus: install ok installed\nArchitecture: amd64\nVersion: " version  \
	"\n" more "Description: x\n y\n\n"

/* A root as Debian makes it: merged /usr, one package of two architectures' kind, a diversion, documents left out. */
static void make_root(struct made *m)
{
	m->r.kind = RUNTIME_ROOTFS;
	(void)snprintf(m->prefix, sizeof(m->prefix), "%s/root", m->place.path);
	put(m->prefix, "usr/bin/tool", "tool\n");
	put(m->prefix, "usr/bin/sh.distrib", "old sh\n");
	put(m->prefix, "usr/bin/sh", "new sh\n");
	put_link(m->prefix, "bin", "usr/bin");
	put(m->prefix, "var/lib/dpkg/status",
	    STANZA("tool", "1.0", "") STANZA("bash", "5", "") STANZA("dash", "6", ""));
	put(m->prefix, "var/lib/dpkg/info/dash.list", "/.\n/usr\n/usr/bin\n/usr/bin/sh\n");
	put(m->prefix, "var/lib/dpkg/diversions", "/usr/bin/sh\n/usr/bin/sh.distrib\ndash\n");
	put(m->prefix, "etc/dpkg/dpkg.cfg.d/docker",
	    "path-exclude=/usr/share/doc/*\npath-include=/usr/share/doc/*/keep\n");
}

static void md5(const char *text, char hex[HASH_MD5_HEX])
{
	CLEANUP_HASH_MD5 struct hash_md5 *h = hash_md5_new();

	hash_md5_add(h, text, strlen(text));
	hash_md5_end(h, hex);
}

static void md5_is_known(void **state)
{
	char hex[HASH_MD5_HEX];
	(void)state;

	md5("", hex);
	assert_string_equal(hex, "d41d8cd98f00b204e9800998ecf8427e");
	md5("abc", hex);
	assert_string_equal(hex, "900150983cd24fb0d6963f7d28e17f72");
}

static void dpkg_records(void **state)
{
	struct made *m = *state;
	char tool[HASH_MD5_HEX], sh[HASH_MD5_HEX];

	make_root(m);
	md5("tool\n", tool);
	md5("old sh\n", sh);
	CLEANUP_FREE char *tool_sums = xasprintf(
		"%s  bin/tool\n00000000000000000000000000000000  usr/share/doc/tool/copyright\n",
		tool);
	CLEANUP_FREE char *bash_sums = xasprintf("%s  usr/bin/sh\n", sh);
	put(m->prefix, "var/lib/dpkg/info/tool:amd64.md5sums", tool_sums);
	put(m->prefix, "var/lib/dpkg/info/bash.md5sums", bash_sums);
	assert_drifts(&m->r, 0, NULL, NULL, NULL);
	forge(m->prefix, "usr/bin/tool", "fool\n");
	assert_drifts(&m->r, 1, "usr/bin/tool", "not what dpkg's md5sums of tool say", "tool");
	put(m->prefix, "usr/bin/tool", "tool\n");
	put(m->prefix, "usr/bin/sh.distrib", "odd sh\n");
	assert_drifts(&m->r, 1, "usr/bin/sh.distrib", "md5sums of bash", "bash");
	drop(m->prefix, "usr/bin/sh.distrib");
	assert_drifts(&m->r, 1, "usr/bin/sh.distrib", NULL, "bash");
	put(m->prefix, "usr/bin/sh.distrib", "old sh\n");
	put(m->prefix, "etc/dpkg/dpkg.cfg.d/docker", "");
	assert_drifts(&m->r, 1, "usr/share/doc/tool/copyright", NULL, "tool");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, made_set_up, made_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(conda_records),   TEST(other_paths_version),
		TEST(pip_records),     TEST(two_owners),
		TEST(leads_outside),   TEST(damaged_records),
		cmocka_unit_test(csv), cmocka_unit_test(md5_is_known),
		TEST(dpkg_records),
	};

	return cmocka_run_group_tests_name("records", tests, NULL, NULL);
}
