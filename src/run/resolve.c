/* What was asked, completed from configuration and host: the last step that reads the world before planning. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/path.h"
#include "run/run.h"

#define DATA_ENTRIES_MAX 2000

void resolved_release(struct resolved *r)
{
	plan_release(&r->plan);
	host_release(&r->host);
	runtime_release(&r->runtime);
}

/* Links are followed once, here, as the caller: later steps refuse to follow any. */
static int make_real(char **path, const char *what, struct err *err)
{
	char *real = path_real(*path);
	if (!real)
		return err_set(err, ERR_CALLER, errno, "%s: %s: %s", what, *path,
			       strerrordesc_np(errno));
	free(*path);
	*path = real;
	return 0;
}

/* As root the analysis has a uid of its own, so what it is shown must be readable for all: said now rather than by a puzzled
 * analysis later. */
static int check_readable(const char *path, const char *what, struct err *err)
{
	struct stat st;
	if (stat(path, &st) < 0)
		return err_set(err, ERR_CALLER, errno, "%s: %s: %s", what, path,
			       strerrordesc_np(errno));
	mode_t need = S_ISDIR(st.st_mode) ? 0005 : 0004;
	if (geteuid() != 0 || (st.st_mode & need) == need)
		return 0;
	return err_set(
		err, ERR_CALLER, EACCES,
		"%s: the analysis runs as a user of its own and could not read %s (mode %04o); allow it: chmod o+r%s %s",
		what, path, (unsigned)st.st_mode & 07777, S_ISDIR(st.st_mode) ? "x" : "", path);
}

static int resolve_paths(struct analysis *a, struct err *err)
{
	int r = 0;
	for (size_t i = 0; r >= 0 && i < a->code.n; i++)
		r = make_real(&a->code.v[i], "code", err);
	for (size_t i = 0; r >= 0 && i < a->n_inputs; i++)
		r = make_real(&a->inputs[i].path, a->inputs[i].origin, err);
	return r;
}

/* After planning, which refuses what must not be shown at all: nobody is to be told to open that to everyone. */
static int check_paths(const struct analysis *a, struct err *err)
{
	int r = 0;
	for (size_t i = 0; r >= 0 && i < a->code.n; i++)
		r = check_readable(a->code.v[i], "code", err);
	for (size_t i = 0; r >= 0 && i < a->n_inputs; i++)
		r = check_readable(a->inputs[i].path, a->inputs[i].origin, err);
	return r;
}

static void pass_variables(const struct config *c, struct analysis *a)
{
	for (size_t i = 0; i < c->env_pass.n; i++) {
		const char *value = getenv(c->env_pass.v[i]);
		if (value && !pairs_get(&a->env, c->env_pass.v[i]))
			pairs_set(&a->env, c->env_pass.v[i], value);
	}
}

static int list_data(const struct config *c, const struct analysis *a, struct strv *ret,
		     struct err *err)
{
	if (!c->project_data || a->n_inputs == 0)
		return 0;
	CLEANUP_DIR DIR *dir = opendir(c->project_data);
	if (!dir)
		return err_errno(err, "open the project's data directory %s", c->project_data);
	for (struct dirent *entry; (entry = readdir(dir));) {
		if (str_eq(entry->d_name, ".") || str_eq(entry->d_name, "..") ||
		    entry->d_type == DT_LNK)
			continue;
		if (ret->n == DATA_ENTRIES_MAX)
			return err_caller(
				err,
				"%s has more than %d entries: too many to show beside inputs; put them into directories",
				c->project_data, DATA_ENTRIES_MAX);
		strv_add(ret, entry->d_name);
	}
	return 0;
}

static int choose_id(const struct analysis *a, char ret[ID_MAX + 1], struct err *err)
{
	if (!a->id) {
		id_generate(ret);
		return 0;
	}
	int r = id_check(a->id, err);
	if (r >= 0)
		(void)snprintf(ret, ID_MAX + 1, "%s", a->id);
	return r;
}

static int complete(const struct config *c, struct analysis *a, struct resolved *r, struct err *err)
{
	int e = choose_id(a, r->id, err);
	if (e >= 0)
		e = analysis_check(a, err);
	if (e >= 0)
		e = resolve_paths(a, err);
	if (e >= 0)
		e = runtime_find(a->runtime ? a->runtime : c->default_runtime, &r->runtime, err);
	if (e >= 0)
		e = config_limits(c, &r->runtime.limits, a, &r->limits, err);
	if (e >= 0)
		e = host_read(&r->host, err);
	if (e < 0)
		return e;
	pass_variables(c, a);
	analysis_complete(a, &r->limits);
	if (!a->keep_said)
		a->keep = c->keep;
	r->keep = a->keep;
	return 0;
}

static int resolve(const struct config *c, struct analysis *a, struct resolved *r, struct err *err)
{
	CLEANUP_STRV struct strv entries = { 0 };
	int e = complete(c, a, r, err);
	if (e >= 0)
		e = list_data(c, a, &entries, err);
	if (e < 0)
		return e;
	struct plan_request request = {
		.id = r->id,
		.analysis = a,
		.config = c,
		.runtime = &r->runtime,
		.host = &r->host,
		.limits = &r->limits,
		.data_entries = &entries,
		.deadline_unix = (clock_real_ns() + r->limits.at[LIMIT_TIME].value) / NS_PER_SEC,
	};
	e = plan_make(&request, &r->plan, err);
	return e < 0 ? e : check_paths(a, err);
}

int run_resolve(const struct config *config, struct analysis *analysis, struct resolved *ret,
		struct err *err)
{
	struct resolved r = { 0 };
	int e = resolve(config, analysis, &r, err);
	if (e < 0) {
		resolved_release(&r);
		return e;
	}
	*ret = r;
	return 0;
}
