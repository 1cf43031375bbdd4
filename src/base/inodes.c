/* A set of inode numbers: open addressing, multiplicative hashing, doubled when half full. */
#include "base/inodes.h"

#include <stdint.h>

#include "base/cleanup.h"
#include "base/str.h"

static ino_t *find_slot(const struct inode_set *set, ino_t ino)
{
	size_t at = (size_t)((uint64_t)ino * 0x9e3779b97f4a7c15ULL >> 17) & (set->size - 1);

	while (set->slots[at] != 0 && set->slots[at] != ino)
		at = (at + 1) & (set->size - 1);
	return &set->slots[at];
}

bool inode_set_add(struct inode_set *set, ino_t ino)
{
	if (2 * (set->used + 1) > set->size) {
		struct inode_set larger = { .size = set->size ? 2 * set->size : 256,
					    .used = set->used };

		larger.slots = xcalloc(larger.size, sizeof(*larger.slots));
		for (size_t i = 0; i < set->size; i++)
			if (set->slots[i] != 0)
				*find_slot(&larger, set->slots[i]) = set->slots[i];
		free(set->slots);
		*set = larger;
	}
	ino_t *slot = find_slot(set, ino);
	if (*slot == ino)
		return false;
	*slot = ino;
	set->used++;
	return true;
}

bool inode_set_has(const struct inode_set *set, ino_t ino)
{
	return set->size > 0 && *find_slot(set, ino) == ino;
}

void inode_set_release(struct inode_set *set)
{
	cleanup_free(&set->slots);
	*set = (struct inode_set){ 0 };
}
