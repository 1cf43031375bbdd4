/* One tar stream applied to a directory, as the layers of an image are, from hands that are not trusted.
 *
 * Everything happens below the directory: names are taken as relative to it, links on the way are followed as if it were the root
 * (openat2, RESOLVE_IN_ROOT), and what is in the way is removed before it is written anew, so that nothing is written through a link. A
 * name with ".." refuses the whole stream, as do passed caps and anything malformed. Left out and counted: device nodes, FIFOs and
 * sockets; names with control characters; set-id bits. Files become 0644 or 0755 and belong to whoever unpacks: an analysis is nobody
 * special in its runtime, so owners and finer rights would only hide files from it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"

struct layer_caps {
	uint64_t bytes;   /* of all files, holes counted, and of the stream itself */
	uint64_t entries; /* in all streams */
	unsigned depth;   /* components of a name */
	unsigned
		ratio; /* of a stream to what it was compressed to; looked at from ratio_from bytes on */
	uint64_t ratio_from;
};
extern const struct layer_caps layer_caps_default;

/* Of all streams applied to one directory. */
struct layer_counts {
	uint64_t entries, files, bytes;
	uint64_t devices;   /* left out: device nodes, FIFOs, sockets */
	uint64_t odd_names; /* left out: control characters in the name */
	uint64_t set_id;    /* bits dropped */
	uint64_t whiteouts; /* that removed something */
};

enum layer_place {
	LAYER_FIRST, /* nothing below it, so its whiteouts mean nothing */
	LAYER_UPPER, /* its whiteouts hide what is below it, and only that, wherever they stand in the stream */
	LAYER_PLAIN, /* no layer but an archive: ".wh." is a name like any other */
};

struct layer {
	int fd;           /* borrowed; read from its start */
	const char *name; /* for messages */
	enum layer_place place;
	const struct layer_caps *caps;
};

/* On failure the directory holds a part, and is the caller's to remove. `ret_digest` is of the stream as it was unpacked, after
 * decompression: what OCI calls a diff id. -EBADMSG, -E2BIG, -EPERM (caller): the stream is at fault. */
int layer_apply(const struct layer *l, int root_fd, struct layer_counts *counts,
		char ret_digest[HASH_HEX], struct err *err);
