/* The executor `slurm`: a job of a cluster runs cupel's own keeper on its node, so that box, budget, receipt and verdict are what they are
 * anywhere. Slurm's own limits are the backstop. */
#include "executor/slurm.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "executor/kinds.h"
#include "spec/id.h"

struct slurm *slurm_begin(struct executor *x)
{
	struct slurm *s = x->data;
	s->until_ns = clock_monotonic_ns() + SLURM_CALL_NS;
	return s;
}

int slurm_handle_read(const json_t *handle, struct slurm_handle *ret, struct err *err)
{
	const char *name = json_string_value(json_object_get(handle, "name"));
	const char *id = json_string_value(json_object_get(handle, "id"));
	const char *array = json_string_value(json_object_get(handle, "array"));
	json_int_t number = json_integer_value(json_object_get(handle, "number"));
	json_int_t index = json_integer_value(json_object_get(handle, "index"));
	if (!name || strlen(name) > EXECUTOR_NAME_MAX || strchr(name, '/') || name[0] == '.' ||
	    !id || id_check(id, NULL) < 0 || number <= 0 ||
	    (array && (strlen(array) > EXECUTOR_NAME_MAX || index < 0 || index > INT32_MAX)))
		return err_set(err, ERR_HOST, EINVAL, "this is no handle of a Slurm job");
	*ret = (struct slurm_handle){ .name = name, .id = id };
	ret->task =
		(struct slurm_task){ .number = (uint64_t)number, .index = array ? (int)index : -1 };
	(void)snprintf(ret->task.array, sizeof ret->task.array, "%s", array ? array : "");
	return 0;
}

const char *slurm_handle_name(const struct slurm_handle *h)
{
	return h->task.array[0] ? h->task.array : h->name;
}

int slurm_handle_open(const struct slurm *s, const json_t *handle, struct slurm_handle *ret,
		      struct slurm_dir *ret_dir, struct err *err)
{
	int r = slurm_handle_read(handle, ret, err);
	if (r >= 0)
		r = slurm_dir_open(s, ret->name, ret_dir, err);
	if (r >= 0)
		(void)slurm_dir_job(ret_dir, &ret->task);
	return r;
}

static int probe(struct executor *x, struct capability *ret, struct err *err)
{
	struct slurm *s = slurm_begin(x);
	CLEANUP_STRV struct strv ping = { 0 }, version = { 0 };
	CLEANUP_SAID struct slurm_said up = { 0 }, said = { 0 };
	CLEANUP_FD int stage_fd = -1;
	struct capability c = { .reattaches = true,
				.queues = true,
				.signals = true,
				.network_host = true,
				.submitters = true,
				.staging = STAGING_SHARED,
				.judging = JUDGING_THERE };
	strv_add(&version, "sbatch");
	strv_add(&version, "--version");
	strv_add(&ping, "scontrol");
	strv_add(&ping, "ping");
	int r = slurm_stage_open(s, &stage_fd, err);
	if (r >= 0)
		r = slurm_call_ok(s, NULL, &version, &said, err);
	if (r >= 0)
		r = slurm_call(s, NULL, &ping, &up, err);
	if (r < 0)
		return r;
	up.out[strcspn(up.out, "\n")] = '\0';
	if (up.status != 0 || !strstr(up.out, " UP"))
		return err_set(err, ERR_HOST, EAGAIN, "Slurm's controller does not answer: %.200s",
			       up.error[0] ? up.error : up.out);
	/* The node's cupel enforces them all, or refuses. */
	memset(c.limits, 1, sizeof c.limits);
	memset(c.layers, 1, sizeof c.layers);
	said.out[strcspn(said.out, "\n")] = '\0';
	(void)snprintf(c.engine, sizeof c.engine, "%s", said.out);
	str_clean(c.engine);
	*ret = c;
	return 0;
}

/* `cupel run` on the node takes what asks for an end, and passes it on; one that waits has nobody to tell. */
static int signal_job(struct executor *x, const json_t *handle, int signal_number, struct err *err)
{
	struct slurm *s = slurm_begin(x);
	CLEANUP_SLURM_DIR struct slurm_dir d = SLURM_DIR_INIT;
	CLEANUP_STRV struct strv waiting = { 0 }, running = { 0 };
	struct slurm_handle h = { 0 };
	int r = slurm_handle_open(s, handle, &h, &d, err);
	if (r >= 0 && signal_number != SIGTERM && signal_number != SIGINT &&
	    signal_number != SIGHUP)
		return err_set(err, ERR_HOST, EOPNOTSUPP,
			       "the node's cupel passes SIG%s on to nobody",
			       sigabbrev_np(signal_number));
	strv_add(&waiting, "--state=PENDING");
	strv_add(&running, "--batch");
	strv_addf(&running, "--signal=%d", signal_number);
	if (r >= 0)
		r = slurm_scancel(s, &d, &h, &waiting, err);
	if (r >= 0)
		r = slurm_scancel(s, &d, &h, &running, err);
	s->seen.wait_ns = 0;
	return r;
}

static int cancel(struct executor *x, const json_t *handle, struct err *err)
{
	struct slurm *s = slurm_begin(x);
	CLEANUP_SLURM_DIR struct slurm_dir d = SLURM_DIR_INIT;
	struct slurm_handle h = { 0 };
	int r = slurm_handle_open(s, handle, &h, &d, err);
	if (r == -ENOENT)
		return 0; /* without its directory it can't run */
	if (r >= 0)
		r = slurm_scancel(s, &d, &h, NULL, err);
	s->seen.wait_ns = 0;
	return r;
}

static void release(struct executor *x)
{
	struct slurm *s = x->data;
	if (s)
		free(s->real_stage);
	free(s);
	x->data = NULL;
}

int executor_open_slurm(struct executor *x, struct err *err)
{
	static const struct executor_ops ops = { .probe = probe,
						 .submit = slurm_submit,
						 .find = slurm_find,
						 .poll = slurm_poll,
						 .logs = slurm_logs,
						 .signal = signal_job,
						 .cancel = cancel,
						 .reap = slurm_reap,
						 .release = release };
	struct slurm *s = xcalloc(1, sizeof *s);
	(void)err; /* nothing is asked yet */
	s->x = x;
	const char *stage = pairs_get(&x->settings->options, "stage");
	s->stage = stage ? stage : ""; /* config_executor.c sees to it that there is one */
	x->ops = &ops;
	x->data = s;
	return 0;
}
