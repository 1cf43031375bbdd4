/* Between the files about checkpoints; nobody else includes it. */
#pragma once

#include "budget/checkpoint.h"

#define CHECKPOINT_LOCK  "lock"
#define CHECKPOINT_DISK  "disk.img"
#define CHECKPOINT_FILES "files"
#define CHECKPOINT_OLD   ".old-" /* what is being removed */

/* HOME/checkpoints; O_CREAT: made if need be. Negative errno. */
int checkpoint_open_all(const char *home, int flags);
/* Waits for the gate; it is passed until the descriptor is closed. Negative errno. */
int checkpoint_gate(int all_fd);
/* -EAGAIN if another process holds it. */
int checkpoint_lock(int dir_fd, int flags, int *ret_fd);
/* Not by the process that holds the lock: it would lose it. */
void checkpoint_holder(int dir_fd, char ret[ID_MAX + 1]);
/* Gives KEY another name, behind the gate, and removes it. The caller has its lock. */
int checkpoint_discard(int all_fd, const char *key, struct err *err);
