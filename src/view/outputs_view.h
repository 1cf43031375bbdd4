/* What a run left behind, for people. */
#pragma once

#include "base/err.h"
#include "base/json.h"

/* `files`: entries of outputs.json. */
int outputs_print(const json_t *manifest, const json_t *files, struct err *err);
