/* The words for why a run ended, and why it was stopped. */
#include "keeper/verdict.h"

const char *cause_name(enum cause cause)
{
	static const char *const names[CAUSE_COUNT_] = {
		[CAUSE_OK] = "ok",
		[CAUSE_EXIT] = "exit",
		[CAUSE_SIGNAL] = "signal",
		[CAUSE_OOM] = "oom",
		[CAUSE_DEADLINE] = "deadline",
		[CAUSE_CPU] = "cpu",
		[CAUSE_DISK] = "disk",
		[CAUSE_PIDS] = "pids",
		[CAUSE_OUTPUT_CAP] = "output-cap",
		[CAUSE_OUTPUT_MISSING] = "output-missing",
		[CAUSE_OUTPUT_INVALID] = "output-invalid",
		[CAUSE_DENIED] = "denied",
		[CAUSE_CANCELLED] = "cancelled",
		[CAUSE_LOST] = "lost",
		[CAUSE_SETUP] = "setup",
		[CAUSE_RUNTIME_BROKEN] = "runtime-broken",
		[CAUSE_INPUT_CHANGED] = "input-changed",
		[CAUSE_POST_PROCESS] = "post-process",
		[CAUSE_CHECKPOINTED] = "checkpointed",
	};
	return names[cause];
}

const char *stop_name(enum stop stop)
{
	static const char *const names[STOP_COUNT_] = {
		[STOP_NONE] = "none",       [STOP_DEADLINE] = "deadline",
		[STOP_CPU] = "cpu time",    [STOP_OOM] = "out of memory",
		[STOP_DISK] = "disk",       [STOP_CANCEL] = "cancelled",
		[STOP_SETUP] = "set-up",    [STOP_RECORD] = "record",
		[STOP_RUNTIME] = "runtime", [STOP_INPUT] = "input",
		[STOP_LOST] = "lost",
	};
	return names[stop];
}
