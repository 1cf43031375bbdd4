/* What the key of a result covers of a runtime's identity, and what that consisted of when the key was made. */
#include "runtime/key_items.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/path.h"
#include "runtime/fingerprint_parts.h"

#define KEPT_PREFIX "packages-"
#define KEPT_MAX    32          /* states of one runtime; the oldest goes */
#define LIST_MAX    (32u << 20) /* of one of them */
#define NAMED_MAX   3           /* differences that are named; the rest is counted */

static bool has_package(const struct items *items, const char *name)
{
	for (size_t i = 0; i < items->n; i++)
		if (str_eq(items->v[i].kind, "dpkg") && str_eq(items->v[i].name, name) &&
		    !str_eq(items->v[i].digest, "absent"))
			return true;
	return false;
}

/* "\n/usr/lib/x\n..." of all files of the packages, as dpkg lists them. */
static int files_of_packages(int root_fd, const struct items *items, struct str *ret,
			     struct err *err)
{
	str_add(ret, "\n");
	for (size_t i = 0; i < items->n; i++) {
		const struct item *item = &items->v[i];
		const struct dpkg_package p = { .name = item->name, .arch = item->where };
		CLEANUP_FREE char *list = NULL;
		if (!str_eq(item->kind, "dpkg") || str_eq(item->digest, "absent"))
			continue;
		int r = dpkg_info(root_fd, &p, "list", &list, err);
		if (r < 0)
			return r;
		str_add(ret, list ? list : "");
	}
	return 0;
}

static bool is_listed(const struct str *files, const char *path)
{
	CLEANUP_FREE char *line = xasprintf("\n%s\n", path);
	return strstr(str_text(files), line) != NULL;
}

/* Named by the entry itself; those that every runtime has by default are covered by their packages, or by the script that needs one. */
static bool is_said_program(const struct runtime *r, const char *path)
{
	for (size_t i = 0; i < r->n_interpreters; i++) {
		const struct interpreter *one = &r->interpreters[i];
		if (one->by_default || !one->argv.n)
			continue;
		if (str_eq(one->argv.v[0], path) || str_eq(path_base(path), one->argv.v[0]))
			return true;
	}
	return false;
}

static bool is_covered(const struct runtime *r, const struct items *items, const struct str *files,
		       const struct item *item)
{
	if (str_eq(item->kind, "program"))
		return is_said_program(r, item->name);
	if (str_eq(item->kind, "alternative"))
		return is_listed(files, item->digest);
	if (str_eq(item->kind, "python")) /* of /usr/local, where Python looks first */
		return has_package(items, "python3");
	return str_eq(item->kind, "dpkg");
}

