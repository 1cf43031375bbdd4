/* What runs a notebook in the box: a few Python files that are part of this program (runtime/notebook/), so that they are the same for
 * each runtime and there is nothing to find. A runtime names it as an interpreter, `.ipynb: [PYTHON, DRIVER_DIR]`; one that names none for
 * notebooks runs them by its own Python and this. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/hash.h"
#include "runtime/runtime.h"

#define DRIVER_DIR "/run/cupel/notebook" /* in the box */
/* In the working directory: at which cell it is, one JSON object of at most so many bytes. */
#define DRIVER_PROGRESS     ".notebook.json"
#define DRIVER_PROGRESS_MAX 4096

struct driver_file {
	const char *name;
	const char *text;
};
extern const struct driver_file driver_files[];
extern const size_t driver_file_count;

/* Is the analysis a notebook that is run by it in this runtime? */
bool driver_runs(const struct runtime *r, const struct analysis *a);
/* Over names and texts: which driver it was. */
void driver_digest(char ret_hex[HASH_HEX]);
/* Among the outputs of such an analysis are the notebook with its results and the page made of it, whatever else it names. */
void driver_outputs(struct analysis *a);
