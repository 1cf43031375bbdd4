/* The run directory: runs/ID below the home, the truth about a run.
 *
 * While a run is alive its keeper holds a POSIX lock on active/ID. Such a lock belongs to the one process and ends with it, however it ends
 * (children do not inherit it), so "is this run alive?" has an answer that cannot go stale. verdict.json is written last: a run with it
 * is complete, a run without it and without a lock is lost (health/gc.c). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/str.h"

#define RECORD_FILES_MAX 8
#define RECORD_JOBS      "jobs" /* in the home: what was written for a job elsewhere, by id */

struct record {
	char *id;      /* owned */
	int home_fd;   /* owned; O_PATH */
	int dir_fd;    /* owned; runs/ID */
	int active_fd; /* owned; active/ID, locked */
	int events_fd; /* owned */
	uint64_t n_events;
	char chain[HASH_HEX]; /* sha256 of the line before */
	struct {
		const char *name;
		int fd;
	} unsynced[RECORD_FILES_MAX]; /* owned; written, not yet durable */
	size_t n_unsynced;
	struct str unwritten; /* owned; lines that the disk did not take yet */
	json_t *digests;      /* owned; sha256 of the files by name, for the last event */
	bool leaves_traces; /* something of the run is left on the host: active/ID stays, for gc */
};

#define RECORD_INIT                                                                                \
	{                                                                                          \
		.home_fd = -1, .dir_fd = -1, .active_fd = -1, .events_fd = -1                      \
	}

/* What gc must know of a run whose keeper left no other word. */
struct record_traces {
	const char *work_dir;
	const char *cgroup_parent;
};

/* The name of a run's group: two homes on one host may each have a run of that id, and two may have one path, each in a mount namespace of its
 * own. */
char *record_group(const char *home, const char *id);

/* A home that is there must be one that nobody else can write: before anything in it is believed, or anything is put into it. */
int record_home_trust(const char *home, struct err *err);
/* Makes the home with runs/, active/ if need be. */
int record_home(const char *home, struct err *err);
/* Takes the id: -EEXIST (caller) if it is in use or was used before. From here on gc would find the run. */
int record_claim(const char *home, const char *id, const struct record_traces *traces,
		 struct record *ret, struct err *err);
/* Gives the id back: nothing was recorded under it but what record_claim made and events. Negative errno: it may be in use for good. */
int record_unclaim(struct record *r);
/* gc: takes over the directory of a dead run; -EAGAIN if its keeper lives, -ENOENT if there never was a run directory
 * (an entry that was left without one is then gone). If somebody removed the directory, dir_fd is -1 and the entry all there is. */
int record_adopt(const char *home, const char *id, struct record *ret, struct err *err);
/* Waits until no process holds the run, be it its keeper or a gc. -ENOENT if it is no longer active. */
int record_wait(const char *home, const char *id);
void record_release(struct record *r);

/* For gc: something was made that it must remove if we die. One line. Durable where it would outlive a restart of the host. */
enum record_note { RECORD_NOTE_PLAIN, RECORD_NOTE_DURABLE };
int record_note(struct record *r, const char *line, enum record_note how);

/* One line, chained: n, time, event, data (may be NULL; taken), prev. Without `err` nobody is there to act on a failure: a line that
 * cannot be written now goes with the next one, and without it the record is not finished. */
int record_event(struct record *r, const char *event, json_t *data, struct err *err);
/* Files and events up to here survive a power cut. */
int record_sync(struct record *r, struct err *err);
/* Has them on their way to the disk, without waiting. */
void record_begin_sync(const struct record *r);
/* A file beside the others, durable after the next record_sync. `name` is static. Takes `value`. */
int record_file(struct record *r, const char *name, json_t *value, struct err *err);
/* The same for text, without its last end of line; takes it. */
int record_text(struct record *r, const char *name, char *taken, struct err *err);
/* A file that was written by other means; takes the descriptor. */
void record_owe_sync(struct record *r, const char *name, int fd);
/* The id and all that was written up to here survive a power cut. */
int record_sync_claim(struct record *r, struct err *err);
/* Outputs that were collected, but that no verdict will vouch for, are in partial/ from here on. 1 if there are some. */
int record_set_outputs_aside(struct record *r, struct err *err);
/* The run is complete: active/ID becomes undelivered/ID, which says that it is owed to the ledger. One rename, and nothing that a run
 * would wait for. Negative errno. */
int record_owe(const struct record *r);
/* The SHA-256 of a file that is whole, among those that the last event vouches for; a file that is not there has none. */
void record_digest(struct record *r, const char *name);
/* Puts into the data of the last event what makes it vouch for the rest: "files", name to sha256, and "verdict_sha256". */
void record_seal(struct record *r, const json_t *verdict, json_t *data);
/* Of a verdict as it was before record_finish added "events" to it. */
void record_verdict_digest(const json_t *verdict, char ret_hex[HASH_HEX]);
/* Adds "events" to the verdict: how many there are, and the SHA-256 of the last. Syncs what was written, then verdict.json
 * atomically, then drops active/ID (record_owe). Takes `verdict`. */
int record_finish(struct record *r, json_t *verdict, struct err *err);
