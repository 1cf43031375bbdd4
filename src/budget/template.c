/* Makes and finds templates: mkfs.ext4 on a sparse temporary file, synced, then renamed to its final name. */
#include "budget/template.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/hash.h"
#include "base/proc.h"
#include "base/str.h"

#define FEATURES "^resize_inode,sparse_super2"
#define EXTENDED "lazy_itable_init=1,lazy_journal_init=1,nodiscard,num_backup_sb=0,root_owner=0:0"

#define FORMAT_TRIES           8
#define HOLD_MAX               20000 /* takes debugfs about a second, once for each size */
#define SUPERBLOCK_INODES      0x0
#define SUPERBLOCK_FREE_INODES 0x10

static const char *find_mkfs(void)
{
	static const char *const places[] = { "/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4" };
	for (size_t i = 0; i < 2; i++)
		if (access(places[i], X_OK) == 0)
			return places[i];
	return NULL;
}

static int mkfs(const char *program, const char *features, const char *path, uint64_t inodes,
		const struct template_request *request, struct err *err)
{
	CLEANUP_STRV struct strv argv = { 0 };
	/* 4096: what the loop device is told too, so that one size fits both. lazy_itable_init: a sparse file is zero already.
	 * num_backup_sb=0: nobody repairs this filesystem. */
	static const char *const head[] = { "mkfs.ext4", "-q", "-F", "-b", "4096",   "-I",
					    "256",       "-m", "0",  "-E", EXTENDED, "-O" };
	for (size_t i = 0; i < sizeof(head) / sizeof(head[0]); i++)
		strv_add(&argv, head[i]);
	strv_addf(&argv, "%s%s", request->journal_mib ? "" : "^has_journal,", features);
	if (request->journal_mib) {
		strv_add(&argv, "-J");
		strv_addf(&argv, "size=%u", request->journal_mib);
	}
	strv_add(&argv, "-N");
	strv_addf(&argv, "%" PRIu64, inodes);
	strv_add(&argv, path);

	int pipe_fds[2];
	if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_errno(err, "pipe");
	CLEANUP_FD int read_fd = pipe_fds[0];
	CLEANUP_FD int write_fd = pipe_fds[1];
	/* Read only after its end: its few lines fit into the pipe, and more than that is dropped by O_NONBLOCK. */
	int status = proc_run(program, strv_argv(&argv), write_fd);
	if (status < 0)
		return err_set(err, ERR_HOST, -status, "run %s: %s", program, strerror(-status));
	if (status == 0)
		return 0;
	char said[300];
	ssize_t n = read(read_fd, said, sizeof(said) - 1);
	said[n > 0 ? n : 0] = '\0';
	for (char *c = said; *c; c++)
		if ((unsigned char)*c < ' ')
			*c = ' ';
	return err_set(err, ERR_HOST, EIO, "%s failed: %s", program, said);
}

static const char *find_debugfs(void)
{
	static const char *const places[] = { "/usr/sbin/debugfs", "/sbin/debugfs" };
	for (size_t i = 0; i < 2; i++)
		if (access(places[i], X_OK) == 0)
			return places[i];
	return NULL;
}

/* It says 0 whatever becomes of the command; but one that is killed may leave anything. */
static int debugfs(const char *program, const char *option, const char *command, const char *path,
		   int null_fd)
{
	char *const argv[] = { (char *)"debugfs", (char *)"-w", (char *)option,
			       (char *)command,   (char *)path, NULL };
	return proc_run(program, argv, null_fd) == 0 ? 0 : -EIO;
}

/* What each run would otherwise do itself, and does where debugfs is absent: lost+found is for repairs that nobody makes here, and
 * making directories costs more than the rest of a mount. */
static int furnish(const char *path, const struct strv *dirs)
{
	const char *program = find_debugfs();
	CLEANUP_FD int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (!program || null_fd < 0)
		return 0;
	int r = debugfs(program, "-R", "rmdir lost+found", path, null_fd);
	for (size_t i = 0; r >= 0 && dirs && i < dirs->n; i++) {
		CLEANUP_FREE char *command = xasprintf("mkdir %s", dirs->v[i]);
		if (strspn(dirs->v[i], "abcdefghijklmnopqrstuvwxyz0123456789_-") ==
		    strlen(dirs->v[i])) /* its own syntax has quotes */
			r = debugfs(program, "-R", command, path, null_fd);
	}
	return r;
}

