#include "collect/keyed.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/str.h"
#include "collect/outputs.h"
#include "spec/id.h"

#define HEAD      "cupel-finished 1 " /* and the digest of what follows its line */
#define HEAD_SIZE (sizeof HEAD - 1 + HASH_HEX)
#define SHELVES   256
#define NAME_SIZE (HASH_HEX - 3) /* the digits after the first two */

static bool is_hex(const char *text, size_t n)
{
	return strlen(text) == n && strspn(text, "0123456789abcdef") == n;
}

bool keyed_is_key(const char *key)
{
	return key && is_hex(key, HASH_HEX - 1);
}

/* "ab/cdef..." */
static void place_of(const char *key, char ret[HASH_HEX + 1])
{
	(void)snprintf(ret, HASH_HEX + 1, "%.2s/%s", key, key + 2);
}

/* Names of directories that are new are durable before what is in them is. */
static int shelf_open(int home_fd, const char *key, struct err *err)
{
	char shelf[sizeof "keys/ab"];
	(void)snprintf(shelf, sizeof shelf, "keys/%.2s", key);
	if (mkdirat(home_fd, "keys", 0700) < 0 && errno != EEXIST)
		return err_errno(err, "make the directory of keys");
	CLEANUP_FD int keys_fd = fs_open_beneath(home_fd, "keys", O_RDONLY | O_DIRECTORY, 0);
	bool is_new = keys_fd >= 0 && mkdirat(keys_fd, shelf + sizeof "keys", 0700) == 0;
	int fd = keys_fd < 0 ? keys_fd : fs_open_beneath(home_fd, shelf, O_RDONLY | O_DIRECTORY, 0);
	if (fd >= 0 && is_new && (fsync(keys_fd) < 0 || fsync(home_fd) < 0)) {
		int r = err_errno(err, "sync the directory of keys");
		(void)close(fd);
		return r;
	}
	return fd < 0 ? err_set(err, ERR_HOST, -fd, "open %s in the home: %s", shelf,
				strerrordesc_np(-fd))
		      : fd;
}

int keyed_write(int home_fd, const char *key, const json_t *entry, struct err *err)
{
	CLEANUP_STR struct str text = { 0 };
	CLEANUP_FREE char *body = json_dumps(entry, JSON_COMPACT | JSON_SORT_KEYS);
	char hex[HASH_HEX];
	CLEANUP_FD int shelf_fd = shelf_open(home_fd, key, err);
	if (shelf_fd < 0)
		return shelf_fd;
	hash_bytes(body, strlen(body), hex);
	str_addf(&text, HEAD "%s\n", hex);
	str_add(&text, body);
	return fs_write_atomic(shelf_fd, key + 2, text.text, text.length, 0600, err);
}

static int parse(const char *key, const char *text, size_t length, json_t **ret)
{
	char hex[HASH_HEX];
	if (length < HEAD_SIZE || strncmp(text, HEAD, sizeof HEAD - 1) != 0 ||
	    text[HEAD_SIZE - 1] != '\n')
		return -EBADMSG;
	hash_bytes(text + HEAD_SIZE, length - HEAD_SIZE, hex);
	if (memcmp(hex, text + sizeof HEAD - 1, HASH_HEX - 1) != 0)
		return -EBADMSG;
	CLEANUP_JSON json_t *o =
		json_loadb(text + HEAD_SIZE, length - HEAD_SIZE, JSON_REJECT_DUPLICATES, NULL);
	const char *run = json_string_value(json_object_get(o, "run"));
	if (!run || id_check(run, NULL) < 0 || !json_is_array(json_object_get(o, "outputs")) ||
	    !str_eq(json_string_value(json_object_get(o, "key")), key))
		return -EBADMSG;
	*ret = take_ptr(o);
	return 0;
}

int keyed_read(int keys_fd, const char *key, json_t **ret)
{
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;
	char place[HASH_HEX + 1];
	if (!keyed_is_key(key))
		return -ENOENT;
	place_of(key, place);
	int r = fs_read_capped(keys_fd, place, MANIFEST_MAX, &text, &length, NULL);
	if (r == -EFBIG || r == -EINVAL || r == -ELOOP)
		return -EBADMSG;
	return r < 0 ? r : parse(key, text, length, ret);
}

void keyed_drop(int keys_fd, const char *key)
{
	char place[HASH_HEX + 1];
	place_of(key, place);
	(void)unlinkat(keys_fd, place, 0);
}

/* An entry that can't be read just now may be a good one. */
static bool is_of_use(int home_fd, int keys_fd, const char *key)
{
	CLEANUP_JSON json_t *entry = NULL;
	struct stat st = { 0 };
	int r = keyed_read(keys_fd, key, &entry);
	if (r < 0)
		return r != -EBADMSG;
	CLEANUP_FREE char *verdict =
		xasprintf("runs/%s/verdict.json", json_string_value(json_object_get(entry, "run")));
	return fstatat(home_fd, verdict, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

/* All names first: entries vanish meanwhile. */
static void list_shelf(int keys_fd, const char *shelf, struct strv *ret)
{
	int fd = fs_open_beneath(keys_fd, shelf, O_RDONLY | O_DIRECTORY, 0);
	CLEANUP_DIR DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (fd >= 0 && !dir)
		(void)close(fd);
	for (const struct dirent *d; dir && (d = readdir(dir));)
		if (is_hex(d->d_name, NAME_SIZE))
			strv_addf(ret, "%s%s", shelf, d->d_name);
}

int keyed_prune(int home_fd, enum store_prune act, uint64_t *ret_entries, struct err *err)
{
	CLEANUP_FD int keys_fd = fs_open_beneath(home_fd, "keys", O_RDONLY | O_DIRECTORY, 0);
	uint64_t entries = 0;
	if (keys_fd < 0 && keys_fd != -ENOENT)
		return err_set(err, ERR_HOST, -keys_fd, "open the directory of keys: %s",
			       strerrordesc_np(-keys_fd));
	for (unsigned i = 0; keys_fd >= 0 && i < SHELVES; i++) {
		CLEANUP_STRV struct strv keys = { 0 };
		char shelf[3];
		(void)snprintf(shelf, sizeof shelf, "%02x", i);
		list_shelf(keys_fd, shelf, &keys);
		for (size_t k = 0; k < keys.n; k++) {
			if (is_of_use(home_fd, keys_fd, keys.v[k]))
				continue;
			entries++;
			if (act == STORE_REMOVE)
				keyed_drop(keys_fd, keys.v[k]);
		}
	}
	*ret_entries = entries;
	return 0;
}
