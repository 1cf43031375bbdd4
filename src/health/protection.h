/* What is protected against what was accepted: looked at, remembered, accepted anew. */
#pragma once

#include "base/err.h"
#include "base/json.h"
#include "protect/protect.h"
#include "spec/config.h"

#define PROTECTION_NAMED_MAX 50

/* {"what","kind","status","accepted","accepted_by","files","changes","first","runs","error","remedy"}. Status: "ok"; "changed", with what differs; "new", nothing
 * was accepted yet; "unchecked", with the error. `first` holds {"kind","what","detail","owner"}; `runs`
 * the ids of the runs that were alive when a run last saw it change. What was found becomes a health record
 * (file and ledger). */
int protection_check(const struct protect_look *q, json_t **ret, struct err *err);
/* Takes it as it is now, at content depth: `q->depth` does not matter. "changes" are those that are accepted with it. */
int protection_accept(const struct protect_look *q, json_t **ret, struct err *err);
/* What is known without a look: {"what","accepted","accepted_by","files","checked","status","summary"}. */
int protection_status(const struct config *c, const char *what, json_t **ret, struct err *err);
