/* What went wrong, in words a person can act on.
 *
 * Fallible functions return >= 0 or a negative errno. When a person must read the failure, the
 * last parameter is a struct err that is set where it happens and wrapped at most once a layer.
 * A failed analysis is never an err: it is a verdict. The text is one line without control
 * characters, whatever names it quotes. The size is fixed, so that nothing is
 * allocated on failure and an err crosses the box's pipe as it is. */
#pragma once

enum err_kind {
	ERR_NONE = 0,
	ERR_CALLER, /* what was asked for is wrong: file, option, id. Exit status 2 */
	ERR_HOST,   /* the host could not give it. Exit status 125 */
};

struct err {
	int code; /* positive errno */
	enum err_kind kind;
	char layer
		[24]; /* the isolation layer or limiter that is missing, or several with commas; empty for anything else */
	char text[1000];
};

#define ERR_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* Each returns the negative code, so that `return err_...(err, ...)` is the usual form. A NULL err
 * is allowed: the text is dropped. errno is read first and is not changed. */
int err_set(struct err *err, enum err_kind kind, int code, const char *format, ...)
	ERR_PRINTF(4, 5);
/* The caller's mistake: -EINVAL. */
int err_caller(struct err *err, const char *format, ...) ERR_PRINTF(2, 3);
/* A failed system call: kind host, code errno, text "FORMAT: strerror". */
int err_errno(struct err *err, const char *format, ...) ERR_PRINTF(2, 3);
/* A layer the host does not give: "LAYER: TEXT", err->layer set; -EOPNOTSUPP. */
int err_layer(struct err *err, const char *layer, const char *format, ...) ERR_PRINTF(3, 4);
/* Puts "FORMAT: " in front of the text; keeps code and kind; returns -err->code. */
int err_wrap(struct err *err, const char *format, ...) ERR_PRINTF(2, 3);
