/* A job is submitted under its name, once: what was submitted before is found by the note in its directory or by its name in the queue.
 * If a submission goes through although we gave it up, two jobs have the name; the script lets only one of them run the analysis. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/num.h"
#include "executor/slurm_array.h"
#include "spec/id.h"
#include "spec/request.h"

#define MIB           (1024ULL * 1024)
#define OVERHEAD_MIB  32 /* the node's cupel beside the analysis */
#define BACKSTOP_NS   (60 * NS_PER_SEC)
#define LABEL_GRES    "slurm.gres"
#define GRES_LETTERS  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:.,=()-"
#define REQUEST_FLAGS (JSON_INDENT(1) | JSON_SORT_KEYS)

static json_t *make_handle(const struct slurm_task *task, const char *name, const char *id)
{
	json_t *o = json_pack("{s:I,s:s,s:s}", "number", (json_int_t)task->number, "name", name,
			      "id", id);
	if (task->index >= 0 && task->array[0]) {
		json_object_set_new(o, "array", json_text(task->array));
		json_object_set_new(o, "index", json_integer(task->index));
	}
	return o;
}

/* What the node is to run: everything that was resolved here, and only on the node itself. */
static int write_request(const struct job *job, const struct strv *allowed,
			 const struct slurm_dir *d, struct err *err)
{
	struct analysis a = *job->analysis; /* borrows everything */
	CLEANUP_STRV struct strv missing = { 0 };
	CLEANUP_JSON json_t *request = NULL;
	a.executor = (char *)"local";
	a.runtime = job->runtime->name;
	a.post_process = NULL; /* done here, with what it left */
	a.limits = job->plan->limits;
	strv_copy(&missing, &a.allow_missing);
	for (size_t i = 0; i < allowed->n; i++)
		if (!strv_has(&missing, allowed->v[i]))
			strv_add(&missing, allowed->v[i]);
	a.allow_missing = missing;
	int r = analysis_request(&a, &request, err);
	if (r < 0)
		return r;
	CLEANUP_FREE char *text = json_dumps(request, REQUEST_FLAGS);
	return slurm_dir_write(d, "request.yaml", text, err);
}

static void add_option(struct strv *words, const char *option, const char *value)
{
	if (value)
		strv_addf(words, "--%s=%s", option, value);
}

static uint64_t units(uint64_t value, uint64_t unit)
{
	return value / unit + (value % unit != 0);
}

static int add_limits(struct strv *words, const struct job *job, struct err *err)
{
	const struct limits *l = &job->plan->limits;
	const char *gres = pairs_get(&job->analysis->labels, LABEL_GRES);
	uint64_t time_ns = l->at[LIMIT_TIME].value + l->at[LIMIT_GRACE].value + BACKSTOP_NS;
	strv_addf(words, "--time=%" PRIu64, units(time_ns, 60 * NS_PER_SEC));
	strv_addf(words, "--mem=%" PRIu64 "M",
		  units(l->at[LIMIT_MEMORY].value, MIB) + OVERHEAD_MIB);
	strv_addf(words, "--cpus-per-task=%" PRIu64, units(l->at[LIMIT_CPUS].value, 1000));
	if (gres && (!gres[0] || gres[strspn(gres, GRES_LETTERS)]))
		return err_caller(
			err, "the label " LABEL_GRES " is '%s'; expected such as gpu:a100:1", gres);
	add_option(words, "gres", gres);
	return 0;
}

void slurm_command(const struct slurm *s, const char *name, struct strv *ret)
{
	const struct executor_settings *set = s->x->settings;
	static const char *const passed[] = { "partition", "account", "qos" };
	strv_add(ret, "sbatch");
	strv_add(ret, "--parsable");
	strv_add(ret, "--export=ALL"); /* of our own making */
	strv_add(ret, "--nodes=1");
	strv_add(ret, "--ntasks=1");
	strv_add(ret, "--requeue");
	strv_add(ret, "--open-mode=append");
	strv_add(ret, "--output=/dev/null");
	strv_addf(ret, "--chdir=%s/%s", s->stage, name);
	for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
		add_option(ret, passed[i], pairs_get(&set->options, passed[i]));
	strv_copy(ret, &set->words);
}

int slurm_in_queue(const struct slurm *s, const struct slurm_dir *d, const char *name,
		   uint64_t *ret, struct err *err)
{
	CLEANUP_STRV struct strv options = { 0 };
	CLEANUP_SAID struct slurm_said said = { 0 };
	uint64_t lowest = 0;
	strv_add(&options, "--states=all");
	strv_add(&options, "--format=%F");
	int r = slurm_squeue(s, d, name, &options, &said, err);
	if (r < 0)
		return r;
	for (char *at = said.out; at && *at;) {
		char *line = strsep(&at, "\n");
		uint64_t n = 0;
		if (num_u64(line, UINT32_MAX, &n) >= 0 && (!lowest || n < lowest))
			lowest = n;
	}
	*ret = lowest;
	return 0;
}

