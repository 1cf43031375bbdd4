/* Text for HTML pages: whoever chose it, it stays text. */
#pragma once

#include "base/str.h"

/* Both as element content and as a quoted attribute: & < > " ' are escaped; what is not UTF-8, control characters but tab and newline, and
 * characters that turn the direction of writing become U+FFFD. */
void html_add_n(struct str *s, const char *text, size_t length);
void html_add(struct str *s, const char *text);
void html_addf(struct str *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void html_add_base64(struct str *s, const void *bytes, size_t length);
/* The source of a Content-Security-Policy that allows just this text: 'sha256-...'. */
void html_add_csp_hash(struct str *s, const char *text);
