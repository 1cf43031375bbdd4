/* Between the files that make a plan; nobody else includes it. */
#pragma once

#include "box/plan.h"

struct step *plan_step(struct plan *p, enum step_kind kind, const char *target, const char *source);

/* A file or directory that somebody else may change while the analysis reads it: data, and no way to a program of the host. */
struct step *plan_data_bind(const struct plan_request *q, struct plan *p, const char *target,
			    const char *source);

void plan_rule(struct plan *p, const char *path, enum access access);

void plan_env(const struct plan_request *q, struct plan *p);
/* The private root: runtime, /etc, /dev, /proc, /tmp. */
void plan_root(const struct plan_request *q, struct plan *p);
/* plan_runtime.c: what a runtime shows beside /usr, its devices; after the root, before the working directory. */
int plan_shown(const struct plan_request *q, struct plan *p, struct err *err);
/* Its own tree in place of the host's /usr: after everything else, so that nothing of ours is reached through it. */
void plan_tree(const struct plan_request *q, struct plan *p);
/* plan_grant.c: the copy of a database that the analysis may read. */
#define PLAN_SNAPSHOT "/run/cupel/snapshot.db"
int plan_snapshot(const struct plan_request *q, struct plan *p, struct err *err);
/* plan_grant.c: what runs a notebook. */
void plan_driver(const struct plan_request *q, struct plan *p);
void plan_grant(const struct plan_request *q, struct plan *p);
void plan_grant_env(const struct plan_grant *g, struct pairs *env);
/* Refuses what must not be seen. */
int plan_check_shown(const struct plan_request *q, const char *path, const char *origin,
		     struct err *err);
/* The working directory with code, data and docs in it. */
int plan_work(const struct plan_request *q, struct plan *p, struct err *err);
