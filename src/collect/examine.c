/* A child without rights for a batch of files: it looks, tells what it found, file by file, and is gone. */
#include "collect/examine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/str.h"

#define BATCH_MAX 128

struct mapped {
	size_t number; /* in the manifest */
	void *bytes;   /* owned; NULL if there are none */
	size_t size;
	enum check_format format;
};

/* What the child says of each, in their order: at most PIPE_BUF, so each is whole. */
struct told {
	size_t at;
	struct check_finding finding;
};
_Static_assert(sizeof(struct told) <= 4096, "written at once");

struct examining {
	struct manifest *manifest; /* borrowed */
	int outputs_fd;            /* owned */
	void *arena;               /* owned; mapped */
	struct mapped batch[BATCH_MAX];
	size_t n;
	uint64_t until_ns;
};

static void batch_release(struct examining *e)
{
	for (size_t i = 0; i < e->n; i++)
		if (e->batch[i].bytes)
			(void)munmap(e->batch[i].bytes, e->batch[i].size);
	e->n = 0;
}

static void examining_release(struct examining *e)
{
	batch_release(e);
	if (e->arena)
		(void)munmap(e->arena, CHECK_ARENA);
	cleanup_fd(&e->outputs_fd);
}

static struct check_finding *finding_of(const struct examining *e, size_t at)
{
	return &e->manifest->files[e->batch[at].number].finding;
}

static void set_unchecked(struct check_finding *f, const char *why)
{
	*f = (struct check_finding){ .state = CHECK_UNCHECKED };
	(void)snprintf(f->text, sizeof f->text, "%s", why);
}

/* From here on the kernel ends this process at any call but these two. */
static _Noreturn void child_main(const struct examining *e, size_t from, int tell_fd, pid_t parent)
{
	(void)prctl(PR_SET_DUMPABLE, 0); /* no core of it, whatever it meets */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent ||
	    (tell_fd > 0 && close_range(0, (unsigned)tell_fd - 1, 0) < 0) ||
	    close_range((unsigned)tell_fd + 1, ~0U, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) < 0)
		from = e->n;
	for (size_t i = from; i < e->n; i++) {
		struct told told = { .at = i };
		struct check_input input = { .format = e->batch[i].format,
					     .bytes = e->batch[i].bytes,
					     .size = e->batch[i].size,
					     .arena = e->arena,
					     .bytes_max = CHECK_BYTES_MAX };
		check_bytes(&input, &told.finding);
		(void)syscall(SYS_write, tell_fd, &told, sizeof told);
	}
	for (;;)
		(void)syscall(SYS_exit, 0);
}

/* One finding from the child: 1, or 0 when there is no more to hear. */
static int hear(const struct examining *e, int fd, size_t expected, const char **ret_why)
{
	struct told told = { 0 };
	uint64_t now = clock_monotonic_ns();
	uint64_t left_ms = now < e->until_ns ? (e->until_ns - now) / 1000000 : 0;
	int wait_ms = left_ms < EXAMINE_FILE_MS ? (int)left_ms : EXAMINE_FILE_MS;
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	int ready;
	do
		ready = poll(&poll_fd, 1, wait_ms);
	while (ready < 0 && errno == EINTR);
	if (ready == 0)
		*ret_why = "its check took too long";
	if (ready <= 0 || read(fd, &told, sizeof told) != sizeof told || told.at != expected ||
	    told.finding.state > CHECK_DAMAGED)
		return 0;
	told.finding.text[CHECK_TEXT - 1] = '\0';
	*finding_of(e, told.at) = told.finding;
	return 1;
}

