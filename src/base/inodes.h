/* A set of inode numbers of one file system, for counting each file once. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* An open-addressed table, a power of two in size, at most half full. No file system uses inode 0. */
struct inode_set {
	ino_t *slots; /* owned */
	size_t size, used;
};

/* True if the number was not in the set before. */
bool inode_set_add(struct inode_set *set, ino_t ino);
bool inode_set_has(const struct inode_set *set, ino_t ino);
void inode_set_release(struct inode_set *set);
