/* Index, manifest and configuration of an image: JSON from outside, taken for nothing but what it says. */
#include <errno.h>
#include <string.h>
#include <sys/utsname.h>

#include "runtime/oci_parts.h"

void oci_index_release(struct oci_index *i)
{
	for (size_t k = 0; k < i->n; k++)
		free(i->v[k].name);
	free(i->v);
	*i = (struct oci_index){ 0 };
}

void oci_manifest_release(struct oci_manifest *m)
{
	free(m->layers);
	*m = (struct oci_manifest){ 0 };
}

void oci_settings_release(struct oci_settings *s)
{
	free(s->platform);
	strv_release(&s->diff_ids);
	pairs_release(&s->env);
	free(s->work_dir);
	free(s->user);
	*s = (struct oci_settings){ 0 };
}

const char *oci_architecture(void)
{
	static const char *const names[][2] = { { "x86_64", "amd64" },    { "aarch64", "arm64" },
						{ "armv7l", "arm" },      { "armv6l", "arm" },
						{ "i686", "386" },        { "riscv64", "riscv64" },
						{ "ppc64le", "ppc64le" }, { "s390x", "s390x" } };
	struct utsname host = { 0 };
	(void)uname(&host);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (str_eq(host.machine, names[i][0]))
			return names[i][1];
	return "unknown";
}

static int wrong(struct err *err, const char *where, const char *what)
{
	return err_caller(err, "%s: %s", where, what);
}

static int load(const char *where, const char *text, size_t length, json_t **ret, struct err *err)
{
	json_error_t at = { 0 };
	json_t *value = json_loadb(text, length, JSON_REJECT_DUPLICATES, &at);
	if (!value)
		return err_caller(err, "%s:%d:%d: %s", where, at.line, at.column, at.text);
	*ret = value;
	return 0;
}

/* "sha256:" and 64 digits, small letters. */
static bool digest_hex(const char *said, char ret[HASH_HEX])
{
	static const char prefix[] = "sha256:";
	if (!said || !str_starts(said, prefix))
		return false;
	const char *hex = said + strlen(prefix);
	if (strlen(hex) != HASH_HEX - 1 || strspn(hex, "0123456789abcdef") != HASH_HEX - 1)
		return false;
	memcpy(ret, hex, HASH_HEX);
	return true;
}

static int read_blob(const char *where, const json_t *value, struct oci_blob *ret, struct err *err)
{
	const json_t *size = json_object_get(value, "size");
	struct oci_blob b = { 0 };
	if (!json_is_object(value))
		return wrong(err, where, "a descriptor is missing or is no object");
	if (!digest_hex(json_string_value(json_object_get(value, "digest")), b.digest))
		return wrong(err, where, "a descriptor has no digest of the form sha256:HEX");
	if (!json_is_integer(size) || json_integer_value(size) < 0)
		return wrong(err, where, "a descriptor has no size");
	b.size = (uint64_t)json_integer_value(size);
	*ret = b;
	return 0;
}

static const char *text_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

/* Its tag, its platform, or the beginning of its digest. */
static char *ref_name(const json_t *value, const struct oci_ref *ref)
{
	const json_t *platform = json_object_get(value, "platform");
	const char *tag =
		text_of(json_object_get(value, "annotations"), "org.opencontainers.image.ref.name");
	if (tag)
		return str_visible(tag);
	if (!platform)
		return xasprintf("sha256:%.12s", ref->blob.digest);
	const char *os = text_of(platform, "os"), *architecture = text_of(platform, "architecture");
	CLEANUP_FREE char *both =
		xasprintf("%s/%s", os ? os : "?", architecture ? architecture : "?");
	return str_visible(both);
}

static int read_ref(const char *where, const json_t *value, struct oci_ref *ret, struct err *err)
{
	const char *type = text_of(value, "mediaType");
	const json_t *platform = json_object_get(value, "platform");
	struct oci_ref ref = { .platform = OCI_UNSAID };
	int r = read_blob(where, value, &ref.blob, err);
	if (r < 0)
		return r;
	ref.is_index = str_eq(type, "application/vnd.oci.image.index.v1+json") ||
		       str_eq(type, "application/vnd.docker.distribution.manifest.list.v2+json");
	bool is_manifest = str_eq(type, "application/vnd.oci.image.manifest.v1+json") ||
			   str_eq(type, "application/vnd.docker.distribution.manifest.v2+json");
	if (platform)
		ref.platform = str_eq(text_of(platform, "os"), "linux") &&
					       str_eq(text_of(platform, "architecture"),
						      oci_architecture())
				       ? OCI_THIS_HOST
				       : OCI_OTHER;
	if (!is_manifest && !ref.is_index)
		ref.platform = OCI_OTHER; /* a signature, an attestation: no image */
	ref.name = ref_name(value, &ref);
	*ret = ref;
	return 0;
}

