/* The collector: walks the working directory of a dead box by descriptor and commits copies of what the patterns name. Relies on
 * entry.c for every open there, on pattern.c for where to look, on take.c for the copies. */
#include "collect/outputs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/str.h"
#include "collect/manifest.h"
#include "collect/walk.h"

static void walk_release(struct walk *w)
{
	rights_release(&w->rights);
	for (size_t i = 0; w->patterns && i < w->request->n_outputs; i++)
		pattern_release(&w->patterns[i]);
	free(w->patterns);
	free(w->found);
	manifest_release(&w->manifest);
	if (w->batch)
		batch_clear(w->batch);
	free(w->batch);
}

static void level_release(struct level *level)
{
	cleanup_dir(&level->dir);
	cleanup_fd(&level->dest_fd);
}

static void item_release(struct item *item)
{
	free(item->path);
	entry_release(&item->entry);
}

static int level_walk(struct walk *w, struct level *level, struct err *err);

static int item_descend(struct walk *w, struct item *item, struct err *err)
{
	if (item->level->depth == OUTPUT_DEPTH_MAX) {
		manifest_refuse(&w->manifest, item->path, "too deep");
		return 0;
	}
	CLEANUP(level_release)
	struct level below = {
		.parent = item->level,
		.name = item->name,
		.path = item->path,
		.states = item->states,
		.depth = item->level->depth + 1,
		.dir = entry_list(take_fd(&item->entry.fd)),
		.dest_fd = -1,
	};
	if (!below.dir)
		return err_errno(err, "read directory '%s' of the outputs", item->path);
	return level_walk(w, &below, err);
}

static int item_visit(struct walk *w, struct item *item, struct err *err)
{
	if (strlen(item->path) > OUTPUT_PATH_MAX) {
		manifest_refuse(&w->manifest, item->path, "path too long");
		return 0;
	}
	int r = entry_open(&w->rights, dirfd(item->level->dir), item->name, &item->entry);
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "open output '%s' as uid %u: %s", item->path,
			       (unsigned)w->request->uid, strerror(-r));

	const struct entry *e = &item->entry;
	/* Of what lies only on the way, ordinary files are no news; a link or a closed directory may hide an output. */
	bool is_news = item->wanted || !S_ISREG(e->st.st_mode);
	if (e->reason) {
		if (is_news)
			manifest_refuse(&w->manifest, item->path, e->reason);
		return 0;
	}
	if (S_ISDIR(e->st.st_mode))
		return item_descend(w, item, err);
	return item->wanted ? item_take(w, item, err) : 0;
}

/* True if any pattern matches the name or something below it; `next` has the states. */
static bool states_step(const struct walk *w, const struct level *level, const char *name,
			uint64_t *next)
{
	bool any = false;
	for (size_t i = 0; i < w->request->n_outputs; i++) {
		next[i] = pattern_step(&w->patterns[i], level->states[i], name);
		any |= next[i] != 0;
	}
	return any;
}

static bool states_matched(const struct walk *w, const uint64_t *states)
{
	for (size_t i = 0; i < w->request->n_outputs; i++)
		if (pattern_matched(&w->patterns[i], states[i]))
			return true;
	return false;
}

/* Put there by us or by mkfs, not by the analysis. */
static bool is_ours(const struct level *level, const char *name)
{
	static const char *const ours[] = { "data", "docs", "code", "tmp", "home", "lost+found" };
	if (level->parent)
		return false;
	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
		if (str_eq(name, ours[i]))
			return true;
	return false;
}

static int level_visit(struct walk *w, struct level *level, const struct dirent *d, uint64_t *next,
		       struct err *err)
{
	if (!states_step(w, level, d->d_name, next))
		return 0;
	bool wanted = states_matched(w, next);
	bool may_lead_on = d->d_type == DT_DIR || d->d_type == DT_LNK || d->d_type == DT_UNKNOWN;
	if (!wanted && !may_lead_on)
		return 0;

	CLEANUP(item_release)
	struct item item = {
		.level = level,
		.name = d->d_name,
		.path = level->parent ? xasprintf("%s/%s", level->path, d->d_name)
				      : xstrdup(d->d_name),
		.entry = { .fd = -1 },
		.states = next,
		.wanted = wanted,
	};
	return item_visit(w, &item, err);
}

