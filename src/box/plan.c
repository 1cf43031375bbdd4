/* Puts a plan together. Pure: it reads nothing but its arguments. */
#include "box/plan.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "base/path.h"
#include "box/plan_parts.h"

#define WORK_DIR_MAX 900 /* with what is put below it, a path must fit into the kernel's 4096 */

struct step *plan_step(struct plan *p, enum step_kind kind, const char *target, const char *source)
{
	p->steps = xreallocarray(p->steps, p->n_steps + 1, sizeof *p->steps);
	struct step *s = &p->steps[p->n_steps++];
	*s = (struct step){ .kind = kind,
			    .target = xstrdup(target),
			    .source = source ? xstrdup(source) : NULL };
	return s;
}

struct step *plan_data_bind(const struct plan_request *q, struct plan *p, const char *target,
			    const char *source)
{
	struct step *s = plan_step(p, STEP_BIND, target, source);
	/* Only who has power over a file system may map its owners; an ordinary user never has. */
	s->ids = q->host->is_root ? IDS_UNMAPPED : IDS_PLAIN;
	s->is_searched = true;
	return s;
}

void plan_show_as(struct plan *p, const char *source, uid_t uid, gid_t gid)
{
	for (size_t i = 0; i < p->n_steps; i++) {
		struct step *s = &p->steps[i];
		if (s->kind != STEP_BIND || !s->is_searched || !str_eq(s->source, source))
			continue;
		s->ids = IDS_RUN;
		s->owner_uid = uid;
		s->owner_gid = gid;
	}
}

void plan_rule(struct plan *p, const char *path, enum access access)
{
	p->rules = xreallocarray(p->rules, p->n_rules + 1, sizeof *p->rules);
	p->rules[p->n_rules++] = (struct rule){ .path = xstrdup(path), .access = access };
}

bool plan_may_miss(const struct plan *p, const char *layer)
{
	return strv_has(&p->missing, layer);
}

/* Reading is bounded by what is mounted: the rule on "/" names the box's own root, so a path reached any other
 * way is outside it. Writing is named place by place. */
static void plan_rules(struct plan *p)
{
	plan_rule(p, "/", ACCESS_READ);
	plan_rule(p, p->work_dir, ACCESS_WRITE);
	if (p->checkpoint) /* Landlock would allow it already; the receipt wants each writable mount by its name */
		plan_rule(p, p->checkpoint, ACCESS_WRITE);
	plan_rule(p, "/tmp", ACCESS_WRITE);
	plan_rule(p, "/dev/shm", ACCESS_WRITE);
	/* Not random and urandom: nobody needs to write to them, so a refused write proves Landlock (facts.c). */
	plan_rule(p, "/dev/null", ACCESS_DEVICE);
	plan_rule(p, "/dev/zero", ACCESS_DEVICE);
	plan_rule(p, "/dev/full", ACCESS_DEVICE);
}

static void plan_rlimit(struct plan *p, int resource, const char *name, uint64_t value)
{
	p->rlimits[p->n_rlimits++] = (struct plan_rlimit){ resource, name, value };
}

static void plan_rlimits(const struct limits *l, struct plan *p)
{
	uint64_t file = l->at[LIMIT_FILE_SIZE].value ? l->at[LIMIT_FILE_SIZE].value
						     : l->at[LIMIT_DISK].value;
	/* Not 0: a core handler (core_pattern with a pipe) runs as the host's root whatever the limit, except at this one, which
	 * the kernel keeps for telling its own helpers from others. As a size it is too small for any core file. */
	plan_rlimit(p, RLIMIT_CORE, "core", 1);
	plan_rlimit(p, RLIMIT_NOFILE, "nofile", l->at[LIMIT_OPEN_FILES].value);
	plan_rlimit(p, RLIMIT_FSIZE, "fsize", file);
	plan_rlimit(p, RLIMIT_RTPRIO, "rtprio", 0);
	plan_rlimit(p, RLIMIT_NICE, "nice", 0);
	plan_rlimit(p, RLIMIT_MSGQUEUE, "msgqueue", 819200);
}

/* Whole cpus that cover the budget. Which of the host's is drawn from the id, so that runs which use few
 * cpus do not all sit on the first ones. */
static void plan_cpus(const struct plan_request *q, struct plan *p)
{
	int want = (int)((q->limits->at[LIMIT_CPUS].value + 999) / 1000);
	int have = q->host->n_cpus;
	unsigned hash = 5381;
	for (const char *c = q->id; *c; c++)
		hash = hash * 33 + (unsigned char)*c;
	p->n_cpus = want < have ? want : have;
	CPU_ZERO(&p->cpus);
	int skip = want < have ? (int)(hash % (unsigned)have) : 0;
	for (int round = 0, taken = 0; round < 2 * CPU_SETSIZE && taken < p->n_cpus; round++) {
		int cpu = round % CPU_SETSIZE;
		if (!CPU_ISSET(cpu, &q->host->cpus) || CPU_ISSET(cpu, &p->cpus) || skip-- > 0)
			continue;
		CPU_SET(cpu, &p->cpus);
		taken++;
	}
}

