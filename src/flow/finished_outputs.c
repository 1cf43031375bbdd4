/* Are the outputs of a run what its entry says, all of them and nothing else? By their stat tuples, as far as these prove it: of files what
 * they hold, of directories which names are in them. Otherwise they are listed and read. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "collect/outputs.h"
#include "flow/finished_parts.h"
#include "spec/contents_cache.h"

#define DIRECTORIES_MAX 64               /* more are listed each time */
#define YOUNG_NS        (2 * NS_PER_SEC) /* as spec/contents.h has it */

/* A look through the outputs of a run. */
struct look {
	struct contents_reader *contents;
	const struct finished *f;
	bool *seen; /* owned; of each output */
	struct str *why;
};

static bool complain(struct look *l, const char *path, const char *what)
{
	str_addf(l->why, "output %s %s", path, what);
	return false;
}

static bool is_file(struct look *l, int dir_fd, const char *name, const char *path)
{
	struct finished_output wanted = { .path = (char *)path };
	char hex[HASH_HEX];
	struct stat st = { 0 };
	const struct finished_output *o =
		bsearch(&wanted, l->f->outputs, l->f->n_outputs, sizeof wanted, finished_by_path);
	if (!o)
		return complain(l, path, "was not there when the run ended");
	int r = contents_file(l->contents, dir_fd, name, &st, hex);
	if (r < 0)
		return complain(l, path, r == -EINVAL ? "is no file" : "can't be read");
	if ((uint64_t)st.st_size != o->size || !str_eq(hex, o->sha256))
		return complain(l, path, "is damaged");
	l->seen[o - l->f->outputs] = true;
	return true;
}

/* Takes the descriptor. No link is followed, and nothing is there that is not known: it would be shown with the rest. */
static bool is_tree(struct look *l, int fd, const char *below, int depth)
{
	CLEANUP_DIR DIR *dir = fd < 0 || depth > OUTPUT_DEPTH_MAX ? NULL : fdopendir(fd);
	bool good = dir != NULL;
	if (!dir) {
		str_addf(l->why, "its directory outputs/%s can't be read", below);
		cleanup_fd(&fd);
	}
	for (const struct dirent *d; good && (d = readdir(dir));) {
		if (str_eq(d->d_name, ".") || str_eq(d->d_name, ".."))
			continue;
		CLEANUP_FREE char *path = xasprintf("%s%s%s", below, *below ? "/" : "", d->d_name);
		int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
		int below_fd = d->d_type == DT_REG ? -ENOTDIR
						   : openat(dirfd(dir), d->d_name, flags);
		good = below_fd >= 0 ? is_tree(l, below_fd, path, depth + 1)
				     : is_file(l, dirfd(dir), d->d_name, path);
	}
	return good;
}

/* One directory of outputs/, as the entry has it. */
struct directory {
	char *path;         /* owned; below outputs/, "" for itself */
	char hex[HASH_HEX]; /* over the names in it */
	struct stat st;
};

struct directories {
	struct directory v[DIRECTORIES_MAX];
	size_t n;
};

static void directories_release(struct directories *d)
{
	for (size_t i = 0; i < d->n; i++)
		free(d->v[i].path);
}

/* Sorted by their paths, outputs of one directory stand together, and so do those below one name in it. */
static void digest_names(const struct finished *f, struct directory *d)
{
	CLEANUP_STR struct str names = { 0 };
	size_t n = strlen(d->path), skip = n ? n + 1 : 0, last = 0;
	const char *before = NULL;
	str_add(&names, "names");
	for (size_t i = 0; i < f->n_outputs; i++) {
		const char *path = f->outputs[i].path, *name = path + skip;
		if (n && (strncmp(path, d->path, n) != 0 || path[n] != '/'))
			continue;
		size_t length = strcspn(name, "/");
		if (before && last == length && memcmp(before, name, length) == 0)
			continue;
		str_addf(&names, "%c%zu:", name[length] ? 'd' : 'f', length);
		str_add_n(&names, name, length);
		before = name;
		last = length;
	}
	hash_bytes(names.text, names.length, d->hex);
}

