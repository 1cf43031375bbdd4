/* Growing strings and lists of strings. Allocation failure aborts: sizes chosen by a user are
 * capped before they get here. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

/* malloc family that never returns NULL */
void *xmalloc(size_t size);
void *xcalloc(size_t count, size_t size);
void *xrealloc(void *old, size_t size);
void *xreallocarray(void *old, size_t count, size_t size);
char *xstrdup(const char *text);
char *xstrndup(const char *text, size_t length);
char *xasprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *xvasprintf(const char *format, va_list args) __attribute__((format(printf, 1, 0)));

struct str {
	char *text; /* owned; NUL-terminated, never NULL after the first add; NULL when empty-initialised */
	size_t length;
	size_t room;
};

void str_release(struct str *s);
void str_add(struct str *s, const char *text);
void str_add_n(struct str *s, const void *bytes, size_t length);
void str_addf(struct str *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The text, "" when nothing was added. */
const char *str_text(const struct str *s);
/* The heap string, owned by the caller; s is empty afterwards. */
char *str_take(struct str *s);

#define CLEANUP_STR CLEANUP(str_release)

/* A NULL-terminated list of owned strings; {0} is the empty list, v may then be NULL. */
struct strv {
	char **v; /* owned */
	size_t n;
};

void strv_release(struct strv *list);
void strv_add(struct strv *list, const char *text);
void strv_addf(struct strv *list, const char *format, ...) __attribute__((format(printf, 2, 3)));
void strv_take(struct strv *list, char *owned);             /* list owns `owned` from now on */
void strv_copy(struct strv *list, const struct strv *from); /* appends copies */
void strv_sort(struct strv *list);                          /* by bytes */
bool strv_has(const struct strv *list, const char *text);
/* As argv/envp for execve: never NULL. */
char *const *strv_argv(struct strv *list);

#define CLEANUP_STRV CLEANUP(strv_release)

static inline bool str_eq(const char *a, const char *b)
{
	return a == b || (a && b && __builtin_strcmp(a, b) == 0);
}

bool str_starts(const char *text, const char *prefix);
bool str_ends(const char *text, const char *suffix);
/* Of a character of `n` bytes: a control character (C0, DEL, C1), or a mark by which words could be shown in another order than they have. */
bool str_is_deceptive(const char *text, size_t n);
/* One line that a terminal may be shown, whoever chose the words: what is deceptive and bytes that are not UTF-8 become '?', in place. */
void str_clean(char *text);
/* A cleaned copy, owned by the caller. */
char *str_visible(const char *text);
/* As one word for a shell, in quotes; the caller frees it. */
char *str_quoted(const char *text);
bool str_is_utf8(const char *text, size_t length);
/* Bytes of the UTF-8 character that `text` begins with; 0 if it begins with none. */
size_t str_utf8_length(const char *text, size_t length);
/* Edit distance, for "did you mean"; at most 64 characters of each are looked at. */
unsigned str_distance(const char *a, const char *b);
/* The nearest of `count` words within a third of the length, or NULL. */
const char *str_nearest(const char *word, const char *const *words, size_t count);
