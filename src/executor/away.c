/* An executor that is out of reach now and then, for the test of executors: as long as there is a file away/OPERATION in the home, that operation
 * says what an engine says that is down. So each kind can be put to it, without stopping what others use. */
#include <errno.h>
#include <unistd.h>

#include "executor/kinds.h"

/* The real one. */
static struct executor *beneath(const struct executor *x)
{
	return x->data;
}

static int ask(const struct executor *x, const char *operation, struct err *err)
{
	CLEANUP_FREE char *path = xasprintf("%s/away/%s", x->config->home, operation);
	return access(path, F_OK) < 0
		       ? 0
		       : err_set(err, ERR_HOST, EAGAIN, "out of reach, as a test wants it");
}

static int probe(struct executor *x, struct capability *ret, struct err *err)
{
	int r = ask(x, "probe", err);
	return r < 0 ? r : beneath(x)->ops->probe(beneath(x), ret, err);
}

static int submit(struct executor *x, const struct job *job, json_t **ret_handle, struct err *err)
{
	int r = ask(x, "submit", err);
	return r < 0 ? r : beneath(x)->ops->submit(beneath(x), job, ret_handle, err);
}

static int find(struct executor *x, const char *name, json_t **ret_handle, struct err *err)
{
	int r = ask(x, "find", err);
	return r < 0 ? r : beneath(x)->ops->find(beneath(x), name, ret_handle, err);
}

static int poll_job(struct executor *x, const json_t *handle, struct job_report *ret,
		    struct err *err)
{
	int r = ask(x, "poll", err);
	return r < 0 ? r : beneath(x)->ops->poll(beneath(x), handle, ret, err);
}

static ssize_t logs(struct executor *x, const json_t *handle, int stream, uint64_t offset,
		    void *buffer, size_t room, struct err *err)
{
	int r = ask(x, "logs", err);
	return r < 0 ? r
		     : beneath(x)->ops->logs(beneath(x), handle, stream, offset, buffer, room, err);
}

static int signal_job(struct executor *x, const json_t *handle, int signal_number, struct err *err)
{
	int r = ask(x, "signal", err);
	return r < 0 ? r : beneath(x)->ops->signal(beneath(x), handle, signal_number, err);
}

static int cancel(struct executor *x, const json_t *handle, struct err *err)
{
	int r = ask(x, "cancel", err);
	return r < 0 ? r : beneath(x)->ops->cancel(beneath(x), handle, err);
}

static int collect(struct executor *x, const json_t *handle, const struct job *job, struct err *err)
{
	int r = ask(x, "collect", err);
	if (r < 0 || !beneath(x)->ops->collect)
		return r;
	return beneath(x)->ops->collect(beneath(x), handle, job, err);
}

static int reap(struct executor *x, const json_t *handle, struct err *err)
{
	int r = ask(x, "reap", err);
	return r < 0 ? r : beneath(x)->ops->reap(beneath(x), handle, err);
}

static void release(struct executor *x)
{
	struct executor *real = x->data;
	executor_release(&real);
	x->data = NULL;
}

void executor_may_be_away(struct executor **x)
{
	static const struct executor_ops ops = { .probe = probe,
						 .submit = submit,
						 .find = find,
						 .poll = poll_job,
						 .logs = logs,
						 .signal = signal_job,
						 .cancel = cancel,
						 .collect = collect,
						 .reap = reap,
						 .release = release };
	struct executor *outer = xcalloc(1, sizeof *outer);
	*outer = **x;
	outer->ops = &ops;
	outer->data = *x;
	*x = outer;
}
