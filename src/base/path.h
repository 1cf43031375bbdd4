/* Path names as text: validated once, compared by component. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

/* Absolute, without "//", "." and ".." components and trailing slash: purely textual. NULL if the
 * result would climb above the root or `path` is empty. A relative path is put behind `base`. */
char *path_normal(const char *base, const char *path);
char *path_join(const char *directory, const char *name);
/* True if `path` is `ancestor` or lies below it, by component: /scratch2 is not within /scratch.
 * Both normal. */
bool path_within(const char *path, const char *ancestor);
const char *path_base(const char *path); /* the last component */
char *path_parent(const char *path);
/* One component of at most 255 bytes: not empty, ".", "..", no '/', no control characters. */
bool path_name_ok(const char *name);
/* The current directory / the file's real path, owned; NULL with errno set. */
char *path_cwd(void);
char *path_real(const char *path);
