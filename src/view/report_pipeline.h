/* A pipeline as one page: how it stands, its steps as a drawing and as a table, when each ran, what failed and why, figures. As the page of a
 * run it has no script and loads nothing. However many shards there are it stays of a size that browsers show: what is left out is said. */
#pragma once

#include "view/pipeline_dossier.h"

/* `crate` (or NULL) is put into the page as JSON-LD, unless it is too large. */
void report_pipeline(const struct config *c, const struct pipeline_dossier *d, const json_t *crate,
		     struct str *ret);
