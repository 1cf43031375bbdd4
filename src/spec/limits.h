/* The limits of a budget as one table: each row has its name in files, its unit, its built-in
 * value and the sentence that explains it. Everything that reads, merges, caps or prints limits
 * walks the table, so a new limit is one row here and its enforcement.
 *
 * 0 means "not said". It is never a value: the parsers refuse zero, and a limit that nobody set
 * stays at the profile's value. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum limit_id {
	LIMIT_MEMORY, /* bytes, with tmpfs and shm, no swap */
	LIMIT_CPUS,   /* thousandths of a cpu */
	LIMIT_PIDS,
	LIMIT_TIME,     /* ns of wall clock */
	LIMIT_CPU_TIME, /* ns of cpu */
	LIMIT_DISK,     /* bytes of the working directory */
	LIMIT_INODES,   /* files of the working directory */
	LIMIT_LOG,      /* bytes kept of stdout and of stderr, each */
	LIMIT_OPEN_FILES,
	LIMIT_FILE_SIZE,    /* bytes of one file */
	LIMIT_OUTPUT_SIZE,  /* bytes collected in all */
	LIMIT_OUTPUT_COUNT, /* files collected */
	LIMIT_GRACE,        /* ns between SIGTERM and the kill */
	LIMIT_WARN,         /* ns before the deadline at which warn_signal is sent */
	LIMIT_COUNT_
};

enum limit_unit { LIMIT_UNIT_SIZE, LIMIT_UNIT_CPUS, LIMIT_UNIT_DURATION, LIMIT_UNIT_COUNT };

struct limit_info {
	const char *key; /* in files and as --option: "memory", "cpu_time" (option "--cpu-time") */
	enum limit_unit unit;
	uint64_t minimum; /* below it a box could not even start */
	uint64_t
		built_in; /* the `default` profile; 0: no such limit unless asked (cpu_time, warn) */
	const char *help;
};

extern const struct limit_info limit_infos[LIMIT_COUNT_];

struct limits {
	struct {
		uint64_t value; /* 0: not said */
		char origin
			[128]; /* where it was said: "built-in", "/etc/cupel/cupel.yaml:3", "--memory" */
	} at[LIMIT_COUNT_];
};

/* Strict, by the row's unit. */
int limit_parse(enum limit_id id, const char *text, uint64_t *ret, struct err *err);
/* The form limit_parse reads back. */
char *limit_write(enum limit_id id, uint64_t value, char *buffer, size_t room);
/* -1 if there is none of that key. */
int limit_find(const char *key);
void limits_set(struct limits *limits, enum limit_id id, uint64_t value, const char *origin);
/* Every value said in `from` replaces the one in `limits`. */
void limits_merge(struct limits *limits, const struct limits *from);
/* The built-in profile: `default`, `notebook` (600 s), `tool`, `post_process`; -ENOENT otherwise. */
int limits_profile(const char *name, struct limits *ret);
/* -EPERM naming the limit, both values and where the ceiling was set, if any value is above it. */
int limits_check_ceilings(const struct limits *limits, const struct limits *ceilings,
			  struct err *err);

struct document;
struct node;
/* A YAML map by limit keys; every value said replaces the one in `limits`, its origin is FILE:LINE. */
int limits_read(const struct document *d, const struct node *map, struct limits *limits,
		struct err *err);
