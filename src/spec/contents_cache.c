#include "spec/contents_cache.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"

#define SLOTS  262144 /* 32 MiB, of which only those are there that were written */
#define BUCKET 4      /* slots that a file may be in: as many must meet before one has to go */

struct slot {
	char check[16]; /* over all that follows: a torn slot is no slot */
	uint64_t dev, ino, size;
	int64_t mtime_ns, ctime_ns;
	char hex[HASH_HEX - 1];
	char spare[8];
};
_Static_assert(sizeof(struct slot) == 128, "a slot is written at once, and in place");

static int64_t timestamp(struct timespec t)
{
	return (int64_t)t.tv_sec * (int64_t)NS_PER_SEC + t.tv_nsec;
}

static struct slot slot_for(const struct stat *st)
{
	return (struct slot){ .dev = st->st_dev,
			      .ino = st->st_ino,
			      .size = (uint64_t)st->st_size,
			      .mtime_ns = timestamp(st->st_mtim),
			      .ctime_ns = timestamp(st->st_ctim) };
}

static void sign(const struct slot *s, char ret[sizeof s->check])
{
	char hex[HASH_HEX];
	hash_bytes((const char *)s + sizeof s->check, sizeof *s - sizeof s->check, hex);
	memcpy(ret, hex, sizeof s->check);
}

struct bucket {
	struct slot at[BUCKET]; /* what the file does not have yet is zero */
};

static off_t place_of(const struct slot *s)
{
	uint64_t key = (s->ino ^ s->dev << 40) * 0x9e3779b97f4a7c15ULL;
	return (off_t)((key >> 48) % (SLOTS / BUCKET) * sizeof(struct bucket));
}

static void bucket_read(int fd, const struct slot *wanted, struct bucket *ret)
{
	*ret = (struct bucket){ 0 };
	(void)!pread(fd, ret, sizeof *ret, place_of(wanted));
}

static bool same_file(const struct slot *a, const struct slot *b)
{
	return a->dev == b->dev && a->ino == b->ino;
}

static bool same_tuple(const struct slot *a, const struct slot *b)
{
	return same_file(a, b) && a->size == b->size && a->mtime_ns == b->mtime_ns &&
	       a->ctime_ns == b->ctime_ns;
}

int contents_cache_open(const char *home)
{
	CLEANUP_FREE char *path = xasprintf("%s/cache/digests", home);
	return open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
}

bool contents_cache_get(int fd, const struct stat *st, char ret_hex[HASH_HEX])
{
	struct slot wanted = slot_for(st);
	struct bucket b;
	char check[sizeof wanted.check];
	if (fd < 0)
		return false;
	bucket_read(fd, &wanted, &b);
	for (size_t i = 0; i < BUCKET; i++) {
		const struct slot *found = &b.at[i];
		if (!same_tuple(found, &wanted))
			continue;
		sign(found, check);
		if (memcmp(check, found->check, sizeof check) != 0)
			continue;
		memcpy(ret_hex, found->hex, sizeof found->hex);
		ret_hex[sizeof found->hex] = 0;
		return true;
	}
	return false;
}

/* Where it was before, else where nothing is, else in place of one that chance names. */
static size_t choose(const struct bucket *b, const struct slot *s)
{
	for (size_t i = 0; i < BUCKET; i++)
		if (same_file(&b->at[i], s))
			return i;
	for (size_t i = 0; i < BUCKET; i++)
		if (!b->at[i].ino)
			return i;
	return (uint64_t)s->ctime_ns / 1024 % BUCKET;
}

void contents_cache_put(int fd, const struct stat *st, const char *hex)
{
	struct slot s = slot_for(st);
	struct bucket b;
	if (fd < 0)
		return;
	memcpy(s.hex, hex, sizeof s.hex);
	sign(&s, s.check);
	bucket_read(fd, &s, &b);
	(void)!pwrite(fd, &s, sizeof s, place_of(&s) + (off_t)(choose(&b, &s) * sizeof s));
}
