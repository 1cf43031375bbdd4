/* A run as one page: verdict, use against limits, timeline, outputs, logs. It needs nothing but itself: no script, no other host, and a
 * policy that would refuse both, so that a name or a log that was chosen to be markup is still text. */
#pragma once

#include "view/dossier.h"

/* `crate` (or NULL) is put into the page as JSON-LD. */
void report_html(const struct dossier *d, const json_t *crate, struct str *ret);
