/* A run as a Process Run Crate (profile 0.5 of Workflow Run RO-Crate, on RO-Crate 1.1): a flat JSON-LD graph, made of the record alone. */
#pragma once

#include "view/dossier.h"

#define CRATE_METADATA "ro-crate-metadata.json"
#define CRATE_PREVIEW  "ro-crate-preview.html"

/* The graph for a directory that holds `files`, CRATE_METADATA and, unless the crate is in place, CRATE_PREVIEW. Owned by the caller. The same record gives the same
 * text, whenever it is asked. */
json_t *crate_json(const struct dossier *d, const struct crate_files *files);
/* Makes the directory of a complete run a crate: CRATE_METADATA beside the files that it describes. One that is there stays. */
int crate_write(const struct config *c, const char *id, struct err *err);
/* A path as a URI reference: everything but unreserved characters and '/' is percent-encoded, byte by byte. Owned by the caller. */
char *crate_uri(const char *path);
