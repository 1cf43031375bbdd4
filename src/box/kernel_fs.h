/* File systems that are views of the kernel and of running programs, not data. */
#pragma once

#include <stdbool.h>
#include <sys/vfs.h>

/* By the name in /proc/self/mountinfo. */
bool kernel_fs_named(const char *type);
/* By what statfs(2) says; a devtmpfs can't be told from a tmpfs. */
bool kernel_fs_magic(const struct statfs *fs);
/* In memory: tmpfs, ramfs, devtmpfs, hugetlbfs. */
bool kernel_fs_memory(const struct statfs *fs);
