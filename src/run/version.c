/* Version numbers in what programs print. */
#include <string.h>

#include "run/trial.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* Digits with single dots between them. */
static size_t number_length(const char *text)
{
	size_t n = 0;
	while (is_digit(text[n]) || (n > 0 && text[n] == '.' && is_digit(text[n + 1])))
		n++;
	return n;
}

/* "v1.2" and "V1.2" begin a number, "python3.11" does not. */
static bool may_begin(const char *text, const char *at)
{
	if (at == text)
		return true;
	bool after_v = (at[-1] == 'v' || at[-1] == 'V') && (at - 1 == text || !is_letter(at[-2]));
	return after_v || (!is_letter(at[-1]) && at[-1] != '.');
}

char *version_find(const char *text)
{
	const char *whole = NULL;
	for (const char *at = text; *at;) {
		size_t n = number_length(at);
		if (n && may_begin(text, at)) {
			if (memchr(at, '.', n))
				return xstrndup(at, n);
			if (!whole && !is_letter(at[n])) /* not the 3 of "3rd" */
				whole = at;
		}
		at += n ? n : 1;
	}
	return whole ? xstrndup(whole, number_length(whole)) : NULL;
}

/* The digits up to the next dot without leading zeros; steps over the dot. What is no digit ends the version. */
static size_t component(const char **at, const char **ret_digits)
{
	while (**at == '0' && is_digit((*at)[1]))
		(*at)++;
	*ret_digits = *at;
	size_t n = strspn(*at, "0123456789");
	*at += n;
	if (**at == '.' && n)
		(*at)++;
	else
		*at += strlen(*at);
	return n;
}

int version_compare(const char *a, const char *b)
{
	while (*a || *b) {
		const char *left, *right;
		size_t n = component(&a, &left), m = component(&b, &right);
		if (n == 0) {
			left = "0";
			n = 1;
		}
		if (m == 0) {
			right = "0";
			m = 1;
		}
		if (n != m)
			return n < m ? -1 : 1;
		int order = memcmp(left, right, n);
		if (order)
			return order;
	}
	return 0;
}
