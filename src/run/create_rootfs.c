/* A root of Debian packages by mmdebstrap. It writes an archive, which is unpacked here: so the tree belongs to the caller, without
 * device nodes, set-id bits and owners that only a user namespace knows. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/path.h"
#include "run/create_parts.h"
#include "runtime/layer.h"

/* VERSION_CODENAME of this host. */
static char *host_suite(void)
{
	CLEANUP_FREE char *text = NULL;
	static const char key[] = "\nVERSION_CODENAME=";
	if (fs_read_capped(AT_FDCWD, "/usr/lib/os-release", 65536, &text, NULL, NULL) < 0)
		return NULL;
	const char *at = strstr(text, key);
	return at ? xstrndup(at + strlen(key), strcspn(at + strlen(key), "\n\"")) : NULL;
}

/* This host's own sources, in either of apt's forms. */
static void add_host_sources(struct strv *argv)
{
	static const char parts[] = "/etc/apt/sources.list.d";
	CLEANUP_DIR DIR *dir = opendir(parts);
	struct stat st = { 0 };
	if (stat("/etc/apt/sources.list", &st) == 0 && st.st_size > 0)
		strv_add(argv, "/etc/apt/sources.list");
	for (const struct dirent *entry; dir && (entry = readdir(dir));)
		if (str_ends(entry->d_name, ".list") || str_ends(entry->d_name, ".sources"))
			strv_addf(argv, "%s/%s", parts, entry->d_name);
}

/* How this host fetches (proxies and the like), but none of its hooks and pins. The file's path, or NULL. */
static char *fetch_settings(struct creation *c)
{
	CLEANUP_TOOL struct tool t = { .phase = "read apt's settings" };
	CLEANUP_FREE char *dump = xasprintf("%s/apt.dump", c->dir);
	CLEANUP_FREE char *path = xasprintf("%s/apt.conf", c->dir);
	CLEANUP_FREE char *text = NULL;
	CLEANUP_STR struct str kept = { 0 };
	char *program = tool_find("apt-config");
	if (!program)
		return NULL;
	strv_take(&t.argv, program);
	strv_add(&t.argv, "dump");
	strv_add(&t.argv, "--format");
	strv_add(&t.argv, "%F \"%v\";%n");
	strv_add(&t.argv, "Acquire");
	t.out = dump;
	if (tool_run(c, &t, NULL) < 0 ||
	    fs_read_capped(AT_FDCWD, dump, 1 << 20, &text, NULL, NULL) < 0)
		return NULL;
	(void)unlink(dump);
	for (char *line = text; *line;) {
		size_t length = strcspn(line, "\n") + 1;
		if (str_starts(line, "Acquire::http") || str_starts(line, "Acquire::Retries") ||
		    str_starts(line, "Acquire::ForceIPv"))
			str_add_n(&kept, line, strnlen(line, length));
		line += strnlen(line, length);
	}
	return fs_write_atomic(AT_FDCWD, path, str_text(&kept), kept.length, 0644, NULL) < 0
		       ? NULL
		       : take_ptr(path);
}

