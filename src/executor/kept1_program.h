/* kept1.c as a program that can be put wherever a container finds it. */
#pragma once

#include "base/err.h"

/* Writes it as a new file, executable for all. */
int kept1_put(int dir_fd, const char *name, struct err *err);
