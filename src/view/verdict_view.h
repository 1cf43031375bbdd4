/* A run's record for people and programs. */
#pragma once

#include "base/err.h"

/* verdict.json of the run directory as one line on stdout. */
int verdict_print_json(const char *run_dir, struct err *err);
/* Two or three lines on stderr: what happened and where the record is. */
int verdict_print_summary(const char *run_dir, struct err *err);
/* Where nothing is to be said of an analysis: that cupel itself could not run it is said all the same. */
int verdict_print_failure(const char *run_dir, struct err *err);
