/* What package managers recorded of the files they installed: conda-meta's paths_data and dist-info's RECORD. dpkg is in
 * records_dpkg.c. A path from a record is looked up among files that were seen, and never opened. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>

#include "base/path.h"
#include "runtime/fingerprint_parts.h"

#define RECORD_MAX  (64 << 20)
#define RECORDS_MAX 20000000

void records_release(struct records *list)
{
	cleanup_free(&list->v);
	arena_release(&list->arena);
	strv_release(&list->refused);
	list->n = list->room = 0;
}

void records_add(struct records *list, const struct record *one)
{
	if (list->n == list->room) {
		list->room = list->room ? 2 * list->room : 4096;
		list->v = xreallocarray(list->v, list->room, sizeof(*list->v));
	}
	list->v[list->n++] = *one;
}

static int by_path(const void *left, const void *right)
{
	const struct record *a = left, *b = right;
	int c = strcmp(a->path, b->path);

	/* conda's own first: it is the owner where both say so. */
	return c ? c : (int)a->source - (int)b->source;
}

const struct record *records_find(const struct records *list, const char *path)
{
	size_t low = 0, high = list->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (strcmp(list->v[middle].path, path) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low < list->n && str_eq(list->v[low].path, path) ? &list->v[low] : NULL;
}

/* `path` beside `site` within the runtime, owned; NULL if it is absolute or climbs out. "../../../bin/f2py" is usual. */
static char *within(const char *site, const char *path)
{
	if (!*path || *path == '/')
		return NULL;
	CLEANUP_FREE char *base = xasprintf("/%s", site);
	CLEANUP_FREE char *normal = path_normal(base, path);
	return normal && normal[1] ? xstrdup(normal + 1) : NULL;
}

static int add_path(struct records *list, const char *where, const char *site, const char *path,
		    struct record *one)
{
	CLEANUP_FREE char *inside = within(site, path);

	if (list->n >= RECORDS_MAX)
		return -E2BIG;
	if (!inside) {
		if (list->refused.n < DRIFT_MAX)
			strv_addf(&list->refused, "%s: %s", where, path);
		return 0;
	}
	if (path_left_out(inside))
		return 0;
	one->path = arena_text(&list->arena, "", inside);
	records_add(list, one);
	return 0;
}

static bool hex_ok(const char *text, size_t length)
{
	return text && strlen(text) == length && strspn(text, "0123456789abcdef") == length;
}

int records_parse_conda(struct records *list, const char *where, const json_t *package,
			struct err *err)
{
	const char *name = json_string_value(json_object_get(package, "name"));
	const json_t *data = json_object_get(package, "paths_data"), *one = NULL;
	const json_t *paths = json_object_get(data, "paths");
	/* Another version means that the digests mean something else. */
	bool known = json_integer_value(json_object_get(data, "paths_version")) == 1;
	size_t i = 0;
	int r = 0;

	if (!name)
		return err_caller(err, "%s: no name of a package", where);
	const char *owner = arena_text(&list->arena, "", name);
	json_array_foreach(paths, i, one)
	{
		struct record record = { .owner = owner, .source = RECORD_CONDA };
		const char *path = json_string_value(json_object_get(one, "_path"));
		const char *hex = json_string_value(json_object_get(one, "sha256_in_prefix"));
		if (known && hex_ok(hex, HASH_HEX - 1))
			memcpy(record.hex, hex, HASH_HEX);
		if (path && (r = add_path(list, where, "", path, &record)) < 0)
			break;
	}
	/* Older packages have only the names. */
	json_array_foreach(json_is_array(paths) ? NULL : json_object_get(package, "files"), i, one)
	{
		struct record record = { .owner = owner, .source = RECORD_CONDA };
		if (json_is_string(one) &&
		    (r = add_path(list, where, "", json_string_value(one), &record)) < 0)
			break;
	}
	return r < 0 ? err_set(err, ERR_CALLER, -r, "%s: too many paths", where) : 0;
}

/* One field of a CSV line into `out` (as large as the rest); returns what follows the comma, or the end. */
static const char *csv_field(const char *at, const char *end, char *out)
{
	if (at < end && *at == '"') {
		for (at++; at < end; at++) {
			if (*at == '"' && (at + 1 == end || at[1] != '"'))
				break;
			at += *at == '"';
			*out++ = *at;
		}
		at += at < end;
	}
	while (at < end && *at != ',')
		*out++ = *at++;
	*out = '\0';
	return at < end ? at + 1 : end;
}

/* urlsafe base64 without padding, of exactly 32 bytes. */
static bool base64_hex(const char *text, char ret_hex[HASH_HEX])
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	uint32_t bits = 0;
	unsigned n_bits = 0;
	size_t n = 0;
	size_t length = strcspn(text, "=");

	if (length != 43)
		return false;
	for (size_t i = 0; i < length; i++) {
		const char *letter = strchr(letters, text[i]);
		if (!letter)
			return false;
		bits = (bits << 6 | (uint32_t)(letter - letters)) & 0xffff;
		n_bits += 6;
		if (n_bits >= 8 && n < HASH_SIZE) {
			n_bits -= 8;
			(void)snprintf(ret_hex + 2 * n++, 3, "%02x", bits >> n_bits & 0xff);
		}
	}
	return n == HASH_SIZE;
}

