/* Between fork and exec, in static programs too: system calls only, nothing is allocated. */
#include "base/exec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int exec_search(char *const argv[], char *const envp[])
{
	char path[4096];
	const char *search = NULL;
	int best = ENOENT;
	if (strchr(argv[0], '/')) {
		(void)execve(argv[0], argv, envp);
		return errno;
	}
	for (size_t i = 0; envp[i]; i++)
		if (strncmp(envp[i], "PATH=", 5) == 0)
			search = envp[i] + 5;
	while (search) {
		size_t n = strcspn(search, ":");
		if (snprintf(path, sizeof path, "%.*s%s%s", (int)n, search, n ? "/" : "./",
			     argv[0]) < (int)sizeof path) {
			(void)execve(path, argv, envp);
			if (errno != ENOENT && errno != ENOTDIR)
				best = errno;
		}
		search = search[n] ? search + n + 1
				   : NULL; /* what follows the last colon counts too */
	}
	return best;
}