static int check_work_root(const struct plan_request *q, const char *work_dir, struct err *err)
{
	if (strlen(work_dir) > WORK_DIR_MAX)
		return err_caller(
			err,
			"work.root: the working directory's path would have %zu characters; at most %d are allowed",
			strlen(work_dir), WORK_DIR_MAX);
	static const char *const owned[] = { "/usr", "/etc", "/dev", "/proc",
					     "/sys", "/run", "/bin", "/lib" };
	for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
		if (path_within(work_dir, owned[i]))
			return err_caller(err, "work.root: working directories can't be below %s",
					  owned[i]);
	for (size_t i = 0; i < q->config->protect.n; i++)
		if (path_within(work_dir, q->config->protect.v[i]))
			return err_caller(
				err,
				"work.root: working directories can't be below the protected path %s",
				q->config->protect.v[i]);
	return 0;
}

static void plan_missing(const struct plan_request *q, struct plan *p)
{
	strv_copy(&p->missing, &q->analysis->allow_missing);
	for (size_t i = 0; i < q->config->allow_missing.n; i++)
		if (!strv_has(&p->missing, q->config->allow_missing.v[i]))
			strv_add(&p->missing, q->config->allow_missing.v[i]);
	for (size_t i = 0; i < p->missing.n; i++)
		strv_addf(&p->warnings, "the layer '%s' is allowed to be missing", p->missing.v[i]);
}

static int plan_layers(const struct plan_request *q, struct plan *p, struct err *err)
{
	plan_missing(q, p);
	p->landlock_abi = q->host->landlock_abi;
	if (p->landlock_abi == 0 && !plan_may_miss(p, "landlock"))
		return err_layer(
			err, "landlock",
			"kernel %s does not offer Landlock; boot 5.13 or later with 'landlock' in lsm=, "
			"or allow it to be missing: --allow-missing landlock",
			q->host->kernel);
	p->own_network = q->analysis->network == NETWORK_NONE;
	if (!p->own_network && !q->config->network_host_allowed)
		return err_set(
			err, ERR_CALLER, EPERM,
			"network: host is not allowed here; the host's policy would have to say "
			"'policy: {network: [none, host]}' in its cupel.yaml");
	return 0;
}

static void plan_names(const struct plan_request *q, struct plan *p)
{
	p->id = xstrdup(q->id);
	p->work_dir = config_work_dir(q->config, q->id);
	p->host_work_dir = q->caller_has_work_dir ? config_work_dir_aside(q->config, q->id)
						  : xstrdup(p->work_dir);
	p->cwd = xstrdup(p->work_dir);
	p->hostname = xstrdup("cupel");
	p->cpu_weight = q->config->cpu_weight;
	if (q->analysis->checkpoint)
		p->checkpoint = path_join(p->work_dir, q->analysis->checkpoint);
	p->limits = *q->limits;
}

static int plan_fill(const struct plan_request *q, struct plan *p, struct err *err)
{
	plan_names(q, p);
	int r = check_work_root(q, p->work_dir, err);
	if (r >= 0)
		r = plan_layers(q, p, err);
	if (r < 0)
		return r;
	plan_cpus(q, p);
	plan_env(q, p);
	plan_rlimits(q->limits, p);
	plan_root(q, p);
	r = plan_snapshot(q, p, err);
	if (r >= 0)
		r = plan_shown(q, p, err);
	if (r >= 0)
		r = plan_work(q, p, err);
	if (r < 0)
		return r;
	plan_driver(q, p);
	plan_grant(q, p);
	plan_tree(q, p);
	plan_step(p, STEP_SEAL, "/", NULL);
	plan_rules(p);
	CLEANUP_FREE char *script =
		q->analysis->code.n
			? xasprintf("%s/code/%s", p->work_dir, path_base(q->analysis->code.v[0]))
			: NULL;
	r = runtime_argv(q->runtime, q->analysis, script, &p->argv, err);
	return r < 0 && q->analysis->code_origins.n
		       ? err_wrap(err, "%s", q->analysis->code_origins.v[0])
		       : r;
}

int plan_make(const struct plan_request *request, struct plan *ret, struct err *err)
{
	struct plan p = { 0 };
	int r = plan_fill(request, &p, err);
	if (r < 0) {
		plan_release(&p);
		return r;
	}
	*ret = p;
	return 0;
}

void plan_refused(const struct plan_request *request, struct plan *ret)
{
	const struct analysis *a = request->analysis;
	struct plan p = { 0 };
	plan_names(request, &p);
	strv_copy(&p.argv, a->command.n ? &a->command : &a->code);
	*ret = p;
}

void plan_release(struct plan *p)
{
	for (size_t i = 0; i < p->n_steps; i++) {
		free(p->steps[i].target);
		free(p->steps[i].source);
	}
	for (size_t i = 0; i < p->n_rules; i++)
		free(p->rules[i].path);
	free(p->steps);
	free(p->rules);
	free(p->id);
	free(p->work_dir);
	free(p->host_work_dir);
	free(p->cwd);
	free(p->hostname);
	free(p->checkpoint);
	strv_release(&p->argv);
	strv_release(&p->env);
	strv_release(&p->work_dirs);
	strv_release(&p->missing);
	strv_release(&p->warnings);
	*p = (struct plan){ 0 };
}
