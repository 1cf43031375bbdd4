/* The story of an examination: boxes first, then what is around them, then one sentence, and a record of it all. */
#include "doctor/doctor.h"

#include <string.h>
#include <unistd.h>

#include "doctor/parts.h"
#include "health/gc_doctor.h"
#include "keeper/record.h"
#include "ledger/health_record.h"
#include "run/run.h"

#define STEPS 6

void examine_step(struct examination *x, const char *what)
{
	x->step += x->step < STEPS;
	if (x->viewer && x->viewer->step)
		x->viewer->step(x->viewer->data, what, x->step, STEPS);
}

/* In a home of its own, with nothing of a project's, and without what the host's policy lets pass: a layer that may be missing is
 * missing all the same. */
static void trials_config(const struct config *c, char *home, struct config *ret)
{
	*ret = *c; /* borrows */
	ret->home = home;
	ret->runtime_dirs = (struct strv){ 0 };
	ret->has_project_runtimes = false;
	ret->project_root = ret->project_data = ret->project_docs = NULL;
	ret->protect = ret->allow_missing = ret->env_pass = (struct strv){ 0 };
	ret->defaults = ret->ceilings = (struct limits){ 0 };
	ret->profiles = NULL;
	ret->n_profiles = 0;
	ret->default_profile = (char *)"default";
}

static char *join(const struct strv *words)
{
	struct str text = { 0 };
	for (size_t i = 0; i < words->n; i++)
		str_addf(&text, "%s%s", i ? "," : "", words->v[i]);
	return text.text ? str_take(&text) : xstrdup("");
}

static void sum_up(struct examination *x)
{
	struct diagnosis *d = x->d;
	size_t counts[FINDING_STATUS_COUNT_] = { 0 };
	CLEANUP_STR struct str text = { 0 };
	for (size_t i = 0; i < d->n; i++)
		counts[d->v[i].status]++;
	d->missing = join(&x->allowed);
	if (!d->can_run)
		str_add(&text, "No run can be made here");
	else if (x->allowed.n)
		str_addf(
			&text,
			"Runs are refused here, unless they may do without: cupel run --allow-missing %s",
			d->missing);
	else if (counts[FINDING_MISSING])
		str_add(&text, "Runs start here, but not all that is promised of them holds");
	else
		str_add(&text, "Runs get everything here that is promised of them");
	str_addf(&text, ". %zu ok, %zu weak, %zu missing",
		 counts[FINDING_OK] + counts[FINDING_NOTE], counts[FINDING_WEAK],
		 counts[FINDING_MISSING]);
	if (counts[FINDING_UNKNOWN])
		str_addf(&text, ", %zu not tried", counts[FINDING_UNKNOWN]);
	str_add(&text, ".");
	d->summary = str_take(&text);
}

static void leave_record(struct examination *x)
{
	CLEANUP_JSON json_t *detail = diagnosis_json(x->d);
	struct err err = { 0 };
	struct health_record record = {
		.kind = "doctor",
		.status = finding_status_names[diagnosis_status(x->d)],
		.summary = x->d->summary,
		.detail = detail,
	};
	if (ledger_health_put(x->config, &record, &x->d->record, &err) < 0)
		x->d->record = err;
}

/* What needs a home to try things in. */
static int examine_boxes(struct examination *x, struct err *err)
{
	uint64_t alive = 0;
	int r = doctor_clear(x->config, &alive, err); /* of one that was killed */
	if (r >= 0)
		r = run_prepare(&x->trials, err);
	if (r < 0)
		return r;
	examine_layers(x);
	examine_limiters(x);
	examine_home(x);
	return doctor_clear(x->config, &alive, err);
}

static void no_home(struct examination *x, const struct err *why)
{
	struct finding *f = finding_add(x->d, "home", "home");
	finding_refused(f, why->text);
	if (!f->remedy)
		finding_remedy(f, "export CUPEL_HOME=DIRECTORY   # one that you can write");
}

int doctor_examine(const struct config *c, const struct doctor_viewer *viewer,
		   struct diagnosis *ret, struct err *err)
{
	CLEANUP_FREE char *home = doctor_home(c);
	CLEANUP_FD int lock_fd = -1;
	struct examination x = { .config = c, .d = ret, .viewer = viewer };
	struct err why = { 0 };
	*ret = (struct diagnosis){ 0 };
	trials_config(c, home, &x.trials);
	int r = record_home(c->home, &why);
	if (r >= 0)
		r = doctor_lock(c, &lock_fd, &why);
	if (r >= 0)
		r = examine_boxes(&x, &why);
	if (r < 0)
		no_home(&x, &why);
	examine_settings(&x);
	examine_host(&x);
	examine_ledger(&x);
	examine_extras(&x);
	sum_up(&x);
	leave_record(&x);
	strv_release(&x.allowed);
	return 0;
}
