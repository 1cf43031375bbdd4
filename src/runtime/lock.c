/* The lock of a runtime: a small JSON file, and beside it the manifest that it names by digest. A manifest's name carries that
 * digest, so that a crash leaves the old pair or the new one. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/path.h"
#include "runtime/fingerprint_parts.h"

#define LOCK_MAX  65536
#define FORMAT    "cupel-lock 1"
#define TAG_WIDTH 16

static const char *place_of(const struct runtime *r)
{
	const char *base = runtime_base(r);

	return base ? base : r->prefix;
}

void lock_release(struct lock *l)
{
	free(l->time);
	free(l->manifest);
	*l = (struct lock){ 0 };
}

static const char *text_of(const json_t *lock, const char *key)
{
	const char *text = json_string_value(json_object_get(lock, key));

	return text ? text : "";
}

static bool digest_of(const json_t *lock, const char *key, char ret_hex[HASH_HEX])
{
	const char *text = text_of(lock, key);

	if (strlen(text) != HASH_HEX - 1 || strspn(text, "0123456789abcdef") != HASH_HEX - 1)
		return false;
	memcpy(ret_hex, text, HASH_HEX);
	return true;
}

static int damaged(const char *file, const char *what, struct err *err)
{
	return err_caller(err, "%s: %s; it is damaged: lock the runtime again", file, what);
}

/* That it is a lock, and of this runtime. */
static int check_head(const struct runtime *r, const json_t *lock, struct err *err)
{
	if (!json_is_object(lock) || !str_eq(text_of(lock, "format"), FORMAT))
		return err_caller(err, "%s: not a lock of a form that is known here", r->lock);
	if (!str_eq(text_of(lock, "runtime"), r->name))
		return err_caller(err, "%s: the lock of runtime '%s', not of '%s'", r->lock,
				  text_of(lock, "runtime"), r->name);
	if (!str_eq(text_of(lock, "place"), place_of(r) ? place_of(r) : ""))
		return err_caller(
			err, "%s: it locks '%s', and the runtime is now at '%s'; lock it again",
			r->lock, text_of(lock, "place"), place_of(r) ? place_of(r) : "");
	return 0;
}

static int lock_fill(const struct runtime *r, const json_t *lock, struct lock *ret, struct err *err)
{
	struct fingerprint *f = &ret->fingerprint;
	const char *manifest = text_of(lock, "manifest");
	json_int_t files = json_integer_value(json_object_get(lock, "files"));
	json_int_t bytes = json_integer_value(json_object_get(lock, "bytes"));

	for (int d = 0; d < DEPTH_COUNT_; d++)
		if (!digest_of(lock, depth_names[d], f->hex[d]))
			return damaged(r->lock, "a fingerprint is missing", err);
	if (!digest_of(lock, "manifest_sha256", ret->manifest_sha256))
		return damaged(r->lock, "the manifest's digest is missing", err);
	if (!path_name_ok(manifest) || !str_starts(manifest, path_base(r->lock)))
		return damaged(r->lock, "the manifest's name is wrong", err);
	if (files < 0 || bytes < 0 || !*text_of(lock, "time"))
		return damaged(r->lock, "time or counts are missing", err);
	f->files = (uint64_t)files;
	f->bytes = (uint64_t)bytes;
	CLEANUP_FREE char *parent = path_parent(r->lock);
	ret->manifest = path_join(parent, manifest);
	ret->time = xstrdup(text_of(lock, "time"));
	ret->exists = true;
	return 0;
}

int lock_parse(const struct runtime *r, const char *text, size_t length, struct lock *ret,
	       struct err *err)
{
	CLEANUP_JSON json_t *lock = NULL;
	CLEANUP_LOCK struct lock l = { 0 };

	int code = text_json(r->lock, text, length, &lock, err);
	if (code >= 0)
		code = check_head(r, lock, err);
	if (code >= 0)
		code = lock_fill(r, lock, &l, err);
	if (code < 0)
		return code;
	*ret = l;
	l = (struct lock){ 0 };
	return 0;
}