static int bootstrap(struct creation *c, const char *tar, struct err *err)
{
	CLEANUP_TOOL struct tool t = { .phase = "fetch and install packages" };
	CLEANUP_FREE char *own = host_suite();
	const char *suite = c->q->suite ? c->q->suite : own;
	char *program = tool_find("mmdebstrap");
	if (!program)
		return err_set(
			err, ERR_HOST, ENOENT,
			"a rootfs is made by mmdebstrap, which is not installed. Remedy: apt-get install mmdebstrap");
	strv_take(&t.argv, program);
	if (!suite)
		return err_caller(err, "this host does not say which Debian it is; say --suite");
	strv_add(&t.argv, "--variant=essential");
	strv_add(&t.argv, "--format=tar");
	CLEANUP_FREE char *settings = fetch_settings(c);
	if (settings)
		strv_addf(&t.argv, "--aptopt=%s", settings);
	for (size_t i = 0; i < c->q->packages.n; i++)
		strv_addf(&t.argv, "--include=%s", c->q->packages.v[i]);
	strv_add(&t.argv, "--");
	strv_add(&t.argv, suite);
	strv_add(&t.argv, "-"); /* to standard output */
	strv_copy(&t.argv, &c->q->mirrors);
	if (c->q->mirrors.n == 0 && str_eq(suite, own))
		add_host_sources(&t.argv);
	t.out = tar;
	/* So that what it leaves when it is killed is swept with the rest. An ordinary user's mmdebstrap works as another uid, which may
	 * not come here. */
	CLEANUP_FREE char *temp = xasprintf("%s/tmp", c->dir);
	if (geteuid() != 0) {
		int e = tool_run(c, &t, err);
		return e < 0 && e != -ECANCELED
			       ? err_wrap(
					 err,
					 "mmdebstrap of an ordinary user needs sub-uids (Debian: uidmap, and a line "
					 "in /etc/subuid and /etc/subgid)")
			       : e;
	}
	if (mkdir(temp, 0755) < 0 || chmod(temp, 0755) < 0)
		return err_errno(err, "make %s", temp);
	t.temp = temp;
	int r = tool_run(c, &t, err);
	return r < 0 ? r : fs_remove_tree(AT_FDCWD, temp, NULL, err);
}

static int unpack(struct creation *c, const char *tar, const char *root, struct err *err)
{
	struct layer_counts counts = { 0 };
	char digest[HASH_HEX];
	create_tell(c, "unpack");
	if (mkdir(root, 0755) < 0 || chmod(root, 0755) < 0)
		return err_errno(err, "make %s", root);
	CLEANUP_FD int root_fd = open(root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	CLEANUP_FD int tar_fd = open(tar, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (root_fd < 0 || tar_fd < 0)
		return err_errno(err, "open %s", root_fd < 0 ? root : tar);
	struct layer archive = { .fd = tar_fd,
				 .name = "mmdebstrap's archive",
				 .place = LAYER_PLAIN,
				 .caps = &layer_caps_default };
	int r = layer_apply(&archive, root_fd, &counts, digest, err);
	if (r < 0)
		return r;
	if (faccessat(root_fd, "usr/bin", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, ERR_HOST, ENOENT,
			       "mmdebstrap reported success, but made no /usr/bin");
	json_object_set_new(c->notes, "files", json_u64(counts.files));
	json_object_set_new(c->notes, "bytes", json_u64(counts.bytes));
	return unlink(tar) < 0 ? err_errno(err, "remove %s", tar) : 0;
}

static int squash(struct creation *c, const char *root, struct err *err)
{
	CLEANUP_TOOL struct tool t = { .phase = "pack" };
	static const char *const tail[] = { "-all-root", "-noappend", "-no-progress", "-quiet" };
	char *program = tool_find("mksquashfs");
	if (!program)
		return err_set(
			err, ERR_HOST, ENOENT,
			"--squashfs needs mksquashfs, which is not installed. Remedy: apt-get install squashfs-tools");
	c->place = xasprintf("%s/root.squashfs", c->dir);
	strv_take(&t.argv, program);
	strv_add(&t.argv, root);
	strv_add(&t.argv, c->place);
	for (size_t i = 0; i < sizeof(tail) / sizeof(tail[0]); i++)
		strv_add(&t.argv, tail[i]);
	int r = tool_run(c, &t, err);
	return r < 0 ? r : fs_remove_tree(AT_FDCWD, root, NULL, err);
}

int create_rootfs(struct creation *c, struct err *err)
{
	CLEANUP_FREE char *tar = xasprintf("%s/root.tar", c->dir);
	CLEANUP_FREE char *root = xasprintf("%s/root", c->dir);
	/* Asked before the long part, not after it. */
	CLEANUP_FREE char *packer = c->q->squashfs ? tool_find("mksquashfs") : NULL;
	if (c->q->squashfs && !packer)
		return squash(c, root, err);
	int r = bootstrap(c, tar, err);
	if (r >= 0)
		r = unpack(c, tar, root, err);
	if (r < 0)
		return r;
	if (c->q->squashfs)
		return squash(c, root, err);
	c->place = take_ptr(root);
	return 0;
}
