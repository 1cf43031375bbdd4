/* How far the acts go: beyond the limits that the trials set, and not further. */
#pragma once

#define INSIDE_CHUNK  (1 << 20)
#define INSIDE_MEMORY (96 << 20)
#define INSIDE_PIDS   64
#define INSIDE_DISK   (24 << 20)
#define INSIDE_CPU_NS 5000000
#define INSIDE_WAIT_S 20

/* What the trials allow. */
#define TRIAL_MEMORY (32ULL << 20)
#define TRIAL_PIDS   16
#define TRIAL_DISK   (8ULL << 20)
#define TRIAL_CPUS                                                                                 \
	10 /* thousandths: a slice of the scheduler is more than it may use in a period, however busy the host is */
#define TRIAL_TIME (200 * NS_PER_MS)
