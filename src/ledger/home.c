/* The home's side of the ledger: its id, the marks of what is owed, the lock of whoever delivers, and how that went last. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/path.h"
#include "ledger/parts.h"
#include "spec/id.h"

#define STATE_MAX 65536

static int open_home(const struct config *c, struct err *err)
{
	int fd = open(c->home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_errno(err, "open %s", c->home) : fd;
}

static bool is_home_id(const char *text)
{
	return strlen(text) == HOME_ID - 1 && strspn(text, "0123456789abcdef") == HOME_ID - 1;
}

int home_id(const struct config *c, char ret[HOME_ID], struct err *err)
{
	char text[64] = "";
	CLEANUP_FD int home_fd = open_home(c, err);
	if (home_fd < 0)
		return home_fd;
	(void)fs_read_small(home_fd, "ledger.id", text, sizeof text);
	if (!is_home_id(text))
		return err_set(err, ERR_HOST, ENOENT, "%s has never delivered to a ledger",
			       c->home);
	memcpy(ret, text, HOME_ID);
	return 0;
}

/* Not through a temporary file, which a crash would leave: half an id is none, and nothing was entered under it yet. */
int home_id_make(const struct config *c, char ret[HOME_ID], struct err *err)
{
	uint64_t chance = 0;
	char text[HOME_ID + 1];
	if (home_id(c, ret, NULL) >= 0)
		return 0;
	CLEANUP_FD int home_fd = open_home(c, err);
	if (home_fd < 0)
		return home_fd;
	if (getrandom(&chance, sizeof chance, 0) != sizeof chance)
		return err_errno(err, "choose an id for %s", c->home);
	(void)snprintf(text, sizeof text, "%016llx\n", (unsigned long long)chance);
	CLEANUP_FD int fd = openat(home_fd, "ledger.id",
				   O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || fs_write_all(fd, text, HOME_ID) < 0 || fsync(fd) < 0 || fsync(home_fd) < 0)
		return err_errno(err, "write %s/ledger.id", c->home);
	return home_id(c, ret, err);
}

/* A POSIX lock, as active/ID has: it ends with its process, however that ends. */
int home_lock(const struct config *c, enum ledger_wait wait, int *ret_fd, struct err *err)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	CLEANUP_FD int home_fd = open_home(c, err);
	if (home_fd < 0)
		return home_fd;
	CLEANUP_FD int fd =
		fs_open_beneath(home_fd, "ledger.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_set(err, ERR_HOST, -fd, "open %s/ledger.lock: %s", c->home,
			       strerrordesc_np(-fd));
	int r;
	do
		r = fcntl(fd, wait == LEDGER_WAIT ? F_SETLKW : F_SETLK, &lock);
	while (r < 0 && errno == EINTR);
	if (r < 0) {
		if (errno == EAGAIN || errno == EACCES)
			return err_set(err, ERR_HOST, EBUSY,
				       "another process is delivering to the ledger of %s",
				       c->home);
		return err_errno(err, "lock %s/ledger.lock", c->home);
	}
	*ret_fd = take_fd(&fd);
	return 0;
}

bool home_is_locked(const struct config *c)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	CLEANUP_FREE char *path = path_join(c->home, "ledger.lock");
	CLEANUP_FD int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	return fd >= 0 && fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

int home_owe(const struct config *c, const char *id, struct err *err)
{
	CLEANUP_FREE char *directory = path_join(c->home, "undelivered");
	CLEANUP_FREE char *path = path_join(directory, id);
	if (mkdir(directory, 0700) < 0 && errno != EEXIST)
		return err_errno(err, "make %s", directory);
	CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 ? err_errno(err, "make %s", path) : 0;
}

void home_settle(const struct config *c, const char *id)
{
	CLEANUP_FREE char *path = xasprintf("%s/undelivered/%s", c->home, id);
	(void)unlink(path); /* what stays is entered again, which changes nothing */
}

void home_boot(char ret[64])
{
	ret[0] = '\0';
	(void)fs_read_small(AT_FDCWD, "/proc/sys/kernel/random/boot_id", ret, 64);
}

/* Not the URL itself: it may hold a password. */
static void url_tag(const struct config *c, char ret[HASH_TAG])
{
	hash_tag(c->ledger_url ? c->ledger_url : "", ret);
}

json_t *home_state(const struct config *c)
{
	json_t *state = NULL;
	CLEANUP_FD int home_fd = open_home(c, NULL);
	if (home_fd >= 0)
		(void)json_read_file(home_fd, "ledger.json", STATE_MAX, &state, NULL);
	return json_is_object(state) ? state : (json_decref(state), json_object());
}

bool home_is_reconciled(const struct config *c, const json_t *state)
{
	char boot[64], tag[HASH_TAG];
	home_boot(boot);
	url_tag(c, tag);
	return str_eq(json_string_value(json_object_get(state, "boot")), boot) &&
	       str_eq(json_string_value(json_object_get(state, "url")), tag);
}

/* Not synced: after a crash of the host it says nothing that counts. */
void home_state_write(const struct config *c, enum home_reconciled reconciled, const char *error)
{
	char boot[64], tag[HASH_TAG], time[40];
	CLEANUP_JSON json_t *state = home_state(c);
	CLEANUP_FREE char *path = path_join(c->home, "ledger.json");
	if (reconciled == HOME_RECONCILED) {
		home_boot(boot);
		url_tag(c, tag);
		json_object_set_new(state, "boot", json_string(boot));
		json_object_set_new(state, "url", json_string(tag));
		json_object_set_new(state, "chain", json_string(boot));
	}
	json_object_set_new(state, "time",
			    json_string(clock_write(clock_real_ns(), time, sizeof time)));
	json_object_set_new(state, "error", error ? json_text(error) : json_null());
	CLEANUP_FREE char *text = json_dumps(state, JSON_COMPACT);
	CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0 && text)
		(void)fs_write_all(fd, text, strlen(text));
}

void home_state_forget(const struct config *c)
{
	CLEANUP_FREE char *path = path_join(c->home, "ledger.json");
	(void)unlink(path);
}

/* A mark is what active/ID was, or empty: nobody else reads it. */
static const char chained[] = "\nchained\n";

bool home_is_chained(const struct config *c, const char *id)
{
	char end[sizeof chained] = "";
	struct stat st = { 0 };
	CLEANUP_FREE char *path = xasprintf("%s/undelivered/%s", c->home, id);
	CLEANUP_FD int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	const off_t n = sizeof chained - 1;
	return fd >= 0 && fstat(fd, &st) == 0 && st.st_size >= n &&
	       pread(fd, end, (size_t)n, st.st_size - n) == n && str_eq(end, chained);
}

/* Not synced, and it may fail: without it the chain is asked. */
void home_mark_chained(const struct config *c, const char *id)
{
	CLEANUP_FREE char *path = xasprintf("%s/undelivered/%s", c->home, id);
	CLEANUP_FD int fd = open(path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		(void)fs_append(fd, chained, sizeof chained - 1);
}

bool home_is_scanned(const json_t *state)
{
	char boot[64];
	home_boot(boot);
	return str_eq(json_string_value(json_object_get(state, "chain")), boot);
}
