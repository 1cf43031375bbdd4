/* Every object of the store against its name, on all cpus; then what the runs say the store has. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/hash.h"
#include "health/verify_parts.h"
#include "health/verify_store.h"
#include "runtime/parallel.h"

#define DIGITS (HASH_HEX - 3) /* of an object's name on its shelf */

static bool is_hex(const char *text, size_t length)
{
	return strlen(text) == length && strspn(text, "0123456789abcdef") == length;
}

static void extra(struct verifying *v, const char *shelf, const char *name)
{
	CLEANUP_FREE char *where =
		xasprintf("%s/" STORE "/%s%s%s", v->q->config->home, shelf, *name ? "/" : "", name);
	CLEANUP_FREE char *word = str_shell(where);
	CLEANUP_FREE char *remedy = xasprintf("look at it, then: rm -r %s", word);
	verify_found(v, &(struct verify_finding){ "extra", where, remedy },
		     "no object of the store has such a name");
}

static void object_add(struct storing *s, const char *hex)
{
	if (s->n == s->room) {
		s->room = s->room ? 2 * s->room : 1024;
		s->objects = xreallocarray(s->objects, s->room, sizeof *s->objects);
	}
	memcpy(s->objects[s->n].hex, hex, HASH_HEX);
	s->objects[s->n++].seen[0] = '\0';
}

static int list(int dir_fd, const char *name, struct strv *ret)
{
	CLEANUP_DIR DIR *dir = NULL;
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	dir = fdopendir(fd);
	if (!dir) {
		int r = -errno;
		(void)close(fd);
		return r;
	}
	errno = 0;
	for (const struct dirent *d; (d = readdir(dir));)
		if (!str_eq(d->d_name, ".") && !str_eq(d->d_name, ".."))
			strv_add(ret, d->d_name);
	strv_sort(ret);
	return -errno;
}

/* `after`: the last that was looked at before, or NULL. */
static int list_shelf(struct storing *s, unsigned shelf, const char *after)
{
	CLEANUP_STRV struct strv names = { 0 };
	char name[3], hex[HASH_HEX];
	(void)snprintf(name, sizeof name, "%02x", shelf);
	int r = list(s->root_fd, name, &names);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	for (size_t i = 0; i < names.n; i++) {
		if (!is_hex(names.v[i], DIGITS)) {
			extra(s->v, name, names.v[i]);
			continue;
		}
		(void)snprintf(hex, sizeof hex, "%s%s", name, names.v[i]);
		if (!after || strcmp(hex, after) > 0)
			object_add(s, hex);
	}
	return 0;
}

static int list_root(struct storing *s)
{
	CLEANUP_STRV struct strv names = { 0 };
	int r = list(s->root_fd, ".", &names);
	for (size_t i = 0; r >= 0 && i < names.n; i++)
		if (!is_hex(names.v[i], 2))
			extra(s->v, names.v[i], "");
	return r;
}

/* What the object is: its digest, "gone", or why it can't be told. */
static void look(struct storing *s, struct object *o)
{
	char path[HASH_HEX + 1];
	struct stat st = { 0 };
	(void)snprintf(path, sizeof path, "%.2s/%s", o->hex, o->hex + 2);
	CLEANUP_FD int fd =
		fs_open_beneath(s->root_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
	int r = fd < 0 ? fd : fstat(fd, &st) < 0 ? -errno : 0;
	if (r >= 0 && !S_ISREG(st.st_mode))
		r = -ELOOP;
	if (r >= 0)
		r = hash_file(fd, o->seen);
	o->result = r;
	o->size = (uint64_t)st.st_size;
	o->links = st.st_nlink;
	atomic_fetch_add(&s->files, 1);
	atomic_fetch_add(&s->bytes, o->size);
}

/* Whoever takes an object looks at it to its end: so that a limit of time can't keep a large one from ever being looked at. */
static void work(void *data)
{
	struct storing *s = data;
	for (bool first = true;; first = false) {
		if (!first && s->deadline_ns && clock_monotonic_ns() >= s->deadline_ns)
			return;
		size_t at = atomic_fetch_add(&s->next, 1);
		if (at >= s->n)
			return;
		look(s, &s->objects[at]);
	}
}

static void tick(void *data)
{
	struct storing *s = data;
	const struct verify_viewer *viewer = s->v->q->viewer;
	if (viewer && viewer->files)
		viewer->files(viewer->data, atomic_load(&s->files), atomic_load(&s->bytes));
}

/* Shelves whose objects were all looked at are done with; of one that was cut short it is known where. */
static void note_progress(struct storing *s, struct shelves *state, const unsigned char *shelves,
			  const size_t *ends, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t begin = i ? ends[i - 1] : 0;
		bool resumed = state->cut == (int)shelves[i];
		uint64_t since = resumed && s->v->q->max_ns ? state->since_ns : s->began_ns;
		if (ends[i] <= s->done) {
			state->verified_ns[shelves[i]] = since;
			if (resumed)
				state->cut = -1;
			continue;
		}
		if (s->done > begin) {
			free(state->after);
			state->after = xstrdup(s->objects[s->done - 1].hex);
			state->cut = shelves[i];
			state->since_ns = since;
		}
		return;
	}
}