/* e2fsprogs before 1.47 does not know orphan_file, later ones may switch it on by default. */
static int format(const char *path, uint64_t inodes, const struct template_request *request,
		  struct err *err)
{
	const char *program = find_mkfs();
	if (!program)
		return err_set(err, ERR_HOST, ENOENT, "mkfs.ext4 is missing");
	if (mkfs(program, FEATURES ",^orphan_file", path, inodes, request, NULL) >= 0)
		return 0;
	return mkfs(program, FEATURES, path, inodes, request, err);
}

/* A number of the superblock (Documentation/filesystems/ext4/super.rst). */
static int superblock_read(int fd, off_t offset, uint64_t *ret)
{
	uint8_t b[4];
	ssize_t n = pread(fd, b, sizeof b, 1024 + offset);
	if (n != sizeof b)
		return n < 0 ? -errno : -EIO;
	*ret = (uint64_t)b[0] | (uint64_t)b[1] << 8 | (uint64_t)b[2] << 16 | (uint64_t)b[3] << 24;
	return 0;
}

/* Takes n inodes away: each is made with a name, which is then removed without freeing the inode. Nobody will ever repair this file
 * system, which would find them. */
static int hold_inodes(const char *path, uint64_t n)
{
	const char *program = find_debugfs();
	CLEANUP_STR struct str commands = { 0 };
	CLEANUP_FD int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	CLEANUP_FD int list_fd = memfd_create("commands", MFD_CLOEXEC);
	if (!program || null_fd < 0 || list_fd < 0)
		return -ENOENT;
	for (uint64_t i = 0; i < n; i++)
		str_addf(&commands, "mknod hold p\nunlink hold\n");
	CLEANUP_FREE char *list = xasprintf("/proc/%d/fd/%d", (int)getpid(), list_fd);
	int r = fs_write_all(list_fd, str_text(&commands), commands.length);
	return r < 0 ? r : debugfs(program, "-f", list, path, null_fd);
}

/* mkfs rounds the number of inodes up to whole blocks in each group. What is too many is held back. Without debugfs, or where that would take
 * long (a disk limit of a terabyte has 8192 groups), fewer are made: there are never more than the limit allows. */
static int format_exactly(int fd, const char *path, const struct template_request *request,
			  struct err *err)
{
	uint64_t total = 0, free_before = 0, free_after = 0, ask = request->inodes;
	for (int i = 0; i < FORMAT_TRIES; i++) {
		int r = format(path, ask, request, err);
		if (r < 0)
			return r;
		r = superblock_read(fd, SUPERBLOCK_INODES, &total);
		if (r >= 0)
			r = superblock_read(fd, SUPERBLOCK_FREE_INODES, &free_before);
		if (r < 0)
			return err_set(err, ERR_HOST, -r, "read %s: %s", path, strerror(-r));
		if (total <= request->inodes)
			return 0;
		uint64_t surplus = total - request->inodes;
		if (surplus <= HOLD_MAX && hold_inodes(path, surplus) >= 0 &&
		    superblock_read(fd, SUPERBLOCK_FREE_INODES, &free_after) >= 0 &&
		    free_after + surplus == free_before)
			return 0;
		/* At the least a group has one block of them. */
		if (ask <= surplus)
			return err_caller(
				err,
				"limit inodes: a file system of this disk limit has at least %" PRIu64
				" files; give --inodes at least that, or a smaller --disk",
				total);
		ask -= surplus;
		if (ftruncate(fd, 0) < 0 || ftruncate(fd, (off_t)request->bytes) < 0)
			return err_errno(err, "size %s", path);
	}
	return err_set(err, ERR_HOST, ERANGE,
		       "mkfs.ext4 makes no file system of at most %" PRIu64 " inodes",
		       request->inodes);
}

/* The cache is in HOME, but what is mounted as root is looked at once more: ours, regular, of the right size. */
static int open_checked(int cache_fd, const char *name, uint64_t bytes)
{
	CLEANUP_FD int fd = openat(cache_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022) ||
	    (uint64_t)st.st_size != bytes)
		return -EPERM;
	return take_fd(&fd);
}

