/* The checkpoint of a run, from its lock to the box: what an earlier run of the same analysis saved, unless that run succeeded. */
#include <fcntl.h>

#include "base/cleanup.h"
#include "keeper/state.h"

#define VERDICT_MAX (1 << 20)

static bool has_succeeded(const char *home, const char *id)
{
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s", home, id);
	CLEANUP_JSON json_t *verdict = NULL;
	CLEANUP_FD int fd = id[0] ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
				  : -1;
	if (fd < 0 || json_read_file(fd, "verdict.json", VERDICT_MAX, &verdict, NULL) < 0)
		return false;
	return str_eq(json_string_value(json_object_get(verdict, "cause")), cause_name(CAUSE_OK));
}

/* A run that succeeded has no more use for what it saved, but may have died before it could drop it: done here, while its name is still
 * the last one there. */
int keeper_take_checkpoint(struct keeper_state *s, struct err *err)
{
	const struct keeper_request *q = s->k.q;
	struct checkpoint *c = &s->k.checkpoint;
	if (!q->analysis->checkpoint)
		return 0;
	int r = checkpoint_take(q->config->home, q->analysis->checkpoint_key, c, err);
	return r >= 0 && has_succeeded(q->config->home, c->last) ? checkpoint_empty(c, err) : r;
}

int keeper_open_checkpoint(struct keeper_state *s, struct err *err)
{
	struct keeping *k = &s->k;
	struct checkpoint_request request = {
		.limit_bytes = k->q->plan->limits.at[LIMIT_DISK].value,
		.limit_inodes = k->q->plan->limits.at[LIMIT_INODES].value,
		.uid = s->uid,
		.gid = s->gid,
		.image = k->scratch.in_memory
				 ? k->q->host->is_root && k->q->config->disk != DISK_WATCHED
				 : k->scratch.mounted,
	};
	int r = checkpoint_open(&k->checkpoint, &request, err);
	if (r >= 0) {
		k->scratch.beside_fd = k->checkpoint.root_fd;
		k->scratch.beside_is_image = k->checkpoint.mounted;
	}
	return r;
}

/* Its mount is the box's from here on: a mount that is attached nowhere can't be copied, and need not be. */
int keeper_hand_checkpoint(struct keeper_state *s, struct err *err)
{
	struct checkpoint *c = &s->k.checkpoint;
	int r = launch_checkpoint(&s->k.box, c->root_fd, c->mount_fd, err);
	cleanup_fd(&c->mount_fd);
	return r;
}
