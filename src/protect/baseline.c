/* What was accepted: HOME/protect/TAG.json, and the manifest that it names by digest, as a runtime's lock and its manifest are. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/path.h"
#include "protect/parts.h"
#include "spec/dburl.h"

#define BASELINE_MAX 65536
#define FORMAT       "cupel-protect 1"

void protect_baseline_release(struct protect_baseline *b)
{
	cleanup_free(&b->time);
	cleanup_free(&b->by);
	cleanup_free(&b->manifest);
}

/* Not the name itself: it may be long, and may hold a password. */
static void name_of(const char *what, char ret[HASH_HEX])
{
	hash_bytes(what, strlen(what), ret);
	ret[16] = '\0';
}

static int damaged(const char *what, struct err *err)
{
	CLEANUP_FREE char *shown = dburl_shown(what);
	return err_set(err, ERR_HOST, EBADMSG,
		       "the baseline of %s is damaged. Remedy: cupel protect accept '%s'", shown,
		       shown);
}

static const char *text_of(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));
	return text ? text : "";
}

static uint64_t number_of(const json_t *o, const char *key)
{
	json_int_t n = json_integer_value(json_object_get(o, key));
	return n < 0 ? 0 : (uint64_t)n;
}

int protect_baseline_read(const struct config *c, const char *what, struct protect_baseline *ret,
			  struct err *err)
{
	CLEANUP_JSON json_t *o = NULL;
	char name[HASH_HEX];
	name_of(what, name);
	CLEANUP_FREE char *path = xasprintf("%s/protect/%s.json", c->home, name);
	*ret = (struct protect_baseline){ 0 };
	int r = json_read_file(AT_FDCWD, path, BASELINE_MAX, &o, NULL);
	if (r == -ENOENT || r == -ENOTDIR)
		return 0;
	if (r == -EACCES)
		return err_set(err, ERR_HOST, EACCES, "read %s: %s", path, strerrordesc_np(EACCES));
	const char *manifest = text_of(o, "manifest");
	if (r < 0 || !str_eq(text_of(o, "format"), FORMAT) || !path_name_ok(manifest) ||
	    strlen(text_of(o, "stat")) != HASH_HEX - 1 ||
	    strlen(text_of(o, "manifest_sha256")) != HASH_HEX - 1)
		return damaged(what, err);
	memcpy(ret->stat, text_of(o, "stat"), HASH_HEX);
	memcpy(ret->sha256, text_of(o, "manifest_sha256"), HASH_HEX);
	ret->time = xstrdup(text_of(o, "time"));
	ret->by = text_of(o, "by")[0] ? xstrdup(text_of(o, "by")) : NULL;
	ret->manifest = xasprintf("%s/protect/%s", c->home, manifest);
	ret->files = number_of(o, "files");
	ret->bytes = number_of(o, "bytes");
	ret->exists = true;
	return 0;
}

static enum protect_thing thing_of(const char *what, const struct snapshot *s)
{
	if (dburl_is(what) && !str_starts(what, "sqlite:"))
		return THING_POSTGRES;
	if (s->tree.n == 0)
		return THING_MISSING;
	if (dburl_is(what))
		return THING_SQLITE;
	for (size_t i = 0; i < s->tree.n; i++)
		if (s->tree.v[i].kind == 'd' && str_eq(s->tree.v[i].path, what))
			return THING_TREE;
	return THING_FILE;
}

int protect_baseline_state(const struct protect_baseline *b, const char *what,
			   struct protect_state **ret, struct err *err)
{
	char name[HASH_HEX];
	CLEANUP_PROTECT_STATE struct protect_state *s = xcalloc(1, sizeof *s);
	s->snapshot = (struct snapshot)SNAPSHOT_INIT;
	s->what = xstrdup(what);
	name_of(what, name);
	if (manifest_read(b->manifest, name, b->sha256, &s->snapshot, NULL) < 0)
		return damaged(what, err);
	s->thing = thing_of(what, &s->snapshot);
	*ret = take_ptr(s);
	return 0;
}

/* Older ones; one that can't be removed harms nobody. */
static void drop_others(int dir_fd, const char *name, const char *but)
{
	CLEANUP_DIR DIR *dir = fdopendir(openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	for (const struct dirent *d; dir && (d = readdir(dir));)
		if (str_starts(d->d_name, name) && str_ends(d->d_name, ".manifest") &&
		    !str_eq(d->d_name, but))
			(void)unlinkat(dir_fd, d->d_name, 0);
}

int protect_baseline_write(const struct config *c, const struct protect_state *s, const char *by,
			   struct err *err)
{
	CLEANUP_STR struct str text = { 0 };
	CLEANUP_FREE char *directory = path_join(c->home, "protect");
	CLEANUP_FREE char *shown = dburl_shown(s->what);
	char name[HASH_HEX], sha256[HASH_HEX], time[40];
	name_of(s->what, name);
	int r = fs_make_dirs(directory, 0700, err);
	CLEANUP_FD int fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (r >= 0 && fd < 0)
		r = err_errno(err, "open %s", directory);
	if (r < 0)
		return r;
	manifest_write(name, &s->snapshot, &text);
	hash_bytes(str_text(&text), text.length, sha256);
	CLEANUP_FREE char *manifest = xasprintf("%s.%.16s.manifest", name, sha256);
	CLEANUP_FREE char *file = xasprintf("%s.json", name);
	CLEANUP_JSON json_t *o = json_pack(
		"{s:s,s:o,s:s,s:s,s:o,s:o,s:s,s:s,s:s}", "format", FORMAT, "what", json_text(shown),
		"kind", protect_kind(s), "time", clock_write(clock_real_ns(), time, sizeof time),
		"files", json_u64(s->snapshot.fingerprint.files), "bytes",
		json_u64(s->snapshot.fingerprint.bytes), "stat",
		s->snapshot.fingerprint.hex[DEPTH_STAT], "manifest", manifest, "manifest_sha256",
		sha256);
	if (by)
		json_object_set_new(o, "by", json_text(by));
	r = fs_write_atomic(fd, manifest, str_text(&text), text.length, 0600, err);
	if (r >= 0)
		r = json_write_file(fd, file, o, err);
	if (r >= 0)
		drop_others(fd, name, manifest);
	return r;
}