static int take_items(const struct runtime *r, struct items *ret, struct err *err)
{
	CLEANUP_SNAPSHOT struct snapshot s = SNAPSHOT_INIT;
	CLEANUP_STR struct str files = { 0 };
	int code = snapshot_take(r, DEPTH_IDENTITY, TREE_ALL, NULL, &s, err);
	if (code < 0)
		return code;
	bool whole = r->kind != RUNTIME_SYSTEM || !r->packages.n;
	CLEANUP_FD int root_fd = whole ? -1
				       : open(runtime_base(r), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (!whole && root_fd < 0)
		return err_errno(err, "open '%s'", runtime_base(r));
	if (!whole)
		code = files_of_packages(root_fd, &s.items, &files, err);
	for (size_t i = 0; code >= 0 && i < s.items.n; i++) {
		const struct item *item = &s.items.v[i];
		if (whole || is_covered(r, &s.items, &files, item))
			items_add(ret, item->kind, item->name, item->version, item->where,
				  item->digest);
	}
	return code;
}

/* In HOME/cache/identity, which says for the identity before what it stands for: "IDENTITY COVERED". */
static char *cache_path(const struct config *c, const struct runtime *r)
{
	return xasprintf("%s/cache/identity/%s.covered", c->home, r->name);
}

static bool cache_get(const char *path, const char *identity, char ret_hex[HASH_HEX])
{
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;
	if (fs_read_capped(AT_FDCWD, path, 1024, &text, &length, NULL) < 0 ||
	    length != 2 * HASH_HEX || strncmp(text, identity, HASH_HEX - 1) != 0 ||
	    strspn(text + HASH_HEX, "0123456789abcdef") != HASH_HEX - 1)
		return false;
	memcpy(ret_hex, text + HASH_HEX, HASH_HEX - 1);
	ret_hex[HASH_HEX - 1] = '\0';
	return true;
}

int key_identity(const struct config *c, const struct runtime *r, const char *identity,
		 char ret_hex[HASH_HEX], struct err *err)
{
	CLEANUP(items_release) struct items items = { 0 };
	if (r->kind != RUNTIME_SYSTEM || !r->packages.n) {
		memcpy(ret_hex, identity, HASH_HEX);
		return 0;
	}
	CLEANUP_FREE char *path = cache_path(c, r);
	if (cache_get(path, identity, ret_hex))
		return 0;
	int code = take_items(r, &items, err);
	if (code < 0)
		return code;
	items_sort(&items);
	items_digest(&items, ret_hex);
	CLEANUP_FREE char *text = xasprintf("%s %s\n", identity, ret_hex);
	(void)fs_write_atomic(AT_FDCWD, path, text, strlen(text), 0644, NULL);
	return 0;
}

static char *kept_directory(const struct config *c, const char *runtime)
{
	return xasprintf("%s/runtimes/%s", c->home, runtime);
}

/* Of many states the oldest one goes, by the time of its file. */
static void drop_oldest(const char *directory)
{
	CLEANUP_DIR DIR *dir = opendir(directory);
	CLEANUP_FREE char *oldest = NULL;
	struct timespec then = { 0 };
	size_t n = 0;
	for (const struct dirent *entry; dir && (entry = readdir(dir));) {
		struct stat st;
		if (!str_starts(entry->d_name, KEPT_PREFIX) ||
		    fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		n++;
		if (oldest &&
		    (st.st_mtim.tv_sec > then.tv_sec ||
		     (st.st_mtim.tv_sec == then.tv_sec && st.st_mtim.tv_nsec >= then.tv_nsec)))
			continue;
		free(oldest);
		oldest = xstrdup(entry->d_name);
		then = st.st_mtim;
	}
	if (n > KEPT_MAX)
		(void)unlinkat(dirfd(dir), oldest, 0);
}

void key_items_keep(const struct config *c, const struct runtime *r, const char *part)
{
	CLEANUP_SNAPSHOT struct snapshot s = SNAPSHOT_INIT;
	CLEANUP_STR struct str text = { 0 };
	CLEANUP_FREE char *directory = kept_directory(c, r->name);
	CLEANUP_FREE char *path = xasprintf("%s/" KEPT_PREFIX "%s", directory, part);
	/* Whoever only asks makes no home. */
	if (access(path, F_OK) == 0 || access(c->home, W_OK) < 0 ||
	    fs_make_dirs(directory, 0700, NULL) < 0 || take_items(r, &s.items, NULL) < 0)
		return;
	items_sort(&s.items);
	manifest_write(r->name, &s, &text);
	if (fs_write_atomic(AT_FDCWD, path, str_text(&text), text.length, 0644, NULL) >= 0)
		drop_oldest(directory);
}

static bool kept_read(const struct config *c, const char *runtime, const char *part,
		      struct snapshot *ret)
{
	CLEANUP_FREE char *directory = kept_directory(c, runtime);
	CLEANUP_FREE char *path = xasprintf("%s/" KEPT_PREFIX "%s", directory, part);
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;
	return !strchr(runtime, '/') && strspn(part, "0123456789abcdef") == strlen(part) &&
	       fs_read_capped(AT_FDCWD, path, LIST_MAX, &text, &length, NULL) >= 0 &&
	       manifest_parse(path, runtime, text, length, ret, NULL) >= 0;
}

char *key_items_difference(const struct config *c, const char *runtime, const char *then,
			   const char *now)
{
	CLEANUP_SNAPSHOT struct snapshot before = SNAPSHOT_INIT, after = SNAPSHOT_INIT;
	CLEANUP_DRIFTS struct drifts found = { 0 };
	struct str text = { 0 };
	if (!kept_read(c, runtime, then, &before) || !kept_read(c, runtime, now, &after))
		return NULL;
	drifts_items(&found, &before.items, &after.items);
	for (size_t i = 0; i < found.n && i < NAMED_MAX; i++)
		str_addf(&text, "%s%s%s%s", i ? ", " : "", found.v[i].what,
			 found.v[i].detail ? ": " : "", found.v[i].detail ? found.v[i].detail : "");
	if (found.n_all > NAMED_MAX)
		str_addf(&text, " and %llu more", (unsigned long long)(found.n_all - NAMED_MAX));
	return text.length ? str_take(&text) : NULL;
}
