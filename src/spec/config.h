/* Configuration: /etc/cupel/cupel.yaml, the user's ($XDG_CONFIG_HOME/cupel/cupel.yaml), the
 * project's cupel.yaml found upward from the current directory; later files override earlier ones.
 *
 * Trust: host policy (ceilings, aggregate, uids, cgroup, policy, home) is the host's and, for an
 * ordinary user's runs, the user's own; a project file may lower ceilings but says nothing else of
 * these. A project file that belongs neither to the caller nor to root is refused. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"
#include "spec/analysis.h"
#include "spec/limits.h"
#include "spec/quest.h"

/* One effective value for `cupel config`: its dotted key, its text, where it came from. */
struct config_value {
	char *key;    /* owned */
	char *text;   /* owned */
	char *origin; /* owned; "built-in", "FILE:LINE", "environment CUPEL_HOME" */
};

struct profile {
	char *name; /* owned */
	struct limits limits;
};

/* A step that outputs are given to before they count. It is trusted: only the host's and the user's own files declare one. */
struct post_process {
	char *name;   /* owned */
	char *origin; /* owned; "FILE:LINE:COLUMN" */
	char *script; /* owned or NULL: `command` says what to run */
	struct strv args;
	struct strv command;
	char *runtime;         /* owned or NULL: base */
	char *database;        /* owned; a URL, as dburl_parse takes it */
	char *database_origin; /* owned */
	char *user;            /* owned or NULL: that of the SQLite file, or one of the run's own */
	struct pairs env;
	struct limits limits;
	struct strv
		submitters; /* of a service, who may name it beside those who may do everything */
};
void post_process_release(struct post_process *p);

enum disk_mechanism { DISK_AUTO, DISK_IMAGE, DISK_WATCHED };
enum cgroup_manager { CGROUP_AUTO, CGROUP_V1, CGROUP_V2, CGROUP_SYSTEMD };

/* The service; see cupel-serve(1). */
#define SERVICE_SOCKET_MAX  100               /* sun_path has 108 */
#define SERVICE_SOCKET_HOST "/run/cupel.sock" /* of the home /var/lib/cupel */
enum visibility { VISIBILITY_OWN, VISIBILITY_ALL };
extern const char *const visibility_names[];
struct service_settings {
	enum visibility visibility; /* which runs a submitter may see: spec/viewer.h */
	char *socket;               /* owned or NULL: see config_service_socket */
	char *group;                /* owned or NULL: only its own user may open the socket */
	char *listen;               /* owned or NULL: no TCP; "ADDRESS:PORT" */
	uint64_t max_running;       /* 0: as many as fit */
	uint64_t max_queued_per_submitter;
	uint64_t max_running_per_submitter; /* 0: as many as fit */
	struct pairs shares;                /* submitter -> weight; others have 1 */
	uint64_t check_runtimes_ns;         /* 0: never */
};
void service_settings_release(struct service_settings *s);

/* Where runs may be carried out beside this host; see cupel-executor(1). */
enum executor_kind {
	EXECUTOR_LOCAL, /* a keeper on this host, in cupel's own box */
	EXECUTOR_OCI,   /* a keeper on this host, in the box of an OCI runtime */
	EXECUTOR_ENGINE,
	EXECUTOR_SLURM,
	EXECUTOR_PROGRAM, /* of the site's own */
	EXECUTOR_KIND_COUNT_
};
extern const char *const executor_kind_names[];
struct executor_settings {
	char *name;   /* owned */
	char *origin; /* owned; "FILE:LINE" */
	enum executor_kind kind;
	struct pairs options;      /* by the keys that the kind knows */
	struct strv words;         /* `flags` or `command` */
	struct strv allow_missing; /* layers that need not be in force there: the host's policy */
	uint64_t patience_ns;      /* so long an engine that can't be reached is waited for */
};
void executor_settings_release(struct executor_settings *s);

/* For whom this process acts, if not for itself: what an analysis names must be readable for him. CUPEL_SUBMITTER in the environment, UID:GID,
 * says so to a pipeline that a service starts; it only ever takes rights away. So do CUPEL_SUBMISSION, the id under which the service has it,
 * and CUPEL_GIVEN, which it was admitted with: bytes of memory, thousandths of a cpu and processes, for all steps that run side by side. */
struct config_caller {
	bool is_set;
	uid_t uid;
	gid_t gid;
	char submission[65];               /* "": none */
	uint64_t memory_bytes, cpus, pids; /* 0: what the host gives all runs */
};
int config_caller_parse(const char *text, struct config_caller *ret); /* UID:GID, or -EINVAL */

/* As cpu.weight of cgroup v2 and CPUWeight of systemd. */
#define CPU_WEIGHT_MIN     1u
#define CPU_WEIGHT_MAX     10000u
#define CPU_WEIGHT_OTHERS  100u
#define CPU_WEIGHT_DEFAULT 10u /* runs yield to the host's own work, and get all that is idle */

/* How closely a protected database is watched; each level includes those before it. */
enum watch_level {
	WATCH_SCHEMA, /* how its tables, views and functions are made */
	WATCH_ROWS,   /* and how many rows each table has */
	WATCH_CONTENT /* and what is in them */
};

