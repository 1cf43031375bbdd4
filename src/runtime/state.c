/* HOME/runtimes/NAME/state.json, and whether a runtime may be run in. */
#include "runtime/state.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/fs.h"
#include "base/path.h"

#define STATE_MAX (4 << 20)
#define DPKG_INFO "/var/lib/dpkg/info"
#if defined(__x86_64__)
#define DPKG_ARCH "amd64"
#elif defined(__aarch64__)
#define DPKG_ARCH "arm64"
#else
#define DPKG_ARCH "none"
#endif

const char *const health_names[] = { [HEALTH_UNKNOWN] = "unknown",
				     [HEALTH_HEALTHY] = "healthy",
				     [HEALTH_DEGRADED] = "degraded",
				     [HEALTH_BROKEN] = "broken" };

void runtime_state_release(struct runtime_state *s)
{
	free(s->reason);
	free(s->verified_time);
	json_decref(s->checks);
	json_decref(s->drift);
	*s = (struct runtime_state){ 0 };
}

static char *state_path(const struct config *config, const char *name)
{
	return xasprintf("%s/runtimes/%s/state.json", config->home, name);
}

static char *copy_text(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));
	return text ? xstrdup(text) : NULL;
}

/* The index of the word under `key`; -1 if it is none of them. */
static int find_word(const json_t *o, const char *key, const char *const *words, int count)
{
	const char *text = json_string_value(json_object_get(o, key));
	for (int i = 0; i < count; i++)
		if (str_eq(text, words[i]))
			return i;
	return -1;
}

static void read_fingerprint(const json_t *o, struct fingerprint *ret)
{
	for (int i = 0; i < DEPTH_COUNT_; i++) {
		const char *hex = json_string_value(json_object_get(o, depth_names[i]));
		if (hex && strlen(hex) == HASH_HEX - 1)
			memcpy(ret->hex[i], hex, HASH_HEX);
	}
	ret->files = (uint64_t)json_integer_value(json_object_get(o, "files"));
	ret->bytes = (uint64_t)json_integer_value(json_object_get(o, "bytes"));
}

int state_read(const struct config *config, const char *name, struct runtime_state *ret,
	       struct err *err)
{
	CLEANUP_JSON json_t *o = NULL;
	CLEANUP_FREE char *path = state_path(config, name);
	struct runtime_state s = { 0 };
	int r = json_read_file(AT_FDCWD, path, STATE_MAX, &o, err);
	if (r == -ENOENT) {
		*ret = s;
		return 0;
	}
	if (r < 0)
		return r;
	int health = find_word(o, "health", health_names, HEALTH_COUNT_);
	int depth = find_word(o, "verified_depth", depth_names, DEPTH_COUNT_);
	if (health < 0)
		return err_set(err, ERR_HOST, EBADMSG,
			       "%s does not say a health. Remedy: cupel runtime check %s", path,
			       name);
	s.health = (enum health)health;
	s.verified_depth = depth < 0 ? DEPTH_IDENTITY : (enum depth)depth;
	s.reason = copy_text(o, "reason");
	s.verified_time = copy_text(o, "verified_time");
	read_fingerprint(json_object_get(o, "fingerprint"), &s.fingerprint);
	s.checks = json_incref(json_object_get(o, "checks"));
	s.drift = json_incref(json_object_get(o, "drift"));
	*ret = s;
	return 0;
}

json_t *fingerprint_json(const struct fingerprint *f)
{
	json_t *o = json_object();
	for (int i = 0; i < DEPTH_COUNT_; i++)
		if (f->hex[i][0])
			json_object_set_new(o, depth_names[i], json_string(f->hex[i]));
	if (f->files) {
		json_object_set_new(o, "files", json_u64(f->files));
		json_object_set_new(o, "bytes", json_u64(f->bytes));
	}
	return o;
}

