#include "base/terminal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"

const char *const terminal_colours[COLOUR_COUNT_] = {
	[COLOUR_NONE] = "\033[m",  [COLOUR_GOOD] = "\033[32m", [COLOUR_NOTE] = "\033[36m",
	[COLOUR_ODD] = "\033[35m", [COLOUR_WARN] = "\033[33m", [COLOUR_BAD] = "\033[31m",
	[COLOUR_HEAD] = "\033[1m",
};

static void add_byte(struct str *out, char byte)
{
	str_addf(out, "\\x%02x", (unsigned char)byte);
}

/* A character of two or three bytes by its number: what is deceptive has no more. */
static unsigned code_of(const char *text, size_t n)
{
	const unsigned char *b = (const unsigned char *)text;
	return n == 2 ? (b[0] & 0x1fU) << 6 | (b[1] & 0x3fU)
		      : (b[0] & 0x0fU) << 12 | (b[1] & 0x3fU) << 6 | (b[2] & 0x3fU);
}

static void add_character(struct str *out, const char *text, size_t n)
{
	if (!str_is_deceptive(text, n) || (n == 1 && strchr("\n\t\r\b", *text) && *text))
		str_add_n(out, text, n);
	else if (n == 1)
		add_byte(out, *text);
	else
		str_addf(out, "\\u%04x", code_of(text, n));
}

/* Could these bytes become a character when more come? */
static bool is_begun(const char *text, size_t n)
{
	unsigned char first = (unsigned char)text[0];
	size_t need = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
	for (size_t i = 1; i < n; i++)
		if (((unsigned char)text[i] & 0xc0) != 0x80)
			return false;
	return first >= 0xc2 && first <= 0xf4 && n < need;
}

void terminal_filter_add(struct terminal_filter *f, const void *bytes, size_t length,
			 struct str *out)
{
	CLEANUP_STR struct str joined = { 0 };
	const char *at = bytes;
	if (f->n_held) {
		str_add_n(&joined, f->held, f->n_held);
		str_add_n(&joined, bytes, length);
		at = joined.text;
		length = joined.length;
		f->n_held = 0;
	}
	while (length > 0) {
		size_t n = str_utf8_length(at, length);
		if (!n && length < sizeof f->held && is_begun(at, length)) {
			memcpy(f->held, at, length);
			f->n_held = length;
			return;
		}
		if (n)
			add_character(out, at, n);
		else
			add_byte(out, *at);
		n = n ? n : 1;
		at += n;
		length -= n;
	}
}

void terminal_filter_end(struct terminal_filter *f, struct str *out)
{
	for (size_t i = 0; i < f->n_held; i++)
		add_byte(out, f->held[i]);
	f->n_held = 0;
}

struct terminal_out terminal_out(int fd, enum terminal_bytes bytes)
{
	return (struct terminal_out){ .fd = fd,
				      .is_filtered = bytes == TERMINAL_SAFE && isatty(fd) };
}

int terminal_out_write(struct terminal_out *o, const void *bytes, size_t length)
{
	CLEANUP_STR struct str shown = { 0 };
	if (!o->is_filtered)
		return fs_write_all(o->fd, bytes, length);
	terminal_filter_add(&o->filter, bytes, length, &shown);
	return fs_write_all(o->fd, str_text(&shown), shown.length);
}

int terminal_out_end(struct terminal_out *o)
{
	CLEANUP_STR struct str shown = { 0 };
	terminal_filter_end(&o->filter, &shown);
	return fs_write_all(o->fd, str_text(&shown), shown.length);
}

static ssize_t guarded_write(void *cookie, const char *bytes, size_t length)
{
	int r = terminal_out_write(cookie, bytes, length);
	if (r < 0)
		errno = -r;
	return r < 0 ? 0 : (ssize_t)length; /* fopencookie(3): 0 is the failure */
}

static int guarded_close(void *cookie)
{
	return terminal_out_end(cookie);
}

/* The C library lets a program replace its standard streams; the descriptors stay what they are. */
static FILE *guarded(FILE *stream, struct terminal_out *out, int mode)
{
	static const cookie_io_functions_t functions = { .write = guarded_write,
							 .close = guarded_close };
	FILE *made = out->is_filtered ? fopencookie(out, "w", functions) : NULL;
	if (made)
		(void)setvbuf(made, NULL, mode, 0);
	return made ? made : stream;
}

static struct terminal_out guarded_stdout, guarded_stderr; /* as long as the process */

void terminal_guard(void)
{
	guarded_stdout = terminal_out(STDOUT_FILENO, TERMINAL_SAFE);
	guarded_stderr = terminal_out(STDERR_FILENO, TERMINAL_SAFE);
	stdout = guarded(stdout, &guarded_stdout, _IOLBF);
	stderr = guarded(stderr, &guarded_stderr, _IONBF);
}

void terminal_send(FILE *stream, const void *bytes, size_t length)
{
	(void)fflush(stream);
	(void)fs_write_all(stream == stdout ? STDOUT_FILENO : STDERR_FILENO, bytes, length);
}

void terminal_control(FILE *stream, const char *sequence)
{
	terminal_send(stream, sequence, strlen(sequence));
}

bool terminal_has_colour(int fd)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
	return !(no && *no) && term && *term && !str_eq(term, "dumb") && isatty(fd);
}

void terminal_print(FILE *stream, enum terminal_colour colour, const char *format, ...)
{
	va_list args;
	bool is_coloured = colour != COLOUR_NONE &&
			   terminal_has_colour(stream == stdout ? STDOUT_FILENO : STDERR_FILENO);
	if (is_coloured)
		terminal_control(stream, terminal_colours[colour]);
	va_start(args, format);
	(void)vfprintf(stream, format, args);
	va_end(args);
	if (is_coloured)
		terminal_control(stream, terminal_colours[COLOUR_NONE]);
}
