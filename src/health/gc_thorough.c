#include "health/gc_thorough.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/path.h"
#include "base/str.h"
#include "budget/budget.h"
#include "budget/checkpoint.h"
#include "budget/scratch.h"
#include "collect/keyed.h"
#include "collect/store.h"
#include "keeper/alive.h"
#include "keeper/record.h"
#include "spec/id.h"

#define TEMPORARY_AGE_NS (3600 * NS_PER_SEC) /* no writer takes a thousandth of that */
#define PARTIAL_EXPIRED  "partial.expired"

struct collecting {
	const struct gc_request *q;
	struct gc_found *found;
};

void gc_found_release(struct gc_found *f)
{
	json_decrefp(&f->items);
}

static void note(struct collecting *c, const char *kind, const char *what, uint64_t bytes)
{
	if (json_array_size(c->found->items) < GC_NAMED_MAX)
		json_array_append_new(c->found->items,
				      json_pack("{s:s,s:o,s:o}", "kind", kind, "what",
						json_text(what), "bytes", json_u64(bytes)));
}

static void failed(struct collecting *c, const struct err *err)
{
	c->found->failed++;
	c->found->last_error = *err;
}

static bool has_verdict(const struct config *c, const char *id)
{
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s/verdict.json", c->home, id);
	return access(path, F_OK) == 0;
}

static bool is_active(const struct config *c, const char *id)
{
	CLEANUP_FREE char *path = xasprintf("%s/active/%s", c->home, id);
	return access(path, F_OK) == 0;
}

/* What a sweep would record as lost, or clear. */
static int find_dead(struct collecting *c, struct err *err)
{
	const struct config *config = c->q->config;
	CLEANUP_STRV struct strv active = { 0 };
	CLEANUP_STRV struct strv runs = { 0 };
	int r = id_list(config->home, "active", &active, err);
	if (r >= 0)
		r = id_list(config->home, "runs", &runs, err);
	for (size_t i = 0; r >= 0 && i < runs.n; i++)
		if (!has_verdict(config, runs.v[i]) && !strv_has(&active, runs.v[i]))
			strv_add(&active, runs.v[i]);
	for (size_t i = 0; r >= 0 && i < active.n; i++) {
		if (run_is_alive(config, active.v[i], NULL)) {
			c->found->alive++;
			continue;
		}
		c->found->dead++;
		note(c, has_verdict(config, active.v[i]) ? "entry" : "dead-run", active.v[i], 0);
	}
	return r < 0 ? r : 0;
}

/* Groups of this home have its tag; those with an entry are the sweep's, which knows more of them. */
static int collect_groups(struct collecting *c, struct err *err)
{
	const struct config *config = c->q->config;
	CLEANUP_STRV struct strv names = { 0 };
	CLEANUP_FREE char *ending = record_group(config->home, "");
	int r = budget_list(config->cgroup_parent, &names, err);
	for (size_t i = 0; r >= 0 && i < names.n; i++) {
		struct err why = { 0 };
		size_t length = strlen(names.v[i]), tail = strlen(ending);
		if (!str_ends(names.v[i], ending) || length == tail)
			continue;
		CLEANUP_FREE char *id = xstrndup(names.v[i], length - tail);
		if (id_check(id, NULL) < 0 || is_active(config, id))
			continue;
		int removed = c->q->act == GC_LOOK
				      ? 1
				      : budget_sweep(config->cgroup_parent, names.v[i], &why);
		if (removed < 0)
			failed(c, &why);
		if (removed <= 0)
			continue;
		c->found->groups++;
		note(c, "group", names.v[i], 0);
	}
	return r < 0 ? r : 0;
}

/* The id in the name of a working directory; NULL if it is none. */
static char *work_id(const struct config *c, const char *path)
{
	CLEANUP_FREE char *whole = path_join(c->work_root, c->work_template);
	const char *place = strstr(whole, "{id}");
	size_t before = place ? (size_t)(place - whole) : 0;
	const char *after = place ? place + strlen("{id}") : "";
	size_t length = strlen(path), tail = strlen(after);
	if (!place || length <= before + tail || strncmp(path, whole, before) != 0 ||
	    !str_ends(path, after))
		return NULL;
	char *id = xstrndup(path + before, length - before - tail);
	if (id_check(id, NULL) >= 0)
		return id;
	free(id);
	return NULL;
}

/* The same of one that is beside its caller's own directory (config_work_dir_aside). */
static char *work_id_aside(const struct config *c, const char *path)
{
	if (path_base(path)[0] != '.')
		return NULL;
	CLEANUP_FREE char *parent = path_parent(path);
	CLEANUP_FREE char *beside = path_join(parent, path_base(path) + 1);
	return work_id(c, beside);
}