int slurm_sbatch(const struct slurm *s, const struct slurm_dir *d, struct strv *words,
		 uint64_t *ret, struct err *err)
{
	CLEANUP_SAID struct slurm_said said = { 0 };
	int r = slurm_call_ok(s, d, words, &said, err);
	if (r < 0)
		return r;
	said.out[strcspn(said.out, ";\n")] = '\0'; /* NUMBER;CLUSTER */
	if (num_u64(said.out, UINT32_MAX, ret) < 0)
		return err_set(err, ERR_HOST, EREMOTEIO, "sbatch names no job: %.100s", said.out);
	return 0;
}

/* What the node needs of it; `id` is the last. */
static int write_files(const struct slurm *s, const struct job *job, const struct slurm_dir *d,
		       struct err *err)
{
	int r = write_request(job, &s->x->settings->allow_missing, d, err);
	if (r >= 0)
		r = slurm_scripts_write(s, job, d, err);
	return r < 0 ? r : slurm_dir_write(d, "id", job->id, err);
}

static int submit_alone(const struct slurm *s, const struct job *job, const struct slurm_dir *d,
			const struct strv *limits, struct slurm_task *ret, struct err *err)
{
	CLEANUP_STRV struct strv words = { 0 };
	slurm_command(s, job->name, &words);
	strv_addf(&words, "--job-name=%s", job->name);
	strv_addf(&words, "--error=%s/%s/slurm.err", s->stage, job->name);
	strv_copy(&words, limits);
	strv_addf(&words, "%s/%s/script", s->stage, job->name);
	int r = slurm_sbatch(s, d, &words, &ret->number, err);
	return r < 0 ? r : slurm_task_note(d, ret, err);
}

/* One that is new was never submitted. */
static int submit(struct slurm *s, const struct job *job, const struct slurm_dir *d, bool is_new,
		  struct slurm_task *ret, struct err *err)
{
	CLEANUP_STRV struct strv limits = { 0 };
	int r = add_limits(&limits, job, err);
	if (r >= 0 && !is_new && !slurm_array_is_gathering(d)) {
		r = slurm_in_queue(s, d, job->name, &ret->number, err);
		if (r >= 0 && ret->number)
			return slurm_task_note(d, ret, err);
	}
	if (r >= 0 && faccessat(d->fd, "id", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		r = write_files(s, job, d, err);
	if (r >= 0)
		r = slurm_array_submit(s, job, d, &limits, ret, err);
	return r != 0 ? r : submit_alone(s, job, d, &limits, ret, err);
}

int slurm_submit(struct executor *x, const struct job *job, json_t **ret_handle, struct err *err)
{
	struct slurm *s = slurm_begin(x);
	CLEANUP_SLURM_DIR struct slurm_dir d = SLURM_DIR_INIT;
	const struct config_caller *caller = &job->config->caller;
	struct slurm_task task = SLURM_TASK_INIT;
	bool other = geteuid() == 0 && caller->is_set;
	bool is_new = false;
	int r = slurm_dir_make(s, job->name, other ? caller->uid : geteuid(),
			       other ? caller->gid : getegid(), &d, &is_new, err);
	if (r >= 0 && !slurm_dir_job(&d, &task))
		r = submit(s, job, &d, is_new, &task, err);
	if (r < 0)
		return r;
	*ret_handle = make_handle(&task, job->name, job->id);
	return 0;
}

/* Is it noted, or at least in the queue, alone or among others? If not, *at sees to it that nobody submits it. */
static int find(const struct slurm *s, const struct slurm_dir *d, const char *name,
		struct slurm_task *ret, struct slurm_meeting *at, struct err *err)
{
	if (slurm_dir_job(d, ret))
		return 1;
	int r = slurm_array_hold(s, d, ret, at, err);
	if (r == 0)
		r = slurm_in_queue(s, d, name, &ret->number, err);
	return r < 0 ? r : ret->number != 0;
}

/* If it was never submitted its directory is removed: should a submission yet arrive, the script does nothing without it. */
int slurm_find(struct executor *x, const char *name, json_t **ret_handle, struct err *err)
{
	struct slurm *s = slurm_begin(x);
	CLEANUP_SLURM_DIR struct slurm_dir d = SLURM_DIR_INIT;
	CLEANUP_SLURM_MEETING struct slurm_meeting at = SLURM_MEETING_INIT;
	struct slurm_task task = SLURM_TASK_INIT;
	CLEANUP_FREE char *id = NULL;
	size_t length = 0;
	int r = slurm_dir_open(s, name, &d, err);
	if (r >= 0)
		r = find(s, &d, name, &task, &at, err);
	if (r < 0)
		return r;
	if (r > 0 && fs_read_capped(d.fd, "id", ID_MAX, &id, &length, NULL) >= 0 &&
	    id_check(id, NULL) >= 0) {
		*ret_handle = make_handle(&task, name, id);
		return 0;
	}
	slurm_meeting_leave(&at, name);
	if (r == 0)
		r = slurm_dir_remove(s, name, err);
	return r < 0 ? r : err_set(err, ERR_HOST, ENOENT, "there is no job %s", name);
}