int oci_index_parse(const char *where, const char *text, size_t length, struct oci_index *ret,
		    struct err *err)
{
	CLEANUP_JSON json_t *value = NULL;
	CLEANUP(oci_index_release) struct oci_index index = { 0 };
	int r = load(where, text, length, &value, err);
	if (r < 0)
		return r;
	const json_t *list = json_object_get(value, "manifests");
	if (json_integer_value(json_object_get(value, "schemaVersion")) != 2 ||
	    !json_is_array(list))
		return wrong(err, where,
			     "not an OCI index: schemaVersion 2 and manifests are needed");
	if (json_array_size(list) > OCI_REFS_MAX)
		return wrong(err, where, "has more than 1024 manifests");
	index.v = xcalloc(json_array_size(list) + 1, sizeof(*index.v));
	for (; index.n < json_array_size(list); index.n++) {
		r = read_ref(where, json_array_get(list, index.n), &index.v[index.n], err);
		if (r < 0)
			return r;
	}
	*ret = index;
	memset(&index, 0, sizeof(index));
	return 0;
}

static bool layer_type_known(const char *type)
{
	static const char *const types[] = {
		"application/vnd.oci.image.layer.v1.tar",
		"application/vnd.oci.image.layer.v1.tar+gzip",
		"application/vnd.oci.image.layer.v1.tar+zstd",
		"application/vnd.oci.image.layer.nondistributable.v1.tar",
		"application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
		"application/vnd.oci.image.layer.nondistributable.v1.tar+zstd",
		"application/vnd.docker.image.rootfs.diff.tar",
		"application/vnd.docker.image.rootfs.diff.tar.gzip",
		"application/vnd.docker.image.rootfs.diff.tar.zstd",
		"application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
	};
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (str_eq(type, types[i]))
			return true;
	return false;
}

int oci_manifest_parse(const char *where, const char *text, size_t length, struct oci_manifest *ret,
		       struct err *err)
{
	CLEANUP_JSON json_t *value = NULL;
	CLEANUP(oci_manifest_release) struct oci_manifest m = { 0 };
	int r = load(where, text, length, &value, err);
	if (r < 0)
		return r;
	const json_t *list = json_object_get(value, "layers");
	if (json_integer_value(json_object_get(value, "schemaVersion")) != 2 ||
	    !json_is_array(list))
		return wrong(err, where,
			     "not an OCI manifest: schemaVersion 2 and layers are needed");
	if (json_array_size(list) > OCI_LAYERS_MAX)
		return wrong(err, where, "has more than 512 layers");
	r = read_blob(where, json_object_get(value, "config"), &m.config, err);
	if (r < 0)
		return r;
	m.layers = xcalloc(json_array_size(list) + 1, sizeof(*m.layers));
	for (; m.n_layers < json_array_size(list); m.n_layers++) {
		const json_t *layer = json_array_get(list, m.n_layers);
		r = read_blob(where, layer, &m.layers[m.n_layers], err);
		if (r < 0)
			return r;
		const char *type = text_of(layer, "mediaType");
		if (!layer_type_known(type))
			return err_caller(err, "%s: a layer is of a kind that is not known: %.100s",
					  where, type ? type : "none said");
	}
	*ret = m;
	memset(&m, 0, sizeof(m));
	return 0;
}

static int read_diff_ids(const char *where, const json_t *value, struct strv *ret, struct err *err)
{
	const json_t *list = json_object_get(json_object_get(value, "rootfs"), "diff_ids");
	char hex[HASH_HEX];
	if (!json_is_array(list) || json_array_size(list) > OCI_LAYERS_MAX)
		return wrong(err, where,
			     "has no rootfs.diff_ids, so it is the configuration of no image");
	for (size_t i = 0; i < json_array_size(list); i++) {
		if (!digest_hex(json_string_value(json_array_get(list, i)), hex))
			return wrong(err, where, "a diff id is not of the form sha256:HEX");
		strv_add(ret, hex);
	}
	return 0;
}

/* What is no variable in a box either is left out. */
static void read_env(const json_t *list, struct pairs *ret)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *said = json_string_value(json_array_get(list, i));
		const char *equals = said ? strchr(said, '=') : NULL;
		if (!equals)
			continue;
		CLEANUP_FREE char *name = xstrndup(said, (size_t)(equals - said));
		if (env_name_check(name, NULL) >= 0)
			pairs_set(ret, name, equals + 1);
	}
}

int oci_settings_parse(const char *where, const char *text, size_t length, struct oci_settings *ret,
		       struct err *err)
{
	CLEANUP_JSON json_t *value = NULL;
	CLEANUP(oci_settings_release) struct oci_settings s = { 0 };
	int r = load(where, text, length, &value, err);
	if (r >= 0)
		r = read_diff_ids(where, value, &s.diff_ids, err);
	if (r < 0)
		return r;
	const char *os = text_of(value, "os"), *architecture = text_of(value, "architecture");
	const json_t *config = json_object_get(value, "config");
	const char *work_dir = text_of(config, "WorkingDir"), *user = text_of(config, "User");
	CLEANUP_FREE char *platform =
		xasprintf("%s/%s", os ? os : "?", architecture ? architecture : "?");
	s.this_host = str_eq(os, "linux") && str_eq(architecture, oci_architecture());
	s.platform = str_visible(platform);
	read_env(json_object_get(config, "Env"), &s.env);
	s.work_dir = work_dir && *work_dir ? xstrdup(work_dir) : NULL;
	s.user = user && *user ? xstrdup(user) : NULL;
	*ret = s;
	memset(&s, 0, sizeof(s));
	return 0;
}
