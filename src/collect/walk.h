/* The walk over a working directory, between the files that carry it out: outputs.c looks, take.c takes. */
#pragma once

#include "collect/batch.h"
#include "collect/entry.h"
#include "collect/outputs.h"
#include "collect/pattern.h"
#include "collect/rights.h"

struct walk {
	const struct collect_request *request; /* borrowed from the caller */
	struct rights rights;
	struct pattern *patterns; /* owned; one for each output, as is `found` */
	bool *found;              /* owned */
	struct manifest manifest;
	struct batch *batch; /* owned */
	uint64_t entries, taken;
	uint64_t listed; /* against OUTPUT_LISTED_MAX */
	char temp[sizeof OUTPUT_TEMP_PREFIX + 16];
	bool temp_made;
	bool disk_asked, disk_failed; /* something written to the working directory was lost */
};

/* A directory being walked, and its copy once something below it was taken. */
struct level {
	struct level *parent;   /* borrowed; NULL at the top */
	const char *name;       /* borrowed */
	const char *path;       /* borrowed; "" at the top */
	const uint64_t *states; /* borrowed; of each pattern after this path */
	unsigned depth;
	DIR *dir;    /* owned */
	int dest_fd; /* owned; -1 until needed */
};

/* A name in it that a pattern is about. */
struct item {
	struct level *level; /* borrowed, as is name */
	const char *name;
	char *path; /* owned */
	struct entry entry;
	const uint64_t *states; /* borrowed */
	bool wanted;            /* matched, not only on the way to a match */
};

/* Puts an opened file into the batch, within the caps. */
int item_take(struct walk *w, struct item *item, struct err *err);
/* Copies what waits, and enters it into the manifest. */
int walk_flush(struct walk *w, struct err *err);
