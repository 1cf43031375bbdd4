/* Parts of files, as RFC 9110 section 14 has them. */
#include "serve/range.h"

#include <string.h>

#include "base/num.h"
#include "base/str.h"

static bool number(const char *text, size_t n, uint64_t *ret)
{
	char digits[24];
	if (n == 0 || n >= sizeof digits)
		return false;
	memcpy(digits, text, n);
	digits[n] = 0;
	return num_u64(digits, INT64_MAX, ret) >= 0;
}

enum range range_parse(const char *value, uint64_t size, uint64_t *ret_first, uint64_t *ret_length)
{
	static const char unit[] = "bytes=";
	uint64_t first = 0, last = 0;
	*ret_first = 0;
	*ret_length = size;
	if (!value || !str_starts(value, unit))
		return RANGE_ALL;
	const char *text = value + sizeof unit - 1, *dash = strchr(text, '-');
	if (!dash || strchr(text, ','))
		return RANGE_ALL;
	size_t before = (size_t)(dash - text), after = strlen(dash + 1);
	if (!before) { /* the last so many */
		if (!number(dash + 1, after, &last))
			return RANGE_ALL;
		if (last == 0 || size == 0)
			return RANGE_NONE;
		*ret_length = last < size ? last : size;
		*ret_first = size - *ret_length;
		return RANGE_PART;
	}
	if (!number(text, before, &first) || (after && !number(dash + 1, after, &last)) ||
	    (after && last < first))
		return RANGE_ALL;
	if (first >= size)
		return RANGE_NONE;
	if (!after || last >= size)
		last = size - 1;
	*ret_first = first;
	*ret_length = last - first + 1;
	return RANGE_PART;
}
