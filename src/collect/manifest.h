/* Building a manifest: private to this folder. */
#pragma once

#include "collect/outputs.h"

void manifest_add(struct manifest *m, const struct collected *file); /* takes the contents */
void manifest_refuse(struct manifest *m, const char *path, const char *reason);
void manifest_sort(struct manifest *m); /* bytewise by path */
