/* Where a path below a directory is, without following any link on the way. */
#pragma once

/* The directory that holds the last component of `path`, which *ret_last points at; negative errno. */
int place_parent(int dir_fd, const char *path, const char **ret_last);
