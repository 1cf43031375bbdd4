/* What CUPEL_FAULT asks for, and what was counted, which `cupel run`, its keeper and its box share. */
#include "base/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/num.h"
#include "base/str.h"

#define TRACE_MAX (256 * 1024)

/* Memory, not a descriptor: a box that has closed everything can still write to it. */
struct shared {
	char trace[TRACE_MAX];
	atomic_size_t trace_length;
	atomic_ullong counts[FAULT_OP_COUNT_ + 1]; /* the last is `any` */
	atomic_ullong named;                       /* those on a path that ends as asked */
	atomic_bool phase_done;
};

/* Read once, before main; a fork inherits it. */
static struct {
	struct shared *shared; /* NULL: nothing is asked for */
	bool traces;
	char *abort_at, *pause_at;
	unsigned fail_op; /* FAULT_OP_COUNT_: any */
	char *fail_name;  /* NULL: whatever the path */
	uint64_t fail_first, fail_last;
	int fail_with; /* errno or FAULT_KILL; 0: none */
} fault;

static const char *const op_names[FAULT_OP_COUNT_ + 1] = {
	"write", "truncate", "fsync", "fdatasync", "syncfs", "rename",
	"link",  "unlink",   "mkdir", "create",    "any",
};

/* Every FAULT_PHASE that was linked in. */
extern const char *const __start_fault_phases[], *const __stop_fault_phases[];

static _Noreturn void refuse(const char *word)
{
	(void)fprintf(stderr, "cupel: CUPEL_FAULT: what is '%s'?\n", word);
	_exit(125);
}

static _Noreturn void print_phases(void)
{
	for (const char *const *p = __start_fault_phases; p < __stop_fault_phases; p++)
		(void)printf("%s\n", *p);
	(void)fflush(stdout);
	_exit(0);
}

static bool is_phase(const char *name)
{
	for (const char *const *p = __start_fault_phases; p < __stop_fault_phases; p++)
		if (str_eq(*p, name))
			return true;
	return false;
}

/* OP[@NAME]:K[+][:ERRNO] */
static void read_fail(const char *word, char *text)
{
	static const struct {
		const char *name;
		int value;
	} kinds[] = {
		{ "EIO", EIO }, { "ENOSPC", ENOSPC }, { "EROFS", EROFS }, { "KILL", FAULT_KILL }
	};
	char *save = NULL;
	char *op = strtok_r(text, ":", &save);
	char *k = strtok_r(NULL, ":", &save);
	const char *with = strtok_r(NULL, ":", &save);
	if (!op || !k)
		refuse(word);
	char *name = strchr(op, '@');
	if (name) {
		*name = '\0';
		fault.fail_name = xstrdup(name + 1);
	}
	while (fault.fail_op <= FAULT_OP_COUNT_ && !str_eq(op_names[fault.fail_op], op))
		fault.fail_op++;
	size_t length = strlen(k);
	bool and_after = length > 0 && k[length - 1] == '+';
	if (and_after)
		k[length - 1] = '\0';
	if (fault.fail_op > FAULT_OP_COUNT_ || num_u64(k, UINT64_MAX, &fault.fail_first) < 0)
		refuse(word);
	fault.fail_last = and_after ? UINT64_MAX : fault.fail_first;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (str_eq(with ? with : "EIO", kinds[i].name))
			fault.fail_with = kinds[i].value;
	if (!fault.fail_with)
		refuse(word);
}

static void read_word(const char *word)
{
	CLEANUP_FREE char *text = xstrdup(word);
	char *value = strchr(text, ':');
	if (str_eq(word, "phases"))
		print_phases();
	if (!value)
		refuse(word);
	*value++ = '\0';
	if (str_eq(text, "fail"))
		read_fail(word, value);
	else if (str_eq(text, "trace"))
		fault.traces = true;
	else if (str_eq(text, "abort") && is_phase(value))
		fault.abort_at = xstrdup(value);
	else if (str_eq(text, "pause") && is_phase(value))
		fault.pause_at = xstrdup(value);
	else
		refuse(word);
}

static void share(const char *file)
{
	CLEANUP_FD int fd = -1;
	if (file) {
		fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0 || ftruncate(fd, sizeof(struct shared)) < 0)
			refuse(file);
	}
	void *memory = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE,
			    MAP_SHARED | (file ? 0 : MAP_ANONYMOUS), fd, 0);
	if (memory == MAP_FAILED)
		refuse("memory");
	fault.shared = memory;
}

