/* Which checkpoint an analysis has: the same for the same analysis, and never that of another. */
#pragma once

#include "run/run.h"

/* Over what the run is: code, arguments, inputs by content, variables, parameters, runtime; not its id, limits or time. Needs the
 * contents of a resolved analysis. */
void checkpoint_key(const struct analysis *a, const struct resolved *r, char ret_hex[HASH_HEX]);
/* Makes the key that of a submitter of a service (config.submitter): two users who submit the same analysis neither read each other's
 * checkpoint nor lock each other out. Nothing changes for "", a run without a submitter. Call it once per key. */
void checkpoint_key_for(const char *submitter, char hex[HASH_HEX]);
