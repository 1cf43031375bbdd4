/* One running analysis: the small process outside the box that starts it, watches it, ends it and collects from it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "box/plan.h"
#include "keeper/stages.h"
#include "runtime/chosen.h"
#include "runtime/runtime.h"
#include "spec/analysis.h"
#include "spec/config.h"

struct capability;
struct oci_runtime;
struct step_end;

/* What is done with the outputs of a success before they count. Whoever starts the run gives it; all is called in the keeper. */
struct keeper_after {
	void *data;
	const char *step;                          /* its name */
	int (*start)(void *data, struct err *err); /* a descriptor to poll, borrowed */
	bool (*hear)(void *data);                  /* true once it has ended; does not wait */
	void (*cancel)(void *data, int signal_number);
	void (*finish)(void *data,
		       struct step_end *ret); /* how it ended; whether it was started or not */
};

struct keeper_request {
	const char *id;
	const struct config *config;
	const struct analysis *analysis; /* resolved */
	const struct runtime *runtime;
	const struct chosen *chosen; /* refused: the run is recorded, and nothing is made for it */
	const struct host *host;
	const struct plan *plan;
	enum keep keep;
	const struct keeper_after *after; /* or NULL */
	bool has_uid; /* as root: the run has these instead of ones of its own */
	uid_t uid;
	gid_t gid;
	int report_fd; /* owned by the keeper; SOCK_SEQPACKET to whoever asked. Its end means that nobody waits any more: cancel */
	bool detached; /* its end means nothing: whoever asked may come again, and finds the run by its lock */
	const char *submitter;  /* or NULL; who asked the service for it */
	const char *submission; /* or NULL; under which id: an attempt has another */
	/* Not NULL: it is carried out there, and this keeper attends it; see executor/executor.h. */
	const struct capability *capability;
	const struct oci_runtime *oci; /* not NULL: it makes the box, on this host */
	/* Of a step of the host's, else NULL: what it may write, and who it is, "the step NAME of the run ID". */
	const char *writes, *written_by;
	bool again; /* its keeper died, and this one takes over what runs there */
};

/* What the keeper says while the run goes on, each a packet. */
enum keeper_msg_kind {
	KEEPER_MSG_NONE,    /* never sent: no word yet */
	KEEPER_MSG_REFUSED, /* err: nothing was recorded, nothing was started */
	KEEPER_MSG_LOG,     /* more in stdout.log or stderr.log */
	KEEPER_MSG_SAMPLE,
	KEEPER_MSG_ENDED,      /* verdict.json is there */
	KEEPER_MSG_UNRECORDED, /* err: the run is over, but its verdict could not be written; the next command records it as lost */
};

struct keeper_msg {
	enum keeper_msg_kind kind;
	union {
		struct err err;
		struct {
			uint64_t wall_ns, mem_bytes, cpu_usec, pids;
		} sample;
		struct {
			int exit_status;
			struct stages stages;
		} ended;
	};
};

/* What may be said to the keeper: a signal's number, to cancel. A second one kills at once. */
struct keeper_cmd {
	int cancel_signal;
};

/* Runs in a process of its own and never returns. */
_Noreturn void keeper_main(const struct keeper_request *request);
