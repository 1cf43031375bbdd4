/* The home: a file system that keeps what it was given, with links and locks; and the ledger. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/fs.h"
#include "doctor/parts.h"
#include "ledger/ledger.h"

#define GROUP "home"

/* Files are complete under their names or not there: sync, link, rename, sync of the directory. NULL, or what failed with errno. */
static const char *keep_promises(int dir_fd, bool *ret_reflinks)
{
	struct stat st = { 0 };
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	CLEANUP_FD int fd = openat(dir_fd, "a", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || fs_write_all(fd, "doctor\n", 7) < 0)
		return "write";
	if (fsync(fd) < 0)
		return "fsync";
	if (linkat(dir_fd, "a", dir_fd, "b", 0) < 0 || fstat(fd, &st) < 0 || st.st_nlink != 2)
		return "link";
	if (renameat(dir_fd, "b", dir_fd, "c") < 0)
		return "rename";
	if (fsync(dir_fd) < 0)
		return "fsync of the directory";
	if (fcntl(fd, F_OFD_SETLK, &lock) < 0)
		return "lock";
	CLEANUP_FD int other_fd = openat(dir_fd, "c", O_RDWR | O_CLOEXEC);
	errno = 0;
	if (other_fd < 0 || fcntl(other_fd, F_OFD_SETLK, &lock) == 0)
		return "lock against another";
	CLEANUP_FD int clone_fd = openat(dir_fd, "d", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	*ret_reflinks = clone_fd >= 0 && ioctl(clone_fd, FICLONE, fd) == 0;
	return NULL;
}

static const char *forgetful(int fd)
{
	struct statfs fs;
	if (fstatfs(fd, &fs) < 0)
		return NULL;
	switch ((unsigned long)fs.f_type) {
	case TMPFS_MAGIC:
	case RAMFS_MAGIC:
		return "is memory, and gone after a restart";
	case OVERLAYFS_SUPER_MAGIC:
		return "is a container's layer, and gone with the container";
	case NFS_SUPER_MAGIC:
	case SMB_SUPER_MAGIC:
		return "is another machine's, whose locks may fail with the network";
	default:
		return NULL;
	}
}

void examine_home(struct examination *x)
{
	struct finding *f = finding_add(x->d, GROUP, "home");
	bool reflinks = false;
	examine_step(x, "the home");
	f->promise =
		"After a power cut or on a full disk a record is whole, or the run is lost; never half";
	CLEANUP_FREE char *path = xasprintf("%s/files", x->trials.home);
	CLEANUP_FD int fd = mkdir(path, 0700) < 0 && errno != EEXIST
				    ? -1
				    : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	const char *failed = fd < 0 ? "make a directory" : keep_promises(fd, &reflinks);
	int error = errno;
	const char *why = failed ? NULL : forgetful(fd);
	if (failed) {
		finding_is(f, FINDING_MISSING, "%s: %s: %s", x->config->home, failed,
			   error ? strerrordesc_np(error) : "not kept");
		finding_remedy(f,
			       "put the home on a local file system: export CUPEL_HOME=DIRECTORY");
	} else if (why) {
		finding_is(f, FINDING_WEAK, "%s %s", x->config->home, why);
		finding_remedy(f,
			       "put the home on a local file system: export CUPEL_HOME=DIRECTORY");
	} else {
		finding_is(f, FINDING_OK, "%s syncs, links, renames and locks%s", x->config->home,
			   reflinks ? "; copies share their blocks"
				    : "; copies take room, without reflinks");
	}
}

void examine_ledger(struct examination *x)
{
	struct finding *f = finding_add(x->d, GROUP, "ledger");
	CLEANUP_JSON json_t *status = NULL;
	struct err err = { 0 };
	const char *url = "", *error = NULL, *last = NULL;
	json_int_t found = 0, known = 0, owed = 0;
	examine_step(x, "the ledger");
	f->promise =
		"A database that is down, locked, full, damaged or of another schema harms no run";
	if (ledger_status(x->config, &status, &err) < 0) {
		finding_is(f, FINDING_MISSING, "%s", err.text);
		return;
	}
	(void)json_unpack(status, "{s:s,s:I}", "url", &url, "owed", &owed);
	error = json_string_value(json_object_get(status, "error"));
	last = json_string_value(json_object_get(status, "last_error"));
	(void)json_unpack(json_object_get(status, "schema"), "{s:I,s:I}", "found", &found, "known",
			  &known);
	if (error) {
		finding_is(f, FINDING_MISSING, "%s: %s; runs are owed to it until it is back", url,
			   error);
		finding_remedy(
			f,
			"cupel ledger status   # once the database is there again, it is made good by itself");
	} else if (found && found != known) {
		finding_is(f, FINDING_WEAK, "%s has schema %lld, this cupel writes %lld", url,
			   (long long)found, (long long)known);
		finding_remedy(f, found < known ? "cupel ledger migrate"
						: "use the newer cupel that made it");
	} else if (owed && last) {
		finding_is(f, FINDING_WEAK, "%s answers, but %lld runs are owed to it: %s", url,
			   (long long)owed, last);
		finding_remedy(f, "cupel ledger check");
	} else {
		finding_is(f, FINDING_OK, "%s answers%s", url,
			   found ? "" : "; it has no tables yet");
	}
}
