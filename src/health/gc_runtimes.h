/* Leftovers of `cupel runtime create` and `remove`: generations that were never finished, or that a newer one replaced while a run still
 * used them. */
#pragma once

#include "health/gc.h"

/* Only names that somebody was at work on are looked at, so it costs next to nothing. Safe beside live work and beside another gc. */
void gc_runtimes(const struct config *c, struct gc_report *report);
