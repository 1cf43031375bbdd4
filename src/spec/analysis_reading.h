/* Shared by the files that read an analysis; no other file includes it. */
#pragma once

#include "spec/analysis.h"
#include "spec/yaml.h"

struct reading {
	struct analysis analysis;
	const char *base; /* the file's directory */
};

int reading_label(const struct document *d, const struct node *n, char **ret, struct err *err);
/* Gives what a check without a place has found its place. */
int reading_checked(const struct document *d, const struct node *n, int r, const struct err *why,
		    struct err *err);
/* Absolute and normal, relative ones behind `base`. */
int reading_path(const struct document *d, const struct node *n, const char *base, char **ret,
		 struct err *err);

/* Rows; the target is a struct reading. */
int reading_inputs(const struct document *d, const struct node *n, void *target, struct err *err);
int reading_step_inputs(const struct document *d, const struct node *n, void *target,
			struct err *err); /* but those that are of a step */
int reading_outputs(const struct document *d, const struct node *n, void *target, struct err *err);
int reading_env(const struct document *d, const struct node *n, void *target, struct err *err);
int reading_labels(const struct document *d, const struct node *n, void *target, struct err *err);
