/* What a run left behind, for people. */
#pragma once

#include "base/json.h"

/* `files`: entries of outputs.json. */
void outputs_print(const json_t *manifest, const json_t *files);
