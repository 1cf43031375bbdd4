/* Shared by the fuzz targets: inputs as C strings, a folder of one's own, and what holds of every
 * error. libFuzzer calls LLVMFuzzerTestOneInput with bytes of its choice; a check that fails
 * aborts, and the input is kept. */
#pragma once

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(claim)                                                                               \
	do {                                                                                       \
		if (!(claim)) {                                                                    \
			(void)fprintf(stderr, "%s:%d: false: %s\n", __FILE__, __LINE__, #claim);   \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* The bytes up to the first NUL as a string of exactly that size, so that a read past its end is
 * seen. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
	return xstrndup((const char *)data, strnlen((const char *)data, size));
}

/* One line for people: not empty, UTF-8, no control characters (C0, DEL, C1). */
static inline void fuzz_check_line(const char *text)
{
	CHECK(text[0] != '\0');
	CHECK(str_is_utf8(text, strlen(text)));
	for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
		CHECK(*p >= 0x20 && *p != 0x7f);
		CHECK(*p != 0xc2 || p[1] >= 0xa0);
	}
}

/* What was refused is the caller's mistake and says so; what was accepted left no error. `err` was
 * zero before the call. Returns whether it was accepted. */
static inline bool fuzz_accepted(int r, const struct err *err)
{
	if (r >= 0) {
		CHECK(err->kind == ERR_NONE && err->code == 0);
		return true;
	}
	CHECK(err->kind == ERR_CALLER && err->code == -r);
	fuzz_check_line(err->text);
	return false;
}

/* A folder below $TMPDIR that whoever started the target removes. */
static inline const char *fuzz_folder(void)
{
	static char path[200];
	const char *below = getenv("TMPDIR");

	if (path[0])
		return path;
	(void)snprintf(path, sizeof(path), "%s/fuzz-XXXXXX", below ? below : "/tmp");
	CHECK(mkdtemp(path));
	return path;
}

/* Replaces the file's content. */
static inline void fuzz_write(const char *path, const uint8_t *data, size_t size)
{
	CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	CHECK(fd >= 0 && fs_write_all(fd, data, size) >= 0);
}
