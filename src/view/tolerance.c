/* When two numbers are near enough to be the same result. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "view/compare.h"

/* A finite number that is not negative, and nothing behind it. */
static bool read_bound(const char *text, size_t length, double *ret)
{
	CLEANUP_FREE char *copy = xstrndup(text, length);
	char *end;
	if (!length || strspn(copy, "0123456789.eE+-") != length)
		return false;
	double value = strtod(copy, &end);
	if (*end || !isfinite(value) || value < 0 || copy[0] == '-')
		return false;
	*ret = value;
	return true;
}

int tolerance_parse(const char *text, struct tolerance *ret, struct err *err)
{
	struct tolerance t = { .is_said = true };
	size_t first = strcspn(text, ",");
	if (!read_bound(text, first, &t.relative) ||
	    (text[first] && !read_bound(text + first + 1, strlen(text + first + 1), &t.absolute)))
		return err_caller(
			err,
			"'%.60s' is no tolerance; write RELATIVE or RELATIVE,ABSOLUTE such as 1e-6 or 1e-6,1e-12",
			text);
	*ret = t;
	return 0;
}

bool tolerance_near_numbers(const struct tolerance *t, double a, double b)
{
	if (a == b || (isnan(a) && isnan(b)))
		return true;
	if (!isfinite(a) || !isfinite(b))
		return false;
	double apart = fabs(a - b), larger = fabs(a) > fabs(b) ? fabs(a) : fabs(b);
	return apart <= t->absolute || apart <= t->relative * larger;
}

static bool read_number(const char *text, double *ret)
{
	char *end;
	text += strspn(text, " ");
	if (!*text)
		return false;
	*ret = strtod(text, &end);
	end += strspn(end, " ");
	return !*end;
}

bool tolerance_near(const struct tolerance *t, const char *a, const char *b)
{
	double x, y;
	return read_number(a, &x) && read_number(b, &y) && tolerance_near_numbers(t, x, y);
}