static void say_coverage(struct storing *s, const struct shelves *state)
{
	char time[40];
	uint64_t oldest = UINT64_MAX, looked = 0, unclaimed = 0;
	for (size_t i = 0; i < VERIFY_SHELVES; i++) {
		oldest = state->verified_ns[i] < oldest ? state->verified_ns[i] : oldest;
		looked += state->verified_ns[i] > 0;
	}
	for (size_t i = 0; i < s->done; i++)
		unclaimed += s->objects[i].links == 1;
	verify_number(s->v, "objects", s->done);
	verify_number(s->v, "bytes", atomic_load(&s->bytes));
	verify_number(s->v, "unclaimed", unclaimed);
	json_object_set_new(s->v->details, "coverage_percent",
			    json_u64(looked * 100 / VERIFY_SHELVES));
	json_object_set_new(s->v->details, "covered_since",
			    oldest ? json_string(clock_write(oldest, time, sizeof time))
				   : json_null());
	verify_say(s->v,
		   "%zu objects, %llu wrong; %llu %% of the store was ever looked through%s%s",
		   s->done, (unsigned long long)s->v->found,
		   (unsigned long long)(looked * 100 / VERIFY_SHELVES),
		   oldest ? ", all of it since " : "",
		   oldest ? clock_write(oldest, time, sizeof time) : "");
}

static int look_through(struct storing *s, struct shelves *state)
{
	const struct verify_request *q = s->v->q;
	unsigned char chosen[VERIFY_SHELVES];
	size_t ends[VERIFY_SHELVES], n = shelves_choose(state, q, chosen);
	int r = list_root(s);
	for (size_t i = 0; r >= 0 && i < n; i++) {
		bool resume = q->max_ns && state->cut == (int)chosen[i];
		r = list_shelf(s, chosen[i], resume ? state->after : NULL);
		ends[i] = s->n;
		s->chosen[chosen[i]] = true;
	}
	if (r < 0)
		return r;
	s->deadline_ns = q->max_ns ? clock_monotonic_ns() + q->max_ns : 0;
	parallel_run(work, tick, s);
	s->done = atomic_load(&s->next) < s->n ? atomic_load(&s->next) : s->n;
	note_progress(s, state, chosen, ends, n);
	return 0;
}

static void storing_release(struct storing *s)
{
	cleanup_fd(&s->root_fd);
	free(s->objects);
}

void verify_store(struct verifying *v)
{
	const struct config *c = v->q->config;
	CLEANUP(storing_release)
	struct storing s = { .v = v, .root_fd = -1, .began_ns = clock_real_ns() };
	CLEANUP(shelves_release) struct shelves state;
	CLEANUP_FREE char *path = xasprintf("%s/" STORE, c->home);
	struct err err = { 0 };
	shelves_read(c, &state);
	s.root_fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r = s.root_fd < 0 ? -errno : look_through(&s, &state);
	if (r >= 0 || r == -ENOENT)
		store_compare(&s);
	if (r < 0 && r != -ENOENT) {
		(void)err_set(&err, ERR_HOST, -r, "look through %s: %s", path, strerrordesc_np(-r));
		verify_unchecked(v, err.text);
	}
	if (s.root_fd < 0) {
		verify_say(v, r == -ENOENT ? "no outputs were stored yet" : "%s", err.text);
		return;
	}
	if (r >= 0 && shelves_write(c, &state, &err) < 0)
		verify_note(v, err.text);
	say_coverage(&s, &state);
}
