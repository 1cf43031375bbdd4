/* What the files of this folder share. */
#pragma once

#include <stdint.h>

#include "base/json.h"
#include "doctor/doctor.h"
#include "spec/analysis.h"

/* findings.c: stays where it is for as long as the diagnosis does. Evidence and remedy are the caller's to set. */
struct finding *finding_add(struct diagnosis *d, const char *group, const char *name);
void finding_is(struct finding *f, enum finding_status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void finding_remedy(struct finding *f, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The same, to be done by root. */
void finding_root_remedy(struct finding *f, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* From "WHAT. Remedy, as root: COMMAND", as errors of layers are put. */
void finding_refused(struct finding *f, const char *text);
struct finding *finding_find(struct diagnosis *d, const char *name);

/* trial.c: a box of the doctor's. */
struct trial_box {
	const char *act;            /* of inside.c */
	struct strv args;           /* for it */
	struct limits limits;       /* over those of all trials */
	const struct strv *allowed; /* borrowed: layers that may be missing */
	char *id;                   /* owned */
	/* Once it was run: */
	int result;      /* 0, or negative errno: it could not be started or recorded; see err */
	struct err err;  /* a layer that is refused is in err.layer */
	json_t *verdict; /* owned or NULL */
	json_t *receipt; /* owned or NULL */
	json_t *said;    /* owned; {"key":number} as its act printed them */
};
void trial_box_release(struct trial_box *t);
/* All of them at once. Each has its result, whatever that is; the error is the home's. */
int trial_run(const struct config *trials, struct trial_box *boxes, size_t n, struct err *err);
/* A number of the verdict's evidence or usage; 0 if it has none. */
uint64_t trial_evidence(const struct trial_box *t, const char *key);
const char *trial_cause(const struct trial_box *t);
/* What the act printed; `otherwise` where it did not. */
long trial_said(const struct trial_box *t, const char *key, long otherwise);

/* outside.c: what the box must not reach, and that it could be reached without it. */
struct outside {
	int tcp_fd, abstract_fd; /* owned; they listen */
	unsigned port;
	char name[64]; /* of the abstract socket */
	int segment;   /* of System V shared memory; -1: none */
	void *attached;
	char *home; /* owned */
};
#define OUTSIDE_INIT                                                                               \
	{                                                                                          \
		.tcp_fd = -1, .abstract_fd = -1, .segment = -1                                     \
	}
void outside_open(struct outside *o, const char *home);
void outside_release(struct outside *o);
#define CLEANUP_OUTSIDE CLEANUP(outside_release)
/* As arguments of the act "layers". */
void outside_args(const struct outside *o, struct strv *ret);

/* What "layers" tries, in the box and, as a control, outside of it: {"key":errno or 0}. */
json_t *acts_outside(const struct outside *o);

/* layers.c, limiters.c: boxes. */
struct examination {
	const struct config *config; /* the caller's */
	struct config trials;        /* in HOME/doctor; borrows from the caller's */
	struct strv allowed;         /* layers that the host does not give */
	struct diagnosis *d;
	const struct doctor_viewer *viewer;
	size_t step;
};
void examine_step(struct examination *x, const char *what);
void examine_layers(struct examination *x);
void examine_limiters(struct examination *x);
/* What a box that was run means for each layer, `control` being what the same acts do outside; a box that did not come to its end says
 * nothing of what it would have been refused. */
void layers_judge(struct examination *x, const struct trial_box *t, const json_t *control);
/* The same for the limiter that t->act is named after. */
void limiter_judge(const struct trial_box *t, struct finding *f);
/* Boxes that are over. */
void removal_judge(struct examination *x, const struct trial_box *boxes, size_t n);
/* host.c, settings.c, home.c, extras.c: what is outside of boxes. */
void examine_host(struct examination *x);
void examine_settings(struct examination *x);
void examine_home(struct examination *x);
void examine_ledger(struct examination *x);
void examine_extras(struct examination *x);
/* settings.c: a memory limit that is met would stop the host. */
bool oom_is_fatal(void);