__attribute__((constructor)) static void read_faults(void)
{
	const char *words = getenv("CUPEL_FAULT");
	const char *file = NULL;
	if (!words || !*words)
		return;
	CLEANUP_FREE char *copy = xstrdup(words);
	char *save = NULL;
	for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		read_word(word);
		if (str_starts(word, "trace:"))
			file = word + strlen("trace:");
	}
	/* Not while the words are read: what is opened here is not an operation of cupel's. */
	share(file);
}

static void trace(const char *kind, const char *what)
{
	char line[600];
	struct shared *s = fault.shared;
	int n = snprintf(line, sizeof line, "%s %.500s\n", kind, what);
	if (!fault.traces || n <= 0)
		return;
	size_t at = atomic_fetch_add(&s->trace_length, (size_t)n);
	if (at + (size_t)n < TRACE_MAX)
		memcpy(s->trace + at, line, (size_t)n);
}

static _Noreturn void die(void)
{
	(void)kill(getpid(), SIGKILL);
	_exit(128 +
	      SIGKILL); /* the first process of a pid namespace is immune to its own signals */
}

void fault_phase(const char *name)
{
	if (!fault.shared)
		return;
	trace("phase", name);
	bool aborts = fault.abort_at && str_eq(fault.abort_at, name);
	bool pauses = fault.pause_at && str_eq(fault.pause_at, name);
	if ((!aborts && !pauses) || atomic_exchange(&fault.shared->phase_done, true))
		return;
	if (aborts)
		die();
	(void)kill(getpid(), SIGSTOP);
}

/* A file on a disk, or what could be one. */
static bool counts(int fd, const char *path)
{
	struct statfs fs;
	struct stat st;
	char above[4096];
	if (getpid() == 1)
		return false;
	if (!path) {
		if (fd <= STDERR_FILENO || fstat(fd, &st) < 0 ||
		    (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) || fstatfs(fd, &fs) < 0)
			return false;
	} else if (path[0] == '/') {
		(void)snprintf(above, sizeof above, "%s", path);
		char *slash = strrchr(above, '/');
		slash[slash == above] = '\0';
		if (statfs(above, &fs) < 0)
			return false;
	} else if (fstatfs(fd, &fs) < 0) {
		return false;
	}
	return fs.f_type != CGROUP_SUPER_MAGIC && fs.f_type != CGROUP2_SUPER_MAGIC &&
	       fs.f_type != PROC_SUPER_MAGIC && fs.f_type != SYSFS_MAGIC;
}

static char *place_of(int fd, const char *path)
{
	char link[48], place[4096];
	(void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = path && path[0] == '/' ? 0 : readlink(link, place, sizeof place - 1);
	place[n > 0 ? n : 0] = '\0';
	return xasprintf("%s%s%s", place, n > 0 && path ? "/" : "", path ? path : "");
}

int fault_next(enum fault_op op, int fd, const char *path)
{
	int saved = errno;
	bool counted = fault.shared && counts(fd, path);
	bool named = false;
	if (counted && (fault.traces || fault.fail_name)) {
		CLEANUP_FREE char *place = place_of(fd, path);
		trace(op_names[op], place);
		named = fault.fail_name && str_ends(place, fault.fail_name);
	}
	errno = saved;
	if (!counted || (fault.fail_name && !named))
		return 0;
	uint64_t n = atomic_fetch_add(&fault.shared->counts[op], 1) + 1;
	uint64_t n_any = atomic_fetch_add(&fault.shared->counts[FAULT_OP_COUNT_], 1) + 1;
	if (fault.fail_op == FAULT_OP_COUNT_)
		n = n_any;
	else if (fault.fail_op != op)
		return 0;
	if (named)
		n = atomic_fetch_add(&fault.shared->named, 1) + 1;
	return fault.fail_with && n >= fault.fail_first && n <= fault.fail_last ? fault.fail_with
										: 0;
}

bool fault_strikes(int with)
{
	if (with == FAULT_KILL)
		die();
	if (with)
		errno = with;
	return with != 0;
}

bool fault_open(int dir_fd, const char *path, uint64_t flags)
{
	return (flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))) &&
	       fault_strikes(fault_next(FAULT_CREATE, dir_fd, path));
}
