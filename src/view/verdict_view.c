#include "view/verdict_view.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "base/json.h"
#include "base/path.h"
#include "base/str.h"
#include "view/state_colour.h"

#define VERDICT_MAX (1 << 20)

static int read_verdict(const char *run_dir, json_t **ret, struct err *err)
{
	CLEANUP_FREE char *path = path_join(run_dir, "verdict.json");
	return json_read_file(AT_FDCWD, path, VERDICT_MAX, ret, err);
}

/* Did the analysis's stdout, which was passed on to ours, stop in the middle of a line? */
static bool stopped_in_line(const char *run_dir)
{
	char last = '\n';
	CLEANUP_FREE char *path = path_join(run_dir, "stdout.log");
	CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return fd >= 0 && lseek(fd, -1, SEEK_END) >= 0 && read(fd, &last, 1) == 1 && last != '\n';
}

int verdict_print_json(const char *run_dir, struct err *err)
{
	CLEANUP_JSON json_t *verdict = NULL;
	int r = read_verdict(run_dir, &verdict, err);
	if (r < 0)
		return r;
	json_object_set_new(verdict, "directory", json_text(run_dir));
	CLEANUP_FREE char *text = json_dumps(verdict, JSON_COMPACT);
	printf("%s%s\n", stopped_in_line(run_dir) ? "\n" : "", text);
	return fflush(stdout) == 0 ? 0 : err_errno(err, "write the verdict");
}

int verdict_print_summary(const char *run_dir, struct err *err)
{
	CLEANUP_JSON json_t *verdict = NULL;
	int r = read_verdict(run_dir, &verdict, err);
	if (r < 0)
		return r;
	const char *cause = json_string_value(json_object_get(verdict, "cause"));
	const char *notes = json_string_value(json_object_get(verdict, "completion_notes"));
	fprintf(stderr, "cupel: ");
	terminal_print(stderr, state_colour(cause ? cause : "?"), "%s", cause ? cause : "?");
	fprintf(stderr, ": %s\ncupel: record: %s\n", notes ? notes : "", run_dir);
	return 0;
}

int verdict_print_failure(const char *run_dir, struct err *err)
{
	CLEANUP_JSON json_t *verdict = NULL;
	int r = read_verdict(run_dir, &verdict, err);
	if (r < 0)
		return r;
	const char *cause = json_string_value(json_object_get(verdict, "cause"));
	const char *notes = json_string_value(json_object_get(verdict, "completion_notes"));
	if (cause && (str_eq(cause, "setup") || str_eq(cause, "input-changed") ||
		      str_eq(cause, "runtime-broken")))
		fprintf(stderr, "cupel: %s\n", notes ? notes : "");
	return 0;
}
