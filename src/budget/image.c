/* A fresh filesystem for one run: an unnamed file, a loop device over it, the template's data written to that, mounted detached.
 * The device frees itself with its last user, which is the mount (base/loop.h). */
#include "budget/image.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/loop.h>
#include <linux/magic.h>
#include <linux/major.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/hash.h"
#include "base/loop.h"
#include "base/str.h"
#include "budget/scratch.h"
#include "budget/template.h"

#define BLOCK             4096u
#define INODE_SIZE        256u
#define IMAGE_MAX         (UINT64_C(1) << 44)
#define TEMPLATE_DATA_MAX (256 << 20) /* of 16 TiB it is 130 MiB */
#define COPY_CHUNK        65536
#define JOURNAL_MIB       4 /* the least that mkfs.ext4 makes */
#define JOURNAL_LARGE_MIB 16
#define LARGE             (UINT64_C(256) << 20)
/* ext4 refuses a write that does not fit as a whole into what is left, a large page at a time: ENOSPC leaves something over. */
#define FULL_BYTES_MIN (64u * 1024)
#define FULL_BYTES_MAX (2u * 1024 * 1024)

/* On top of what the analysis may write come the inode tables and the blocks that ext4 holds back from everybody for its own
 * bookkeeping: a fiftieth, at most 4096 of them (ext4_calculate_resv_clusters). Everything else that ext4 needs is taken from
 * the limit, so that never more than the limit can be written. */
static unsigned journal_mib(const struct image_request *request)
{
	return !request->lasts ? 0 : request->limit_bytes < LARGE ? JOURNAL_MIB : JOURNAL_LARGE_MIB;
}

uint64_t image_bytes(const struct image_request *request)
{
	uint64_t tables = (request->limit_inodes + IMAGE_RESERVED_INODES) * INODE_SIZE;
	uint64_t bytes = request->limit_bytes + tables + ((uint64_t)journal_mib(request) << 20);
	uint64_t held_back = bytes / 50 < 4096 * BLOCK ? bytes / 50 : 4096 * BLOCK;
	return (bytes + held_back) / BLOCK * BLOCK;
}

/* A file without a name where the filesystem can do that, otherwise one that loses it at once. */
static int unnamed_file(const char *dir, struct err *err)
{
	int r = fs_make_dirs(dir, 0700, err);
	if (r < 0)
		return r;
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0)
		return fd;
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
		return err_errno(err, "make an unnamed file in %s", dir);
	uint64_t chance = 0;
	if (getrandom(&chance, sizeof(chance), 0) < 0)
		return err_errno(err, "getrandom");
	CLEANUP_FREE char *path = xasprintf("%s/image-%016" PRIx64, dir, chance);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_errno(err, "make %s", path);
	(void)unlink(path);
	return fd;
}

static int copy_range(int from_fd, int to_fd, off_t at, off_t end)
{
	CLEANUP_FREE char *buffer = xmalloc(COPY_CHUNK); /* mostly a small part of it is touched */
	while (at < end) {
		size_t want = end - at < COPY_CHUNK ? (size_t)(end - at) : COPY_CHUNK;
		ssize_t n = pread(from_fd, buffer, want, at);
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		for (ssize_t done = 0; done < n;) {
			ssize_t w = pwrite(to_fd, buffer + done, (size_t)(n - done), at + done);
			if (w < 0)
				return -errno;
			done += w;
		}
		at += n;
	}
	return 0;
}

/* Only what holds data: about a hundred KiB, whatever the size. */
static int copy_data(int from_fd, int to_fd, off_t size)
{
	off_t copied = 0;
	for (off_t at = 0; at < size;) {
		off_t data = lseek(from_fd, at, SEEK_DATA);
		if (data < 0)
			return errno == ENXIO ? 0 : -errno; /* ENXIO: only a hole is left */
		off_t hole = lseek(from_fd, data, SEEK_HOLE);
		if (hole < 0)
			return -errno;
		copied += hole - data;
		if (copied > TEMPLATE_DATA_MAX)
			return -EFBIG; /* a filesystem that does not tell holes from data */
		int r = copy_range(from_fd, to_fd, data, hole);
		if (r < 0)
			return r;
		at = hole;
	}
	return 0;
}

