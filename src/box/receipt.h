/* What is really enforced: the facts from inside, compared with the plan and with what the keeper sees from outside. */
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"
#include "box/enter.h"
#include "box/plan.h"

/* What the keeper reads of init from outside. */
struct box_outside {
	uint64_t own_ns[BOX_NS_COUNT_]; /* the keeper's own, which the box must not share */
	uint32_t uid[4], gid[4];        /* of init, in the host's numbers */
	uint64_t caps_effective;
	uint32_t no_new_privs;
	uint32_t seccomp_mode;
	char uid_map[64];
	int oom_score_adj;
};

int outside_read(pid_t init_pid, struct box_outside *ret, struct err *err);
/* Fails, naming the layer, if anything is weaker than planned. */
int receipt_check(const struct box_entry *e, const struct box_facts *in,
		  const struct box_outside *out, struct err *err);
/* The box's part of receipt.json. */
json_t *receipt_json(const struct box_entry *e, const struct box_facts *in,
		     const struct box_outside *out);
