/* One entry of a layer in its directory; between layer.c, which reads streams, and layer_entry.c. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

/* The name relative to the root, without "." and empty components, owned by the caller; "" is the root itself. -EPERM (caller): it has
 * "..", or too many components. -EILSEQ without a text: control characters. */
int entry_name(const char *name, unsigned depth, char **ret, struct err *err);

/* All take a name from entry_name that is not "". Whatever has the name already gives way, but a directory stays for a directory. */
int entry_make_dir(int root_fd, const char *name, struct err *err);
int entry_make_symlink(int root_fd, const char *name, const char *target, struct err *err);
int entry_make_link(int root_fd, const char *name, const char *target, struct err *err);
/* A new empty file of mode 0600, opened for writing. */
int entry_make_file(int root_fd, const char *name, struct err *err);

/* .wh.NAME and .wh..wh..opq: 1 if something was hidden by it, 0 if there was nothing. Other names are 0. */
int entry_whiteout(int root_fd, const char *name, struct err *err);
