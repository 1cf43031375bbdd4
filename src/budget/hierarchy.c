/* Reads /proc/self/mountinfo (proc_pid_mountinfo(5)) for the cgroup trees. */
#include "budget/hierarchy.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/statfs.h>

#include "base/fs.h"
#include "base/path.h"
#include "base/str.h"

#define MOUNTINFO_MAX (16u << 20)

static const char *const v1_names[CONTROLLER_COUNT_] = { "memory", "cpu", "pids", "cpuacct",
							 "blkio" };
static const char *const v2_names[CONTROLLER_COUNT_] = { "memory", "cpu", "pids", "", "io" };

static void hierarchy_release(struct hierarchy *h)
{
	cleanup_free(&h->mount);
	cleanup_free(&h->root);
	h->controllers = 0;
}

void hierarchies_release(struct hierarchies *h)
{
	for (size_t i = 0; i < h->n_v1; i++)
		hierarchy_release(&h->v1[i]);
	h->n_v1 = 0;
	hierarchy_release(&h->v2);
}

const char *controller_name(enum controller c)
{
	return v2_names[c];
}

/* The bits of the words that are in `names`; any of `separators` is between words. */
static unsigned words_parse(const char *words, const char *separators, const char *const *names)
{
	unsigned found = 0;
	while (*words) {
		size_t length = strcspn(words, separators);
		for (int c = 0; c < CONTROLLER_COUNT_; c++)
			if (length > 0 && strlen(names[c]) == length &&
			    memcmp(names[c], words, length) == 0)
				found |= 1u << c;
		words += length;
		words += strspn(words, separators);
	}
	return found;
}

unsigned controllers_parse(const char *words)
{
	return words_parse(words, " \n", v2_names);
}

/* Blanks, tabs, newlines and backslashes stand as three octal digits in mountinfo. */
static char *unescape(const char *text)
{
	char *plain = xmalloc(strlen(text) + 1);
	char *out = plain;
	while (*text) {
		if (text[0] == '\\' && strspn(text + 1, "01234567") >= 3) {
			*out++ = (char)(((text[1] - '0') << 6) | ((text[2] - '0') << 3) |
					(text[3] - '0'));
			text += 4;
		} else {
			*out++ = *text++;
		}
	}
	*out = '\0';
	return plain;
}

/* A tree may be mounted several times; the mount that shows most of it is the useful one. */
static bool better_root(const char *root, const char *than)
{
	return strlen(root) < strlen(than);
}

static void hierarchy_set(struct hierarchy *h, const char *mount, const char *root, unsigned has)
{
	if (h->mount && !better_root(root, h->root))
		return;
	hierarchy_release(h);
	*h = (struct hierarchy){ .mount = unescape(mount),
				 .root = unescape(root),
				 .controllers = has };
}

static void add_v1(struct hierarchies *h, const char *mount, const char *root, unsigned has)
{
	for (size_t i = 0; i < h->n_v1; i++)
		if (h->v1[i].controllers == has) {
			hierarchy_set(&h->v1[i], mount, root, has);
			return;
		}
	/* A controller is in one v1 tree only, so there are never more trees than controllers. */
	if (h->n_v1 < CONTROLLER_COUNT_)
		hierarchy_set(&h->v1[h->n_v1++], mount, root, has);
}

/* "36 35 98:0 ROOT MOUNT OPTIONS [TAGS...] - TYPE SOURCE SUPEROPTIONS"; cuts the line up. */
static void parse_line(char *line, struct hierarchies *ret)
{
	char *field[6];
	char *rest = line;
	for (int i = 0; i < 6; i++) {
		field[i] = strsep(&rest, " ");
		if (!rest)
			return;
	}
	const char *root = field[3], *mount = field[4];
	char *tail = str_starts(rest, "- ") ? rest : strstr(rest, " - ");
	if (!tail)
		return;
	tail = strchr(tail, '-') + 2;
	const char *type = strsep(&tail, " ");
	(void)strsep(&tail, " ");
	if (!tail)
		return;

	/* "/..": a tree mounted from outside this cgroup namespace; its paths are not ours to use. */
	if (str_starts(root, "/.."))
		return;
	if (str_eq(type, "cgroup2"))
		hierarchy_set(&ret->v2, mount, root, 0);
	unsigned has = str_eq(type, "cgroup") ? words_parse(tail, ",", v1_names) : 0;
	if (has)
		add_v1(ret, mount, root, has);
}

