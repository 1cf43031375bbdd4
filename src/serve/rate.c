/* Buckets, by name. Of more names than there is room for, the ones that asked longest ago are forgotten: their buckets are full again. */
#include "serve/rate.h"

#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "serve/identity.h"

#define BUCKETS  4096
#define WAYS     4 /* places that a name may have */
#define EACH_NS  (NS_PER_SEC / RATE_PER_SECOND)
#define BURST_NS (EACH_NS * RATE_BURST)

struct bucket {
	char name[IDENTITY_NAME_MAX + 1];
	uint64_t full_ns; /* when it will be full again; the room left is what is missing to that */
	uint64_t asked_ns;
};
struct rates {
	struct bucket v[BUCKETS];
};

struct rates *rates_new(void)
{
	return xcalloc(1, sizeof(struct rates));
}

void rates_free(struct rates *r)
{
	free(r);
}

static uint32_t place_of(const char *name)
{
	uint32_t h = 2166136261u; /* FNV-1a: names are not chosen by those who ask */
	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 16777619u;
	return h % (BUCKETS / WAYS) * WAYS;
}

static struct bucket *find(struct rates *r, const char *name)
{
	struct bucket *places = &r->v[place_of(name)], *oldest = places;
	for (size_t i = 0; i < WAYS; i++) {
		if (str_eq(places[i].name, name))
			return &places[i];
		if (places[i].asked_ns < oldest->asked_ns)
			oldest = &places[i];
	}
	*oldest = (struct bucket){ 0 };
	(void)snprintf(oldest->name, sizeof oldest->name, "%s", name);
	return oldest;
}

uint64_t rates_ask(struct rates *r, const char *name, uint64_t now_ns)
{
	struct bucket *b = find(r, name);
	b->asked_ns = now_ns;
	if (b->full_ns < now_ns)
		b->full_ns = now_ns;
	if (b->full_ns + EACH_NS > now_ns + BURST_NS)
		return b->full_ns + EACH_NS - now_ns - BURST_NS;
	b->full_ns += EACH_NS;
	return 0;
}
