/* Part of every program of a sanitizer build, and of no other. What a sanitizer says in a keeper or in the init of a box goes to a
 * stream that a passing test need not look at, and a box has no path to a log. So each process shares a page with tests/run, mapped
 * before anything forks: $CUPEL_SANITIZER_REPORTS names a file of zeros, in which each report is one line of text. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define REPORTS_BYTES 65536

struct reports {
	_Atomic unsigned used; /* of text; more than there is room for if lines were dropped */
	char text[REPORTS_BYTES - sizeof(unsigned)];
};
_Static_assert(sizeof(struct reports) == REPORTS_BYTES, "what tests/run makes and reads");

void __sanitizer_set_death_callback(void (*callback)(void));
void __sanitizer_report_error_summary(const char *summary);
int __lsan_is_turned_off(void);
void sanitizer_reports(void);

static struct reports *reports; /* NULL where nobody asked */

static void add_line(const char *text)
{
	char name[17] = "?", line[1024];
	(void)prctl(PR_GET_NAME, name);
	int n = snprintf(line, sizeof line, "%s[%d]: %.900s\n", name, (int)getpid(), text);
	unsigned length = n < (int)sizeof line ? (unsigned)n : sizeof line - 1;
	unsigned at = atomic_fetch_add(&reports->used, length);
	if (at < sizeof reports->text && length <= sizeof reports->text - at)
		memcpy(reports->text + at, line, length);
}

/* Whatever the reason, and also where the report itself could not be made. */
static void died(void)
{
	add_line("ended by a sanitizer");
}

/* The runtime's own, which only prints, is weak. Both sanitizers call it. */
void __sanitizer_report_error_summary(const char *summary)
{
	(void)dprintf(STDERR_FILENO, "%s\n", summary);
	if (reports)
		add_line(summary);
}

/* Asked at exit: without procfs, which tests/hosts takes away, the search for leaks fails by itself. */
int __lsan_is_turned_off(void)
{
	return access("/proc/self/task", F_OK) < 0;
}

/* tests/run proves by it that a report is seen. */
static void self_test(void)
{
	if (getenv("CUPEL_SANITIZER_SELF_TEST")) {
		volatile int index = 4;
		char *volatile four = malloc(4);
		four[index] = 1;
	}
}

/* The linker is told to want it, or it would leave this file out of a program. */
__attribute__((constructor)) void sanitizer_reports(void)
{
	const char *path = getenv("CUPEL_SANITIZER_REPORTS");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	void *page = mmap(NULL, sizeof *reports, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	(void)close(fd);
	if (page == MAP_FAILED)
		return;
	reports = page;
	__sanitizer_set_death_callback(died);
	self_test();
}
