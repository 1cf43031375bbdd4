/* What this host gives the caller: every layer and limiter proven by use. Tiny boxes take the path of every other run, in a home of their
 * own (health/gc_doctor.h); what is outside of boxes is looked at, or done and undone, below that home.
 *
 * ok: it held. note: it is as it is, and documented; nothing is wrong. weak: a promise of docs/THREATS.md holds less than it could.
 * missing: it is not there, or did not hold. unknown: it could not be tried. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "spec/config.h"

enum finding_status {
	FINDING_OK,
	FINDING_NOTE,
	FINDING_UNKNOWN,
	FINDING_WEAK,
	FINDING_MISSING, /* in rising order of what it means for the whole */
	FINDING_STATUS_COUNT_
};
extern const char *const finding_status_names[];

struct finding {
	const char *group; /* box, limits, host, home, extras */
	const char *name;
	enum finding_status status;
	char *evidence;      /* owned; what was seen */
	char *remedy;        /* owned or NULL; a command where there is one */
	bool remedy_as_root; /* for root to do */
	const char *promise; /* or NULL: what of docs/THREATS.md it touches */
};

#define FINDINGS_MAX 64
struct diagnosis {
	struct finding v[FINDINGS_MAX];
	size_t n;
	/* What a run must be allowed to miss here, with commas; "" if nothing. */
	char *missing;     /* owned */
	bool can_run;      /* given that */
	char *summary;     /* owned; what can be done here, and what can't */
	struct err record; /* why the finding is not in the ledger; no code: it is */
};
void diagnosis_release(struct diagnosis *d);
#define CLEANUP_DIAGNOSIS CLEANUP(diagnosis_release)

struct doctor_viewer {
	void *data;
	void (*step)(void *data, const char *what, size_t number, size_t of);
};

/* 0 whatever was found; the finding is left in the ledger. */
int doctor_examine(const struct config *c, const struct doctor_viewer *viewer,
		   struct diagnosis *ret, struct err *err);
/* The worst of all. */
enum finding_status diagnosis_status(const struct diagnosis *d);
/* {"status","summary","runs","missing_layers","uid","checks":[{"group","name","status","evidence","remedy","remedy_as_root","promise"}]} */
json_t *diagnosis_json(const struct diagnosis *d);

/* inside.c: the act of a trial, in the box, with what comes behind "--inside". Does not return. */
#define DOCTOR_INSIDE "--inside"
_Noreturn void doctor_inside(int argc, char **argv);
