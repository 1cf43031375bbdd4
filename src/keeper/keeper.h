/* One running analysis: the small process outside the box that starts it, watches it, ends it and collects from it. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "box/plan.h"
#include "keeper/stages.h"
#include "runtime/chosen.h"
#include "runtime/runtime.h"
#include "spec/analysis.h"
#include "spec/config.h"

struct keeper_request {
	const char *id;
	const struct config *config;
	const struct analysis *analysis; /* resolved */
	const struct runtime *runtime;
	const struct chosen *chosen; /* refused: the run is recorded, and nothing is made for it */
	const struct host *host;
	const struct plan *plan;
	enum keep keep;
	int report_fd; /* owned by the keeper; SOCK_SEQPACKET to whoever asked. Its end means that nobody waits any more: cancel */
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
