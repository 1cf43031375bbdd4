/* What cannot be undone is tested in a child: it says which check failed, and its end tells the parent. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"

/* errno of a call, 0 if it worked. */
#define ERRNO_OF(call) ((call) < 0 ? errno : 0)

/* In a child only; cmocka's own would jump back into a copy of the parent. */
#define EXPECT(actual, wanted)                                                                     \
	expect_equal(__FILE__, __LINE__, #actual, (long long)(actual), (long long)(wanted))
/* A function that fills `err`. */
#define EXPECT_OK(call, err)                                                                       \
	do {                                                                                       \
		if ((call) < 0) {                                                                  \
			(void)dprintf(2, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,             \
				      (err)->text);                                                \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static inline void expect_equal(const char *file, int line, const char *what, long long actual,
				long long wanted)
{
	if (actual == wanted)
		return;
	(void)dprintf(2, "%s:%d: %s is %lld, not %lld\n", file, line, what, actual, wanted);
	_exit(1);
}

typedef void child_body(void *data);

/* The wait status. A child that hangs is ended by its alarm. */
static inline int child_status(child_body *body, void *data)
{
	int status = -1;
	(void)fflush(NULL);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)alarm(120);
		body(data);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static inline void in_child(child_body *body, void *data)
{
	assert_int_equal(child_status(body, data), 0);
}
