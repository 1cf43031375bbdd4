/* The kinds of executors, for executor.c: each fills x->ops and x->data. */
#pragma once

#include "executor/executor.h"

int executor_open_engine(struct executor *x, struct err *err);
int executor_open_slurm(struct executor *x, struct err *err);
int executor_open_program(struct executor *x, struct err *err);
/* away.c: takes *x, and gives one that can be out of reach. */
void executor_may_be_away(struct executor **x);
