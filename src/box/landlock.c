/* Rights this build knows by number, since a distribution's headers lag behind its kernel. */
#include "box/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/syscall.h>

#include "base/cleanup.h"

#define FS_READ_EXEC                                                                               \
	(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define FS_ABI1   ((1ULL << 13) - 1) /* execute ... make_sym */
#define FS_REFER  (1ULL << 13)       /* ABI 2 */
#define FS_TRUNC  (1ULL << 14)       /* ABI 3 */
#define FS_IOCTL  (1ULL << 15)       /* ABI 5 */
#define SCOPE_ALL 3ULL               /* ABI 6: abstract sockets, signals */

struct ruleset {
	uint64_t fs;
	uint64_t net;
	uint64_t scoped;
};

int landlock_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	return abi > 0 ? (int)abi : 0;
}

static uint64_t rights_known(int abi)
{
	return FS_ABI1 | (abi >= 2 ? FS_REFER : 0) | (abi >= 3 ? FS_TRUNC : 0) |
	       (abi >= 5 ? FS_IOCTL : 0);
}

static uint64_t rights_of(enum access access, uint64_t known)
{
	switch (access) {
	case ACCESS_READ:
		return FS_READ_EXEC;
	case ACCESS_DEVICE: /* a file: rights on directories would be refused */
		return known & (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |
				FS_TRUNC | FS_IOCTL);
	case ACCESS_WRITE:
		return known &
		       ~(LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK | FS_IOCTL);
	}
	return 0;
}

static int rule_add(int ruleset_fd, const struct rule *rule, uint64_t known, struct err *err)
{
	CLEANUP_FD int fd = open(rule->path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, "landlock: open %s", rule->path);
	struct landlock_path_beneath_attr attr = {
		.allowed_access = rights_of(rule->access, known),
		.parent_fd = fd,
	};
	if (syscall(SYS_landlock_add_rule, ruleset_fd, LANDLOCK_RULE_PATH_BENEATH, &attr, 0) < 0)
		return err_errno(err, "landlock: rule for %s", rule->path);
	return 0;
}

int landlock_confine(const struct rule *rules, size_t n_rules, int abi, struct err *err)
{
	uint64_t known = rights_known(abi);
	struct ruleset attr = { .fs = known, .scoped = abi >= 6 ? SCOPE_ALL : 0 };
	/* An older kernel refuses a longer struct whose tail is not zero, so it gets the size it knows. */
	size_t size = abi >= 6 ? sizeof attr : sizeof attr.fs;
	CLEANUP_FD int fd = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
	if (fd < 0)
		return err_errno(err, "landlock: make the ruleset");
	for (size_t i = 0; i < n_rules; i++) {
		int r = rule_add(fd, &rules[i], known, err);
		if (r < 0)
			return r;
	}
	if (syscall(SYS_landlock_restrict_self, fd, 0) < 0)
		return err_errno(err, "landlock: restrict");
	return 0;
}
