/* How far the store was looked through, shelf by shelf, so that slices and limits of time go round. Lost, it costs a look from the
 * start. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "health/verify_parts.h"

#define STATE_MAX 65536

void shelves_release(struct shelves *s)
{
	cleanup_free(&s->after);
}

static uint64_t time_of(const json_t *o)
{
	uint64_t ns = 0;
	const char *text = json_string_value(o);
	return text && clock_read(text, &ns) >= 0 ? ns : 0;
}

static json_t *time_json(uint64_t ns)
{
	char text[40];
	return ns ? json_string(clock_write(ns, text, sizeof text)) : json_null();
}

void shelves_read(const struct config *c, struct shelves *ret)
{
	CLEANUP_JSON json_t *state = NULL;
	CLEANUP_FD int home_fd = open(c->home, O_PATH | O_DIRECTORY | O_CLOEXEC);
	*ret = (struct shelves){ .cut = -1 };
	if (home_fd >= 0)
		(void)json_read_file(home_fd, "verify.json", STATE_MAX, &state, NULL);
	const json_t *store = json_object_get(state, "store");
	const json_t *times = json_object_get(store, "shelves");
	const json_t *cut = json_object_get(store, "cut");
	for (size_t i = 0; i < VERIFY_SHELVES; i++)
		ret->verified_ns[i] = time_of(json_array_get(times, i));
	const json_t *shelf = json_object_get(cut, "shelf");
	const char *after = json_string_value(json_object_get(cut, "after"));
	if (!json_is_integer(shelf) || !after || json_integer_value(shelf) < 0 ||
	    json_integer_value(shelf) >= VERIFY_SHELVES)
		return;
	ret->cut = (int)json_integer_value(shelf);
	ret->after = xstrdup(after);
	ret->since_ns = time_of(json_object_get(cut, "since"));
}

int shelves_write(const struct config *c, const struct shelves *s, struct err *err)
{
	CLEANUP_FD int home_fd = open(c->home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (home_fd < 0)
		return err_errno(err, "open %s", c->home);
	json_t *times = json_array();
	for (size_t i = 0; i < VERIFY_SHELVES; i++)
		json_array_append_new(times, time_json(s->verified_ns[i]));
	json_t *cut = s->cut < 0 ? json_null()
				 : json_pack("{s:i,s:o,s:o}", "shelf", s->cut, "after",
					     json_text(s->after), "since", time_json(s->since_ns));
	CLEANUP_JSON json_t *state =
		json_pack("{s:{s:o,s:o}}", "store", "shelves", times, "cut", cut);
	return json_write_file(home_fd, "verify.json", state, err);
}

static unsigned slice_of(unsigned shelf, unsigned slices)
{
	return shelf * slices / VERIFY_SHELVES;
}

/* The slice whose oldest shelf is the oldest of all. */
static unsigned slice_next(const struct shelves *s, unsigned slices)
{
	unsigned oldest = 0;
	for (unsigned i = 1; i < VERIFY_SHELVES; i++)
		if (s->verified_ns[i] < s->verified_ns[oldest])
			oldest = i;
	return slice_of(oldest, slices);
}

static int by_age(const void *a, const void *b, void *data)
{
	const struct shelves *s = data;
	unsigned x = *(const unsigned char *)a, y = *(const unsigned char *)b;
	if ((int)x == s->cut || (int)y == s->cut)
		return (int)x == s->cut ? -1 : 1;
	if (s->verified_ns[x] != s->verified_ns[y])
		return s->verified_ns[x] < s->verified_ns[y] ? -1 : 1;
	return (x > y) - (x < y);
}

size_t shelves_choose(const struct shelves *s, const struct verify_request *q,
		      unsigned char ret[VERIFY_SHELVES])
{
	size_t n = 0;
	unsigned slice = q->slice ? q->slice - 1 : slice_next(s, q->slices ? q->slices : 1);
	for (unsigned i = 0; i < VERIFY_SHELVES; i++)
		if (!q->slices || slice_of(i, q->slices) == slice)
			ret[n++] = (unsigned char)i;
	if (q->max_ns)
		qsort_r(ret, n, 1, by_age, (void *)s);
	return n;
}
