/* Digests of files by their stat tuples: a table of fixed size in one file, so that it costs one read to ask, can't grow, and needs no
 * lock. An entry that another one takes the place of, or that a crash tore, is simply not known. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "base/hash.h"

/* HOME/cache/digests, or -1. */
int contents_cache_open(const char *home);
bool contents_cache_get(int fd, const struct stat *st, char ret_hex[HASH_HEX]);
void contents_cache_put(int fd, const struct stat *st, const char *hex);
