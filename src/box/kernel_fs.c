#include "box/kernel_fs.h"

#include <linux/magic.h>
#include <stddef.h>

#include "base/str.h"

/* Those without a name in linux/magic.h have their number from the kernel's fs/. */
static const struct {
	const char *name;
	unsigned long magic; /* 0: it has none of its own */
} kernel_fs[] = {
	{ "proc", PROC_SUPER_MAGIC },
	{ "sysfs", SYSFS_MAGIC },
	{ "cgroup", CGROUP_SUPER_MAGIC },
	{ "cgroup2", CGROUP2_SUPER_MAGIC },
	{ "devpts", DEVPTS_SUPER_MAGIC },
	{ "devtmpfs", 0 },
	{ "debugfs", DEBUGFS_MAGIC },
	{ "tracefs", TRACEFS_MAGIC },
	{ "bpf", BPF_FS_MAGIC },
	{ "configfs", 0x62656570 },
	{ "securityfs", SECURITYFS_MAGIC },
	{ "selinuxfs", SELINUX_MAGIC },
	{ "smackfs", SMACK_MAGIC },
	{ "efivarfs", EFIVARFS_MAGIC },
	{ "pstore", PSTOREFS_MAGIC },
	{ "nsfs", NSFS_MAGIC },
	{ "binfmt_misc", BINFMTFS_MAGIC },
	{ "resctrl", RDTGROUP_SUPER_MAGIC },
	{ "fusectl", 0x65735543 },
	{ "mqueue", 0x19800202 },
	{ "rpc_pipefs", 0x67596969 },
	{ "nfsd", 0x6e667364 },
};

bool kernel_fs_named(const char *type)
{
	for (size_t i = 0; i < sizeof kernel_fs / sizeof *kernel_fs; i++)
		if (str_eq(type, kernel_fs[i].name))
			return true;
	return false;
}

bool kernel_fs_magic(const struct statfs *fs)
{
	for (size_t i = 0; i < sizeof kernel_fs / sizeof *kernel_fs; i++)
		if (kernel_fs[i].magic && kernel_fs[i].magic == (unsigned long)fs->f_type)
			return true;
	return false;
}

bool kernel_fs_memory(const struct statfs *fs)
{
	unsigned long type = (unsigned long)fs->f_type;
	return type == TMPFS_MAGIC || type == RAMFS_MAGIC || type == HUGETLBFS_MAGIC;
}
