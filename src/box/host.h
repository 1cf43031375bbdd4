/* Facts about the host that a box plan depends on, read once, so that planning itself is pure. */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

/* A name of the host that programs expect: a link, or something to be bound. */
struct host_link {
	char *name;   /* owned; "bin" */
	char *target; /* owned; "usr/bin"; NULL: a file or directory, to be bound */
};

struct host {
	uid_t uid;
	gid_t gid;
	bool is_root;
	int landlock_abi;        /* 0: none */
	struct host_link *links; /* owned */
	size_t n_links;
	struct host_link *etc; /* owned; names below /etc that exist here and that programs need */
	size_t n_etc;
	char *resolv_conf;   /* owned or NULL; where /etc/resolv.conf really is */
	struct strv devices; /* of null zero full random urandom, those there are */
	cpu_set_t cpus;      /* that this process may use */
	int n_cpus;
	uint64_t open_files_max; /* hard limits of this process, which no box can exceed */
	uint64_t file_size_max;
	char *cpuinfo; /* owned; the first blocks of /proc/cpuinfo, "" if it can't be read */
	char *kernel;  /* owned; release */
};

void host_release(struct host *h);
#define CLEANUP_HOST CLEANUP(host_release)

int host_read(struct host *ret, struct err *err);