/* Looks at batch[from..]; returns the number of the first that was not looked at to its end, with *ret_why. */
static size_t examine_from(const struct examining *e, size_t from, const char **ret_why)
{
	int pipe_fds[2];
	*ret_why = "its check failed";
	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return from;
	CLEANUP_FD int hear_fd = pipe_fds[0];
	CLEANUP_FD int tell_fd = pipe_fds[1];
	pid_t parent = getpid();
	pid_t pid = fork();
	if (pid == 0)
		child_main(e, from, tell_fd, parent);
	cleanup_fd(&tell_fd);
	FAULT_PHASE("examining");
	while (pid > 0 && from < e->n && hear(e, hear_fd, from, ret_why))
		from++;
	if (pid > 0) {
		(void)kill(pid, SIGKILL);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	return from;
}

static void batch_examine(struct examining *e)
{
	for (size_t from = 0; from < e->n; from++) {
		const char *why = NULL;
		from = examine_from(e, from, &why);
		if (from < e->n)
			set_unchecked(finding_of(e, from), why);
	}
	batch_release(e);
}

/* The copy, which is ours, as memory. */
static bool batch_map(struct examining *e, size_t number)
{
	const struct collected *file = &e->manifest->files[number];
	struct mapped *to = &e->batch[e->n];
	struct stat st = { 0 };
	CLEANUP_FD int fd = fs_open_beneath(e->outputs_fd, file->path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	*to = (struct mapped){ .number = number,
			       .size = (size_t)st.st_size,
			       .format = check_format_of(file->media_type) };
	if (to->size > 0) {
		void *bytes = mmap(NULL, to->size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (bytes == MAP_FAILED)
			return false;
		to->bytes = bytes;
		(void)madvise(bytes, to->size, MADV_SEQUENTIAL);
	}
	e->n++;
	return true;
}

static bool must_pass(const struct collected *file)
{
	return file->check == OUTPUT_CHECK_REQUIRE ||
	       (file->check == OUTPUT_CHECK_AUTO && file->required);
}

/* Of a format that nobody knows only emptiness is known, and it is no news unless the file was asked for. */
static bool is_checked(const struct collected *file)
{
	if (file->check == OUTPUT_CHECK_OFF)
		return false;
	return check_format_of(file->media_type) != CHECK_FORMAT_NONE ||
	       (file->size == 0 && must_pass(file));
}

static void judge(struct manifest *m, const struct collected *file)
{
	const struct check_finding *f = &file->finding;
	bool required = file->check == OUTPUT_CHECK_REQUIRE;
	bool bad = f->state == CHECK_DAMAGED ||
		   (required &&
		    (f->state == CHECK_UNCHECKED || (file->size == 0 && f->state == CHECK_WARNED)));
	CLEANUP_FREE char *text = xasprintf("%.200s: %s", file->path, f->text);
	if (bad && must_pass(file)) {
		if (!m->invalid)
			m->invalid = take_ptr(text);
	} else if (f->state == CHECK_DAMAGED || f->state == CHECK_WARNED) {
		m->n_warned++;
		if (!m->warning)
			m->warning = take_ptr(text);
	}
}

static bool begin(struct examining *e, int run_fd)
{
	void *arena =
		mmap(NULL, CHECK_ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	e->arena = arena == MAP_FAILED ? NULL : arena;
	e->outputs_fd = fs_open_beneath(run_fd, "outputs", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	e->until_ns = clock_monotonic_ns() + EXAMINE_RUN_MS * 1000000ULL;
	return e->arena && e->outputs_fd >= 0;
}

void outputs_examine(int run_fd, struct manifest *m)
{
	CLEANUP(examining_release) struct examining e = { .manifest = m, .outputs_fd = -1 };
	bool begun = false, able = false;
	for (size_t i = 0; i < m->n_files; i++) {
		if (!is_checked(&m->files[i]))
			continue;
		if (!begun)
			able = begin(&e, run_fd);
		begun = true;
		if (!able || !batch_map(&e, i))
			set_unchecked(&m->files[i].finding, "it could not be looked at");
		if (e.n == BATCH_MAX)
			batch_examine(&e);
	}
	if (begun)
		batch_examine(&e);
	for (size_t i = 0; begun && i < m->n_files; i++)
		if (m->files[i].finding.state != CHECK_NONE)
			judge(m, &m->files[i]);
}