static bool add_directory(struct directories *all, const char *path, size_t n)
{
	for (size_t i = all->n; i > 0; i--)
		if (strlen(all->v[i - 1].path) == n && memcmp(all->v[i - 1].path, path, n) == 0)
			return true;
	if (all->n == DIRECTORIES_MAX)
		return false;
	all->v[all->n++] = (struct directory){ .path = xstrndup(path, n) };
	return true;
}

/* False if there are too many. */
static bool find_directories(const struct finished *f, struct directories *ret)
{
	bool good = add_directory(ret, "", 0);
	for (size_t i = 0; good && i < f->n_outputs; i++) {
		const char *path = f->outputs[i].path;
		for (const char *slash = strchr(path, '/'); good && slash;
		     slash = strchr(slash + 1, '/'))
			good = add_directory(ret, path, (size_t)(slash - path));
	}
	return good;
}

/* True if no name was added or removed since all were listed; the tuples are noted either way. */
static bool names_hold(const struct finished_reader *r, const struct finished *f,
		       struct directories *all)
{
	bool good = true;
	for (size_t i = 0; i < all->n; i++) {
		struct directory *d = &all->v[i];
		char hex[HASH_HEX];
		CLEANUP_FREE char *path =
			xasprintf("runs/%s/outputs%s%s", f->run, *d->path ? "/" : "", d->path);
		digest_names(f, d);
		if (fstatat(r->home_fd, path, &d->st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0 ||
		    !S_ISDIR(d->st.st_mode)) {
			d->st = (struct stat){ 0 };
			good = false;
			continue;
		}
		good = good && contents_cache_get(r->contents.cache_fd, &d->st, hex) &&
		       str_eq(hex, d->hex);
	}
	return good;
}

static int64_t time_of(struct timespec t)
{
	return (int64_t)t.tv_sec * (int64_t)NS_PER_SEC + t.tv_nsec;
}

/* The tuples are from before the names were listed: a change since then has changed them. */
static void remember_names(const struct finished_reader *r, const struct directories *all)
{
	int64_t now = (int64_t)clock_real_ns();
	for (size_t i = 0; i < all->n; i++) {
		const struct directory *d = &all->v[i];
		bool old = d->st.st_ino && now - time_of(d->st.st_mtim) > (int64_t)YOUNG_NS &&
			   now - time_of(d->st.st_ctim) > (int64_t)YOUNG_NS;
		if (old)
			contents_cache_put(r->contents.cache_fd, &d->st, d->hex);
	}
}

static bool files_hold(struct finished_reader *r, const struct finished *f, struct str *why)
{
	for (size_t i = 0; i < f->n_outputs; i++) {
		const struct finished_output *o = &f->outputs[i];
		struct stat st = { 0 };
		char hex[HASH_HEX];
		CLEANUP_FREE char *path = xasprintf("runs/%s/outputs/%s", f->run, o->path);
		if (contents_file(&r->contents, r->home_fd, path, &st, hex) < 0 ||
		    (uint64_t)st.st_size != o->size || !str_eq(hex, o->sha256)) {
			str_addf(why, "output %s is damaged", o->path);
			return false;
		}
	}
	return true;
}

static bool is_listed(struct finished_reader *r, const struct finished *f, struct str *why)
{
	CLEANUP_FREE bool *seen = xcalloc(f->n_outputs + 1, sizeof *seen);
	CLEANUP_FREE char *path = xasprintf("runs/%s/outputs", f->run);
	struct look l = { .contents = &r->contents, .f = f, .seen = seen, .why = why };
	int fd = openat(r->home_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* Without outputs no directory was made. */
	if (!(fd < 0 && errno == ENOENT && !f->n_outputs) && !is_tree(&l, fd, "", 0))
		return false;
	for (size_t i = 0; i < f->n_outputs; i++)
		if (!seen[i])
			return complain(&l, f->outputs[i].path, "is gone");
	return true;
}

bool finished_has_outputs(struct finished_reader *r, const struct finished *f, struct str *why)
{
	CLEANUP(directories_release) struct directories all = { .n = 0 };
	if (!find_directories(f, &all))
		return is_listed(r, f, why);
	if (f->n_outputs && names_hold(r, f, &all))
		return files_hold(r, f, why);
	if (!is_listed(r, f, why))
		return false;
	remember_names(r, &all);
	return true;
}
