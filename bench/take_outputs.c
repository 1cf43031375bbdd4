/* take_outputs DIR HOME: collects DIR as a run's outputs into a run directory of HOME and links them with its store, as a keeper does;
 * prints the seconds of collecting and of storing, the files and the bytes. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "collect/store.h"

static int fail(const struct err *err)
{
	(void)fprintf(stderr, "%s\n", err->text);
	return 1;
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		(void)fprintf(stderr, "usage: take_outputs DIR HOME\n");
		return 2;
	}
	struct err err = { 0 };
	CLEANUP_MANIFEST struct manifest m = { 0 };
	struct store_report report = { 0 };
	struct output all = { .pattern = (char[]){ "**" } };
	CLEANUP_FD int work_fd = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CLEANUP_FD int home_fd = open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (home_fd < 0 || (mkdirat(home_fd, "run", 0700) < 0 && errno != EEXIST))
		return fail(&(struct err){ .text = "no home" });
	CLEANUP_FD int run_fd = openat(home_fd, "run", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct collect_request request = { .work_fd = work_fd,
					   .run_fd = run_fd,
					   .uid = geteuid(),
					   .gid = getegid(),
					   .outputs = &all,
					   .n_outputs = 1,
					   .max_bytes = UINT64_MAX,
					   .max_count = UINT64_MAX };
	uint64_t start = clock_monotonic_ns();
	if (outputs_collect(&request, &m, &err) < 0)
		return fail(&err);
	uint64_t collected = clock_monotonic_ns();
	if (outputs_store(home_fd, run_fd, &m, &report, &err) < 0)
		return fail(&err);
	uint64_t stored = clock_monotonic_ns();
	printf("%.6f %.6f %zu %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
	       (double)(collected - start) / 1e9, (double)(stored - collected) / 1e9, m.n_files,
	       m.bytes, report.added, report.shared);
	return 0;
}
