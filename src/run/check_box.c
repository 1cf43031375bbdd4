/* One trial in the box. It takes the path of every other run, so that what works here works there. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/path.h"
#include "keeper/verdict.h"
#include "run/activation.h"
#include "run/check.h"
#include "run/run.h"

#define VERDICT_MAX (1 << 20)
#define ERRORS_MAX  (16 * 1024)

/* Those of the entry over those that are built in. */
static void trial_limits(const struct runtime *r, struct limits *ret)
{
	limits_set(ret, LIMIT_MEMORY, 1ULL << 30, "built-in");
	limits_set(ret, LIMIT_CPUS, 1000, "built-in");
	limits_set(ret, LIMIT_TIME, 60 * NS_PER_SEC, "built-in");
	limits_set(ret, LIMIT_DISK, 1ULL << 30, "built-in");
	/* The runtime's or the host's may be longer than the time of a check, which would be refused; unwarned() takes it away. */
	limits_set(ret, LIMIT_WARN, limit_infos[LIMIT_WARN].minimum, "built-in");
	limits_merge(ret, &r->check_limits);
}

static void unwarned(struct resolved *r)
{
	r->limits.at[LIMIT_WARN].value = 0;
	r->plan.limits.at[LIMIT_WARN].value = 0;
}

static void trial_analysis(const struct check_request *q, const struct trial *t,
			   struct analysis *ret)
{
	char made[ID_MAX + 1];
	id_generate(made);
	ret->id = xasprintf(CHECK_ID_PREFIX "%s", made);
	ret->name = xasprintf("check of runtime %s", q->runtime->name);
	ret->runtime = xstrdup(q->runtime->name);
	strv_copy(&ret->command, &t->argv);
	pairs_set(&ret->labels, CHECK_LABEL, q->on_behalf_of ? q->on_behalf_of : q->runtime->name);
	ret->keep = KEEP_NEVER;
	ret->keep_said = true;
	ret->allow_drift = true; /* how it is, whatever it was found to be before */
	trial_limits(q->runtime, &ret->limits);
}

/* At most `max` bytes of a log, its first or its last ones; "" if there is none. Never NULL. */
static char *read_log(int fd, size_t max, off_t from, size_t *ret_length)
{
	char *text = xcalloc(1, max + 1);
	size_t length = 0;
	for (ssize_t n; fd >= 0 && length < max; length += (size_t)n) {
		n = pread(fd, text + length, max - length, from + (off_t)length);
		if (n <= 0)
			break;
	}
	if (ret_length)
		*ret_length = length;
	return text;
}

static void take_logs(int run_fd, struct trial_end *ret)
{
	CLEANUP_FD int out_fd = openat(run_fd, "stdout.log", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	CLEANUP_FD int err_fd = openat(run_fd, "stderr.log", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct stat out = { 0 }, errors = { 0 };
	if (out_fd >= 0 && fstat(out_fd, &out) == 0)
		(void)hash_file(out_fd, ret->out_hex);
	if (err_fd >= 0)
		(void)fstat(err_fd, &errors);
	ret->out_bytes = (uint64_t)out.st_size;
	ret->out = read_log(out_fd, TRIAL_TEXT_MAX, 0, &ret->out_length);
	ret->errors = read_log(err_fd, ERRORS_MAX,
			       errors.st_size > ERRORS_MAX ? errors.st_size - ERRORS_MAX : 0, NULL);
}

static const char *text_of(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));
	return text ? text : "";
}

