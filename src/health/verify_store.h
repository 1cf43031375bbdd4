/* Shared by verify_store.c, which reads the objects, and verify_outputs.c, which asks the runs about them. */
#pragma once

#include <stdatomic.h>

#include "base/hash.h"
#include "health/verify_parts.h"

#define STORE "store/sha256"

struct object {
	char hex[HASH_HEX];  /* its name */
	char seen[HASH_HEX]; /* its bytes; "" if they could not be read */
	int result;          /* negative errno */
	uint64_t size, links;
};

struct storing {
	struct verifying *v; /* borrowed */
	int root_fd;         /* owned; -1: there is no store */
	bool chosen[VERIFY_SHELVES];
	struct object *objects; /* owned; in the order they are looked at */
	size_t n, room, done;
	uint64_t began_ns, deadline_ns;
	atomic_size_t next;
	atomic_uint_fast64_t files, bytes;
};

/* Names what is wrong with the objects that were looked at, and what the runs miss. */
void store_compare(struct storing *s);
