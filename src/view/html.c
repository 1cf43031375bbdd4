#include "view/html.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"

#define REPLACEMENT "\xef\xbf\xbd"

static void add_ascii(struct str *s, char c)
{
	switch (c) {
	case '&':
		str_add(s, "&amp;");
		break;
	case '<':
		str_add(s, "&lt;");
		break;
	case '>':
		str_add(s, "&gt;");
		break;
	case '"':
		str_add(s, "&quot;");
		break;
	case '\'':
		str_add(s, "&#39;");
		break;
	default:
		if ((c < ' ' && c != '\n' && c != '\t') || c == 0x7f)
			str_add(s, REPLACEMENT);
		else
			str_add_n(s, &c, 1);
	}
}

void html_add_n(struct str *s, const char *text, size_t length)
{
	for (size_t at = 0; at < length;) {
		size_t n = str_utf8_length(text + at, length - at);
		if (n == 1)
			add_ascii(s, text[at]);
		else if (n == 0 || str_is_deceptive(text + at, n))
			str_add(s, REPLACEMENT);
		else
			str_add_n(s, text + at, n);
		at += n ? n : 1;
	}
}

void html_add(struct str *s, const char *text)
{
	html_add_n(s, text, strlen(text));
}

void html_addf(struct str *s, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	CLEANUP_FREE char *text = xvasprintf(format, args);
	va_end(args);
	html_add(s, text);
}

void html_add_base64(struct str *s, const void *bytes, size_t length)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *b = bytes;
	for (size_t at = 0; at < length; at += 3) {
		size_t left = length - at;
		uint32_t v = (uint32_t)b[at] << 16 | (left > 1 ? (uint32_t)b[at + 1] << 8 : 0) |
			     (left > 2 ? b[at + 2] : 0);
		char four[4] = { digits[v >> 18], digits[v >> 12 & 63],
				 left > 1 ? digits[v >> 6 & 63] : '=',
				 left > 2 ? digits[v & 63] : '=' };
		str_add_n(s, four, sizeof four);
	}
}

void html_add_csp_hash(struct str *s, const char *text)
{
	char hex[HASH_HEX];
	unsigned char bytes[HASH_SIZE];
	hash_bytes(text, strlen(text), hex);
	for (size_t i = 0; i < sizeof bytes; i++) {
		char two[3] = { hex[2 * i], hex[2 * i + 1], 0 };
		bytes[i] = (unsigned char)strtoul(two, NULL, 16);
	}
	str_add(s, "'sha256-");
	html_add_base64(s, bytes, sizeof bytes);
	str_add(s, "'");
}