int records_parse_python(struct records *list, const char *where, const char *site,
			 const char *owner, const char *text, size_t length, struct err *err)
{
	CLEANUP_FREE char *path = xmalloc(length + 1), *sum = xmalloc(length + 1);
	const char *kept = arena_text(&list->arena, "", owner);
	static const char algorithm[] = "sha256=";
	int r = 0;

	for (const char *line = text, *end = text + length; r >= 0 && line < end;) {
		const char *newline = memchr(line, '\n', (size_t)(end - line));
		const char *stop = newline ? newline : end;
		struct record record = { .owner = kept, .source = RECORD_PYTHON };

		if (memchr(line, '\0', (size_t)(stop - line)))
			return err_caller(err, "%s: a NUL in a line", where);
		const char *rest =
			csv_field(line, stop > line && stop[-1] == '\r' ? stop - 1 : stop, path);
		(void)csv_field(rest < stop ? rest : stop, stop, sum);
		if (str_starts(sum, algorithm) && !base64_hex(sum + strlen(algorithm), record.hex))
			record.hex[0] = '\0';
		if (*path)
			r = add_path(list, where, site, path, &record);
		line = stop + 1;
	}
	return r < 0 ? err_set(err, ERR_CALLER, -r, "%s: too many lines", where) : 0;
}

static int read_file(struct probe *p, const char *path, char **ret, size_t *ret_length,
		     struct err *err)
{
	CLEANUP_FD int fd = probe_open(p, path);
	int r = fd < 0 ? fd : text_read(fd, RECORD_MAX, ret, ret_length);

	return r < 0 ? err_set(err, ERR_HOST, -r, "read '%s': %s", path, strerrordesc_np(-r)) : 0;
}

static int read_conda(struct records *list, struct probe *p, struct err *err)
{
	CLEANUP_STRV struct strv names = { 0 };
	int r = probe_list(p, "conda-meta", &names, err);

	for (size_t i = 0; r >= 0 && i < names.n; i++) {
		CLEANUP_FREE char *path = xasprintf("conda-meta/%s", names.v[i]), *text = NULL;
		CLEANUP_JSON json_t *package = NULL;
		size_t length = 0;
		if (!str_ends(path, ".json"))
			continue;
		r = read_file(p, path, &text, &length, err);
		if (r >= 0)
			r = text_json(path, text, length, &package, err);
		if (r >= 0)
			r = records_parse_conda(list, path, package, err);
	}
	return r;
}

static int read_dist(struct records *list, struct probe *p, const char *site, const char *entry,
		     struct err *err)
{
	CLEANUP_FREE char *name = NULL, *version = NULL, *text = NULL;
	CLEANUP_FREE char *path = xasprintf("%s/%s/RECORD", site, entry);
	char tuple[TUPLE_TEXT];
	size_t length = 0;

	if (!str_ends(entry, ".dist-info") || !dist_info_split(entry, &name, &version))
		return 0;
	int r = probe_tuple(p, path, tuple, err);
	if (r < 0 || !tuple[0])
		return r;
	r = read_file(p, path, &text, &length, err);
	return r < 0 ? r : records_parse_python(list, path, site, name, text, length, err);
}

static int read_python(struct records *list, struct probe *p, const char *lib, struct err *err)
{
	CLEANUP_STRV struct strv sites = { 0 };
	int r = python_sites(p, lib, &sites, err);

	for (size_t i = 0; r >= 0 && i < sites.n; i++) {
		CLEANUP_STRV struct strv names = { 0 };
		r = probe_list(p, sites.v[i], &names, err);
		for (size_t k = 0; r >= 0 && k < names.n; k++)
			r = read_dist(list, p, sites.v[i], names.v[k], err);
	}
	return r;
}

static int read_dpkg(struct records *list, const struct runtime *r, int root_fd, struct err *err)
{
	CLEANUP(dpkg_release) struct dpkg d = { 0 };
	CLEANUP_STRV struct strv names = { 0 };
	int code = dpkg_read(root_fd, &d, err);

	if (code < 0)
		return code;
	if (r->kind == RUNTIME_SYSTEM) {
		dpkg_names(r, &names);
		dpkg_want(&d, &names, NULL);
	} else {
		dpkg_want_all(&d);
	}
	return records_dpkg(list, root_fd, &d, err);
}

int records_read(const struct runtime *r, struct records *ret, struct err *err)
{
	CLEANUP_HASH struct hash *key = hash_new();
	const char *base = runtime_base(r);
	bool prefix = r->kind == RUNTIME_CONDA || r->kind == RUNTIME_VENV;
	CLEANUP(probe_release)
	struct probe p = { .root_fd = -1,
			   .resolve = prefix ? RESOLVE_BENEATH : RESOLVE_IN_ROOT,
			   .key = key };

	if (!base)
		return 0; /* one file: nobody recorded what is in it */
	p.root_fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (p.root_fd < 0)
		return err_errno(err, "open '%s'", base);
	int code = r->kind == RUNTIME_CONDA ? read_conda(ret, &p, err) : 0;
	if (code >= 0 && prefix)
		code = read_python(ret, &p, "lib", err);
	if (code >= 0 && !prefix)
		code = read_dpkg(ret, r, p.root_fd, err);
	if (code >= 0 && ret->n > 1)
		qsort(ret->v, ret->n, sizeof(*ret->v), by_path);
	return code;
}
