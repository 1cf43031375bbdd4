/* Hostile names end up in error messages; a terminal must never interpret them. */
#include "spec/show.h"

#include <string.h>

#include "base/str.h"

/* Bytes of the UTF-8 character at `text`, 0 if it is none or a control character. */
static size_t printable_length(const char *text, size_t left)
{
	unsigned char first = (unsigned char)text[0];
	size_t length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;

	if (first < 0x20 || first == 0x7f || length > left || !str_is_utf8(text, length))
		return 0;
	if (first == 0xc2 && (unsigned char)text[1] < 0xa0)
		return 0;
	return length;
}

char *show_text(const char *text, char buffer[SHOW_ROOM])
{
	const size_t dots = 3;
	size_t left = text ? strlen(text) : 0, used = 0;

	while (left > 0) {
		size_t length = printable_length(text, left);
		size_t step = length ? length : 1;
		if (used + step > SHOW_ROOM - 1 - dots && used + left > SHOW_ROOM - 1) {
			memcpy(buffer + used, "...", dots);
			used += dots;
			break;
		}
		memcpy(buffer + used, length ? text : "?", step);
		used += step;
		text += step;
		left -= step;
	}
	buffer[used] = '\0';
	return buffer;
}

bool text_is_label(const char *text, size_t max)
{
	size_t left = strlen(text);

	if (left == 0 || left > max)
		return false;
	while (left > 0) {
		size_t length = printable_length(text, left);
		if (length == 0)
			return false;
		text += length;
		left -= length;
	}
	return true;
}
