/* Run ids: part of paths and cgroup names, so they are checked before anything is touched. */
#pragma once

#include "base/err.h"
#include "base/str.h"

#define ID_MAX 64

/* 1 to 64 of A-Z a-z 0-9 . _ - , beginning with a letter or digit, without "..". */
int id_check(const char *id, struct err *err);
/* The same of the name of a runtime, in its own words. */
int id_check_runtime(const char *name, struct err *err);
/* The same for a name made of an id and a tag: at most ID_GROUP_MAX. */
#define ID_GROUP_MAX (ID_MAX + 16)
int id_check_group(const char *name, struct err *err);
/* Sortable by time (milliseconds), 13 lower-case characters with 20 bits of chance. */
void id_generate(char ret[ID_MAX + 1]);
/* The ids that name an entry of HOME/DIRECTORY (runs, active, undelivered), sorted; a directory that is not there has none. All names
 * first, then work: entries vanish meanwhile. */
int id_list(const char *home, const char *directory, struct strv *ret, struct err *err);
/* -ENOENT: the caller named a run that is not there; if it is a pipeline the error says so. */
int id_no_run(const char *home, const char *id, struct err *err);