/* An unfinished template is locked by its maker, so that one without a lock is known to be left over. `ret_name` has room for it. */
static int open_unfinished(int cache_fd, const char *name, char *ret_name, size_t room)
{
	for (int attempt = 0; attempt < 16; attempt++) {
		uint64_t chance = 0;
		struct stat st;
		if (getrandom(&chance, sizeof(chance), 0) < 0)
			return -errno;
		(void)snprintf(ret_name, room, ".%s.%016" PRIx64, name, chance);
		CLEANUP_FD int fd =
			openat(cache_fd, ret_name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0 || flock(fd, LOCK_EX) < 0 || fstat(fd, &st) < 0)
			return -errno;
		if (st.st_nlink > 0) /* no sweep came between making and locking */
			return take_fd(&fd);
	}
	return -EBUSY;
}

static int make(int cache_fd, const char *cache, const char *name,
		const struct template_request *request, struct err *err)
{
	char temp[128];
	CLEANUP_FD int fd = open_unfinished(cache_fd, name, temp, sizeof(temp));
	if (fd < 0)
		return err_set(err, ERR_HOST, -fd, "make a file in %s: %s", cache, strerror(-fd));
	CLEANUP_FREE char *path = xasprintf("%s/%s", cache, temp);

	FAULT_PHASE("template-named");
	int r = ftruncate(fd, (off_t)request->bytes) < 0 ? err_errno(err, "size %s", path) : 0;
	if (r >= 0)
		r = format_exactly(fd, path, request, err);
	if (r >= 0 && furnish(path, request->dirs) < 0)
		r = err_set(err, ERR_HOST, EIO, "debugfs was killed while it worked on %s", path);
	if (r >= 0 && fsync(fd) < 0)
		r = err_errno(err, "sync %s", path);
	FAULT_PHASE("template-formatted");
	if (r >= 0 && renameat(cache_fd, temp, cache_fd, name) < 0)
		r = err_errno(err, "rename %s", path);
	if (r < 0)
		(void)unlinkat(cache_fd, temp, 0);
	return r < 0 ? r : 0;
}

void template_sweep(int home_fd)
{
	CLEANUP_FD int cache_fd = openat(home_fd, "cache", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CLEANUP_DIR DIR *dir =
		cache_fd < 0 ? NULL
			     : fdopendir(openat(cache_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		if (!str_starts(entry->d_name, ".scratch-"))
			continue;
		CLEANUP_FD int fd = openat(cache_fd, entry->d_name,
					   O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
			(void)unlinkat(cache_fd, entry->d_name, 0);
	}
}

/* One for each size, journal and list of directories. */
static char *template_name(const struct template_request *request)
{
	char tag[HASH_TAG];
	CLEANUP_STR struct str dirs = { 0 };
	for (size_t i = 0; request->dirs && i < request->dirs->n; i++)
		str_addf(&dirs, "%s/", request->dirs->v[i]);
	if (request->journal_mib)
		str_addf(&dirs, "journal %u", request->journal_mib);
	str_addf(&dirs,
		 "exact"); /* older versions left templates with more inodes than asked for */
	hash_tag(str_text(&dirs), tag);
	return xasprintf("scratch-%" PRIu64 "-%" PRIu64 "-%s.img", request->bytes, request->inodes,
			 tag);
}

int template_open(const struct template_request *request, struct err *err)
{
	CLEANUP_FREE char *cache = xasprintf("%s/cache", request->home);
	CLEANUP_FREE char *name = template_name(request);
	int r = fs_make_dirs(cache, 0700, err);
	if (r < 0)
		return r;
	CLEANUP_FD int cache_fd = open(cache, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (cache_fd < 0)
		return err_errno(err, "open %s", cache);
	int fd = open_checked(cache_fd, name, request->bytes);
	if (fd == -ENOENT) {
		r = make(cache_fd, cache, name, request, err);
		if (r < 0)
			return r;
		fd = open_checked(cache_fd, name, request->bytes);
	}
	if (fd < 0)
		return err_set(err, ERR_HOST, -fd,
			       "%s/%s cannot be used: %s. Remedy: remove that file", cache, name,
			       strerror(-fd));
	return fd;
}