static int take_end(const char *run_dir, struct trial_end *ret, struct err *err)
{
	CLEANUP_JSON json_t *verdict = NULL;
	CLEANUP_FD int fd = open(run_dir, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, "open %s", run_dir);
	int r = json_read_file(fd, "verdict.json", VERDICT_MAX, &verdict, err);
	if (r < 0)
		return r;
	const json_t *code = json_object_get(verdict, "exit_code");
	const json_t *evidence = json_object_get(verdict, "evidence");
	const json_t *usage = json_object_get(verdict, "usage");
	ret->cause = xstrdup(text_of(verdict, "cause"));
	ret->notes = xstrdup(text_of(verdict, "completion_notes"));
	ret->exit_code = json_is_integer(code) ? (int)json_integer_value(code) : -1;
	ret->exec_errno = (int)json_integer_value(json_object_get(evidence, "exec_errno"));
	ret->wall_usec = (uint64_t)json_integer_value(json_object_get(usage, "wall_usec"));
	take_logs(fd, ret);
	return 0;
}

/* The entry itself does not allow a box: that is its state, and no failure of the check. */
static void refused(const struct err *why, struct trial_end *ret)
{
	ret->cause = xstrdup(cause_name(CAUSE_SETUP));
	ret->notes = xstrdup(why->text);
	ret->exit_code = -1;
	ret->out = xstrdup("");
	ret->errors = xstrdup("");
}

static int was_interrupted(const struct check_request *q, const struct trial_end *e,
			   struct err *err)
{
	if (str_eq(e->cause, cause_name(CAUSE_CANCELLED)) ||
	    str_eq(e->cause, cause_name(CAUSE_LOST)))
		return err_set(
			err, ERR_HOST, EINTR,
			"the check of runtime '%s' was interrupted; what was known of it stays",
			q->runtime->name);
	return 0;
}

int check_box(const struct check_request *q, const struct trial *t, struct trial_end *ret,
	      struct err *err)
{
	CLEANUP_ANALYSIS struct analysis analysis = { 0 };
	CLEANUP_RESOLVED struct resolved resolved = { 0 };
	CLEANUP_TRIAL_END struct trial_end end = { 0 };
	int status = 0;
	trial_analysis(q, t, &analysis);
	int r = run_resolve_how(q->config, &analysis, ACTIVATION_RUN, &resolved, err);
	if (r < 0 && err->layer[0])
		return r;
	if (r < 0) {
		refused(err, ret);
		return 0;
	}
	unwarned(&resolved);
	struct run_request request = {
		.config = q->config, .analysis = &analysis, .resolved = &resolved, .is_silent = true
	};
	CLEANUP_FREE char *run_dir = xasprintf("%s/runs/%s", q->config->home, resolved.id);
	r = run_local(&request, &status, err);
	if (r >= 0)
		r = take_end(run_dir, &end, err);
	(void)fs_remove_tree(AT_FDCWD, run_dir, NULL, NULL); /* check_sweep() finds what remains */
	if (r >= 0)
		r = was_interrupted(q, &end, err);
	if (r < 0)
		return r;
	end.limits = resolved.limits;
	*ret = end;
	end = (struct trial_end){ 0 };
	return 0;
}

/* Ours, and over: somebody may have given a run of his own such a name. */
static bool is_leftover(const struct check_request *q, int run_fd)
{
	CLEANUP_JSON json_t *analysis = NULL;
	if (faccessat(run_fd, "verdict.json", F_OK, AT_SYMLINK_NOFOLLOW) < 0 ||
	    json_read_file(run_fd, "analysis.json", VERDICT_MAX, &analysis, NULL) < 0)
		return false;
	return str_eq(text_of(json_object_get(analysis, "labels"), CHECK_LABEL), q->runtime->name);
}

void check_sweep(const struct check_request *q)
{
	CLEANUP_FREE char *path = path_join(q->config->home, "runs");
	CLEANUP_DIR DIR *dir = opendir(path);
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		if (!str_starts(entry->d_name, CHECK_ID_PREFIX))
			continue;
		CLEANUP_FD int fd = openat(dirfd(dir), entry->d_name,
					   O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		if (fd >= 0 && is_leftover(q, fd))
			(void)fs_remove_tree(dirfd(dir), entry->d_name, NULL, NULL);
	}
}
