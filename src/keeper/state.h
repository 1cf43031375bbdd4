/* The state of a keeper, between the files that tell its story: keeper.c, prepare.c, conclude.c. */
#pragma once

#include "base/task.h"
#include "collect/outputs.h"
#include "keeper/guard.h"
#include "keeper/notebook.h"
#include "keeper/snapshot.h"
#include "keeper/uids.h"
#include "keeper/watch.h"

struct keeper_state {
	struct keeping k;
	struct uid_lease lease;
	uid_t uid; /* of the run */
	gid_t gid;
	struct manifest manifest;
	struct task sync_task; /* owns k.record while it runs, and fills the next two */
	int sync_result;
	struct err sync_err;
	struct step_end after;    /* how the step that the outputs were given to ended */
	struct snapshot snapshot; /* of the analysis's db_snapshot */
	struct notebook_end notebook;
	struct guard *guard; /* owned; NULL: nothing is protected */
	uint64_t accepted_real_ns, started_real_ns, ended_real_ns;
};

/* attend.c: the story of a run that is carried out elsewhere, from the claim to the verdict. */
void keeper_attend(struct keeper_state *s, struct verdict *v, struct err *err);

/* prepare.c: parts of the next, for whoever makes no box. */
int keeper_take_user(struct keeper_state *s, struct err *err);
int keeper_make_snapshot(struct keeper_state *s, struct err *err);
int keeper_make_scratch(struct keeper_state *s, int mechanism, struct err *err);
/* Recorded and durable. */
int keeper_record_request(struct keeper_state *s, struct err *err);

/* prepare.c: everything up to the go. A failure is the host's, and is recorded as `setup`. */
int keeper_prepare(struct keeper_state *s, struct err *err);

/* checkpoint.c: locked before anything is recorded, -EBUSY (caller) if another run has it; opened when the working directory is there;
 * handed to the box after that. */
int keeper_take_checkpoint(struct keeper_state *s, struct err *err);
int keeper_open_checkpoint(struct keeper_state *s, struct err *err);
int keeper_hand_checkpoint(struct keeper_state *s, struct err *err);

/* conclude.c: when nothing of the box is alive any more, in this order. */
void keeper_read_end(struct keeper_state *s);
void keeper_collect(struct keeper_state *s);
void keeper_keep(struct keeper_state *s);
void keeper_clean(struct keeper_state *s);
/* after.c: gives the outputs of a success to the step that was asked for, and waits for its end. */
void keeper_after(struct keeper_state *s);
/* The last step: from here on the run is complete. Fails where the record could not be made durable. */
int keeper_finish(struct keeper_state *s, struct verdict *v, struct err *err);