/* The device carries the home it works for, so that a sweep of another home leaves it alone. */
static void image_name(const char *home, char ret[LO_NAME_SIZE])
{
	char tag[HASH_TAG];
	fs_tag(home, tag);
	(void)snprintf(ret, LO_NAME_SIZE, "cupel-%s", tag);
}

/* What ext4 says of a superblock, tables or journal that it can't make sense of. */
static bool is_damage(int error)
{
	return error == EUCLEAN || error == EINVAL || error == EIO || error == EBADMSG ||
	       error == EFBIG;
}

static int mount_device(const char *device, bool lasts, struct err *err)
{
	CLEANUP_FD int fs_fd = fsopen("ext4", FSOPEN_CLOEXEC);
	if (fs_fd < 0)
		return err_errno(err, "fsopen ext4");
	/* Where nothing of it is needed after a crash it need not wait for the disk; and its tables are zero already, so the kernel
	 * need not write them in the background. */
	if (fsconfig(fs_fd, FSCONFIG_SET_STRING, "source", device, 0) < 0 ||
	    (lasts ? fsconfig(fs_fd, FSCONFIG_SET_STRING, "errors", "remount-ro", 0)
		   : fsconfig(fs_fd, FSCONFIG_SET_FLAG, "nobarrier", NULL, 0)) < 0 ||
	    fsconfig(fs_fd, FSCONFIG_SET_FLAG, "noinit_itable", NULL, 0) < 0)
		return err_errno(err, "mount ext4 from %s", device);
	if (fsconfig(fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return lasts && is_damage(errno)
			       ? err_set(err, ERR_HOST, EUCLEAN, "the kernel refused it (%s)",
					 strerrordesc_np(errno))
			       : err_errno(err, "mount ext4 from %s", device);
	int mount_fd = fsmount(fs_fd, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	return mount_fd < 0 ? err_errno(err, "fsmount %s", device) : mount_fd;
}

/* The template goes through the device and not into the file before it: the kernel syncs the file when it is attached, and would
 * write to the disk what in most cases is gone before anybody wants it there. */
static int fill_and_mount(int template_fd, int file_fd, const char *home, off_t bytes,
			  struct err *err)
{
	char device[LOOP_DEVICE_ROOM], name[LO_NAME_SIZE];
	image_name(home, name);
	const struct loop_request request = { .file_fd = file_fd,
					      .name = name,
					      .block_size = BLOCK };
	CLEANUP_FD int loop_fd = loop_attach(&request, device, err);
	FAULT_PHASE("image-attached");
	if (loop_fd < 0)
		return loop_fd;
	int r = copy_data(template_fd, loop_fd, bytes);
	FAULT_PHASE("image-copied");
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "copy the template to %s: %s", device,
			       strerror(-r));
	return mount_device(device, false, err);
}

static int open_template(const struct image_request *request, uint64_t bytes, struct err *err)
{
	/* The sums above must not overflow; ext4 with this block size ends long before. */
	if (request->limit_bytes > IMAGE_MAX || request->limit_inodes > UINT32_MAX / 2)
		return err_set(err, ERR_HOST, EFBIG, "larger than an ext4 image can be");
	struct template_request template = { .home = request->home,
					     .bytes = bytes,
					     .inodes = request->limit_inodes +
						       IMAGE_RESERVED_INODES,
					     .journal_mib = journal_mib(request),
					     .dirs = request->dirs };
	return template_open(&template, err);
}

int image_mount(const struct image_request *request, struct err *err)
{
	uint64_t bytes = image_bytes(request);
	CLEANUP_FD int template_fd = open_template(request, bytes, err);
	if (template_fd < 0)
		return template_fd;
	FAULT_PHASE("image-template");
	CLEANUP_FREE char *dir = xasprintf("%s/tmp", request->home);
	CLEANUP_FD int file_fd = unnamed_file(dir, err);
	if (file_fd < 0)
		return file_fd;
	if (ftruncate(file_fd, (off_t)bytes) < 0)
		return err_errno(err, "size a file in %s", dir);
	return fill_and_mount(template_fd, file_fd, request->home, (off_t)bytes, err);
}

int image_make(const struct image_request *request, int file_fd, struct err *err)
{
	uint64_t bytes = image_bytes(request);
	CLEANUP_FD int template_fd = open_template(request, bytes, err);
	if (template_fd < 0)
		return template_fd;
	int r = ftruncate(file_fd, (off_t)bytes) < 0
			? -errno
			: copy_data(template_fd, file_fd, (off_t)bytes);
	return r < 0 ? err_set(err, ERR_HOST, -r, "make an image: %s", strerrordesc_np(-r)) : 0;
}

int image_mount_file(const char *home, int file_fd, struct err *err)
{
	char device[LOOP_DEVICE_ROOM], name[LO_NAME_SIZE], tag[HASH_TAG];
	fs_tag(home, tag);
	(void)snprintf(name, sizeof name, "cupel-checkpoint-%s", tag);
	const struct loop_request request = { .file_fd = file_fd,
					      .name = name,
					      .block_size = BLOCK };
	CLEANUP_FD int loop_fd = loop_attach(&request, device, err);
	return loop_fd < 0 ? loop_fd : mount_device(device, true, err);
}

/* overlayfs lets the loop driver believe in direct I/O even where the filesystem below cannot do it, and then every read fails: so
 * only where it is known to work. */
static bool direct_works(const char *directory)
{
	struct statfs st;
	return statfs(directory, &st) == 0 &&
	       (st.f_type == EXT4_SUPER_MAGIC || st.f_type == XFS_SUPER_MAGIC);
}

/* The loop device below a directory's filesystem, or -1. */
static int loop_below(int dir_fd)
{
	struct stat st;
	char device[32];
	if (fstat(dir_fd, &st) < 0 || major(st.st_dev) != LOOP_MAJOR)
		return -1;
	(void)snprintf(device, sizeof device, "/dev/loop%u", minor(st.st_dev));
	return open(device, O_RDWR | O_CLOEXEC);
}

bool image_is_ours(const char *home, int dir_fd)
{
	struct loop_info64 info;
	char name[LO_NAME_SIZE];
	CLEANUP_FD int loop_fd = loop_below(dir_fd);
	image_name(home, name);
	return loop_fd >= 0 && ioctl(loop_fd, LOOP_GET_STATUS64, &info) == 0 &&
	       strncmp((const char *)info.lo_file_name, name, LO_NAME_SIZE) == 0;
}

void image_settle(const char *home, int dir_fd)
{
	CLEANUP_FD int loop_fd = direct_works(home) ? loop_below(dir_fd) : -1;
	if (loop_fd >= 0)
		(void)ioctl(loop_fd, LOOP_SET_DIRECT_IO, 1UL); /* refused: as fast as it was */
}

/* What the image holds: of the inodes, those of the limit that are no longer free (template.c holds others back); blocks of ext4's own tables are not in f_blocks (statfs(2), bsddf). */
int image_use(int dir_fd, uint64_t limit_inodes, struct scratch_use *ret)
{
	struct statfs st;
	if (fstatfs(dir_fd, &st) < 0)
		return -errno;
	/* Of one whose limit nobody knows any more those held back count as well. */
	uint64_t most = limit_inodes ? limit_inodes : st.f_files - IMAGE_RESERVED_INODES;
	uint64_t block = (uint64_t)st.f_bsize, margin = st.f_blocks * block / 8;
	if (margin < FULL_BYTES_MIN)
		margin = FULL_BYTES_MIN;
	if (margin > FULL_BYTES_MAX)
		margin = FULL_BYTES_MAX;
	*ret = (struct scratch_use){
		.bytes = (st.f_blocks - st.f_bfree) * block,
		.inodes = most > st.f_ffree ? most - st.f_ffree : 0,
		.full = st.f_bavail * block <= margin || st.f_ffree == 0,
	};
	return 0;
}
