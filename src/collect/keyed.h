/* Results by what they depend on: HOME/keys/ab/cdef..., one small file for the key of an analysis, which names the run that made the
 * result. Written whole or not at all, with a digest over itself; a file that is torn, or of another key, is none. The runs are the
 * truth: an entry that is lost costs a run, and one whose run is gone is dropped. */
#pragma once

#include <stdbool.h>

#include "base/hash.h"
#include "base/json.h"
#include "collect/store.h"

bool keyed_is_key(const char *key); /* 64 hexadecimal digits */
/* {"key","run","time","outputs":[{path,path_hex,size,sha256,media_type}]}. Takes the place of what was there. */
int keyed_write(int home_fd, const char *key, const json_t *entry, struct err *err);
/* From HOME/keys. -ENOENT: there is none; -EBADMSG: it is none; other negative errno: it can't be read. */
int keyed_read(int keys_fd, const char *key, json_t **ret);
void keyed_drop(int keys_fd, const char *key);
/* Drops, or only counts, entries whose run is gone, and those that are none. */
int keyed_prune(int home_fd, enum store_prune act, uint64_t *ret_entries, struct err *err);
