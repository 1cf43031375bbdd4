/* Error texts of a fixed size. Every text is built in a local buffer first, since an argument may
 * point into the err that is being written. */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

/* Ends a text that did not fit with "...", without leaving half a UTF-8 character before it. */
static void mark_truncated(char *text, size_t room)
{
	size_t end = room - 4;

	while (end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80)
		end--;
	memcpy(text + end, "...", 4);
}

__attribute__((format(printf, 3, 0))) static void text_format(char *text, size_t room,
							      const char *format, va_list args)
{
	int n = vsnprintf(text, room, format, args);

	if (n < 0)
		(void)snprintf(text, room, "(error text could not be written)");
	else if ((size_t)n >= room)
		mark_truncated(text, room);
	str_clean(text);
}

ERR_PRINTF(3, 4) static void text_formatf(char *text, size_t room, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	text_format(text, room, format, args);
	va_end(args);
}

static void err_store(struct err *err, enum err_kind kind, int code, const char *layer,
		      const char *text)
{
	err->code = code;
	err->kind = kind;
	(void)snprintf(err->layer, sizeof(err->layer), "%s", layer);
	(void)snprintf(err->text, sizeof(err->text), "%s", text);
}

int err_set(struct err *err, enum err_kind kind, int code, const char *format, ...)
{
	int saved = errno;
	char text[sizeof(err->text)];
	va_list args;

	if (!err)
		return -code;
	va_start(args, format);
	text_format(text, sizeof(text), format, args);
	va_end(args);
	err_store(err, kind, code, "", text);
	errno = saved;
	return -code;
}

int err_caller(struct err *err, const char *format, ...)
{
	int saved = errno;
	char text[sizeof(err->text)];
	va_list args;

	if (!err)
		return -EINVAL;
	va_start(args, format);
	text_format(text, sizeof(text), format, args);
	va_end(args);
	err_store(err, ERR_CALLER, EINVAL, "", text);
	errno = saved;
	return -EINVAL;
}

int err_errno(struct err *err, const char *format, ...)
{
	/* A caller that comes here without an errno must not be told that all went well. */
	int saved = errno;
	int code = saved > 0 ? saved : EIO;
	char text[sizeof(err->text)];
	char whole[sizeof(err->text)];
	const char *why = strerrordesc_np(code);
	va_list args;

	if (!err)
		return -code;
	va_start(args, format);
	text_format(text, sizeof(text), format, args);
	va_end(args);
	if (why)
		text_formatf(whole, sizeof(whole), "%s: %s", text, why);
	else
		text_formatf(whole, sizeof(whole), "%s: error %d", text, code);
	err_store(err, ERR_HOST, code, "", whole);
	errno = saved;
	return -code;
}

int err_layer(struct err *err, const char *layer, const char *format, ...)
{
	int saved = errno;
	char text[sizeof(err->text)];
	char whole[sizeof(err->text)];
	va_list args;

	if (!err)
		return -EOPNOTSUPP;
	va_start(args, format);
	text_format(text, sizeof(text), format, args);
	va_end(args);
	text_formatf(whole, sizeof(whole), "%s: %s", layer, text);
	err_store(err, ERR_HOST, EOPNOTSUPP, layer, whole);
	errno = saved;
	return -EOPNOTSUPP;
}

int err_wrap(struct err *err, const char *format, ...)
{
	int saved = errno;
	char text[sizeof(err->text)];
	char whole[sizeof(err->text)];
	va_list args;

	if (!err)
		return saved > 0 ? -saved : -EIO;
	va_start(args, format);
	text_format(text, sizeof(text), format, args);
	va_end(args);
	text_formatf(whole, sizeof(whole), "%s: %s", text, err->text);
	memcpy(err->text, whole, sizeof(err->text));
	errno = saved;
	return -err->code;
}
