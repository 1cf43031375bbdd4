#include "protect/protect.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/path.h"
#include "protect/parts.h"
#include "spec/dburl.h"

#define TRIES 3 /* for a tree that is changed while it is read */

static const char *const thing_names[] = { "missing", "file", "tree", "sqlite", "postgresql" };

void protect_state_free(struct protect_state *s)
{
	if (!s)
		return;
	free(s->what);
	snapshot_release(&s->snapshot);
	free(s);
}

const char *protect_kind(const struct protect_state *s)
{
	return thing_names[s->thing];
}

uint64_t protect_files(const struct protect_state *s)
{
	return s->snapshot.fingerprint.files;
}

bool protect_same(const struct protect_baseline *b, const struct protect_state *s)
{
	return b->exists && str_eq(b->stat, s->snapshot.fingerprint.hex[DEPTH_STAT]);
}

bool protect_needs_reading(const struct protect_state *s)
{
	return s->thing == THING_SQLITE && s->level != WATCH_CONTENT;
}

static struct protect_state *state_new(const struct protect_look *q)
{
	struct protect_state *s = xcalloc(1, sizeof *s);
	s->what = xstrdup(q->what);
	s->level = q->config ? config_watch_level(q->config, q->what) : WATCH_CONTENT;
	s->snapshot = (struct snapshot)SNAPSHOT_INIT;
	return s;
}

/* Where our own records lie in it, they change with each run. */
static const char *home_within(const struct protect_look *q, const char *path)
{
	size_t length = strlen(path);
	if (!q->config || !path_within(q->config->home, path) || str_eq(q->config->home, path))
		return NULL;
	return q->config->home + length + (str_eq(path, "/") ? 0 : 1);
}

static int add_file(struct tree *t, const char *path, struct err *err)
{
	struct err why = { 0 };
	int r = tree_add(t, path, &why);
	if (r < 0 && r != -ENOENT && err)
		*err = why;
	return r == -ENOENT ? 0 : r;
}

