/* Taking a fingerprint: which kind looks at what, the cache of identities, and the snapshot that all else is made from. */
#include "runtime/fingerprint.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/path.h"
#include "runtime/fingerprint_parts.h"

/* A file changed twice within the clock's step has one timestamp: what is younger than this is not yet believed to stay. */
#define SETTLED_NS (2 * (int64_t)NS_PER_SEC)
#define CACHE_MAX  1024

const char *const depth_names[] = { "identity", "stat", "content" };

static bool is_directory(const char *path)
{
	struct stat st = { 0 };

	return path && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

const char *runtime_base(const struct runtime *r)
{
	switch (r->kind) {
	case RUNTIME_SYSTEM:
		return r->root ? r->root : "/";
	case RUNTIME_ROOTFS: /* of a squashfs file the file counts, also where it had to be unpacked */
		return is_directory(r->prefix) ? r->prefix : NULL;
	case RUNTIME_IMAGE:
		return r->root;
	default:
		return r->prefix;
	}
}

static bool is_squashfs(const struct runtime *r)
{
	return r->kind == RUNTIME_ROOTFS && !runtime_base(r);
}

static uint64_t resolve_of(const struct runtime *r)
{
	return r->kind == RUNTIME_CONDA || r->kind == RUNTIME_VENV ? RESOLVE_BENEATH
								   : RESOLVE_IN_ROOT;
}

/* NULL: it is not there yet. */
static const char *base_path(const struct runtime *r)
{
	return is_squashfs(r) ? "/" : runtime_base(r);
}

static int open_base(const struct runtime *r, int *ret_fd, struct err *err)
{
	const char *base = base_path(r);

	if (!base)
		return err_set(err, ERR_CALLER, ENOENT, "the image has not been unpacked yet");
	int fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return err_set(err, ERR_CALLER, ENOENT, "its directory '%s' is not there", base);
	if (fd < 0)
		return err_errno(err, "open '%s'", base);
	*ret_fd = fd;
	return 0;
}

/* What the entry says decides what is looked at, so that it is part of the key. */
static void key_begin(struct probe *p, const struct runtime *r)
{
	const char *const texts[] = { "cupel-key-1", r->name, r->prefix, r->root, r->path };
	const char kind = (char)('0' + r->kind);

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		if (texts[i])
			hash_add(p->key, texts[i], strlen(texts[i]) + 1);
	hash_add(p->key, &kind, 1);
	for (size_t i = 0; i < r->packages.n; i++)
		hash_add(p->key, r->packages.v[i], strlen(r->packages.v[i]) + 1);
}

/* Looks at everything; items only if `items` is given. */
static int identify(const struct runtime *r, struct items *items, char ret_key[HASH_HEX],
		    int64_t *ret_newest_ns, struct err *err)
{
	CLEANUP_HASH struct hash *key = hash_new();
	CLEANUP(probe_release)
	struct probe p = { .root_fd = -1,
			   .resolve = resolve_of(r),
			   .is_host = str_eq(base_path(r), "/"),
			   .key = key,
			   .items = items };
	int code = open_base(r, &p.root_fd, err);

	if (code < 0)
		return code;
	key_begin(&p, r);
	switch (r->kind) {
	case RUNTIME_SYSTEM:
		code = identity_system(&p, r, err);
		break;
	case RUNTIME_CONDA:
		code = identity_conda(&p, err);
		break;
	case RUNTIME_VENV:
		code = identity_venv(&p, r->prefix, err);
		break;
	case RUNTIME_IMAGE:
		code = identity_image(&p, r, err);
		break;
	default:
		code = is_squashfs(r) ? identity_squashfs(&p, r->prefix, err)
				      : identity_rootfs(&p, r, err);
		break;
	}
	hash_end(key, ret_key);
	*ret_newest_ns = p.newest_ctime_ns;
	return code;
}

static int take_identity(const struct runtime *r, struct items *items, char ret_hex[HASH_HEX],
			 struct err *err)
{
	char key[HASH_HEX];
	int64_t newest_ns = 0;
	int code = identify(r, items, key, &newest_ns, err);

	if (code < 0)
		return err ? err_wrap(err, "runtime '%s'", r->name) : code;
	items_sort(items);
	items_digest(items, ret_hex);
	return 0;
}

static char *cache_name(const struct runtime *r)
{
	CLEANUP_FREE char *text = xasprintf("%s\n%s", r->name, r->prefix ? r->prefix : "");
	char tag[HASH_TAG];

	hash_tag(text, tag);
	return xasprintf("%s-%s", r->name, tag);
}

/* The cache holds "KEY IDENTITY\n"; whatever else it holds is as good as nothing. */
static bool cache_get(const char *path, const char *key, char ret_hex[HASH_HEX])
{
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;

	if (fs_read_capped(AT_FDCWD, path, CACHE_MAX, &text, &length, NULL) < 0 ||
	    length != 2 * HASH_HEX || strncmp(text, key, HASH_HEX - 1) != 0 ||
	    strspn(text + HASH_HEX, "0123456789abcdef") != HASH_HEX - 1)
		return false;
	memcpy(ret_hex, text + HASH_HEX, HASH_HEX - 1);
	ret_hex[HASH_HEX - 1] = '\0';
	return true;
}

int fingerprint_identity(const struct runtime *r, const char *cache_dir, struct fingerprint *ret,
			 struct err *err)
{
	CLEANUP_FREE char *name = cache_name(r), *path = NULL;
	CLEANUP(items_release) struct items items = { 0 };
	struct fingerprint now = { 0 };
	char key[HASH_HEX];
	int64_t newest_ns = 0;

	int code = identify(r, NULL, key, &newest_ns, err);
	if (code < 0)
		return err ? err_wrap(err, "runtime '%s'", r->name) : code;
	path = path_join(cache_dir, name);
	if (!cache_get(path, key, now.hex[DEPTH_IDENTITY])) {
		code = take_identity(r, &items, now.hex[DEPTH_IDENTITY], err);
		if (code < 0)
			return code;
		CLEANUP_FREE char *text = xasprintf("%s %s\n", key, now.hex[DEPTH_IDENTITY]);
		/* Without a cache it is only slower; and whoever only asks makes no home. */
		if (newest_ns < (int64_t)clock_real_ns() - SETTLED_NS &&
		    (mkdir(cache_dir, 0700) == 0 || errno == EEXIST))
			(void)fs_write_atomic(AT_FDCWD, path, text, strlen(text), 0644, NULL);
	}
	*ret = now;
	return 0;
}

/* A virtual environment's interpreter is outside of it, and yet what runs. */
static int add_interpreter(const struct runtime *r, struct tree *t, struct err *err)
{
	CLEANUP_FREE char *program = path_join(r->prefix, "bin/python");
	CLEANUP_FREE char *real = path_real(program);

	return !real || path_within(real, r->prefix) ? 0 : tree_add(t, real, err);
}

static int take_packages(const struct runtime *r, struct tree *t, struct err *err)
{
	CLEANUP(dpkg_release) struct dpkg d = { 0 };
	CLEANUP_STRV struct strv names = { 0 };
	int code = dpkg_read(t->root_fd, &d, err);

	if (code < 0)
		return code;
	dpkg_names(r, &names);
	dpkg_want(&d, &names, NULL);
	t->resolve = RESOLVE_IN_ROOT;
	return tree_dpkg(t, &d, err);
}

static int take_tree(const struct runtime *r, const struct fingerprint_progress *progress,
		     struct tree *t, struct err *err)
{
	int code = open_base(r, &t->root_fd, err);

	if (code < 0)
		return code;
	if (r->kind == RUNTIME_SYSTEM)
		return take_packages(r, t, err);
	if (is_squashfs(r))
		return tree_add(t, r->prefix, err);
	code = tree_walk(t, progress, err);
	return code >= 0 && r->kind == RUNTIME_VENV ? add_interpreter(r, t, err) : code;
}

void snapshot_release(struct snapshot *s)
{
	items_release(&s->items);
	tree_release(&s->tree);
}

int snapshot_take(const struct runtime *r, enum depth depth, enum tree_part part,
		  const struct fingerprint_progress *progress, struct snapshot *ret,
		  struct err *err)
{
	struct fingerprint *f = &ret->fingerprint;
	int code = take_identity(r, &ret->items, f->hex[DEPTH_IDENTITY], err);

	if (code < 0 || depth == DEPTH_IDENTITY)
		return code;
	code = take_tree(r, progress, &ret->tree, err);
	if (code >= 0 && depth >= DEPTH_CONTENT)
		code = tree_hash(&ret->tree, part, progress, err);
	if (code < 0)
		return err ? err_wrap(err, "runtime '%s'", r->name) : code;
	for (size_t i = 0; i < ret->tree.n; i++) {
		f->files += ret->tree.v[i].kind != 'd';
		f->bytes += ret->tree.v[i].kind == 'f' ? ret->tree.v[i].size : 0;
	}
	tree_digest_stat(&ret->tree, f->hex[DEPTH_STAT]);
	if (depth >= DEPTH_CONTENT)
		tree_digest_content(&ret->tree, f->hex[DEPTH_CONTENT]);
	return 0;
}

int fingerprint_take(const struct runtime *r, enum depth depth,
		     const struct fingerprint_progress *progress, struct fingerprint *ret,
		     struct err *err)
{
	CLEANUP_SNAPSHOT struct snapshot s = SNAPSHOT_INIT;
	int code = snapshot_take(r, depth, TREE_ALL, progress, &s, err);

	if (code >= 0)
		*ret = s.fingerprint;
	return code;
}
