/* The parts of making a runtime, between create.c and the files for each kind. */
#pragma once

#include "run/create.h"
#include "runtime/made.h"

/* A making under way. */
struct creation {
	const struct config *config;    /* borrowed */
	const struct create_request *q; /* borrowed */
	struct making making;
	char *dir;     /* owned; HOME/runtimes/NAME/GENERATION */
	char *log;     /* owned; its path */
	int log_fd;    /* owned */
	char *place;   /* owned; what the entry will name */
	json_t *notes; /* owned */
};

/* Each builds below `dir` and sets `place`. */
int create_venv(struct creation *c, struct err *err);
int create_rootfs(struct creation *c, struct err *err);
int create_conda(struct creation *c, struct err *err);
int create_image(struct creation *c, struct err *err);

/* create_tool.c */
struct tool {
	const char *phase; /* for people: "install packages" */
	struct strv argv;  /* argv[0] is the program's path */
	const char *out;   /* NULL, or a new file for its standard output, which is else logged */
	const char *temp;  /* NULL, or its TMPDIR */
};
void tool_release(struct tool *t);
#define CLEANUP_TOOL CLEANUP(tool_release)
/* The program's path by the caller's PATH, or as it is if it has a slash; NULL: it is not there. */
char *tool_find(const char *name);
/* Runs it to its end. Its failure is an error with its last words. -ECANCELED: we were told to end, and it is dead. */
int tool_run(struct creation *c, struct tool *t, struct err *err);
void create_tell(const struct creation *c, const char *phase);

/* create_entry.c */
/* Where the entry has to be copied for `cupel run` to find it; NULL if it is found where it is. Owned by the caller. */
char *create_entry_own(const struct config *c, const char *entry, const char *name);
char *create_entry_path(const struct create_request *q, const char *name, struct err *err);
int entry_write(const struct creation *c, const char *path, struct err *err);