static void collect_mount(struct collecting *c, const char *path)
{
	const struct config *config = c->q->config;
	CLEANUP_FREE char *named = work_id(config, path);
	CLEANUP_FREE char *aside = named ? NULL : work_id_aside(config, path);
	const char *id = named ? named : aside;
	struct scratch_dead dead = { .path = path, .home = config->home };
	struct fs_removed removed = { 0 };
	struct err why = { 0 };
	if (!id || is_active(config, id) || !scratch_is_image(&dead))
		return;
	int r = c->q->act == GC_LOOK ? 1 : scratch_sweep(&dead, &removed, &why);
	if (r < 0)
		failed(c, &why);
	if (r <= 0)
		return;
	c->found->mounts++;
	note(c, "working-directory", path, removed.bytes);
}

#define LOOP_MAJOR "7:" /* Linux's devices.txt */

/* Its third field is the device and its fifth the mount point (proc_pid_mountinfo(5)); names that are escaped there are none of ours. What is no
 * loop device is not even opened: a file system in somebody's process might never answer. */
static int collect_mounts(struct collecting *c, struct err *err)
{
	CLEANUP_FREE char *text = NULL;
	CLEANUP_FILE FILE *file = fopen("/proc/self/mountinfo", "re");
	CLEANUP_STRV struct strv points = { 0 };
	size_t room = 0;
	if (!file)
		return err_errno(err, "read /proc/self/mountinfo");
	while (getline(&text, &room, file) > 0) {
		const char *rest = text;
		bool is_loop = false;
		for (int field = 0; rest && field < 4; field++) {
			rest = strchr(rest, ' ');
			rest = rest ? rest + 1 : NULL;
			if (rest && field == 1)
				is_loop = str_starts(rest, LOOP_MAJOR);
		}
		if (rest && is_loop)
			strv_take(&points, xstrndup(rest, strcspn(rest, " ")));
	}
	for (size_t i = 0; i < points.n; i++)
		collect_mount(c, points.v[i]);
	return 0;
}

static bool is_older(const struct timespec *t, uint64_t age_ns)
{
	uint64_t then = (uint64_t)t->tv_sec * NS_PER_SEC + (uint64_t)t->tv_nsec;
	uint64_t now = clock_real_ns();
	return now > then && now - then > age_ns;
}

/* The note first: from then on nobody misses them (health/audit.c). If we die in between, the next gc finds them again. */
static int expire(int run_fd, struct fs_removed *removed, struct err *err)
{
	char time[40];
	CLEANUP_JSON json_t *o =
		json_pack("{s:s}", "time", clock_write(clock_real_ns(), time, sizeof time));
	int r = json_write_file(run_fd, PARTIAL_EXPIRED, o, err);
	return r < 0 ? r : fs_remove_tree(run_fd, "partial", removed, err);
}

