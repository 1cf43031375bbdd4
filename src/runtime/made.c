/* Locks, notes and names below HOME/runtimes. */
#include "runtime/made.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "spec/id.h"

#define MAKING_DIR        ".making"
#define GENERATION_PREFIX "g-"
#define NOTE_MAX          (16 * 1024)
#define ENTRY_MAX         (1 << 20)
#define CREATED_MAX       (4 << 20)

static const char *const act_names[] = { "nothing", "create", "remove" };

void making_release(struct making *m)
{
	cleanup_fd(&m->lock_fd);
	cleanup_fd(&m->runtimes_fd);
	cleanup_free(&m->name);
	cleanup_free(&m->path);
	cleanup_free(&m->generation);
	cleanup_free(&m->entry);
	m->act = MAKING_NOTHING;
}

/* "ACT\nGENERATION or -\nENTRY\n"; a torn note is none, and was made before anything else was. */
static void read_note(struct making *m)
{
	CLEANUP_FREE char *text = xcalloc(1, NOTE_MAX + 1);
	char *lines[3];
	char *at = text;
	if (pread(m->lock_fd, text, NOTE_MAX, 0) <= 0)
		return;
	for (int i = 0; i < 3; i++) {
		char *end = strchr(at, '\n');
		if (!end)
			return;
		*end = '\0';
		lines[i] = at;
		at = end + 1;
	}
	for (int i = MAKING_CREATE; i <= MAKING_REMOVE; i++)
		if (str_eq(lines[0], act_names[i]))
			m->act = (enum making_act)i;
	if (str_starts(lines[1], GENERATION_PREFIX) && id_check(lines[1], NULL) >= 0)
		m->generation = xstrdup(lines[1]);
	m->entry = lines[2][0] == '/' ? xstrdup(lines[2]) : NULL;
}

/* Whoever finishes unlinks the file while another waits for it: what was locked must still be what the name says. */
static bool still_named(int dir_fd, const char *name, int fd)
{
	struct stat by_name = { 0 }, by_fd = { 0 };
	return fstatat(dir_fd, name, &by_name, AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstat(fd, &by_fd) == 0 && by_name.st_ino == by_fd.st_ino &&
	       by_name.st_dev == by_fd.st_dev;
}

static int lock_file(int runtimes_fd, const char *path)
{
	for (int i = 0; i < 100; i++) {
		CLEANUP_FD int fd = fs_open_beneath(runtimes_fd, path, O_RDWR | O_CREAT, 0600);
		if (fd < 0)
			return fd;
		if (flock(fd, LOCK_EX | LOCK_NB) < 0)
			return errno == EWOULDBLOCK ? -EAGAIN : -errno;
		if (still_named(runtimes_fd, path, fd))
			return take_fd(&fd);
	}
	return -EAGAIN;
}

int making_lock(const char *home, const char *name, struct making *ret, struct err *err)
{
	CLEANUP_MAKING struct making m = MAKING_INIT;
	CLEANUP_FREE char *runtimes = xasprintf("%s/runtimes", home);
	CLEANUP_FREE char *lock = xasprintf(MAKING_DIR "/%s", name);
	int r = id_check(name, err);
	if (r >= 0)
		r = fs_make_dirs(runtimes, 0755, err);
	if (r < 0)
		return r;
	m.name = xstrdup(name);
	m.path = xasprintf("%s/%s", runtimes, name);
	m.runtimes_fd = open(runtimes, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (m.runtimes_fd < 0 || (mkdirat(m.runtimes_fd, MAKING_DIR, 0700) < 0 && errno != EEXIST))
		return err_errno(err, "open %s", runtimes);
	m.lock_fd = lock_file(m.runtimes_fd, lock);
	if (m.lock_fd == -EAGAIN)
		return -EAGAIN;
	if (m.lock_fd < 0)
		return err_set(err, ERR_HOST, -m.lock_fd, "lock %s/%s: %s", runtimes, lock,
			       strerrordesc_np(-m.lock_fd));
	read_note(&m);
	*ret = m;
	m = (struct making)MAKING_INIT;
	return 0;
}

int making_note(struct making *m, enum making_act act, const char *generation, const char *entry,
		struct err *err)
{
	CLEANUP_FREE char *text = xasprintf("%s\n%s\n%s\n", act_names[act],
					    generation ? generation : "-", entry ? entry : "-");
	CLEANUP_FD int dir_fd =
		openat(m->runtimes_fd, MAKING_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (ftruncate(m->lock_fd, 0) < 0 || lseek(m->lock_fd, 0, SEEK_SET) < 0 ||
	    fs_write_all(m->lock_fd, text, strlen(text)) < 0 || fsync(m->lock_fd) < 0 ||
	    dir_fd < 0 || fsync(dir_fd) < 0)
		return err_errno(err, "note what is done to %s", m->path);
	free(m->generation);
	free(m->entry);
	m->act = act;
	m->generation = generation ? xstrdup(generation) : NULL;
	m->entry = entry ? xstrdup(entry) : NULL;
	return 0;
}

void making_done(struct making *m)
{
	CLEANUP_FREE char *lock = xasprintf(MAKING_DIR "/%s", m->name);
	(void)unlinkat(m->runtimes_fd, lock, 0);
	making_release(m);
}

static void list(const char *path, const char *prefix, struct strv *ret)
{
	CLEANUP_DIR DIR *dir = opendir(path);
	for (const struct dirent *entry; dir && (entry = readdir(dir));)
		if (str_starts(entry->d_name, prefix) && id_check(entry->d_name, NULL) >= 0)
			strv_add(ret, entry->d_name);
}

void making_names(const char *home, struct strv *ret)
{
	CLEANUP_FREE char *path = xasprintf("%s/runtimes/" MAKING_DIR, home);
	list(path, "", ret);
}

void made_generations(const struct making *m, struct strv *ret)
{
	list(m->path, GENERATION_PREFIX, ret);
}

int made_clear(const struct making *m, const char *keep, struct err *err)
{
	CLEANUP_STRV struct strv all = { 0 };
	made_generations(m, &all);
	for (size_t i = 0; i < all.n; i++) {
		CLEANUP_FREE char *path = xasprintf("%s/%s", m->path, all.v[i]);
		if (str_eq(all.v[i], keep))
			continue;
		int r = fs_remove_tree(AT_FDCWD, path, NULL, err);
		if (r < 0)
			return r;
	}
	return 0;
}

bool made_is_named(const struct making *m, const char *generation, const char *entry)
{
	CLEANUP_FREE char *text = NULL;
	CLEANUP_FREE char *path =
		xasprintf("%s/%s", m->path, generation ? generation : GENERATION_PREFIX);
	return entry && fs_read_capped(AT_FDCWD, entry, ENTRY_MAX, &text, NULL, NULL) >= 0 &&
	       strstr(text, path);
}

int made_read(const struct making *m, const char *generation, json_t **ret, struct err *err)
{
	CLEANUP_FREE char *path = xasprintf("%s/%s/created.json", m->path, generation);
	return json_read_file(AT_FDCWD, path, CREATED_MAX, ret, err);
}
