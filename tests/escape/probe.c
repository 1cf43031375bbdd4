/* probe ACT[=A[,B]]...
 * Each act in a child of its own; a line each: the act as given, a blank, and `ok`, what it read, the name
 * of its errno, or `signal NAME` if it died.
 * probe -x ACT: in this very process, so that its end is the act's. */
#include "probe.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char said[4096]; /* by the act of this child */

int answer(long result)
{
	return result < 0 ? -errno : 0;
}

int answer_fd(long fd)
{
	if (fd < 0)
		return -errno;
	(void)close((int)fd);
	return 0;
}

long number(const char *text)
{
	return text ? strtol(text, NULL, 0) : 0;
}

void say(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	(void)vsnprintf(said, sizeof said, format, args);
	va_end(args);
}

static const struct act *find(const char *name)
{
	static const struct act *const tables[] = { file_acts,    kernel_acts, mount_acts,
						    process_acts, talk_acts,   use_acts };
	for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
		for (const struct act *act = tables[t]; act->name; act++)
			if (strcmp(act->name, name) == 0)
				return act;
	(void)fprintf(stderr, "probe: no act '%s'\n", name);
	exit(2);
}

/* "name=a,b" */
static int perform(const char *text)
{
	char *words = strdup(text);
	char *a = words ? strchr(words, '=') : NULL;
	char *b = a ? strchr(a + 1, ',') : NULL;
	if (a)
		*a++ = '\0';
	if (b)
		*b++ = '\0';
	return words ? find(words)->run(a, b) : -ENOMEM;
}

static void print(const char *text, int result)
{
	printf("%s %s\n", text, result < 0 ? strerrorname_np(-result) : said[0] ? said : "ok");
	(void)fflush(stdout);
}

static void perform_apart(const char *text)
{
	int status = 0;
	(void)fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		print(text, perform(text));
		_exit(0);
	}
	if (pid < 0) {
		print(text, -errno);
		return;
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status))
		printf("%s signal %s%s\n", text, sigabbrev_np(WTERMSIG(status)),
		       WCOREDUMP(status) ? " core" : "");
	if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
		printf("%s exit %d\n", text, WEXITSTATUS(status));
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "-x") == 0) {
		print(argv[2], perform(argv[2]));
		return 0;
	}
	for (int i = 1; i < argc; i++)
		perform_apart(argv[i]);
	return 0;
}
