/* What is written for a container below its stage: files that the plan makes, its environment, what pid 1 needs. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "box/seccomp.h"
#include "executor/engine_parts.h"
#include "executor/pid1_program.h"

/* By pid 1. */
static const char *const written[] = { STAGE_STATUS, "stdout", "stderr" };
#define N_WRITTEN (sizeof written / sizeof *written)

char *stage_file(const char *stage, size_t n)
{
	return xasprintf("%s/file-%zu", stage, n);
}

char *stage_link(const char *stage, size_t n)
{
	return xasprintf("%s/link-%zu", stage, n);
}

/* A new one in any case: an earlier submission may have left its own. */
static int write_file(int dir_fd, const char *name, const void *bytes, size_t length, mode_t mode,
		      struct err *err)
{
	(void)unlinkat(dir_fd, name, 0);
	CLEANUP_FD int fd =
		openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	int r = fd < 0 ? -errno : fs_write_all(fd, bytes, length);
	if (r >= 0 && fchmod(fd, mode) < 0)
		r = -errno;
	return r < 0 ? err_set(err, ERR_HOST, -r, "write %s: %s", name, strerrordesc_np(-r)) : 0;
}

/* For the analysis's user, whom the container runs as. */
static int give(int dir_fd, const struct job *job, const char *name, struct err *err)
{
	if (geteuid() == 0 && fchownat(dir_fd, name, job->uid, job->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return err_errno(err, "give %s to the run's user", name);
	return 0;
}

/* How it ended is noted on a full disk too. Where this can't be had, it may not be. */
static void reserve(int dir_fd)
{
	CLEANUP_FD int fd = openat(dir_fd, STAGE_STATUS, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		(void)fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, STATUS_MAX);
}

int engine_seal(int stage_fd, struct err *err)
{
	for (size_t i = 0; geteuid() == 0 && i < N_WRITTEN; i++)
		if (fchownat(stage_fd, written[i], 0, 0, AT_SYMLINK_NOFOLLOW) < 0)
			return err_errno(err, "take %s back from the run's user", written[i]);
	return 0;
}

ssize_t engine_notes(int stage_fd, char *buffer, size_t room)
{
	struct stat st = { 0 };
	CLEANUP_FD int fd = openat(stage_fd, STAGE_STATUS,
				   O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	buffer[0] = '\0';
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	off_t most = (off_t)room - 1;
	ssize_t n = pread(fd, buffer, room - 1, st.st_size > most ? st.st_size - most : 0);
	if (n < 0)
		return -errno;
	buffer[n] = '\0';
	return st.st_size <= STATUS_MAX && strlen(buffer) == (size_t)n ? n : -EBADMSG;
}

static int write_status(int dir_fd, const struct job *job, struct err *err)
{
	int r = 0;
	for (size_t i = 0; r >= 0 && i < N_WRITTEN; i++) {
		r = write_file(dir_fd, written[i], "", 0, 0600, err);
		if (r >= 0)
			r = give(dir_fd, job, written[i], err);
	}
	if (r >= 0)
		reserve(dir_fd);
	(void)unlinkat(dir_fd, STAGE_RECEIPT, 0);
	(void)unlinkat(dir_fd, STAGE_GATE, 0);
	if (r >= 0 && mkfifoat(dir_fd, STAGE_GATE, 0600) < 0)
		return err_errno(err, "make the gate");
	return r < 0 ? r : give(dir_fd, job, STAGE_GATE, err);
}

static int write_environment(int dir_fd, const struct job *job, struct err *err)
{
	CLEANUP_STR struct str text = { 0 };
	for (size_t i = 0; i < job->plan->env.n; i++)
		str_add_n(&text, job->plan->env.v[i], strlen(job->plan->env.v[i]) + 1);
	int r = write_file(dir_fd, "environment", str_text(&text), text.length, 0400, err);
	return r < 0 ? r : give(dir_fd, job, "environment", err);
}

/* In a box the analysis has a number of its own; here it has that of the host. */
static char *with_numbers(const struct job *job, const char *text)
{
	CLEANUP_STR struct str to = { 0 };
	CLEANUP_FREE char *user = xasprintf(BOX_USER ":x:%d:%d:", BOX_UID, BOX_GID);
	CLEANUP_FREE char *group = xasprintf(BOX_USER ":x:%d:", BOX_GID);
	const char *at = strstr(text, user);
	const char *group_at = at ? NULL : strstr(text, group);
	if (!at && !group_at)
		return xstrdup(text);
	str_add_n(&to, text, (size_t)((at ? at : group_at) - text));
	if (at)
		str_addf(&to, BOX_USER ":x:%u:%u:", job->uid, job->gid);
	else
		str_addf(&to, BOX_USER ":x:%u:", job->gid);
	str_add(&to, at ? at + strlen(user) : group_at + strlen(group));
	return str_take(&to);
}

static int write_steps(int dir_fd, const struct job *job, struct err *err)
{
	const struct plan *p = job->plan;
	int r = 0;
	for (size_t i = 0; r >= 0 && i < p->n_steps; i++) {
		const struct step *s = &p->steps[i];
		if (s->kind != STEP_FILE)
			continue;
		CLEANUP_FREE char *name = stage_file("", i);
		bool numbers = str_eq(s->target, "/etc/passwd") || str_eq(s->target, "/etc/group");
		CLEANUP_FREE char *text = numbers ? with_numbers(job, s->source)
						  : xstrdup(s->source);
		r = write_file(dir_fd, name + 1, text, strlen(text), s->mode, err);
		if (r >= 0 && s->secret)
			r = give(dir_fd, job, name + 1, err);
	}
	return r;
}

static int write_links(const struct executor *x, const struct job *job, struct err *err)
{
	CLEANUP_JSON json_t *binds = engine_binds(job);
	for (size_t i = 0; i < json_array_size(binds); i++) {
		const char *source = json_string_value(json_array_get(json_array_get(binds, i), 0));
		CLEANUP_FREE char *link = stage_link(job->stage, i);
		if (!engine_needs_link(x->data, source))
			continue;
		(void)unlink(link);
		if (symlink(source, link) < 0)
			return err_errno(err, "make %s", link);
	}
	return 0;
}

static bool may_miss(const struct executor *x, const struct job *job, const char *layer)
{
	return plan_may_miss(job->plan, layer) || strv_has(&x->settings->allow_missing, layer);
}

/* What the container must turn out to be; 0 or false: that does not matter. */
static int write_expected(const struct executor *x, int dir_fd, const struct job *job,
			  struct err *err)
{
	const struct limits *l = &job->plan->limits;
	static const struct {
		const char *layer;
		enum limit_id id;
	} groups[] = { { "memory", LIMIT_MEMORY }, { "pids", LIMIT_PIDS }, { "cpu", LIMIT_CPUS } };
	CLEANUP_JSON json_t *o = json_pack("{s:I,s:I,s:b,s:b,s:i,s:o}", "uid", (json_int_t)job->uid,
					   "gid", (json_int_t)job->gid, "net",
					   job->plan->own_network, "cgroup",
					   !may_miss(x, job, "cgroup"), "landlock",
					   job->plan->landlock_abi, "binds", engine_binds(job));
	for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
		json_object_set_new(o, groups[i].layer,
				    json_u64(may_miss(x, job, groups[i].layer)
						     ? 0
						     : l->at[groups[i].id].value));
	return json_write_file(dir_fd, STAGE_EXPECT, o, err);
}

int engine_stage(const struct executor *x, const struct job *job, struct err *err)
{
	CLEANUP_FD int dir_fd = open(job->stage, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir_fd < 0)
		return err_errno(err, "open %s", job->stage);
	(void)unlinkat(dir_fd, "init", 0);
	int r = pid1_put(dir_fd, "init", err);
	if (r >= 0)
		r = write_status(dir_fd, job, err);
	if (r >= 0)
		r = write_environment(dir_fd, job, err);
	if (r >= 0)
		r = write_steps(dir_fd, job, err);
	if (r >= 0)
		r = write_file(dir_fd, "seccomp.json", seccomp_profile(), strlen(seccomp_profile()),
			       0444, err);
	if (r >= 0)
		r = write_links(x, job, err);
	return r < 0 ? r : write_expected(x, dir_fd, job, err);
}
