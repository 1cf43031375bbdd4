/* What the doctor's trials do in their boxes. Prints KEY=NUMBER lines, an errno mostly, and ends. Everything is bounded, so that a box
 * that does not hold harms nobody. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/num.h"
#include "doctor/acts.h"
#include "doctor/doctor.h"
#include "doctor/inside.h"

static void say(const char *key, long value)
{
	CLEANUP_FREE char *line = xasprintf("%s=%ld\n", key, value);
	(void)fs_write_all(STDOUT_FILENO, line, strlen(line));
}

/* Its own loopback: somebody listens, and is reached. */
static int loopback(void)
{
	CLEANUP_FD int fd = -1;
	unsigned port = 0;
	int r = act_listen(&fd, &port);
	return r ? r : act_connect_tcp(port);
}

static long processes(void)
{
	CLEANUP_DIR DIR *dir = opendir("/proc");
	long n = dir ? 0 : -1;
	for (struct dirent *entry; dir && (entry = readdir(dir));)
		n += entry->d_name[0] >= '1' && entry->d_name[0] <= '9';
	return n;
}

/* Of a process that crashes: 1 if the kernel wrote a core, or gave one to the host's handler. */
static long crash(void)
{
	int status = 0;
	pid_t pid = fork();
	if (pid == 0) {
		(void)signal(SIGABRT, SIG_DFL);
		abort();
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status))
		return -1;
	return WCOREDUMP(status) ? 1 : 0;
}

/* Whether each line of a set of capabilities is zero. */
static long privileges(void)
{
	char text[8192];
	long found = 0;
	if (fs_read_small(AT_FDCWD, "/proc/self/status", text, sizeof text) < 0)
		return -1;
	for (const char *at = text; (at = strstr(at, "\nCap")); at++)
		if (strtoull(at + strcspn(at, "\t"), NULL, 16))
			found++;
	return found;
}

/* Groups whose path above the box is seen. */
static long foreign_groups(void)
{
	char text[8192];
	long found = 0;
	if (fs_read_small(AT_FDCWD, "/proc/self/cgroup", text, sizeof text) < 0)
		return -1;
	for (char *rest = text, *line; (line = strsep(&rest, "\n"));)
		found += *line && !str_ends(line, ":/");
	return found;
}

/* PORT NAME SEGMENT HOME */
static void layers(char **args)
{
	struct act_call calls[ACT_CALLS_MAX];
	uint64_t port = 0, segment = 0;
	(void)num_u64(args[0], 65535, &port);
	bool has_segment = num_u64(args[2], INT32_MAX, &segment) >= 0;
	say("loopback", loopback());
	say("tcp", act_connect_tcp((unsigned)port));
	say("abstract", act_connect_abstract(args[1]));
	say("segment", has_segment ? act_segment((int)segment) : -1);
	say("home", act_open(args[3], O_PATH));
	say("root", act_open("/doctor", O_WRONLY | O_CREAT));
	say("work", act_open("tmp/doctor", O_WRONLY | O_CREAT));
	say("urandom", act_open("/dev/urandom", O_WRONLY));
	say("processes", processes());
	say("privileges", privileges());
	say("no_new_privs", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	say("foreign_groups", foreign_groups());
	say("core", crash());
	for (size_t i = 0, n = act_calls(calls); i < n; i++) {
		CLEANUP_FREE char *key = xasprintf("call.%s", calls[i].name);
		say(key, calls[i].outcome);
	}
}

static void memory(void)
{
	for (size_t touched = 0; touched < INSIDE_MEMORY; touched += INSIDE_CHUNK) {
		void *chunk = mmap(NULL, INSIDE_CHUNK, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (chunk == MAP_FAILED) {
			say("mmap", errno);
			return;
		}
		memset(chunk, 1, INSIDE_CHUNK);
	}
	say("touched", INSIDE_MEMORY);
}

/* Those that were made are ended here: they would not go by themselves where there is no box. */
static void pids(void)
{
	pid_t made[INSIDE_PIDS];
	size_t n = 0;
	for (; n < INSIDE_PIDS; n++) {
		made[n] = fork();
		if (made[n] == 0) {
			(void)sleep(INSIDE_WAIT_S);
			_exit(0);
		}
		if (made[n] < 0) {
			say("fork", errno);
			break;
		}
	}
	say("made", (long)n);
	for (size_t i = 0; i < n; i++) {
		(void)kill(made[i], SIGKILL);
		(void)waitpid(made[i], NULL, 0);
	}
}

/* A chunk, to the file that is open. Its errno. */
static int write_chunk(int fd, long *written)
{
	static const char bytes[65536] = { 1 };
	for (size_t done = 0; done < INSIDE_CHUNK; done += sizeof bytes) {
		ssize_t n = write(fd, bytes, sizeof bytes);
		if (n < 0)
			return errno;
		*written += n;
	}
	return 0;
}

/* Many files, since the size of one has a limit too. A limit that is watched ends the box a moment later. */
static void disk(void)
{
	long written = 0;
	for (unsigned i = 0; written < INSIDE_DISK; i++) {
		CLEANUP_FREE char *name = xasprintf("tmp/doctor-%u", i);
		CLEANUP_FD int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		int error = fd < 0 ? errno : write_chunk(fd, &written);
		if (error) {
			say("write", error);
			break;
		}
	}
	say("written", written);
	if (written >= INSIDE_DISK)
		(void)sleep(INSIDE_WAIT_S);
}

static void cpu(void)
{
	struct timespec used = { 0 };
	do
		(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	while (used.tv_sec == 0 && used.tv_nsec < INSIDE_CPU_NS);
	say("burned", 1);
}

_Noreturn void doctor_inside(int argc, char **argv)
{
	const char *act = argc > 0 ? argv[0] : "";
	(void)signal(SIGPIPE, SIG_IGN);
	if (str_eq(act, "layers") && argc == 5)
		layers(argv + 1);
	else if (str_eq(act, "memory"))
		memory();
	else if (str_eq(act, "pids"))
		pids();
	else if (str_eq(act, "disk"))
		disk();
	else if (str_eq(act, "cpu"))
		cpu();
	else if (str_eq(act, "time"))
		(void)sleep(INSIDE_WAIT_S);
	else
		_exit(2);
	_exit(0); /* no handlers of ours, nor of a sanitizer's, which the box would not let work */
}