int lock_read(const struct runtime *r, struct lock *ret, struct err *err)
{
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;
	struct err why = { 0 };

	int code = r->lock ? fs_read_capped(AT_FDCWD, r->lock, LOCK_MAX, &text, &length, &why)
			   : -ENOENT;
	if (code == -ENOENT || code == -ENOTDIR) {
		*ret = (struct lock){ 0 };
		return 0;
	}
	if (code < 0) {
		if (err)
			*err = why;
		return code;
	}
	return lock_parse(r, text, length, ret, err);
}

static json_t *lock_json(const struct runtime *r, const struct fingerprint *f, const char *manifest,
			 const char *sha256)
{
	static const char *const kinds[] = { "system", "conda", "venv", "rootfs", "image" };
	json_t *lock = json_object();
	char time[32];

	json_object_set_new(lock, "format", json_string(FORMAT));
	json_object_set_new(lock, "runtime", json_text(r->name));
	json_object_set_new(lock, "version", json_text(r->version));
	json_object_set_new(lock, "kind", json_string(kinds[r->kind]));
	json_object_set_new(lock, "place", json_text(place_of(r)));
	json_object_set_new(lock, "time",
			    json_string(clock_write(clock_real_ns(), time, sizeof(time))));
	for (int d = 0; d < DEPTH_COUNT_; d++)
		json_object_set_new(lock, depth_names[d], json_string(f->hex[d]));
	json_object_set_new(lock, "files", json_u64(f->files));
	json_object_set_new(lock, "bytes", json_u64(f->bytes));
	json_object_set_new(lock, "manifest", json_text(manifest));
	json_object_set_new(lock, "manifest_sha256", json_string(sha256));
	return lock;
}

static int write_pair(const struct runtime *r, const struct snapshot *s, char **ret_manifest,
		      struct err *err)
{
	CLEANUP_FREE char *parent = path_parent(r->lock);
	CLEANUP_STR struct str text = { 0 };
	char sha256[HASH_HEX];

	int code = fs_make_dirs(parent, 0755, err);
	if (code < 0)
		return code;
	manifest_write(r->name, s, &text);
	hash_bytes(text.text, text.length, sha256);
	CLEANUP_FREE char *name =
		xasprintf("%s.%.*s.manifest", path_base(r->lock), TAG_WIDTH, sha256);
	CLEANUP_FREE char *path = path_join(parent, name);
	code = fs_write_atomic(AT_FDCWD, path, text.text, text.length, 0644, err);
	if (code < 0)
		return code;
	CLEANUP_JSON json_t *lock = lock_json(r, &s->fingerprint, name, sha256);
	code = json_write_file(AT_FDCWD, r->lock, lock, err);
	*ret_manifest = take_ptr(path);
	return code;
}

static bool is_manifest_of(const char *name, const char *lock)
{
	size_t length = strlen(lock);
	return str_starts(name, lock) && name[length] == '.' &&
	       strspn(name + length + 1, "0123456789abcdef") == TAG_WIDTH &&
	       str_eq(name + length + 1 + TAG_WIDTH, ".manifest");
}

/* By their names, since the lock that named them may be damaged or of another place. */
void lock_drop_manifests(const struct runtime *r, const char *but)
{
	CLEANUP_FREE char *parent = path_parent(r->lock);
	CLEANUP_DIR DIR *dir = opendir(parent);
	for (const struct dirent *entry; dir && (entry = readdir(dir));)
		if (is_manifest_of(entry->d_name, path_base(r->lock)) &&
		    !(but && str_eq(entry->d_name, path_base(but))))
			(void)unlinkat(dirfd(dir), entry->d_name, 0);
}

int lock_write(const struct runtime *r, const struct fingerprint_progress *progress,
	       struct fingerprint *ret, struct err *err)
{
	CLEANUP_SNAPSHOT struct snapshot s = SNAPSHOT_INIT;
	CLEANUP_FREE char *manifest = NULL;

