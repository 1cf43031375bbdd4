/* The checks of collected outputs, before they count. Their bytes are the analysis's: they are parsed by a process that has them mapped,
 * one pipe, and no system call but write and exit (seccomp's strict mode), so that a fault of a parser gains nobody anything.
 * Whoever calls this has one thread. */
#pragma once

#include "collect/outputs.h"

#define EXAMINE_FILE_MS 30000  /* for one file; then it is unchecked */
#define EXAMINE_RUN_MS  120000 /* for all of a run */

/* Fills `finding` of each file below outputs/ whose check is not off, and `invalid`, `n_warned` and `warning`. Never fails: what could not
 * be looked at is unchecked, and says why. */
void outputs_examine(int run_fd, struct manifest *m);
