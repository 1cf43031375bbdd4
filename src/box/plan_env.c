/* The environment of an analysis: built from nothing, so that nothing of the caller's leaks in. */
#include "box/plan_parts.h"

#include "base/num.h"

/* Libraries that start a thread per cpu of the host unless one of these tells them the budget. */
static const char *const thread_variables[] = {
	"OMP_NUM_THREADS",     "OPENBLAS_NUM_THREADS",   "MKL_NUM_THREADS",
	"BLIS_NUM_THREADS",    "GOTO_NUM_THREADS",       "VECLIB_MAXIMUM_THREADS",
	"NUMEXPR_NUM_THREADS", "NUMEXPR_MAX_THREADS",    "NUMBA_NUM_THREADS",
	"RAYON_NUM_THREADS",   "POLARS_MAX_THREADS",     "JULIA_NUM_THREADS",
	"LOKY_MAX_CPU_COUNT",  "PYTHON_CPU_COUNT",       "MC_CORES",
	"GOMAXPROCS",          "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS",
};

static void set_format(struct pairs *env, const char *key, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static void set_format(struct pairs *env, const char *key, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	CLEANUP_FREE char *text = xvasprintf(format, args);
	va_end(args);
	pairs_set(env, key, text);
}

static void set_cupel(struct pairs *env, const struct plan_request *q, const struct plan *p)
{
	char cpus[32];
	set_format(env, "CUPEL_RUN_ID", "%s", q->id);
	set_format(env, "CUPEL_WORK_DIR", "%s", p->work_dir);
	set_format(env, "CUPEL_OUT_DIR", "%s/out", p->work_dir);
	set_format(env, "CUPEL_DATA_DIR", "%s/data", p->work_dir);
	set_format(env, "CUPEL_RUNTIME", "%s", q->runtime->name);
	set_format(env, "CUPEL_CPUS", "%s",
		   num_write_cpus(q->limits->at[LIMIT_CPUS].value, cpus, sizeof cpus));
	set_format(env, "CUPEL_MEMORY_BYTES", "%llu",
		   (unsigned long long)q->limits->at[LIMIT_MEMORY].value);
	if (p->checkpoint)
		set_format(env, "CUPEL_CHECKPOINT_DIR", "%s", p->checkpoint);
	if (q->analysis->parameters)
		set_format(env, "CUPEL_PARAMETERS", "%s", q->analysis->parameters);
	if (q->grant)
		plan_grant_env(q->grant, env);
	else
		pairs_set(env, "CUPEL_PROVENANCE_PATH", PLAN_PROVENANCE);
	if (q->snapshot)
		set_format(env, "CUPEL_DB_PATH", "%s", PLAN_SNAPSHOT);
	if (q->deadline_unix)
		set_format(env, "CUPEL_DEADLINE", "%llu", (unsigned long long)q->deadline_unix);
}

/* An activation takes away what it found: what was there by default, by the runtime or from the caller. What the analysis itself says,
 * and cupel's own, it never saw. */
static bool is_taken_away(const struct plan_request *q, const char *key)
{
	bool own = pairs_get(&q->analysis->env, key) && !strv_has(&q->config->env_pass, key);
	return strv_has(&q->runtime->unset, key) && !own && !str_starts(key, "CUPEL_");
}

/* What the caller passes is there before a prefix is activated, as in a shell: what the prefix says goes over it. */
static bool is_under_activation(const struct plan_request *q, const char *key)
{
	return strv_has(&q->analysis->passed, key) && strv_has(&q->runtime->activated, key);
}

static void pass_under(const struct plan_request *q, struct pairs *env)
{
	for (size_t i = 0; i < q->analysis->env.n; i++) {
		const struct pair *v = &q->analysis->env.v[i];
		if (is_under_activation(q, v->key))
			pairs_set(env, v->key, v->value);
	}
}

/* conda saves what it replaces, for a later deactivation. What PATH was before is known where it was replaced (run/activation.c). */
static void save_replaced(const struct plan_request *q, const struct pairs *env,
			  struct pairs *ret_saved)
{
	const struct strv *names = &q->runtime->activated;
	for (size_t i = 0; i < names->n; i++) {
		const char *value = pairs_get(env, names->v[i]);
		CLEANUP_FREE char *saved = xasprintf("__CONDA_SHLVL_0_%s", names->v[i]);
		for (char *c = saved; *c; c++)
			*c = *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
		if (value && !str_eq(names->v[i], "PATH"))
			pairs_set(ret_saved, saved, value);
	}
}

void plan_env(const struct plan_request *q, struct plan *p)
{
	struct pairs env = { 0 }, saved = { 0 };
	set_format(&env, "PATH", "%s", q->runtime->path);
	set_format(&env, "HOME", "%s/home", p->work_dir);
	set_format(&env, "TMPDIR", "%s/tmp", p->work_dir);
	pairs_set(&env, "USER", BOX_USER);
	pairs_set(&env, "LOGNAME", BOX_USER);
	pairs_set(&env, "SHELL", "/bin/sh");
	pairs_set(&env, "TERM", "dumb");
	pairs_set(&env, "LANG", "C.UTF-8");
	for (size_t i = 0; i < sizeof thread_variables / sizeof *thread_variables; i++)
		set_format(&env, thread_variables[i], "%d", p->n_cpus);
	pass_under(q, &env);
	save_replaced(q, &env, &saved);
	for (size_t i = 0; i < saved.n; i++)
		pairs_set(&env, saved.v[i].key, saved.v[i].value);
	if (strv_has(&q->runtime->activated, "PATH"))
		pairs_set(&env, "PATH", q->runtime->path);
	for (size_t i = 0; i < q->runtime->env.n; i++)
		pairs_set(&env, q->runtime->env.v[i].key, q->runtime->env.v[i].value);
	for (size_t i = 0; i < q->analysis->env.n; i++)
		if (!is_under_activation(q, q->analysis->env.v[i].key))
			pairs_set(&env, q->analysis->env.v[i].key, q->analysis->env.v[i].value);
	set_cupel(&env, q, p);
	for (size_t i = 0; i < env.n; i++)
		if (!is_taken_away(q, env.v[i].key))
			strv_addf(&p->env, "%s=%s", env.v[i].key, env.v[i].value);
	pairs_release(&env);
	pairs_release(&saved);
}
