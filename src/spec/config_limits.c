/* What one run gets of the configuration: its limits and its working directory. */
#include <errno.h>
#include <string.h>

#include "base/path.h"
#include "spec/config.h"
#include "spec/show.h"

char *config_work_dir(const struct config *c, const char *id)
{
	const char *at = strstr(c->work_template, "{id}");
	int before = at ? (int)(at - c->work_template) : 0;
	const char *after = at ? at + strlen("{id}") : c->work_template;
	CLEANUP_FREE char *name = xasprintf("%.*s%s%s", before, c->work_template, id, after);

	return path_join(c->work_root, name);
}

char *config_work_dir_aside(const struct config *c, const char *id)
{
	CLEANUP_FREE char *path = config_work_dir(c, id);
	CLEANUP_FREE char *parent = path_parent(path);
	/* Every name of a template starts with the same letters or with an id, and no id starts with a dot. */
	CLEANUP_FREE char *name = xasprintf(".%s", path_base(path));
	return path_join(parent, name);
}

static const struct limits *profile_said(const struct config *c, const char *name)
{
	for (size_t i = 0; i < c->n_profiles; i++) {
		if (str_eq(c->profiles[i].name, name))
			return &c->profiles[i].limits;
	}
	return NULL;
}

/* The configured profile over the built-in one of that name, or over `default`. */
static int profile_resolve(const struct config *c, const char *name, struct limits *ret,
			   struct err *err)
{
	const struct limits *said = profile_said(c, name);
	CLEANUP_STR struct str known = { 0 };
	char shown[SHOW_ROOM];

	int r = limits_profile(name, ret);
	if (r < 0 && said)
		r = limits_profile("default", ret);
	if (r >= 0) {
		if (said)
			limits_merge(ret, said);
		return 0;
	}
	str_add(&known, "default, notebook, tool, post_process");
	for (size_t i = 0; i < c->n_profiles; i++) {
		struct limits unused;
		if (limits_profile(c->profiles[i].name, &unused) < 0)
			str_addf(&known, ", %s", c->profiles[i].name);
	}
	return err_caller(err, "there is no profile '%s'; known: %s", show_text(name, shown),
			  str_text(&known));
}

/* What nobody asked for is lowered to the ceiling, or set to it where there would be no limit at
 * all; what somebody asked for is never changed behind their back, but refused. */
static void ceilings_lower(struct limits *limits, const struct limits *ceilings)
{
	for (int id = 0; id < LIMIT_COUNT_; id++) {
		uint64_t value = limits->at[id].value, ceiling = ceilings->at[id].value;
		if (!ceiling || id == LIMIT_WARN) /* no warning is less than a late one */
			continue;
		if (value == 0 || (value > ceiling && str_eq(limits->at[id].origin, "built-in")))
			limits->at[id] = ceilings->at[id];
	}
}

/* A notebook has a profile of its own, unless somebody said one. */
static const char *profile_of(const struct config *c, const struct analysis *a)
{
	if (a->profile)
		return a->profile;
	bool is_notebook = a->code.n && !a->command.n && str_ends(a->code.v[0], ".ipynb");
	return is_notebook && str_eq(c->default_profile, "default") ? "notebook"
								    : c->default_profile;
}

int config_limits(const struct config *c, const struct limits *runtime, const struct analysis *a,
		  struct limits *ret, struct err *err)
{
	struct limits limits = { 0 };
	int r = profile_resolve(c, profile_of(c, a), &limits, err);

	if (r < 0)
		return r;
	if (runtime)
		limits_merge(&limits, runtime);
	limits_merge(&limits, &c->defaults);
	limits_merge(&limits, &a->limits);
	ceilings_lower(&limits, &c->ceilings);
	r = limits_check_ceilings(&limits, &c->ceilings, err);
	if (r < 0)
		return r;
	if (limits.at[LIMIT_WARN].value >= limits.at[LIMIT_TIME].value) {
		char warn[32], time[32];
		return err_caller(
			err,
			"the warning comes %s (%s) before a deadline of %s (%s); make "
			"warn shorter than time",
			limit_write(LIMIT_WARN, limits.at[LIMIT_WARN].value, warn, sizeof(warn)),
			limits.at[LIMIT_WARN].origin,
			limit_write(LIMIT_TIME, limits.at[LIMIT_TIME].value, time, sizeof(time)),
			limits.at[LIMIT_TIME].origin);
	}
	*ret = limits;
	return 0;
}

int config_limits_fit(const struct config *c, const char *executor, struct limits *limits,
		      struct err *err)
{
	uint64_t value = limits->at[LIMIT_MEMORY].value;
	uint64_t most = c->aggregate.at[LIMIT_MEMORY].value & ~((UINT64_C(1) << 20) - 1);
	char asked[32], allowed[32];

	if (!config_executor_is_here(c, executor) || most == 0 ||
	    value <= c->aggregate.at[LIMIT_MEMORY].value)
		return 0;
	if (str_eq(limits->at[LIMIT_MEMORY].origin, "built-in")) {
		limits_set(limits, LIMIT_MEMORY, most, "built-in, lowered to aggregate");
		return 0;
	}
	return err_set(
		err, ERR_CALLER, ERANGE,
		"memory %s (%s) is more than all runs together may use on this host (aggregate, %s); "
		"ask for at most %s",
		limit_write(LIMIT_MEMORY, value, asked, sizeof(asked)),
		limits->at[LIMIT_MEMORY].origin, c->aggregate.at[LIMIT_MEMORY].origin,
		limit_write(LIMIT_MEMORY, most, allowed, sizeof(allowed)));
}
