/* Acts that use things up. A size is in MiB. They end when they are refused, and say how far they came. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

#define MIB (1024 * 1024)

static int use_heap(const char *a, const char *b)
{
	for (long i = 0; i < number(a); i++) {
		char *block = malloc(MIB);
		if (!block)
			return -errno;
		for (size_t at = 0; at < MIB; at += 4096)
			((volatile char *)block)[at] = 1;
	}
	return 0;
}

static int fill(int fd, long mib)
{
	static char block[MIB];
	memset(block, 'x', sizeof block);
	for (long i = 0; i < mib; i++) {
		for (ssize_t done = 0; done < MIB;) {
			ssize_t n = write(fd, block + done, (size_t)(MIB - done));
			if (n < 0) {
				int r = -errno;
				say("%s after %ld MiB", strerrorname_np(-r), i);
				return 0;
			}
			done += n;
		}
	}
	return 0;
}

/* path, size */
static int use_file(const char *a, const char *b)
{
	int fd = open(a, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : fill(fd, number(b));
}

/* directory, size: files that nobody finds by walking, held open until the run is ended for them */
static int use_unlinked(const char *a, const char *b)
{
	for (long i = 0; i < number(b); i++) {
		int fd = open(a, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
		if (fd < 0)
			return -errno;
		(void)fill(fd, 1);
		if (lseek(fd, 0, SEEK_CUR) < MIB)
			return 0; /* it was refused, and fill() said so */
	}
	(void)sleep(600);
	return 0;
}

static int use_memfd(const char *a, const char *b)
{
	int fd = (int)syscall(SYS_memfd_create, "probe", 1 /* MFD_CLOEXEC */);
	return fd < 0 ? -errno : fill(fd, number(a));
}

static int use_sysv(const char *a, const char *b)
{
	for (long i = 0; i < number(a); i++) {
		int id = shmget(IPC_PRIVATE, MIB, IPC_CREAT | 0600);
		if (id < 0)
			return -errno;
		char *block = shmat(id, NULL, 0);
		if (block == (void *)-1)
			return -errno;
		memset(block, 'x', MIB);
		(void)shmdt(block); /* nobody's, and still there */
	}
	return 0;
}

/* Buffers of pipes: memory of the kernel's own. */
static int use_pipes(const char *a, const char *b)
{
	static char block[65536];
	long pipes = 0;
	for (; pipes < number(a) * 16; pipes++) {
		int fds[2];
		if (pipe2(fds, O_NONBLOCK | O_CLOEXEC) < 0)
			break;
		(void)!write(fds[1], block, sizeof block);
	}
	say("%ld pipes", pipes);
	return 0;
}

/* Processes until one is refused or there are `a`; they end with this one's group. */
static int use_processes(const char *a, const char *b)
{
	long n = 0;
	(void)setpgid(0, 0);
	for (; n < number(a); n++) {
		pid_t pid = fork();
		if (pid == 0)
			for (;;)
				(void)pause();
		if (pid < 0) {
			say("%s", strerrorname_np(errno));
			break;
		}
	}
	(void)signal(SIGTERM, SIG_IGN);
	(void)kill(0, SIGTERM);
	while (wait(NULL) > 0)
		;
	return 0;
}

/* The classic one: each doubles itself, for as long as the run lasts. */
static int fork_bomb(const char *a, const char *b)
{
	for (;;)
		(void)fork();
	return 0;
}

static void *wait_for_ever(void *data)
{
	for (;;)
		(void)pause();
	return data;
}

static int use_threads(const char *a, const char *b)
{
	pthread_attr_t attr;
	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setstacksize(&attr, 65536);
	for (long i = 0; i < number(a); i++) {
		pthread_t thread;
		int r = pthread_create(&thread, &attr, wait_for_ever, NULL);
		if (r)
			return -r;
	}
	return 0;
}

static int use_descriptors(const char *a, const char *b)
{
	for (long i = 0; i < number(a); i++)
		if (open("/dev/null", O_RDONLY) < 0)
			return -errno;
	return 0;
}

/* directory, count */
static int use_inodes(const char *a, const char *b)
{
	int at = open(a, O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (long i = 0; i < number(b); i++) {
		char name[32];
		(void)snprintf(name, sizeof name, "n%ld", i);
		int fd = openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0)
			return -errno;
		(void)close(fd);
	}
	return 0;
}

/* To standard output, without this program's own buffer. */
static int use_log(const char *a, const char *b)
{
	return fill(STDOUT_FILENO, number(a));
}

static int sparse(const char *a, const char *b)
{
	int fd = open(a, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : answer(ftruncate(fd, (off_t)number(b) * MIB));
}

const struct act use_acts[] = {
	{ "use-heap", use_heap },
	{ "use-file", use_file },
	{ "use-unlinked", use_unlinked },
	{ "use-memfd", use_memfd },
	{ "use-sysv", use_sysv },
	{ "use-pipes", use_pipes },
	{ "use-processes", use_processes },
	{ "fork-bomb", fork_bomb },
	{ "use-threads", use_threads },
	{ "use-descriptors", use_descriptors },
	{ "use-inodes", use_inodes },
	{ "use-log", use_log },
	{ "sparse", sparse },
	{ NULL, NULL },
};
