/* RFC 4648, section 4, strictly: padded, no line ends. */
#include "executor/base64.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

static int digit(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

ssize_t base64_read(const char *text, void *buffer, size_t room)
{
	size_t length = strlen(text);
	uint8_t *to = buffer;
	size_t n = 0;
	if (length % 4)
		return -EINVAL;
	size_t padding = !length ? 0 : (text[length - 1] == '=') + (text[length - 2] == '=');
	for (size_t i = 0; i < length; i += 4) {
		size_t bytes = i + 4 == length ? 3 - padding : 3;
		uint32_t group = 0;
		for (size_t k = 0; k < 4; k++) {
			int value = k > bytes ? 0 : digit(text[i + k]);
			if (value < 0)
				return -EINVAL;
			group = group << 6 | (uint32_t)value;
		}
		if (n + bytes > room)
			return -EINVAL;
		for (size_t k = 0; k < bytes; k++)
			to[n++] = (uint8_t)(group >> (16 - 8 * k));
	}
	return (ssize_t)n;
}
