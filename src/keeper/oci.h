/* A box that an OCI runtime makes (crun, runc, runsc), for the keeper of a run on this host.
 *
 *   keeper                            maker (a child with a mount namespace of its own)
 *   HOME/bundles/ID: config.json,
 *   init (executor/kept1.c); clone ->  the box's root, by the same steps as cupel's own box (box/mount.c)
 *   WORK ---------------------------> the working directory in it; exec `RUNTIME create`
 *   waits for its end; pid file       the container's first process becomes the keeper's child
 *   `RUNTIME start` ----------------> init: user namespace (the keeper maps it), limits, Landlock, seccomp
 *             <---------------------- READY: from here on all is as in box/enter.h
 *   in the end `RUNTIME delete --force`, and the bundle is removed
 *
 * The root is seen in the mount namespaces of maker and container only: there is nothing to unmount. The group is the run's own, so that
 * limits, counters and the kill are the keeper's as always. The socket to the keeper is init's stdin: when the keeper dies, init exits, and
 * with it the box. */
#pragma once

#include "base/json.h"
#include "executor/oci.h"
#include "keeper/launch.h"

struct oci_box {
	struct oci_runtime runtime;
	char *home;          /* owned */
	char *id;            /* owned */
	char *name;          /* owned; of the container */
	char *dir;           /* owned; the bundle, a real path */
	char *group;         /* owned; where the runtime puts it in each tree of cgroups */
	struct strv command; /* the program with the options for all commands */
	int maker_fd;        /* owned; pidfd, -1 once it was waited for */
};
void oci_box_free(struct oci_box **o);
#define CLEANUP_OCI_BOX CLEANUP(oci_box_free)

extern const struct launch_ops oci_launch_ops;

/* What is told about it in the receipt, and in the verdict. */
json_t *oci_json(const struct launched *l);
/* The analysis runs on a kernel that is not the host's. */
bool oci_is_guest(const struct launched *l);

/* For gc: what the keeper of a dead run left. Its processes are dead. 1 if something was removed. */
int oci_box_sweep(const char *home, const char *id, struct err *err);

/* oci_bundle.c: makes the bundle of a run. Removing it takes the runtime's own state with it. */
int oci_bundle_make(const struct launch_request *q, struct oci_box **ret, struct err *err);
int oci_bundle_config(const struct launch_request *q, const struct oci_box *o,
		      const struct box_entry *e, struct err *err);
/* Has the runtime forget the container, and removes all that is left of it. */
int oci_bundle_remove(const struct oci_box *o, struct err *err);
/* oci_config.c: config.json. Owned by the caller. */
json_t *oci_config(const struct launch_request *q, const struct oci_box *o,
		   const struct box_entry *e);

/* oci_make.c: in the fresh child: makes the root and becomes the runtime. */
struct oci_making {
	const struct launch_request *q;
	const struct box_entry *entry;
	const struct oci_box *oci;
};
_Noreturn void oci_make(const struct oci_making *m);

/* oci_command.c: runs the runtime with these words, the last of which is NULL; an error has its own last word. */
int oci_command(const struct oci_box *o, const char *const words[], struct err *err);
/* Its log's last word, as an error that says what failed. */
int oci_failed(const struct oci_box *o, const char *what, struct err *err);
/* Where nothing else is mounted by then: takes the second tree of cgroups out of sight. */
int oci_hide_unified(void);
/* Becomes the runtime, with the words behind the command; returns a negative errno. */
int oci_exec(const struct oci_box *o, const char *const words[]);
#define OCI_INIT "/run/cupel/init" /* where pid 1 is in the box */