struct config {
	struct config_caller caller;
	char *home; /* owned; $CUPEL_HOME, absolute */
	/* What the service calls whoever it acts for, "" if it is nobody: the steps of a pipeline are recorded as his. $CUPEL_SUBMITTER_NAME. */
	char submitter[64];
	bool executors_may_be_away; /* of the test of executors: executor/away.c */
	/* runtimes.d beside the configuration files, in rising priority: the system's, the user's, the project's. They need not exist. */
	struct strv runtime_dirs;
	bool has_project_runtimes; /* the last of them is a project's */
	char *project_root;        /* owned or NULL */
	char *project_data; /* owned absolute or NULL: project root's `data` if it exists or was named */
	char *project_docs;  /* owned absolute or NULL */
	struct strv protect; /* absolute paths that analyses must never see or change */
	struct strv
		watch; /* of these, and databases: what is watched for changes. "/PATH", "sqlite:/PATH", "postgresql://..." */
	struct pairs
		watch_levels; /* of databases in `watch`: "schema" or "rows"; none is "content" */
	struct profile *profiles; /* owned; those said in files */
	size_t n_profiles;
	struct limits defaults;
	struct limits ceilings;
	struct limits
		aggregate; /* memory, cpus, pids of all runs together; built-in: 90 % of memory, all cpus but a tenth, 16384 pids */
	char *work_root;   /* owned; "/tmp" */
	char *work_template;   /* owned; "scidex-analysis-{id}" */
	char *default_runtime; /* owned; "base" */
	char *default_profile; /* owned; "default" */
	enum keep keep;
	enum scratch_place scratch; /* of runs on this host that do not say it */
	uid_t uid_first;
	uint32_t uid_count;
	bool network_host_allowed; /* policy.network: [none, host] */
	bool drift_allowed; /* policy.allow_drift: a caller may run in a runtime that is not what it was */
	struct strv
		allow_missing; /* policy.allow_missing: layers that may be missing on this host */
	struct strv
		env_pass; /* defaults.env_pass: names of variables passed from the caller (LANG, TZ...) */
	unsigned
		cpu_weight; /* of all runs together, CPU_WEIGHT_MIN to CPU_WEIGHT_MAX; other groups of the host have CPU_WEIGHT_OTHERS */
	char *cgroup_parent; /* owned; "cupel": the group under which runs are made */
	enum cgroup_manager cgroup_manager;
	enum disk_mechanism disk;
	uint64_t
		partial_age_ns; /* gc.partial: partial outputs are removed so long after the verdict; 0: never */
	uint64_t checkpoint_age_ns;          /* gc.checkpoint: since it was last used; 0: never */
	char *ledger_url;                    /* owned or NULL: SQLite, cupel.db in the home */
	struct post_process *post_processes; /* owned */
	size_t n_post_processes;
	struct quest_settings *
		quests; /* owned: what is said of quests; the service adds its own (serve/quests.h) */
	size_t n_quests;
	struct service_settings service;
	struct executor_settings *executors; /* owned; `local` is not among them */
	size_t n_executors;
	char *default_executor;      /* owned; "local" */
	struct config_value *values; /* owned; in the order of the table of keys */
	size_t n_values;
};

/* Of something in `watch`. */
enum watch_level config_watch_level(const struct config *c, const char *what);
void config_release(struct config *c);
#define CLEANUP_CONFIG CLEANUP(config_release)

/* What the reading depends on, so that tests need no real /etc. NULLs: the real ones. */
struct config_where {
	const char *system_file; /* "/etc/cupel/cupel.yaml" */
	const char *user_file;   /* $XDG_CONFIG_HOME/cupel/cupel.yaml or ~/.config/... */
	const char *start_dir;   /* the current directory */
	const char *
		home; /* $CUPEL_HOME; else /var/lib/cupel as root, $XDG_STATE_HOME/cupel or ~/.local/state/cupel */
};

enum config_source { CONFIG_SYSTEM, CONFIG_USER, CONFIG_PROJECT };
/* The text of a file that is obeyed: it belongs to the caller or to root, and nobody else may write it; a project's is no link. 1 if
 * it was read, 0 if there is none. */
int config_text(const char *path, enum config_source source, char **ret_text, size_t *ret_length,
		struct err *err);

int config_read(const struct config_where *where, struct config *ret, struct err *err);
/* The step of that name, or NULL; borrowed. */
const struct post_process *config_post_process(const struct config *c, const char *name);
/* The executor of that name, or NULL; borrowed. */
const struct executor_settings *config_executor(const struct config *c, const char *name);
/* NULL: the default. True if what it carries out takes nothing of this host's cpus and memory. */
bool config_executor_is_elsewhere(const struct config *c, const char *name);
/* A keeper on this host makes the box, so this host's limits apply. NULL: the default executor. */
bool config_executor_is_here(const struct config *c, const char *name);
/* Where the service is to be found; owned by the caller. */
char *config_service_socket(const struct config *c);
/* ledger.url for people's eyes: the default in words, and no password. Owned by the caller. */
char *config_ledger_shown(const struct config *c);
/* The working directory of a run: root + template with {id} replaced. Owned by the caller. */
char *config_work_dir(const struct config *c, const char *id);
/* Where a run works on the host if its caller already has a directory at that path: beside it, by a name that no id gives. Owned. */
char *config_work_dir_aside(const struct config *c, const char *id);
/* Profile, defaults, analysis in rising priority, then ceilings. */
int config_limits(const struct config *c, const struct limits *runtime, const struct analysis *a,
		  struct limits *ret, struct err *err);
/* For a run on this host: refuses memory beyond what all runs together may use (aggregate). The built-in value, which nobody asked for, is
 * lowered to that instead. What another executor carries out is its own to judge. */
int config_limits_fit(const struct config *c, const char *executor, struct limits *limits,
		      struct err *err);
