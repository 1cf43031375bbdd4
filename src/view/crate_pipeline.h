/* A pipeline as a Provenance Run Crate (profile 0.5, which is a Workflow Run Crate and a Process Run Crate too): the workflow and its steps as
 * they were planned, and every run of a step as it went, those that failed and those that were reused among them. */
#pragma once

#include "view/crate.h"
#include "view/pipeline_dossier.h"

/* Reads the record of one run after the other. Both are the caller's; `d` stays open for the files. -EBUSY (caller) if it has not ended. */
int crate_pipeline(const struct config *c, const struct pipeline_dossier *d, enum crate_with with,
		   struct crate_files *ret_files, json_t **ret, struct err *err);
