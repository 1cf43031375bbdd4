/* Processes as pidfds. */
#pragma once

#include <sys/types.h>

int proc_pidfd_open(pid_t pid);
/* The descriptor of a child of ours. If there can be none, negative errno: nobody could watch the child, so it is killed with its process group,
 * and reaped. */
int proc_pidfd_of_child(pid_t pid);
/* Kills a child that is not reaped yet, with its process group if it has one of its own, and reaps it. */
void proc_kill_child(pid_t pid);
int proc_signal(int pidfd, int signal); /* negative errno */
/* Reaps a child by pidfd, waiting for it. *ret_status (or NULL) as from waitpid. */
int proc_wait(int pidfd, int *ret_status);
/* recv of one message from a process at the other end of a socket, with errno. One that ended with words of ours unread makes the kernel
 * report ECONNRESET first; its own last words come after that, and are what counts. */
ssize_t proc_recv(int socket_fd, void *msg, size_t room, int flags);
/* One message with a descriptor beside it (-1: none). Sending: 0 or negative errno. Receiving: as proc_recv; *ret_fd is owned by the
 * caller, born O_CLOEXEC, -1 if none came. */
int proc_send_fd(int socket_fd, const void *msg, size_t length, int fd);
ssize_t proc_recv_fd(int socket_fd, void *msg, size_t room, int *ret_fd);
/* Runs a program to its end with nothing of our environment; what it prints is dropped, its messages go to error_fd. Negative errno, or its
 * wait status. */
int proc_run(const char *program, char *const argv[], int error_fd);
/* Starts a program with our environment; the other end of its standard input and output is *ret_fd, owned by the caller, who is to wait for
 * *ret_pid. Negative errno. */
int proc_start(char *const argv[], pid_t *ret_pid, int *ret_fd);
