/* The budget of a host without any limiter, when the caller allowed all three to be missing: nothing is limited,
 * counted or killed here; the box's pid namespace still ends every process with its init. */
#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "budget/group.h"

static int none_join_fds(struct budget *b, int ret_fds[BUDGET_JOIN_MAX], struct err *err)
{
	return 0;
}

static int none_fd(struct budget *b)
{
	return -EOPNOTSUPP;
}

static int none_read_usage(struct budget *b, struct usage *ret, struct err *err)
{
	*ret = (struct usage){ 0 };
	return 0;
}

static short none_oom_events(struct budget *b)
{
	return 0;
}

static void none_oom_ack(struct budget *b)
{
}

static int none_kill_all(struct budget *b, uint64_t wait_ns, struct err *err)
{
	return 0;
}

static int none_receipt(struct budget *b, struct budget_value ret[BUDGET_VALUES_MAX])
{
	return 0;
}

static const char *none_path(struct budget *b)
{
	return "";
}

static int none_remove(struct budget *b, struct err *err)
{
	return 0;
}

static void none_free(struct budget *b)
{
	free(b);
}

static const struct budget_ops none_ops = {
	.name = "none",
	.clone_fd = none_fd,
	.join_fds = none_join_fds,
	.members_fd = none_fd,
	.read_usage = none_read_usage,
	.oom_fd = none_fd,
	.oom_events = none_oom_events,
	.oom_ack = none_oom_ack,
	.kill_all = none_kill_all,
	.receipt = none_receipt,
	.path = none_path,
	.remove = none_remove,
	.free = none_free,
};

int none_create(struct budget **ret)
{
	struct budget *b = xcalloc(1, sizeof(*b));
	*b = (struct budget){ .ops = &none_ops, .missing = LIMITER_ALL };
	*ret = b;
	return 0;
}
