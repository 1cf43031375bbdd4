/* Finding and executing a program. */
#pragma once

/* Executes argv[0]: a path, or a name that is searched in PATH of `envp`, which execvpe would search in the caller's PATH. An empty element of PATH is
 * the current directory (environ(7)); without PATH nothing is found. Returns only if it fails: the errno that tells most. Async-signal-safe. */
int exec_search(char *const argv[], char *const envp[]);
