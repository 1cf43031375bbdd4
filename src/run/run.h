/* From what was asked to a verdict: spec -> runtime -> plan -> keeper, front to back, from outside the box. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"
#include "base/terminal.h"
#include "box/plan.h"
#include "executor/executor.h"
#include "executor/oci.h"
#include "health/gc.h"
#include "keeper/keeper.h"
#include "runtime/chosen.h"
#include "runtime/runtime.h"
#include "spec/analysis.h"
#include "spec/config.h"
#include "spec/id.h"

/* Everything that is known before anything is touched; `cupel plan` shows it. */
struct resolved {
	char id[ID_MAX + 1];
	struct runtime runtime;
	struct chosen
		chosen; /* refused: the plan may be bare, and a run is recorded as runtime-broken */
	struct host host;
	struct limits limits;
	struct strv
		notes; /* limits that this host cannot use, for the caller; also among the plan's warnings */
	struct plan plan;
	enum keep keep;
	bool has_uid; /* a step of the host's, as root: it runs as this user */
	uid_t uid;
	gid_t gid;
	const char *writes; /* borrowed or NULL: the database of such a step, as it was declared */
	const char *written_by; /* borrowed or NULL: which step that is, for people */
	bool attended;          /* carried out elsewhere: `capability` says what that can do */
	struct capability capability;
	bool has_oci; /* the box is made by an OCI runtime */
	struct oci_runtime oci;
};

void resolved_release(struct resolved *r);
#define CLEANUP_RESOLVED CLEANUP(resolved_release)

/* Completes `analysis` (real paths, passed variables, default outputs), chooses and looks at its runtime, and plans. An image may be
 * unpacked into HOME/cache, and the scripts of a conda activation are run in a box of their own, once for each state of the runtime. */
int run_resolve(const struct config *config, struct analysis *analysis, struct resolved *ret,
		struct err *err);
/* The same, but nothing is run: where scripts have not been run yet, a warning of the plan says so. */
int run_foresee(const struct config *config, struct analysis *analysis, struct resolved *ret,
		struct err *err);

/* The step that the outputs of `analysis` would be given to, for people and programs: its plan, whom it runs as, its database without a
 * password. NULL if it names none. Owned by the caller. */
int run_foresee_step(const struct config *config, const struct analysis *analysis, const char *id,
		     json_t **ret, struct err *err);

/* A run that this process started. Several may go on at once, each followed by its descriptor:
 *
 *	run_prepare, once; then for each run: run_resolve, run_start, poll on .fd, run_hear until .ended, run_finish.
 *
 * What was asked and resolved is needed only until run_start returns. */
struct running {
	const struct config *config; /* borrowed */
	char id[ID_MAX + 1];
	pid_t keeper;
	int fd;     /* owned; readable when the keeper has something to say, or is gone */
	int dir_fd; /* owned; see run_dir */
	bool ended;
	struct keeper_msg
		last; /* once ended: its last word; KEEPER_MSG_NONE if it died without one */
};
#define RUNNING_INIT                                                                               \
	{                                                                                          \
		.fd = -1, .dir_fd = -1                                                             \
	}

/* A run that still goes on is cancelled, and waited for. */
void running_release(struct running *r);
#define CLEANUP_RUNNING CLEANUP(running_release)

/* gc_sweep, and runs that are carried out elsewhere and lost their keeper get another, apart from us. */
int run_sweep(const struct config *config, struct gc_report *ret, struct err *err);
int run_sweep_all(const struct config *config, struct gc_report *ret, struct err *err);
/* Makes the home if need be, and sweeps what dead runs left there. */
int run_prepare(const struct config *config, struct err *err);
/* Starts the keeper of a run. *ret is filled only on success. */
int run_start(const struct config *config, const struct analysis *analysis,
	      const struct resolved *resolved, struct running *ret, struct err *err);
/* Whom a run is for that a service starts. */
struct run_owner {
	const char *submitter, *submission; /* see keeper/keeper.h */
	int report_fd; /* owned by the run; its end cancels nothing, and a cancel may be said over it */
};
/* This process becomes the keeper of a run that is apart from whoever hears it. If it is killed, the next sweep records it. */
_Noreturn void run_keep(const struct config *config, const struct analysis *analysis,
			const struct resolved *resolved, const struct run_owner *owner);
/* Takes one word of the keeper without waiting: true if *ret has it. */
bool run_hear(struct running *r, struct keeper_msg *ret);
/* Asks for the end; a second time it is at once. */
void run_cancel(struct running *r, int signal_number);
/* The run directory, borrowed; -1 as long as there is none. */
int run_dir(struct running *r);
/* Waits until this child of ours has ended; 0 is none, and what it is afterwards. */
void run_reap(pid_t *pid);
/* The keeper has ended: how the analysis did is in *ret_exit_status. -errno only if nothing was started or the verdict could not be
 * recorded. A keeper that was killed is recorded here, as lost. */
int run_finish(struct running *r, int *ret_exit_status, struct err *err);

/* Writes what is said of a complete run beside its record: see view/crate.h. */
typedef int run_describe(const struct config *config, const char *id, struct err *err);
/* If something is owed to the ledger, a process in the background describes it and delivers it. Returns at once; nothing of it is
 * anybody's failure. Not while this process has threads. */
void run_deliver(const struct config *config, run_describe *describe);

/* Who shows the run while it goes on; each may be NULL. */
struct run_viewer {
	void *data;
	void (*sample)(void *data, const struct keeper_msg *sample);
	void (*clear)(void *data); /* before the analysis's own output is passed on */
};

struct run_request {
	const struct config *config;
	const struct analysis *analysis;
	const struct resolved *resolved;
	const struct run_viewer *viewer; /* or NULL */
	bool is_silent;                  /* the analysis's own output goes to its log only */
	enum terminal_bytes bytes;       /* what of that output a terminal gets */
	struct stages *ret_stages;       /* NULL, or filled with where the time went */
	/* NULL: waited for. Or filled with the keeper's pid if it has said its last word and is ending: the caller is to wait for it,
	 * when there is nothing better to do; 0: there is none. */
	pid_t *ret_keeper;
};

/* Signals that ask us to end are read from the descriptor from here on, but for those that the caller ignores; the mask that was is the
 * caller's to put back. */
int run_take_signals(sigset_t *ret_old, struct err *err);

/* All of the above for one run: prepares, starts it, passes output and signals on, and waits for the verdict. Returns as run_finish. */
int run_local(const struct run_request *request, int *ret_exit_status, struct err *err);
