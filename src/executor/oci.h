/* OCI runtimes on this host: which one a program is, and what it gives a run. The box itself is made by keeper/oci.c. */
#pragma once

#include "executor/executor.h"

enum oci_kind {
	OCI_RUNC, /* or anything else that behaves like it */
	OCI_CRUN,
	OCI_RUNSC, /* gVisor: the analysis runs on a kernel of its own */
};

struct oci_runtime {
	const struct executor_settings *settings; /* borrowed */
	enum oci_kind kind;
	char version[96]; /* the first line of what it says of itself */
	bool hides_unified; /* crun where v1 and v2 are mounted at once: it works only if it does not see the latter */
};

/* gVisor's own threads are counted with the analysis's processes: below this it can't start. */
#define OCI_RUNSC_PIDS 512

/* Asks the program. */
int oci_look(const struct executor_settings *s, struct oci_runtime *ret, struct err *err);
/* What it can do and enforce. */
int oci_probe(const struct executor_settings *s, struct capability *ret, struct err *err);
/* Layers that it does not give on any host, with commas; "" for none. */
const char *oci_lacks(enum oci_kind kind);
/* Which one it is, and does it give everything that this run asks for? The error (caller) lists what not, and how to allow it. */
int oci_suffices(const struct executor_settings *s, const struct plan *plan,
		 struct oci_runtime *ret, struct err *err);
