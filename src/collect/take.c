/* From an opened file of the working directory to a copy in the temporary tree and a line of the manifest. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/fs.h"
#include "base/str.h"
#include "collect/manifest.h"
#include "collect/place.h"
#include "collect/walk.h"

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

/* What the patterns that match say of it: the first that says anything counts, and required is what any of them requires. */
static void item_describe(const struct walk *w, const struct item *item, struct batch_item *ret)
{
	const struct output *outputs = w->request->outputs;
	const char *media_type = NULL;
	ret->matched = xcalloc(w->request->n_outputs / 64 + 1, sizeof *ret->matched);
	for (size_t i = 0; i < w->request->n_outputs; i++) {
		if (!pattern_matched(&w->patterns[i], item->states[i]))
			continue;
		ret->matched[i / 64] |= 1ULL << (i % 64);
		ret->file.required |= outputs[i].required;
		if (!media_type)
			media_type = outputs[i].media_type;
		if (ret->file.check == OUTPUT_CHECK_AUTO)
			ret->file.check = outputs[i].check;
	}
	if (!media_type)
		media_type = media_type_guess(item->path);
	ret->file.path = xstrdup(item->path);
	ret->file.size = (uint64_t)item->entry.st.st_size;
	ret->file.media_type = media_type ? xstrdup(media_type) : NULL;
}

/* A copy that counts for nothing goes from the temporary tree, and for good before the tree is named. */
static int remove_copy(const struct walk *w, const char *path, struct err *err)
{
	const char *last = NULL;
	CLEANUP_FD int top_fd =
		fs_open_beneath(w->request->run_fd, w->temp, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	CLEANUP_FD int dir_fd = top_fd < 0 ? -1 : place_parent(top_fd, path, &last);
	if (top_fd < 0 || dir_fd < 0)
		return err_set(err, ERR_HOST, top_fd < 0 ? -top_fd : -dir_fd,
			       "find the copy of refused output '%s'", path);
	if (unlinkat(dir_fd, last, 0) < 0 || fsync(dir_fd) < 0)
		return err_errno(err, "remove the copy of refused output '%s'", path);
	return 0;
}

static void item_taken(struct walk *w, struct batch_item *item)
{
	for (size_t i = 0; i < w->request->n_outputs; i++)
		w->found[i] |= item->matched[i / 64] >> (i % 64) & 1;
	manifest_add(&w->manifest, &item->file);
	item->file.path = NULL;
	item->file.media_type = NULL;
}

int walk_flush(struct walk *w, struct err *err)
{
	struct batch *b = w->batch;
	int r = 0;
	batch_copy(b);
	for (size_t i = 0; r >= 0 && i < b->n; i++) {
		struct batch_item *item = &b->items[i];
		if (item->result < 0)
			r = err_set(err, ERR_HOST, -item->result,
				    "write the copy of output '%s': %s", item->file.path,
				    strerror(-item->result));
		else if (!item->reason)
			item_taken(w, item);
		else {
			manifest_refuse(&w->manifest, item->file.path, item->reason);
			r = remove_copy(w, item->file.path, err);
		}
	}
	batch_clear(b);
	return r;
}

static bool fits(const struct walk *w, uint64_t size)
{
	const struct manifest *m = &w->manifest;
	return m->n_files + w->batch->n < w->request->max_count &&
	       size <= w->request->max_bytes - m->bytes - w->batch->bytes;
}

/* 1 if there is room for one more: what waits may yet be refused, and then counts for nothing. */
static int make_room(struct walk *w, uint64_t size, struct err *err)
{
	bool waits = w->batch->n == BATCH_FILES_MAX || !fits(w, size);
	int r = waits ? walk_flush(w, err) : 0;
	return r < 0 ? r : fits(w, size);
}

/* Of what JSON escapes, or is no text and written in two ways, a byte costs six at most. */
static uint64_t listed_size(const char *path)
{
	uint64_t size = 0;
	for (const char *c = path; *c; c++)
		size += *c >= ' ' && *c < 127 && *c != '"' && *c != '\\' ? 1 : 6;
	return size;
}

static bool is_lost(struct walk *w, const struct item *item)
{
	if (!w->disk_asked)
		w->disk_failed = syncfs(w->request->work_fd) < 0;
	w->disk_asked = true;
	return w->disk_failed || fsync(item->entry.fd) < 0;
}

int item_take(struct walk *w, struct item *item, struct err *err)
{
	struct manifest *m = &w->manifest;
	int room = make_room(w, (uint64_t)item->entry.st.st_size, err);
	if (room <= 0) {
		m->over_cap |= room == 0;
		return room;
	}
	w->listed += listed_size(item->path);
	if (w->listed > OUTPUT_LISTED_MAX) {
		m->over_cap = true;
		return 0;
	}

	/* Written pages that never reached the disk read as zeros once they are dropped; only a sync tells. */
	if (w->request->sync_sources && is_lost(w, item)) {
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

	struct batch_item waits = { .from_fd = take_fd(&item->entry.fd),
				    .to_fd = take_fd(&to_fd),
				    .before = item->entry.st,
				    .synced = ++w->taken <= BATCH_SYNCED_MAX };
	item_describe(w, item, &waits);
	batch_add(w->batch, &waits);
	return 0;
}
