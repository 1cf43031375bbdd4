/* The collector: walks the working directory of a dead box by descriptor and commits copies of what the patterns name. Relies on
 * entry.c for every open there, on pattern.c for where to look, on copy.c for noticing change. */
#include "collect/outputs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/str.h"
#include "collect/copy.h"
#include "collect/entry.h"
#include "collect/manifest.h"
#include "collect/pattern.h"
#include "collect/rights.h"

struct walk {
	const struct collect_request *request; /* borrowed from the caller */
	struct rights rights;
	struct pattern *patterns; /* owned; one for each output, as is `found` */
	bool *found;              /* owned */
	struct manifest manifest;
	struct hash *hash; /* owned */
	char *buffer;      /* owned; COPY_BUFFER_SIZE */
	uint64_t entries;
	char temp[sizeof OUTPUT_TEMP_PREFIX + 16];
	bool temp_made;
};

/* A directory being walked, and its copy once something below it was taken. */
struct level {
	struct level *parent;   /* borrowed; NULL at the top */
	const char *name;       /* borrowed */
	const char *path;       /* borrowed; "" at the top */
	const uint64_t *states; /* borrowed; of each pattern after this path */
	unsigned depth;
	DIR *dir;    /* owned */
	int dest_fd; /* owned; -1 until needed */
};

/* A name in it that a pattern is about. */
struct item {
	struct level *level; /* borrowed, as is name */
	const char *name;
	char *path; /* owned */
	struct entry entry;
	const uint64_t *states; /* borrowed */
	bool wanted;            /* matched, not only on the way to a match */
};

static void walk_release(struct walk *w)
{
	rights_release(&w->rights);
	for (size_t i = 0; w->patterns && i < w->request->n_outputs; i++)
		pattern_release(&w->patterns[i]);
	free(w->patterns);
	free(w->found);
	manifest_release(&w->manifest);
	hash_free(w->hash);
	free(w->buffer);
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

/* The copy of a directory, made with its parents when first needed. The descriptor stays the level's. */
static int level_dest(struct walk *w, struct level *level)
{
	if (level->dest_fd >= 0)
		return level->dest_fd;
	int parent_fd = level->parent ? level_dest(w, level->parent) : w->request->run_fd;
	const char *name = level->parent ? level->name : w->temp;
	if (parent_fd < 0)
		return parent_fd;
	if (mkdirat(parent_fd, name, 0755) < 0)
		return -errno;
	if (!level->parent)
		w->temp_made = true;
	level->dest_fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return level->dest_fd >= 0 ? level->dest_fd : -errno;
}

/* Names come from the analysis: one that the run directory's file system cannot hold is its loss, not the host's failure. */
static bool is_name_trouble(int code)
{
	return code == -ENAMETOOLONG || code == -EILSEQ || code == -EINVAL;
}

static int item_dest(struct walk *w, const struct item *item)
{
	int dir_fd = level_dest(w, item->level);
	if (dir_fd < 0)
		return dir_fd;
	int fd = openat(dir_fd, item->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			0444);
	return fd >= 0 ? fd : -errno;
}

static void item_taken(struct walk *w, const struct item *item)
{
	const struct output *outputs = w->request->outputs;
	const char *media_type = NULL;
	for (size_t i = 0; i < w->request->n_outputs; i++) {
		if (!pattern_matched(&w->patterns[i], item->states[i]))
			continue;
		w->found[i] = true;
		if (!media_type)
			media_type = outputs[i].media_type;
	}
	if (!media_type)
		media_type = media_type_guess(item->path);

	struct collected file = {
		.path = xstrdup(item->path),
		.size = (uint64_t)item->entry.st.st_size,
		.media_type = media_type ? xstrdup(media_type) : NULL,
	};
	hash_end(w->hash, file.sha256);
	manifest_add(&w->manifest, &file);
}

static int item_take(struct walk *w, const struct item *item, struct err *err)
{
	struct manifest *m = &w->manifest;
	uint64_t size = (uint64_t)item->entry.st.st_size;
	if (m->n_files >= w->request->max_count || size > w->request->max_bytes - m->bytes) {
		m->over_cap = true;
		return 0;
	}

	/* Written pages that never reached the disk read as zeros once they are dropped; only a sync tells. */
	bool lost = w->request->disk_failed ||
		    (w->request->sync_sources && fsync(item->entry.fd) < 0);
	if (lost) {
		manifest_refuse(m, item->path, "the disk lost it");
		if (!m->damaged)
			m->damaged = xstrdup(item->path);
		return 0;
	}
	CLEANUP_FD int to_fd = item_dest(w, item);
	if (is_name_trouble(to_fd)) {
		manifest_refuse(m, item->path, "its name cannot be stored");
		return 0;
	}
	if (to_fd < 0)
		return err_set(err, ERR_HOST, -to_fd, "create the copy of output '%s': %s",
			       item->path, strerror(-to_fd));

	struct copy copy = { item->entry.fd, to_fd, &item->entry.st, w->buffer };
	const char *reason = NULL;
	hash_restart(w->hash);
	int r = copy_hashed(&copy, w->hash, &reason);
	if (r == 0 && !reason && fsync(to_fd) < 0)
		r = -errno;
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "write the copy of output '%s': %s", item->path,
			       strerror(-r));
	if (!reason) {
		item_taken(w, item);
		return 0;
	}
	manifest_refuse(m, item->path, reason);
	if (unlinkat(item->level->dest_fd, item->name, 0) < 0)
		return err_errno(err, "remove the copy of refused output '%s'", item->path);
	return 0;
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
	if (level->dest_fd >= 0 && fsync(level->dest_fd) < 0)
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
	w->hash = hash_new();
	w->buffer = xmalloc(COPY_BUFFER_SIZE);

	uint64_t random;
	if (getrandom(&random, sizeof random, 0) != sizeof random)
		return err_set(err, ERR_HOST, EIO, "no random name for the temporary outputs");
	(void)snprintf(w->temp, sizeof w->temp, OUTPUT_TEMP_PREFIX "%016llx",
		       (unsigned long long)random);
	return rights_init(&w->rights, request->uid, request->gid, err);
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
