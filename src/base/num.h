/* Strict numbers: digits and a unit, nothing else. Signs, blanks, tails, exponents, NaN, overflow
 * and zero-where-a-limit-is-meant are refused; nothing ever means "unlimited" by accident. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Decimal digits only, at most max. -EINVAL / -ERANGE, no text. */
int num_u64(const char *text, uint64_t max, uint64_t *ret);

/* The four below name the text and the remedy in err (kind caller). */
int num_size(const char *text, uint64_t *ret_bytes,
	     struct err *err); /* 512M 2G 1.5G 64K 100B; powers of 1024; K,KiB,KB alike; > 0 */
int num_duration(const char *text, uint64_t *ret_ns,
		 struct err *err); /* 250ms 90s 30m 1.5h 1h30m 2d; > 0 */
int num_cpus(const char *text, uint64_t *ret_milli,
	     struct err *err); /* 0.5 1.5 8; 0.01 .. 4096 in thousandths */
int num_count(const char *text, uint64_t *ret, struct err *err); /* 1 .. 2^53 */

/* For people: "2.0 GiB", "1.50 s", "30m", "1.5". Buffers of 32 are enough; they return the buffer. */
char *num_print_size(uint64_t bytes, char *buffer, size_t room);
char *num_print_duration(uint64_t ns, char *buffer, size_t room);
/* In the form that num_* reads back exactly: "2G", "1536M", "100B"; "30m", "1500ms"; "1.5". */
char *num_write_size(uint64_t bytes, char *buffer, size_t room);
char *num_write_duration(uint64_t ns, char *buffer, size_t room);
char *num_write_cpus(uint64_t milli, char *buffer, size_t room);
