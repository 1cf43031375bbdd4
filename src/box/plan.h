/* What an analysis may touch, as data. plan_make() is a pure function of analysis, runtime, limits
 * and host facts; `cupel plan` prints its result; mount.c carries it out in one loop. */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "box/host.h"
#include "runtime/runtime.h"
#include "spec/analysis.h"
#include "spec/config.h"
#include "spec/limits.h"

/* Inside, every analysis is this user, so that nothing depends on which host uid it got. */
#define BOX_UID  1000
#define BOX_GID  1000
#define BOX_USER "analysis"

enum step_kind {
	STEP_TMPFS, /* a sized tmpfs, its memory counted in the budget */
	STEP_BIND,  /* `source` of the host, with everything below it */
	STEP_WORK, /* the working directory, writable; with a size it is a tmpfs of that size, which init makes */
	STEP_CHECKPOINT, /* in it, and writable too: what survives the run; `source` is its directory on the host */
	STEP_PROC,   /* the box's own procfs, read-only */
	STEP_DEVICE, /* one device node of the host */
	STEP_SOCKET, /* a socket of the host, to connect to */
	STEP_DIR,    /* a directory */
	STEP_FILE,   /* a file with `source` as its content */
	STEP_LINK,   /* a symbolic link to `source` */
	STEP_MASK,   /* an empty file or directory over what is there; skipped where nothing is */
	STEP_COVER,  /* `source`, a file made before inside the box, over what is there */
	STEP_IMAGE, /* the runtime's own file system, for the time of the set-up; `source` is its file */
	STEP_DROP, /* lets go of that at `target`: what was shown of it stays */
	STEP_SEAL, /* the mount at `target` becomes read-only: all mount points are made */
};

/* Whose the files of a bind mount are, as seen in the box: mount_setattr(2), MOUNT_ATTR_IDMAP. */
enum step_ids {
	IDS_PLAIN,    /* the owners of the host */
	IDS_UNMAPPED, /* nobody's. The kernel refuses every write access to such a file, and connecting to a socket is one; "other" may still read */
	IDS_RUN, /* one owner and one group of the host are the run's own: for files that others may not read */
};

struct step {
	enum step_kind kind;
	char *target;        /* owned; absolute, inside the box */
	char *source;        /* owned or NULL */
	uint64_t size_bytes; /* STEP_TMPFS, STEP_WORK in memory; 0: it is on the disk */
	uint64_t inodes;
	mode_t mode;       /* STEP_TMPFS, STEP_DIR, STEP_FILE */
	bool writable;     /* STEP_BIND, STEP_TMPFS */
	bool inside;       /* STEP_BIND: `source` is a path in the box */
	enum step_ids ids; /* STEP_BIND */
	bool is_searched; /* STEP_BIND: no socket or FIFO may be in it, unless its files are nobody's */
	uid_t owner_uid; /* IDS_RUN: who becomes the run's user, and the run's group */
	gid_t owner_gid;
	bool secret; /* STEP_FILE: for the analysis's user alone, and in no record */
	bool any_kind; /* STEP_DEVICE: the runtime names it; otherwise only memory devices are what they seem */
};

enum access { ACCESS_READ, ACCESS_WRITE, ACCESS_DEVICE };

/* The same policy again, for Landlock. */
struct rule {
	char *path; /* owned */
	enum access access;
};

struct plan_rlimit {
	int resource;
	const char *name;
	uint64_t value;
};

struct plan {
	char *id;       /* owned */
	char *work_dir; /* owned; in the box */
	char *host_work_dir; /* owned; the same on the host: another path if the caller has a directory there */
	char *cwd;          /* owned */
	char *hostname;     /* owned */
	char *checkpoint;   /* owned or NULL; where the checkpoint is in the box */
	struct step *steps; /* owned; in the order they are carried out */
	size_t n_steps;
	struct rule *rules; /* owned */
	size_t n_rules;
	struct strv argv;
	struct strv env;
	struct strv work_dirs; /* made in the working directory before the box starts */
	struct plan_rlimit rlimits[8];
	size_t n_rlimits;
	cpu_set_t cpus; /* the analysis may use these */
	int n_cpus;
	unsigned cpu_weight; /* of all runs together, see cupel.yaml(5) */
	bool own_network;
	int landlock_abi;    /* 0: there is none, and that was allowed */
	struct strv missing; /* layers the caller or the host's policy allows to be missing */
	struct limits limits;
	struct strv
		warnings; /* what a person should know: a layer that is allowed to be missing... */
};

/* What a step of the host's is given beside what every analysis has: the outputs of a run, and a database. All borrowed. */
struct plan_grant {
	const char *run_id;        /* CUPEL_RUN_ID: of the run whose outputs these are */
	const char *outputs;       /* real path; NULL: it left none */
	const char *database_dir;  /* SQLite: real path of the file's directory; NULL: a server */
	const struct strv *others; /* what else is in that directory, and is covered */
	const char *socket;        /* real path of the server's; NULL: none */
	const char *socket_name;   /* as clients look for it */
	const char *pgpass;        /* content of libpq's password file, or NULL */
	const char *url;           /* CUPEL_DATABASE_URL */
};
/* Where the database is in the box. */
#define PLAN_DATABASE_DIR "/run/cupel/database"
/* What an analysis is told of itself; filled in once that is known. */
#define PLAN_PROVENANCE "/run/cupel/provenance.json"

struct plan_request {
	const char *id;
	const struct analysis *analysis;
	const struct config *config;
	const struct runtime *runtime;
	const struct host *host;
	const struct limits *limits; /* resolved */
	const struct strv *
		data_entries; /* names in the project's data directory; needed only beside inputs */
	const struct plan_grant *grant; /* NULL: this is no step of the host's */
	uint64_t deadline_unix;         /* for CUPEL_DEADLINE; 0 in `cupel plan` */
	const char *
		snapshot; /* where the copy of the analysis's db_snapshot will be; NULL: it has none */
	const char *home;         /* the real path of the home; needed only for a checkpoint */
	bool caller_has_work_dir; /* the caller made a directory at the path of the working directory: it is his, and stays as it is */
};

void plan_release(struct plan *p);
#define CLEANUP_PLAN CLEANUP(plan_release)

/* Errors: inputs that collide or show protected paths (caller); Landlock missing and not allowed to be (layer). */
int plan_make(const struct plan_request *request, struct plan *ret, struct err *err);
/* What there is of a plan where the runtime is out of reach: names and limits, nothing that could be carried out. */
void plan_refused(const struct plan_request *request, struct plan *ret);
/* Where its checkpoint is on the host, once that is known. */
void plan_set_checkpoint(struct plan *p, const char *home, const char *key);
/* Shows what comes from `source` with the rights of this user and this group: to this run alone. */
void plan_show_as(struct plan *p, const char *source, uid_t uid, gid_t gid);
json_t *plan_json(const struct plan *p);
/* The same as text, which each run records. Owned by the caller. */
char *plan_text(const struct plan *p);
bool plan_may_miss(const struct plan *p, const char *layer);
const char *step_kind_name(enum step_kind kind);
const char *step_ids_name(enum step_ids ids);
