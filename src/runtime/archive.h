/* libarchive, loaded when an archive is read or written: `cupel run` starts without it. The only header that includes archive.h. Only
 * streams of tar, plain or compressed by gzip or zstd, are read, and never by a program of another's: a filter that libarchive would leave to one is an
 * error. */
#pragma once

#include <archive.h>
#include <archive_entry.h>

#include "base/err.h"

/* The functions used, by their own names without "archive_". */
#define ARCHIVE_FUNCTIONS(ROW)                                                                     \
	ROW(read_new)                                                                              \
	ROW(read_free)                                                                             \
	ROW(read_support_filter_gzip)                                                              \
	ROW(read_support_filter_zstd)                                                              \
	ROW(read_support_format_empty)                                                             \
	ROW(read_support_format_raw)                                                               \
	ROW(read_support_format_tar)                                                               \
	ROW(read_open)                                                                             \
	ROW(read_open_fd)                                                                          \
	ROW(read_next_header)                                                                      \
	ROW(read_data)                                                                             \
	ROW(read_data_block)                                                                       \
	ROW(set_error)                                                                             \
	ROW(error_string)                                                                          \
	ROW(entry_pathname)                                                                        \
	ROW(entry_filetype)                                                                        \
	ROW(entry_perm)                                                                            \
	ROW(entry_size)                                                                            \
	ROW(entry_mtime)                                                                           \
	ROW(entry_mtime_nsec)                                                                      \
	ROW(entry_hardlink)                                                                        \
	ROW(entry_symlink)                                                                         \
	ROW(write_new)                                                                             \
	ROW(write_free)                                                                            \
	ROW(write_set_format_zip)                                                                  \
	ROW(write_open_fd)                                                                         \
	ROW(write_header)                                                                          \
	ROW(write_data)                                                                            \
	ROW(write_close)                                                                           \
	ROW(entry_new)                                                                             \
	ROW(entry_free)                                                                            \
	ROW(entry_set_pathname)                                                                    \
	ROW(entry_set_filetype)                                                                    \
	ROW(entry_set_perm)                                                                        \
	ROW(entry_set_size)                                                                        \
	ROW(entry_set_mtime)

struct archive_library {
	void *library; /* owned */
#define ARCHIVE_MEMBER(name) __typeof__(archive_##name) *name;
	ARCHIVE_FUNCTIONS(ARCHIVE_MEMBER)
#undef ARCHIVE_MEMBER
};

/* -EOPNOTSUPP (host) with the package that is missing. */
int archive_load(struct archive_library *ret, struct err *err);
void archive_unload(struct archive_library *l);
#define CLEANUP_ARCHIVE_LIBRARY __attribute__((cleanup(archive_unload)))
