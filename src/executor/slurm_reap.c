/* The end of a job: no process of it is left, and nothing on its node. Where the node's cupel could not tidy up (it was killed, or the
 * node was lost) its directory stays, for a small job that Slurm is given for that node: it sweeps there once the node is back, and
 * removes the directory. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "executor/slurm_array.h"

#define REAP_NS    (6 * NS_PER_SEC)
#define NODE_MAX   255
#define SWEEP_WAIT "now+7days" /* a node that is not back by then is not waited for */

/* Those of the queue that are not over: "NUMBER_INDEX" each if it is a task of an array, of which there may be others. */
static int find_tasks(const struct slurm *s, const struct slurm_dir *d,
		      const struct slurm_handle *h, struct strv *ret, struct err *err)
{
	CLEANUP_STRV struct strv options = { 0 };
	CLEANUP_SAID struct slurm_said said = { 0 };
	char end[16];
	(void)snprintf(end, sizeof end, "_%d", h->task.index);
	strv_add(&options, "--array");
	strv_add(&options, "--format=%F_%K");
	int r = slurm_squeue(s, d, slurm_handle_name(h), &options, &said, err);
	for (char *at = r < 0 ? NULL : said.out; at && *at;) {
		const char *line = strsep(&at, "\n");
		if (*line && (h->task.index < 0 || str_ends(line, end)))
			strv_add(ret, line);
	}
	return r;
}

int slurm_scancel(const struct slurm *s, const struct slurm_dir *d, const struct slurm_handle *h,
		  const struct strv *options, struct err *err)
{
	CLEANUP_STRV struct strv words = { 0 }, tasks = { 0 };
	CLEANUP_SAID struct slurm_said said = { 0 };
	int r = h->task.index < 0 ? 0 : find_tasks(s, d, h, &tasks, err);
	if (r < 0 || (h->task.index >= 0 && !tasks.n))
		return r;
	strv_add(&words, "scancel");
	strv_add(&words, "--quiet");
	strv_addf(&words, "--user=%u", (unsigned)d->uid); /* root could end anybody's */
	strv_addf(&words, "--name=%s", slurm_handle_name(h));
	if (options)
		strv_copy(&words, options);
	strv_copy(&words, &tasks);
	if (!tasks.n)
		return slurm_call_ok(s, d, &words, &said, err);
	r = slurm_call(s, d, &words, &said, err);
	if (r < 0 || said.status == 0 || strstr(said.error, "Invalid job id") ||
	    strstr(said.error, "already complet")) /* it ended meanwhile */
		return r;
	return slurm_is_away(said.error)
		       ? err_set(err, ERR_HOST, EAGAIN, "scancel: %.300s", said.error)
		       : err_set(err, ERR_HOST, EREMOTEIO, "scancel: %.300s", said.error);
}

/* Until no process of it is left that could write into its directory. */
static int wait_until_idle(const struct slurm *s, const struct slurm_dir *d,
			   const struct slurm_handle *h, struct err *err)
{
	uint64_t until_ns = clock_monotonic_ns() + REAP_NS;
	for (;;) {
		CLEANUP_STRV struct strv tasks = { 0 };
		int r = find_tasks(s, d, h, &tasks, err);
		if (r < 0 || !tasks.n)
			return r;
		if (clock_monotonic_ns() > until_ns)
			return err_set(err, ERR_HOST, EAGAIN, "Slurm is still ending job %s",
				       h->name);
		slurm_pause(SLURM_LOOK_NS);
	}
}

/* Did the node's cupel leave something there for a sweep? */
static bool is_unswept(const struct slurm_dir *d, int attempt, const char *id)
{
	CLEANUP_FREE char *path = xasprintf("home.%d/active/%s", attempt, id);
	CLEANUP_FD int fd = fs_open_beneath(d->fd, path, O_PATH | O_CLOEXEC, 0);
	return fd >= 0;
}

/* Names of nodes are the site's: letters, digits, "-", "_", ".". */
static char *read_node(const struct slurm_dir *d, int attempt)
{
	CLEANUP_FREE char *path = xasprintf("node.%d", attempt);
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;
	if (fs_read_capped(d->fd, path, NODE_MAX, &text, &length, NULL) < 0)
		return NULL;
	text[strcspn(text, "\n")] = '\0';
	return text[0] && !text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					     "0123456789-_.")]
		       ? take_ptr(text)
		       : NULL;
}

static void find_unswept(const struct slurm_dir *d, const char *id, struct strv *ret)
{
	for (int i = 0, last = slurm_dir_last(d, id); i <= last; i++) {
		CLEANUP_FREE char *node = is_unswept(d, i, id) ? read_node(d, i) : NULL;
		if (node && !strv_has(ret, node))
			strv_add(ret, node);
	}
}

static int submit_sweep(const struct slurm *s, const struct slurm_dir *d, const char *name,
			const char *node, struct err *err)
{
	CLEANUP_STRV struct strv words = { 0 };
	CLEANUP_SAID struct slurm_said said = { 0 };
	slurm_command(s, name, &words);
	strv_addf(&words, "--job-name=%s.sweep", name);
	strv_addf(&words, "--nodelist=%s", node);
	strv_add(&words, "--deadline=" SWEEP_WAIT);
	strv_add(&words, "--error=/dev/null");
	strv_add(&words, "--time=5");
	strv_add(&words, "--mem=64M");
	strv_add(&words, "--cpus-per-task=1");
	strv_addf(&words, "%s/%s/sweep", s->stage, name);
	return slurm_call_ok(s, d, &words, &said, err);
}

/* 1 if the directory is left to a sweep; 0 if there is nothing to sweep, or nobody who could. */
static int leave_to_sweep(const struct slurm *s, const struct slurm_dir *d,
			  const struct slurm_handle *h, struct err *err)
{
	CLEANUP_STRV struct strv nodes = { 0 };
	int left = 0;
	find_unswept(d, h->id, &nodes);
	for (size_t i = 0; i < nodes.n; i++) {
		int r = submit_sweep(s, d, h->name, nodes.v[i], err);
		if (r == -EAGAIN)
			return r;
		left |= r >= 0; /* a node that Slurm no longer has needs none */
	}
	return left ? slurm_dir_write(d, "reaped", "", err) < 0 ? -err->code : 1 : 0;
}

int slurm_reap(struct executor *x, const json_t *handle, struct err *err)
{
	struct slurm *s = slurm_begin(x);
	CLEANUP_SLURM_DIR struct slurm_dir d = SLURM_DIR_INIT;
	struct slurm_handle h = { 0 };
	CLEANUP_SLURM_MEETING struct slurm_meeting at = SLURM_MEETING_INIT;
	int r = slurm_handle_open(s, handle, &h, &d, err);
	if (r == -ENOENT)
		return 0;
	if (r >= 0)
		r = slurm_scancel(s, &d, &h, NULL, err);
	if (r >= 0)
		r = wait_until_idle(s, &d, &h, err);
	if (r >= 0) {
		slurm_array_forget(s, &d, &h.task);
		if (slurm_meeting_find(s, &d, &at, NULL) > 0)
			slurm_meeting_leave(&at, h.name);
	}
	if (r >= 0)
		r = leave_to_sweep(s, &d, &h, err);
	if (r != 0)
		return r < 0 ? r : 0;
	return slurm_dir_remove(s, h.name, err);
}
