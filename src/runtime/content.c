#include "runtime/content.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/path.h"
#include "runtime/state.h"

#define FORMAT   "cupel-content 1"
#define FILE_MAX 65536

/* identity, stat, content; "" where it is not known. */
struct known {
	struct fingerprint f;
	uint64_t looked_ns; /* when the stat depth was looked at; 0: long ago */
};

static const char *place_of(const struct runtime *r)
{
	const char *place = r->prefix ? r->prefix : r->root;
	return place ? place : "";
}

static char *file_path(const struct content_request *q)
{
	char tag[HASH_TAG];
	hash_tag(place_of(q->runtime), tag);
	return xasprintf("%s/runtimes/%s/content-%s.json", q->config->home, q->runtime->name, tag);
}

static bool is_hex(const char *text)
{
	return text && strlen(text) == HASH_HEX - 1 &&
	       strspn(text, "0123456789abcdef") == HASH_HEX - 1;
}

/* Anything but what remember() writes, of this runtime, counts as nothing. */
static bool recall(const struct content_request *q, struct known *ret)
{
	CLEANUP_FREE char *path = file_path(q);
	CLEANUP_JSON json_t *o = NULL;
	struct known k = { 0 };
	if (json_read_file(AT_FDCWD, path, FILE_MAX, &o, NULL) < 0)
		return false;
	const char *time = json_string_value(json_object_get(o, "looked"));
	if (!str_eq(json_string_value(json_object_get(o, "format")), FORMAT) ||
	    !str_eq(json_string_value(json_object_get(o, "place")), place_of(q->runtime)) ||
	    !time || clock_read(time, &k.looked_ns) < 0)
		return false;
	for (int i = 0; i < DEPTH_COUNT_; i++) {
		const char *hex = json_string_value(json_object_get(o, depth_names[i]));
		if (!is_hex(hex))
			return false;
		memcpy(k.f.hex[i], hex, HASH_HEX);
	}
	*ret = k;
	return true;
}

static void remember(const struct content_request *q, const struct fingerprint *f, uint64_t now_ns)
{
	CLEANUP_FREE char *path = file_path(q);
	CLEANUP_FREE char *directory = path_parent(path);
	CLEANUP_JSON json_t *o = json_object();
	char time[40];
	json_object_set_new(o, "format", json_string(FORMAT));
	json_object_set_new(o, "place", json_text(place_of(q->runtime)));
	for (int i = 0; i < DEPTH_COUNT_; i++)
		json_object_set_new(o, depth_names[i], json_string(f->hex[i]));
	json_object_set_new(o, "looked", json_string(clock_write(now_ns, time, sizeof time)));
	/* Whoever only asks makes no home. */
	if (access(q->config->home, W_OK) == 0 && fs_make_dirs(directory, 0700, NULL) >= 0)
		(void)json_write_file(AT_FDCWD, path, o, NULL);
}

static bool is_recent(uint64_t then_ns, uint64_t now_ns)
{
	return then_ns <= now_ns && now_ns - then_ns < CONTENT_LOOK_NS;
}

/* The content that goes with this stat depth, if anybody has read it. */
static bool read_before(const struct content_request *q, const struct known *own,
			const struct fingerprint *now, char ret_hex[HASH_HEX])
{
	CLEANUP_RUNTIME_STATE struct runtime_state state = { 0 };
	CLEANUP_LOCK struct lock lock = { 0 };
	(void)state_read(q->config, q->runtime->name, &state, NULL);
	(void)lock_read(q->runtime, &lock, NULL);
	const struct fingerprint *const all[] = { &own->f, &state.fingerprint, &lock.fingerprint };
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		if (!str_eq(all[i]->hex[DEPTH_IDENTITY], now->hex[DEPTH_IDENTITY]) ||
		    !str_eq(all[i]->hex[DEPTH_STAT], now->hex[DEPTH_STAT]) ||
		    !is_hex(all[i]->hex[DEPTH_CONTENT]))
			continue;
		memcpy(ret_hex, all[i]->hex[DEPTH_CONTENT], HASH_HEX);
		return true;
	}
	return false;
}

int runtime_content(const struct content_request *q, char ret_hex[HASH_HEX], struct err *err)
{
	struct known own = { 0 };
	struct fingerprint now = { 0 };
	uint64_t now_ns = clock_real_ns();
	if (q->runtime->kind == RUNTIME_IMAGE && q->runtime->digest) {
		hash_bytes(q->runtime->digest, strlen(q->runtime->digest), ret_hex);
		return 0;
	}
	bool is_known = recall(q, &own);
	if (is_known && is_recent(own.looked_ns, now_ns) &&
	    str_eq(own.f.hex[DEPTH_IDENTITY], q->identity)) {
		memcpy(ret_hex, own.f.hex[DEPTH_CONTENT], HASH_HEX);
		return 0;
	}
	int r = fingerprint_take(q->runtime, DEPTH_STAT, q->progress, &now, err);
	if (r >= 0 && !read_before(q, &own, &now, now.hex[DEPTH_CONTENT]))
		r = fingerprint_take(q->runtime, DEPTH_CONTENT, q->progress, &now, err);
	if (r < 0)
		return r;
	remember(q, &now, now_ns);
	memcpy(ret_hex, now.hex[DEPTH_CONTENT], HASH_HEX);
	return 0;
}

/* Those that Debian calls essential, as far as an analysis can have use for them; with what they depend on. */
static const char *const essential[] = { "bash",        "bsdutils",  "coreutils", "dash",
					 "debianutils", "diffutils", "findutils", "gawk",
					 "grep",        "gzip",      "libc-bin",  "mawk",
					 "perl-base",   "sed",       "tar",       "util-linux" };

/* The host's packages as a runtime without an entry. */
static int packages_content(const struct config *config, const char *name,
			    const struct strv *packages,
			    const struct fingerprint_progress *progress, char ret_hex[HASH_HEX],
			    struct err *err)
{
	CLEANUP_RUNTIME struct runtime host = { 0 };
	CLEANUP_FREE char *cache = path_join(config->home, "cache/identity");
	struct fingerprint f = { 0 };
	runtime_system(config, &host);
	free(host.name);
	host.name = xstrdup(name);
	free(host.lock);
	host.lock = NULL;
	strv_copy(&host.packages, packages);
	int r = fingerprint_identity(&host, cache, &f, err);
	const struct content_request q = { .config = config,
					   .runtime = &host,
					   .identity = f.hex[DEPTH_IDENTITY],
					   .progress = progress };
	return r < 0 ? r : runtime_content(&q, ret_hex, err);
}

int host_content(const struct config *config, const struct fingerprint_progress *progress,
		 char ret_hex[HASH_HEX], struct err *err)
{
	CLEANUP_STRV struct strv packages = { 0 };
	for (size_t i = 0; i < sizeof essential / sizeof *essential; i++)
		strv_add(&packages, essential[i]);
	return packages_content(config, CONTENT_HOST, &packages, progress, ret_hex, err);
}

int package_content(const struct config *config, const char *package,
		    const struct fingerprint_progress *progress, char ret_hex[HASH_HEX],
		    struct err *err)
{
	CLEANUP_STRV struct strv packages = { 0 };
	CLEANUP_FREE char *name = xasprintf(CONTENT_HOST "-%s", package);
	strv_add(&packages, package);
	return packages_content(config, name, &packages, progress, ret_hex, err);
}
