/* Where `cupel doctor` tries things out: HOME/doctor, a home of its own, so that no trial is ever seen among the runs, nor owed to the
 * ledger. It goes when the doctor is done; HOME/doctor.lock, held meanwhile, tells a live one from what a dead one left. */
#pragma once

#include "base/err.h"
#include "health/gc.h"
#include "spec/config.h"

/* Waits for another doctor of this home. The lock ends with the descriptor or the process. */
int doctor_lock(const struct config *c, int *ret_fd, struct err *err);
/* The doctor's own: by whoever holds the lock. What runs there had on the host is swept first; a run that still lives stays, and all of
 * the home with it. *ret_alive says how many. */
int doctor_clear(const struct config *c, uint64_t *ret_alive, struct err *err);
/* What a dead doctor left, and half a record in HOME/health; nothing happens while one is alive. */
void gc_doctor(const struct config *c, struct gc_report *report);
/* The home of the trials. The caller's to free. */
char *doctor_home(const struct config *c);