static int by_controller(const void *a, const void *b)
{
	const struct hierarchy *left = a, *right = b;
	return __builtin_ctz(left->controllers) - __builtin_ctz(right->controllers);
}

void hierarchies_parse(const char *mountinfo, struct hierarchies *ret)
{
	*ret = (struct hierarchies){ 0 };
	CLEANUP_FREE char *copy = xstrdup(mountinfo);
	char *rest = copy;
	for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n"))
		parse_line(line, ret);
	/* One order for everybody: of two creators of the same id the first tree decides. */
	qsort(ret->v1, ret->n_v1, sizeof(ret->v1[0]), by_controller);
}

/* A file of procfs, whose size is not known before it is read. */
static int read_proc(const char *path, size_t max, struct str *ret)
{
	CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	for (;;) {
		char chunk[4096];
		ssize_t n = read(fd, chunk, sizeof(chunk));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		if (ret->length + (size_t)n > max)
			return -EFBIG;
		str_add_n(ret, chunk, (size_t)n);
	}
}

/* mountinfo lists what another mount has covered, too. */
static void drop_hidden(struct hierarchies *h)
{
	struct statfs st;
	size_t kept = 0;
	for (size_t i = 0; i < h->n_v1; i++) {
		if (statfs(h->v1[i].mount, &st) == 0 && st.f_type == CGROUP_SUPER_MAGIC)
			h->v1[kept++] = h->v1[i];
		else
			hierarchy_release(&h->v1[i]);
	}
	h->n_v1 = kept;
	if (h->v2.mount && (statfs(h->v2.mount, &st) < 0 || st.f_type != CGROUP2_SUPER_MAGIC))
		hierarchy_release(&h->v2);
}

int hierarchies_read(struct hierarchies *ret, struct err *err)
{
	CLEANUP_STR struct str text = { 0 };
	int r = read_proc("/proc/self/mountinfo", MOUNTINFO_MAX, &text);
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "read /proc/self/mountinfo: %s", strerror(-r));
	hierarchies_parse(str_text(&text), ret);
	drop_hidden(ret);
	if (!ret->v2.mount)
		return 0;

	CLEANUP_FD int fd = open(ret->v2.mount, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char words[512];
	if (fd >= 0 && fs_read_small(fd, "cgroup.controllers", words, sizeof(words)) >= 0)
		ret->v2.controllers = controllers_parse(words);
	return 0;
}

unsigned hierarchies_v1_controllers(const struct hierarchies *h)
{
	unsigned all = 0;
	for (size_t i = 0; i < h->n_v1; i++)
		all |= h->v1[i].controllers;
	return all;
}

char *hierarchy_own_path(const struct hierarchy *v2)
{
	CLEANUP_STR struct str text = { 0 };
	if (read_proc("/proc/self/cgroup", 1u << 20, &text) < 0)
		return NULL;
	/* The unified tree is the line of hierarchy 0: "0::/path". */
	const char *line = str_text(&text);
	while (line && !str_starts(line, "0::")) {
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	if (!line)
		return NULL;
	CLEANUP_FREE char *path = xstrndup(line + 3, strcspn(line + 3, "\n"));
	if (str_eq(v2->root, "/"))
		return xstrdup(str_eq(path, "/") ? "" : path);
	return path_within(path, v2->root) ? xstrdup(path + strlen(v2->root)) : NULL;
}
