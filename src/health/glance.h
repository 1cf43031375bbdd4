/* How everything stands, from what doctor, verify, protect, runtime check and gc have found: nothing is looked at anew. */
#pragma once

#include "base/err.h"
#include "base/json.h"
#include "spec/config.h"

#define GLANCE_OLD_DAYS 35 /* a record that is older vouches for nothing */

/* GLANCE_UNKNOWN: never looked at, not lately, or it could not be. */
enum glance_level { GLANCE_OK, GLANCE_UNKNOWN, GLANCE_PROBLEM };
extern const char *const glance_level_names[];

/* Rows {"kind","subject","level","status","time" or null,"age_s" or null,"summary","command"}; `command` looks again, or mends. *ret_worst is the
 * worst level of all. */
int glance(const struct config *c, json_t **ret, enum glance_level *ret_worst, struct err *err);
