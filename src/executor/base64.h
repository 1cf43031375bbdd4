/* Bytes as text, as others send them. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* How many bytes, or -EINVAL: not base64 (RFC 4648 with its padding), or more than `room`. */
ssize_t base64_read(const char *text, void *buffer, size_t room);