static int look_at_path(const struct protect_look *q, struct protect_state *s, struct err *err)
{
	struct tree *t = &s->snapshot.tree;
	struct stat st = { 0 };
	t->is_whole = true;
	t->max = q->max;
	t->skip = home_within(q, s->what);
	if (lstat(s->what, &st) < 0) {
		if (errno != ENOENT && errno != ENOTDIR)
			return err_errno(err, "look at it");
		s->thing = THING_MISSING;
		return 0;
	}
	s->thing = S_ISDIR(st.st_mode) ? THING_TREE : THING_FILE;
	if (s->thing == THING_TREE) {
		t->root_fd = open(s->what, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (t->root_fd < 0)
			return err_errno(err, "open it");
		int r = tree_walk(t, q->progress, err);
		if (r < 0)
			return r;
	}
	return add_file(t, s->what, err);
}

/* Its log has what is not in it yet; the index of that, -shm, changes when it is only read. */
static int look_at_sqlite(struct protect_state *s, struct err *err)
{
	const char *path = s->what + strlen("sqlite:");
	CLEANUP_FREE char *log = xasprintf("%s-wal", path);
	struct tree *t = &s->snapshot.tree;
	int r = add_file(t, path, err);
	s->thing = t->n ? THING_SQLITE : THING_MISSING;
	return r < 0 || t->n == 0 ? r : add_file(t, log, err);
}

/* Files by stat; of a server what it counts and how its tables are made. */
static void digest_stat(const struct snapshot *s, char ret_hex[HASH_HEX])
{
	char hex[HASH_HEX];
	struct items counted = { 0 };
	tree_digest_stat(&s->tree, ret_hex);
	for (size_t i = 0; i < s->items.n; i++) {
		const struct item *item = &s->items.v[i];
		if (s->tree.n == 0 && !str_eq(item->kind, ITEM_TABLE))
			items_add(&counted, item->kind, item->name, item->version, item->where,
				  item->digest);
	}
	if (counted.n > 0) {
		items_digest(&counted, hex);
		hash_bytes(hex, sizeof hex, ret_hex);
	}
	items_release(&counted);
}

static void sum_up(struct protect_state *state, enum depth depth)
{
	struct snapshot *s = &state->snapshot;
	struct fingerprint *f = &s->fingerprint;
	for (size_t i = 0; i < s->tree.n; i++) {
		f->files += s->tree.v[i].kind != 'd';
		f->bytes += s->tree.v[i].kind == 'f' ? s->tree.v[i].size : 0;
	}
	if (protect_needs_reading(state)) /* that it is there is all that counts of the file */
		hash_bytes("", 0, f->hex[DEPTH_STAT]);
	else
		digest_stat(s, f->hex[DEPTH_STAT]);
	if (depth >= DEPTH_CONTENT)
		tree_digest_content(&s->tree, f->hex[DEPTH_CONTENT]);
}

static int look_once(const struct protect_look *q, struct protect_state *s, struct err *err)
{
	bool is_sqlite = str_starts(q->what, "sqlite:");
	bool is_server = dburl_is(q->what) && !is_sqlite;
	int r = is_server ? 0 : is_sqlite ? look_at_sqlite(s, err) : look_at_path(q, s, err);
	if (is_server)
		s->thing = THING_POSTGRES;
	bool is_read = is_server || (s->thing == THING_SQLITE && !q->is_around &&
				     (q->depth >= DEPTH_CONTENT || s->level != WATCH_CONTENT));
	s->is_unread = !is_read;
	if (r >= 0 && is_read)
		r = database_look(q, &s->snapshot.items, err);
	else if (r >= 0 && q->depth >= DEPTH_CONTENT && !is_sqlite)
		r = tree_hash(&s->snapshot.tree, TREE_ALL, q->progress, err);
	if (r >= 0)
		sum_up(s, q->depth);
	return r;
}

int protect_look(const struct protect_look *q, struct protect_state **ret, struct err *err)
{
	CLEANUP_FREE char *shown = dburl_shown(q->what);
	struct err why = { 0 };
	int r = 0;
	for (int try = 0; try < TRIES; try++) {
		CLEANUP_PROTECT_STATE struct protect_state *s = state_new(q);
		r = look_once(q, s, &why);
		if (r >= 0) {
			*ret = take_ptr(s);
			return 0;
		}
		if (r != -ENOENT && r != -ESTALE) /* another look may see it whole */
			break;
	}
	if (r == -ENOENT || r == -ESTALE)
		return err_set(err, ERR_HOST, EAGAIN, "%s is being changed all the time: %s", shown,
			       why.text);
	return err_set(err, why.kind, why.code ? why.code : EIO, "%s: %s", shown, why.text);
}

/* What differs by its ctime alone is read, where it is known what it was; where not, that alone is said. */
static void compare_trees(const struct tree *then, struct tree *now, enum depth depth,
			  struct drifts *ret)
{
	size_t suspects = depth == DEPTH_STAT ? drifts_suspects(then, now) : 0;
	bool is_known = false;
	for (size_t i = 0; suspects && !is_known && i < then->n; i++)
		is_known = then->v[i].sha256[0] != '\0';
	if (is_known && tree_hash(now, TREE_SUSPECTS, NULL, NULL) >= 0)
		suspects = 0;
	drifts_trees(ret, then, now, depth);
	for (size_t i = 0; suspects && i < now->n; i++)
		if (now->v[i].suspect)
			drifts_add(ret, DRIFT_CHANGED, now->v[i].path,
				   "ctime alone: its mtime was put back, or a link to it was made",
				   NULL);
}

void protect_compare(const struct protect_state *then, struct protect_state *now, enum depth depth,
		     struct drifts *ret)
{
	bool came = then->thing == THING_MISSING, went = now->thing == THING_MISSING;
	if (came != went) {
		CLEANUP_FREE char *shown = dburl_shown(now->what);
		drifts_add(ret, went ? DRIFT_MISSING : DRIFT_ADDED, shown, NULL, NULL);
		return;
	}
	/* An SQLite file has no counters: it was read in full, or not at all; its bytes tell nothing that its rows don't. */
	const struct database_compared how = { now->thing == THING_SQLITE ? DEPTH_CONTENT : depth,
					       now->level };
	if (now->thing == THING_POSTGRES || (now->thing == THING_SQLITE && !now->is_unread))
		database_compare(&then->snapshot.items, &now->snapshot.items, &how, ret);
	if (now->thing != THING_SQLITE || (depth < DEPTH_CONTENT && !protect_needs_reading(now)))
		compare_trees(&then->snapshot.tree, &now->snapshot.tree, depth, ret);
}
