/* The working directory inside the box: code, data and docs read-only in it, the rest writable. */
#include "box/plan_parts.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"

/* HOME/runs/ID/outputs or something in it. By component: an id, or the home itself, may have that word too. */
static bool is_output(const char *home, const char *path)
{
	CLEANUP_FREE char *runs = path_join(home, "runs");
	if (!path_within(path, runs) || str_eq(path, runs))
		return false;
	const char *below_id = strchr(path + strlen(runs) + 1, '/');
	return below_id && path_within(below_id, "/outputs");
}

/* An analysis reads what it is shown, so what must not be seen is refused here, whichever of the two
 * lies inside the other. A run's collected outputs may be the input of another. */
int plan_check_shown(const struct plan_request *q, const char *path, const char *origin,
		     struct err *err)
{
	const struct config *c = q->config;
	for (size_t i = 0; i < c->protect.n; i++)
		if (path_within(path, c->protect.v[i]) || path_within(c->protect.v[i], path))
			return err_set(err, ERR_CALLER, EPERM,
				       "%s: %s would show the protected path %s%s", origin, path,
				       c->protect.v[i],
				       path_within(path, c->protect.v[i])
					       ? ", which no analysis is shown; give a copy of it"
					       : "; give a narrower one");
	if (path_within(c->home, path) || (path_within(path, c->home) && !is_output(c->home, path)))
		return err_set(err, ERR_CALLER, EPERM,
			       "%s: %s would show cupel's own records in %s; give a narrower one",
			       origin, path, c->home);
	return 0;
}

static struct step *read_only_tmpfs(struct plan *p, const char *target)
{
	struct step *s = plan_step(p, STEP_TMPFS, target, NULL);
	s->size_bytes = 1 << 20;
	s->inodes = 4096;
	s->mode = 0755;
	s->writable = true; /* until it is sealed */
	return s;
}

static int plan_code(const struct plan_request *q, struct plan *p, struct err *err)
{
	const struct strv *code = &q->analysis->code;
	if (code->n == 0)
		return 0;
	CLEANUP_FREE char *directory = path_join(p->work_dir, "code");
	read_only_tmpfs(p, directory);
	for (size_t i = 0; i < code->n; i++) {
		const char *name = path_base(code->v[i]);
		for (size_t j = 0; j < i; j++)
			if (str_eq(name, path_base(code->v[j])))
				return err_caller(err,
						  "code: %s and %s have the same name; rename one",
						  code->v[j], code->v[i]);
		int r = plan_check_shown(q, code->v[i], analysis_code_origin(q->analysis, i), err);
		if (r < 0)
			return r;
		CLEANUP_FREE char *target = path_join(directory, name);
		plan_data_bind(q, p, target, code->v[i]);
	}
	plan_step(p, STEP_SEAL, directory, NULL);
	return 0;
}

/* The project's entries one by one, so that inputs can stand beside them. */
static int plan_data_entries(const struct plan_request *q, struct plan *p, const char *directory,
			     struct err *err)
{
	const struct analysis *a = q->analysis;
	for (size_t i = 0; q->config->project_data && i < q->data_entries->n; i++) {
		const char *name = q->data_entries->v[i];
		for (size_t j = 0; j < a->n_inputs; j++)
			if (str_eq(name, a->inputs[j].name))
				return err_caller(
					err,
					"%s: the project's data directory %s already has '%s'; give "
					"the input another name: PATH:NAME",
					a->inputs[j].origin, q->config->project_data, name);
		CLEANUP_FREE char *source = path_join(q->config->project_data, name);
		CLEANUP_FREE char *target = path_join(directory, name);
		plan_data_bind(q, p, target, source);
	}
	return 0;
}

static int plan_data(const struct plan_request *q, struct plan *p, struct err *err)
{
	const struct analysis *a = q->analysis;
	CLEANUP_FREE char *directory = path_join(p->work_dir, "data");
	int r = 0;
	if (q->config->project_data)
		r = plan_check_shown(q, q->config->project_data, "project.data", err);
	if (r < 0)
		return r;
	if (a->n_inputs == 0) {
		if (q->config->project_data)
			plan_data_bind(q, p, directory, q->config->project_data);
		return 0;
	}
	read_only_tmpfs(p, directory)->inodes += 8 * a->n_inputs; /* with directories on the way */
	r = plan_data_entries(q, p, directory, err);
	for (size_t i = 0; r >= 0 && i < a->n_inputs; i++) {
		r = plan_check_shown(q, a->inputs[i].path, a->inputs[i].origin, err);
		CLEANUP_FREE char *target = path_join(directory, a->inputs[i].name);
		plan_data_bind(q, p, target, a->inputs[i].path);
	}
	plan_step(p, STEP_SEAL, directory, NULL);
	return r;
}

void plan_set_checkpoint(struct plan *p, const char *home, const char *key)
{
	for (size_t i = 0; i < p->n_steps; i++)
		if (p->steps[i].kind == STEP_CHECKPOINT) {
			free(p->steps[i].source);
			p->steps[i].source =
				xasprintf("%s/checkpoints/%s/files", home, key[0] ? key : "{key}");
		}
}

/* In memory it has no place on the host. Whole pages, and never more than the limit: the kernel would round up. */
static void plan_work_dir(const struct plan_request *q, struct plan *p)
{
	bool is_memory = q->analysis->scratch == SCRATCH_MEMORY;
	struct step *s = plan_step(p, STEP_WORK, p->work_dir, is_memory ? NULL : p->host_work_dir);
	if (!is_memory)
		return;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	s->size_bytes = p->limits.at[LIMIT_DISK].value / page * page;
	s->inodes = p->limits.at[LIMIT_INODES].value;
	s->mode = 0700;
}

int plan_work(const struct plan_request *q, struct plan *p, struct err *err)
{
	static const char *const directories[] = { "data", "docs", "code", "out", "tmp", "home" };
	for (size_t i = 0; i < sizeof directories / sizeof *directories; i++)
		strv_add(&p->work_dirs, directories[i]);
	plan_work_dir(q, p);
	if (p->checkpoint) {
		plan_step(p, STEP_CHECKPOINT, p->checkpoint, NULL);
		plan_set_checkpoint(p, q->home, q->analysis->checkpoint_key);
	}
	int r = plan_code(q, p, err);
	if (q->grant) /* a project's data are none of a step's business */
		return r;
	if (r >= 0)
		r = plan_data(q, p, err);
	if (r < 0)
		return r;
	if (q->config->project_docs) {
		CLEANUP_FREE char *directory = path_join(p->work_dir, "docs");
		r = plan_check_shown(q, q->config->project_docs, "project.docs", err);
		plan_data_bind(q, p, directory, q->config->project_docs);
	}
	return r;
}