static int level_walk(struct walk *w, struct level *level, struct err *err)
{
	CLEANUP_FREE uint64_t *next = xcalloc(w->request->n_outputs, sizeof *next);
	while (!w->manifest.over_cap) {
		const struct dirent *d = entry_next(level->dir);
		if (!d && errno)
			manifest_refuse(&w->manifest, level->parent ? level->path : ".",
					"unreadable");
		if (!d)
			break;
		if (is_ours(level, d->d_name))
			continue;
		if (++w->entries > OUTPUT_ENTRIES_MAX)
			w->manifest.over_cap = true;
		else {
			int r = level_visit(w, level, d, next, err);
			if (r < 0)
				return r;
		}
	}
	if (level->dest_fd >= 0 && w->taken <= BATCH_SYNCED_MAX && fsync(level->dest_fd) < 0)
		return err_errno(err, "sync the copy of directory '%s'", level->path);
	return 0;
}

static int walk_top(struct walk *w, struct err *err)
{
	CLEANUP_ENTRY struct entry top = { .fd = -1 };
	int r = entry_open(&w->rights, w->request->work_fd, ".", &top);
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "open the working directory as uid %u: %s",
			       (unsigned)w->request->uid, strerror(-r));
	if (top.reason) { /* closed by its owner, the analysis */
		manifest_refuse(&w->manifest, ".", top.reason);
		return 0;
	}

	CLEANUP_FREE uint64_t *states = xcalloc(w->request->n_outputs, sizeof *states);
	for (size_t i = 0; i < w->request->n_outputs; i++)
		states[i] = pattern_start(&w->patterns[i]);
	CLEANUP(level_release)
	struct level level = {
		.path = "",
		.states = states,
		.dir = entry_list(take_fd(&top.fd)),
		.dest_fd = -1,
	};
	if (!level.dir)
		return err_errno(err, "read the working directory");
	return level_walk(w, &level, err);
}

static int walk_init(struct walk *w, const struct collect_request *request, struct err *err)
{
	w->patterns = xcalloc(request->n_outputs, sizeof *w->patterns);
	w->found = xcalloc(request->n_outputs, sizeof *w->found);
	for (size_t i = 0; i < request->n_outputs; i++)
		pattern_init(&w->patterns[i], request->outputs[i].pattern);
	w->batch = xcalloc(1, sizeof *w->batch);

	uint64_t random;
	if (getrandom(&random, sizeof random, 0) != sizeof random)
		return err_set(err, ERR_HOST, EIO, "no random name for the temporary outputs");
	(void)snprintf(w->temp, sizeof w->temp, OUTPUT_TEMP_PREFIX "%016llx",
		       (unsigned long long)random);
	int r = rights_init(&w->rights, request->uid, request->gid, err);
	w->rights.takes_links = request->takes_links;
	return r;
}

static void find_missing(struct walk *w)
{
	for (size_t i = 0; i < w->request->n_outputs && !w->manifest.over_cap; i++) {
		const struct output *output = &w->request->outputs[i];
		if (!output->required || w->found[i])
			continue;
		w->manifest.missing = xstrdup(output->pattern);
		return;
	}
}

static int commit(const struct walk *w, struct err *err)
{
	int run_fd = w->request->run_fd;
	/* Many syncs cost more than one of everything. */
	if (w->taken > BATCH_SYNCED_MAX && syncfs(run_fd) < 0)
		return err_errno(err, "sync the collected outputs");
	FAULT_PHASE("outputs-copied");
	if (renameat(run_fd, w->temp, run_fd, "outputs") < 0)
		return err_errno(err, "move the collected outputs into place");
	FAULT_PHASE("outputs-renamed");
	CLEANUP_FD int sync_fd = openat(run_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (sync_fd >= 0 && fsync(sync_fd) == 0)
		return 0;
	int r = err_errno(err, "sync the run directory after its outputs");
	(void)fs_remove_tree(run_fd, "outputs", NULL, NULL);
	return r;
}

int outputs_collect(const struct collect_request *request, struct manifest *ret, struct err *err)
{
	CLEANUP(walk_release) struct walk w = { .request = request };
	int r = walk_init(&w, request, err);
	if (r == 0 && request->n_outputs > 0)
		r = walk_top(&w, err);
	if (r == 0)
		r = walk_flush(&w, err);
	if (r == 0 && w.manifest.n_files > 0)
		r = commit(&w, err);
	if (w.temp_made && (r < 0 || w.manifest.n_files == 0)) {
		struct err second = { 0 };
		int removed = fs_remove_tree(request->run_fd, w.temp, NULL, &second);
		if (r == 0 && removed < 0) {
			if (err)
				*err = second;
			r = removed;
		}
	}
	if (r < 0)
		return r;
	find_missing(&w);
	manifest_sort(&w.manifest);
	*ret = w.manifest;
	w.manifest = (struct manifest){ 0 };
	return 0;
}