	if (!r->lock)
		return err_caller(err, "runtime '%s' has no place for a lock", r->name);
	int code = snapshot_take(r, DEPTH_CONTENT, TREE_ALL, progress, &s, err);
	if (code >= 0)
		code = write_pair(r, &s, &manifest, err);
	if (code < 0)
		return code;
	lock_drop_manifests(r, manifest);
	*ret = s.fingerprint;
	return 0;
}

/* A lock whose fingerprints are not those of its own manifest says nothing. */
static int check_manifest(const struct lock *l, const struct runtime *r, const struct snapshot *s,
			  struct err *err)
{
	struct fingerprint f = { 0 };

	items_digest(&s->items, f.hex[DEPTH_IDENTITY]);
	tree_digest_stat(&s->tree, f.hex[DEPTH_STAT]);
	tree_digest_content(&s->tree, f.hex[DEPTH_CONTENT]);
	for (int d = 0; d < DEPTH_COUNT_; d++)
		if (!str_eq(f.hex[d], l->fingerprint.hex[d]))
			return damaged(r->lock, "its fingerprints are not those of its manifest",
				       err);
	return 0;
}

static int compare_locked(const struct lock *l, const struct runtime *r, enum depth depth,
			  struct snapshot *now, struct drifts *ret, struct err *err)
{
	CLEANUP_SNAPSHOT struct snapshot then = SNAPSHOT_INIT;
	CLEANUP(records_release) struct records records = { 0 };
	const struct fingerprint *f = &now->fingerprint;

	if (str_eq(f->hex[DEPTH_IDENTITY], l->fingerprint.hex[DEPTH_IDENTITY]) &&
	    str_eq(f->hex[depth], l->fingerprint.hex[depth]))
		return 0;
	int code = manifest_read(l->manifest, r->name, l->manifest_sha256, &then, err);
	if (code >= 0)
		code = check_manifest(l, r, &then, err);
	if (code >= 0 && depth == DEPTH_STAT && drifts_suspects(&then.tree, &now->tree) > 0)
		code = tree_hash(&now->tree, TREE_SUSPECTS, NULL, err);
	if (code < 0)
		return code;
	drifts_items(ret, &then.items, &now->items);
	if (depth > DEPTH_IDENTITY)
		drifts_trees(ret, &then.tree, &now->tree, depth);
	/* Whose file it is helps, but is not needed to say that it differs. */
	if (depth > DEPTH_IDENTITY && ret->n > 0 && records_read(r, &records, NULL) >= 0)
		drifts_owners(ret, &records);
	return 0;
}

int lock_compare(const struct runtime *r, enum depth depth,
		 const struct fingerprint_progress *progress, struct drifts *ret,
		 struct fingerprint *ret_now, struct err *err)
{
	CLEANUP_SNAPSHOT struct snapshot now = SNAPSHOT_INIT;
	CLEANUP(records_release) struct records records = { 0 };
	CLEANUP_DRIFTS struct drifts d = { 0 };
	CLEANUP_LOCK struct lock l = { 0 };

	int code = lock_read(r, &l, err);
	if (code < 0)
		return code;
	bool by_records = !l.exists && depth == DEPTH_CONTENT;
	bool md5 = by_records && r->kind != RUNTIME_CONDA && r->kind != RUNTIME_VENV;
	code = snapshot_take(r, depth, md5 ? TREE_ALL_MD5 : TREE_ALL, progress, &now, err);
	if (code >= 0 && l.exists)
		code = compare_locked(&l, r, depth, &now, &d, err);
	if (code >= 0 && by_records)
		code = records_read(r, &records, err);
	if (code < 0)
		return code;
	if (by_records)
		drifts_records(&d, &records, &now.tree);
	*ret_now = now.fingerprint;
	*ret = d;
	d = (struct drifts){ 0 };
	return 0;
}