static void collect_partial(struct collecting *c, const char *id)
{
	const struct config *config = c->q->config;
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s", config->home, id);
	CLEANUP_FD int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat verdict = { 0 }, partial = { 0 };
	struct fs_removed removed = { 0 };
	struct err why = { 0 };
	uint64_t bytes = 0, inodes = 0;
	if (fd < 0 || fstatat(fd, "partial", &partial, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISDIR(partial.st_mode) ||
	    fstatat(fd, "verdict.json", &verdict, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !is_older(&verdict.st_mtim, c->q->partial_age_ns) || is_active(config, id))
		return;
	CLEANUP_FD int partial_fd = fs_open_beneath(fd, "partial", O_RDONLY | O_DIRECTORY, 0);
	if (partial_fd >= 0)
		(void)fs_tree_usage(partial_fd, 0, 0, &bytes, &inodes);
	if (c->q->act == GC_REMOVE && expire(fd, &removed, &why) < 0) {
		failed(c, &why);
		return;
	}
	c->found->partial++;
	c->found->partial_bytes += bytes;
	note(c, "partial", id, bytes);
}

static int collect_partials(struct collecting *c, struct err *err)
{
	CLEANUP_STRV struct strv runs = { 0 };
	if (!c->q->partial_age_ns)
		return 0;
	int r = id_list(c->q->config->home, "runs", &runs, err);
	for (size_t i = 0; r >= 0 && i < runs.n; i++)
		collect_partial(c, runs.v[i]);
	return r < 0 ? r : 0;
}

/* What was left in the middle of being made or removed goes at any age; it is no checkpoint. */
static void collect_checkpoint(struct collecting *c, const char *name)
{
	const char *home = c->q->config->home;
	struct gc_found *f = c->found;
	struct checkpoint_old old = { 0 };
	struct err why = { 0 };
	if (checkpoint_look(home, name, &old) < 0)
		return;
	uint64_t now = clock_real_ns(), age = c->q->checkpoint_age_ns;
	bool is_old = age && now > old.used_ns && now - old.used_ns > age;
	int r = old.locked || !(old.is_none || is_old) ? 0
		: c->q->act == GC_LOOK                 ? 1
						       : checkpoint_remove(home, name, &why);
	if (r < 0)
		failed(c, &why);
	f->kept_checkpoints += r <= 0 && !old.is_none;
	f->kept_checkpoint_bytes += r <= 0 && !old.is_none ? old.bytes : 0;
	if (r <= 0)
		return;
	f->checkpoints++;
	f->checkpoint_bytes += old.bytes;
	note(c, "checkpoint", name, old.bytes);
}

static int collect_checkpoints(struct collecting *c, struct err *err)
{
	CLEANUP_STRV struct strv names = { 0 };
	int r = checkpoint_list(c->q->config->home, &names, err);
	for (size_t i = 0; r >= 0 && i < names.n; i++)
		collect_checkpoint(c, names.v[i]);
	return r;
}

static void collect_temporary(struct collecting *c, const char *directory)
{
	CLEANUP_DIR DIR *dir = opendir(directory);
	for (const struct dirent *d; dir && (d = readdir(dir));) {
		struct stat st = { 0 };
		if (!str_starts(d->d_name, FS_TEMP_PREFIX) ||
		    fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISREG(st.st_mode) || !is_older(&st.st_mtim, TEMPORARY_AGE_NS))
			continue;
		CLEANUP_FREE char *path = path_join(directory, d->d_name);
		struct err why = { 0 };
		if (c->q->act == GC_REMOVE && unlinkat(dirfd(dir), d->d_name, 0) < 0) {
			(void)err_errno(&why, "remove %s", path);
			failed(c, &why);
			continue;
		}
		c->found->temporary++;
		note(c, "temporary", path, (uint64_t)st.st_size);
	}
}

static void collect_temporaries_below(struct collecting *c, const char *name)
{
	CLEANUP_FREE char *above = path_join(c->q->config->home, name);
	CLEANUP_DIR DIR *dir = opendir(above);
	for (const struct dirent *d; dir && (d = readdir(dir));) {
		CLEANUP_FREE char *path = path_join(above, d->d_name);
		if (path_name_ok(d->d_name))
			collect_temporary(c, path);
	}
}

static void collect_temporaries(struct collecting *c)
{
	static const char *const names[] = { "",       "/health",         "/protect",
					     "/cache", "/cache/identity", "/undelivered" };
	const char *home = c->q->config->home;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		CLEANUP_FREE char *path = xasprintf("%s%s", home, names[i]);
		collect_temporary(c, path);
	}
	collect_temporaries_below(c, "runtimes");
	collect_temporaries_below(c, "keys");
}

static int collect_store(struct collecting *c, int home_fd, struct err *err)
{
	struct gc_found *f = c->found;
	int r = store_prune(home_fd, c->q->act == GC_LOOK ? STORE_COUNT : STORE_REMOVE, &f->pruned,
			    &f->pruned_bytes, err);
	if (r >= 0 && f->pruned)
		note(c, "store", "outputs that no run has", f->pruned_bytes);
	return r;
}

static int collect_keys(struct collecting *c, int home_fd, struct err *err)
{
	struct gc_found *f = c->found;
	int r = keyed_prune(home_fd, c->q->act == GC_LOOK ? STORE_COUNT : STORE_REMOVE, &f->keys,
			    err);
	if (r >= 0 && f->keys)
		note(c, "keys", "results whose run is gone", 0);
	return r;
}

int gc_thorough(const struct gc_request *q, struct gc_found *ret, struct err *err)
{
	CLEANUP_GC_FOUND struct gc_found found = { .items = json_array() };
	struct collecting c = { .q = q, .found = &found };
	CLEANUP_FD int home_fd = open(q->config->home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = 0;
	if (home_fd < 0 && errno != ENOENT)
		return err_errno(err, "open %s", q->config->home);
	if (home_fd >= 0) {
		r = q->act == GC_LOOK ? find_dead(&c, err) : 0;
		if (r >= 0)
			r = collect_groups(&c, err);
		if (r >= 0)
			r = collect_mounts(&c, err);
		if (r >= 0)
			r = collect_partials(&c, err);
		if (r >= 0)
			r = collect_checkpoints(&c, err);
		if (r >= 0)
			r = collect_store(&c, home_fd, err);
		if (r >= 0)
			r = collect_keys(&c, home_fd, err);
		collect_temporaries(&c);
	}
	if (r < 0)
		return r;
	*ret = found;
	found.items = NULL;
	return 0;
}
