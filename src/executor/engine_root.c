/* The part of a plan that is an image: its directories and links, as a tar archive. The same plan gives the same bytes. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"
#include "executor/engine_parts.h"

#define BLOCK 512

/* The ustar format. */
struct header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], kind, link[100],
		magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155],
		rest[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a block of tar");

bool root_is_engines(const char *path)
{
	return path_within(path, "/dev") || path_within(path, "/proc") || path_within(path, "/sys");
}

static int add_entry(struct str *to, const char *path, const char *link, struct err *err)
{
	struct header h = { .magic = "ustar", .version = { '0', '0' } };
	unsigned sum = 0;
	if (strlen(path + 1) >= sizeof h.name || (link && strlen(link) >= sizeof h.link))
		return err_set(err, ERR_HOST, ENAMETOOLONG,
			       "%s can't be part of an image: the path is too long", path);
	memcpy(h.name, path + 1, strlen(path + 1));
	if (link)
		memcpy(h.link, link, strlen(link));
	h.kind = link ? '2' : '5';
	/* What is mounted over a directory gets its mode. */
	bool for_all = str_eq(path, "/tmp") || str_eq(path, ROOT_SHARED_TMP);
	(void)snprintf(h.mode, sizeof h.mode, "%07o", for_all ? 01777 : link ? 0777 : 0755);
	(void)snprintf(h.uid, sizeof h.uid, "%07o", 0);
	(void)snprintf(h.gid, sizeof h.gid, "%07o", 0);
	(void)snprintf(h.size, sizeof h.size, "%011o", 0);
	(void)snprintf(h.mtime, sizeof h.mtime, "%011o", 0);
	memset(h.checksum, ' ', sizeof h.checksum);
	for (size_t i = 0; i < sizeof h; i++)
		sum += ((const unsigned char *)&h)[i];
	(void)snprintf(h.checksum, sizeof h.checksum, "%06o", sum);
	str_add_n(to, &h, sizeof h);
	return 0;
}

/* Something is mounted at the place or above it. */
static bool is_covered(const struct plan *p, const char *path)
{
	for (size_t i = 0; i < p->n_steps; i++) {
		const struct step *s = &p->steps[i];
		if ((s->kind == STEP_TMPFS || s->kind == STEP_BIND || s->kind == STEP_WORK) &&
		    !str_eq(s->target, "/") && path_within(path, s->target))
			return true;
	}
	return false;
}

struct making {
	struct str *tar;
	struct strv made;
	int tree_fd; /* borrowed; -1: none */
};

static void making_release(struct making *m)
{
	strv_release(&m->made);
}

/* The archive of the tree has it; engines refuse one that names something twice. */
static bool is_in_tree(const struct making *m, const char *path)
{
	return m->tree_fd >= 0 && !str_eq(path, "/tmp") && !str_eq(path, ROOT_SHARED_TMP) &&
	       faccessat(m->tree_fd, path + 1, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int add_directory(struct making *m, const char *path, struct err *err)
{
	if (str_eq(path, "/") || strv_has(&m->made, path))
		return 0;
	CLEANUP_FREE char *parent = path_parent(path);
	int r = add_directory(m, parent, err);
	strv_add(&m->made, path);
	return r < 0 || is_in_tree(m, path) ? r : add_entry(m->tar, path, NULL, err);
}

int root_tar(const struct plan *p, int tree_fd, struct str *ret, struct err *err)
{
	CLEANUP(making_release) struct making m = { .tar = ret, .tree_fd = tree_fd };
	static const char *const always[] = { "/dev", "/etc", "/proc", "/run",
					      "/sys", "/tmp", "/usr",  ROOT_SHARED_TMP };
	int r = 0;
	for (size_t i = 0; r >= 0 && i < sizeof always / sizeof *always; i++)
		r = add_directory(&m, always[i], err);
	for (size_t i = 0; r >= 0 && i < p->n_steps; i++) {
		const struct step *s = &p->steps[i];
		if ((s->kind != STEP_DIR && s->kind != STEP_LINK) || root_is_engines(s->target) ||
		    str_eq(s->target, ROOT_SHARED_TMP) || is_covered(p, s->target))
			continue;
		CLEANUP_FREE char *parent = path_parent(s->target);
		r = add_directory(&m, s->kind == STEP_DIR ? s->target : parent, err);
		if (r >= 0 && s->kind == STEP_LINK && !is_in_tree(&m, s->target))
			r = add_entry(ret, s->target, s->source, err);
	}
	return r;
}
