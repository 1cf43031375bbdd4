#include "keeper/traces.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/str.h"
#include "collect/outputs.h"

#define TRACES_MAX 16384

void traces_release(struct traces *t)
{
	cleanup_free(&t->work_dir);
	cleanup_free(&t->cgroup_parent);
}

/* "made DEV INO", once the working directory was there. */
static void read_mark(const char *line, struct traces *ret)
{
	char *end;
	if (!str_starts(line, "made ") || !strchr(line, '\n'))
		return;
	ret->mark.dev = strtoull(line + 5, &end, 10);
	ret->mark.ino = strtoull(end, NULL, 10);
	ret->has_mark = true;
}

/* What the keeper noted when it took the id; a crash of the host may have torn the note, then the configuration tells. Read through
 * the locked descriptor: closing another one of the same file would end the lock. */
void traces_read(const struct record *r, const struct config *c, struct traces *ret)
{
	CLEANUP_FREE char *text = xcalloc(1, TRACES_MAX + 1);
	if (pread(r->active_fd, text, TRACES_MAX, 0) > 0) {
		char *second = strchr(text, '\n');
		char *end = second ? strchr(second + 1, '\n') : NULL;
		if (end && text[0] == '/') {
			ret->work_dir = xstrndup(text, (size_t)(second - text));
			ret->cgroup_parent = xstrndup(second + 1, (size_t)(end - second - 1));
			read_mark(end + 1, ret);
			return;
		}
	}
	ret->work_dir = config_work_dir(c, r->id);
	ret->cgroup_parent = xstrdup(c->cgroup_parent);
}

/* What a collection or a record that was cut off left in the run directory: never an output. */
int traces_remove_unfinished(const struct record *r, struct err *err)
{
	CLEANUP_STRV struct strv names = { 0 };
	CLEANUP_DIR DIR *dir =
		fdopendir(openat(r->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	if (!dir)
		return err_errno(err, "read the run directory of %s", r->id);
	for (struct dirent *entry; (entry = readdir(dir));)
		if (str_starts(entry->d_name, OUTPUT_TEMP_PREFIX) ||
		    str_starts(entry->d_name, FS_TEMP_PREFIX))
			strv_add(&names, entry->d_name);
	int e = 0;
	for (size_t i = 0; e >= 0 && i < names.n; i++)
		e = fs_remove_tree(r->dir_fd, names.v[i], NULL, err);
	return e;
}

/* Of an object with indented members, only the last line is a brace. */
static bool is_whole(int fd)
{
	static const char end[3] = "\n}\n";
	char last[sizeof end];
	struct stat st;
	return fstat(fd, &st) == 0 && st.st_size >= (off_t)sizeof end &&
	       pread(fd, last, sizeof last, st.st_size - (off_t)sizeof end) == sizeof last &&
	       memcmp(last, end, sizeof end) == 0;
}

/* What its keeper was writing when it died. */
int traces_remove_torn(const struct record *r, struct err *err)
{
	static const char *const names[] = { "analysis.json", "plan.json", "receipt.json",
					     "outputs.json" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		CLEANUP_FD int fd = fs_open_beneath(r->dir_fd, names[i], O_RDONLY | O_CLOEXEC, 0);
		if (fd >= 0 && !is_whole(fd) && unlinkat(r->dir_fd, names[i], 0) < 0)
			return err_errno(err, "remove the torn %s of %s", names[i], r->id);
	}
	return 0;
}
