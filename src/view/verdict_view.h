/* A run's record for people and programs. */
#pragma once

#include "base/err.h"

/* verdict.json of the run directory as one line on stdout. */
int verdict_print_json(const char *run_dir, struct err *err);
/* Two or three lines on stderr: what happened and where the record is. */
int verdict_print_summary(const char *run_dir, struct err *err);
