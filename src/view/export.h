/* A crate as a directory or as a zip file. */
#pragma once

#include "view/dossier.h"

struct exported {
	char *path; /* owned */
	uint64_t files, bytes;
};
void exported_release(struct exported *e);
#define CLEANUP_EXPORTED CLEANUP(exported_release)

/* What is exported. Borrowed. */
struct export_what {
	const struct crate_files *files;
	const json_t *crate;    /* becomes CRATE_METADATA */
	const struct str *page; /* becomes CRATE_PREVIEW */
	const char *ended;      /* RFC 3339: the time of the files in a zip file */
};

/* `to` ends in .zip, or is a directory that will be made. Neither may exist (-EEXIST, caller): it is there whole or not at all. Each file is
 * held against its digest while it is copied: -EBADMSG (host) names one that is not what was recorded. A zip file of the same record
 * has the same bytes, in one time zone. */
int export_crate(const struct export_what *what, const char *to, struct exported *ret,
		 struct err *err);