int state_write(const struct config *config, const char *name, const struct runtime_state *s,
		struct err *err)
{
	CLEANUP_FREE char *path = state_path(config, name);
	CLEANUP_FREE char *directory = path_parent(path);
	CLEANUP_JSON json_t *o = json_object();
	json_object_set_new(o, "health", json_string(health_names[s->health]));
	json_object_set_new(o, "verified_depth", json_string(depth_names[s->verified_depth]));
	json_object_set_new(o, "fingerprint", fingerprint_json(&s->fingerprint));
	if (s->reason)
		json_object_set_new(o, "reason", json_text(s->reason));
	if (s->verified_time)
		json_object_set_new(o, "verified_time", json_text(s->verified_time));
	if (s->checks)
		json_object_set(o, "checks", s->checks);
	if (s->drift)
		json_object_set(o, "drift", s->drift);
	int r = fs_make_dirs(directory, 0700, err);
	return r < 0 ? r : json_write_file(AT_FDCWD, path, o, err);
}

static bool has_package(const char *name)
{
	CLEANUP_FREE char *plain = xasprintf(DPKG_INFO "/%s.list", name);
	CLEANUP_FREE char *by_arch = xasprintf(DPKG_INFO "/%s:" DPKG_ARCH ".list", name);
	return access(plain, F_OK) == 0 || access(by_arch, F_OK) == 0;
}

/* What the entry says the host has; only where Debian's own records tell. */
static int fit_packages(const struct runtime *r, struct err *err)
{
	CLEANUP_STR struct str missing = { 0 };
	if (!r->packages.n || access(DPKG_INFO, F_OK) < 0)
		return 0;
	for (size_t i = 0; i < r->packages.n; i++)
		if (!has_package(r->packages.v[i]))
			str_addf(&missing, " %s", r->packages.v[i]);
	if (!missing.length)
		return 0;
	return err_set(err, ERR_HOST, ESTALE,
		       "runtime '%s' lacks packages. Remedy: apt-get install%s", r->name,
		       str_text(&missing));
}

static int fit_lock(const struct runtime *r, const struct fingerprint *now, struct err *err)
{
	CLEANUP_LOCK struct lock lock = { 0 };
	struct err why = { 0 };
	if (lock_read(r, &lock, &why) < 0)
		return err_set(
			err, ERR_HOST, ESTALE,
			"the lock of runtime '%s' can't be read: %s. Remedy: restore it, or take it anew: cupel runtime lock %s",
			r->name, why.text, r->name);
	const char *locked = lock.fingerprint.hex[DEPTH_IDENTITY];
	if (!lock.exists || str_eq(locked, now->hex[DEPTH_IDENTITY]))
		return 0;
	return err_set(
		err, ERR_HOST, ESTALE,
		"runtime '%s' differs from its lock of %s: identity %.12s is now %.12s. Remedy: cupel runtime check %s "
		"names the difference; undo it, or accept it with cupel runtime lock %s",
		r->name, lock.time ? lock.time : "unknown date", locked, now->hex[DEPTH_IDENTITY],
		r->name, r->name);
}

/* What a check found holds as long as the runtime is the same. */
static int fit_state(const struct config *config, const struct runtime *r,
		     const struct fingerprint *now, struct err *err)
{
	CLEANUP_RUNTIME_STATE struct runtime_state s = { 0 };
	struct err why = { 0 };
	if (state_read(config, r->name, &s, &why) < 0)
		return err_set(err, ERR_HOST, ESTALE,
			       "what is known of runtime '%s' can't be read: %s. Remedy: cupel "
			       "runtime check %s",
			       r->name, why.text, r->name);
	bool unfit = s.health == HEALTH_DEGRADED || s.health == HEALTH_BROKEN;
	if (!unfit || !str_eq(s.fingerprint.hex[DEPTH_IDENTITY], now->hex[DEPTH_IDENTITY]))
		return 0;
	return err_set(err, ERR_HOST, ESTALE,
		       "runtime '%s' is %s (checked %s): %s. Remedy: repair it, then cupel "
		       "runtime check %s",
		       r->name, health_names[s.health],
		       s.verified_time ? s.verified_time : "at an unknown time",
		       s.reason ? s.reason : "no reason was recorded", r->name);
}

int runtime_fit(const struct config *config, const struct runtime *r, struct fingerprint *ret,
		struct err *err)
{
	struct fingerprint now = { 0 };
	CLEANUP_FREE char *cache = path_join(config->home, "cache/identity");
	int e = fingerprint_identity(r, cache, &now, err);
	if (e < 0)
		return e;
	*ret = now;
	e = fit_packages(r, err);
	if (e >= 0)
		e = fit_lock(r, &now, err);
	return e < 0 ? e : fit_state(config, r, &now, err);
}
