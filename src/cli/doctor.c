/* cupel doctor: what this host gives, proven by use. */
#include <errno.h>

#include "base/json.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/simple.h"
#include "doctor/doctor.h"
#include "view/doctor_view.h"
#include "view/progress.h"
#include "view/status.h"

#define COULD_NOT_CHECK 2

static int exit_status(const struct diagnosis *d)
{
	switch (diagnosis_status(d)) {
	case FINDING_WEAK:
	case FINDING_MISSING:
		return 1;
	case FINDING_UNKNOWN:
		return COULD_NOT_CHECK;
	default:
		return 0;
	}
}

static int main_doctor(const struct command *self, int argc, char **argv)
{
	if (argc > 2 && str_eq(argv[1], DOCTOR_INSIDE)) /* not for people: a trial's own program */
		doctor_inside(argc - 2, argv + 2);
	CLEANUP_CONFIG struct config c = { 0 };
	CLEANUP_DIAGNOSIS struct diagnosis d = { 0 };
	struct simple_args args = { 0 };
	struct err err = { 0 };
	int r = simple_begin(self, argc, argv, &args, &c, &err);
	if (r == -ECANCELED)
		return cli_stop(self, r, &err);
	struct progress progress = { .shown = status_wanted(), .about = "doctor" };
	struct doctor_viewer viewer = { .data = &progress, .step = progress_step };
	if (r >= 0)
		r = doctor_examine(&c, &viewer, &d, &err);
	progress_clear(&progress);
	if (r < 0) {
		(void)cli_fail(&err);
		return COULD_NOT_CHECK;
	}
	if (args.json) {
		CLEANUP_JSON json_t *o = diagnosis_json(&d);
		json_print(o);
	} else {
		doctor_print(&d);
	}
	if (d.record.code)
		log_error("this is not in the ledger yet: %s", d.record.text);
	return exit_status(&d);
}

const struct command command_doctor = {
	.name = "doctor",
	.usage = "[--json]",
	.operands = COMPLETE_NOTHING,
	.summary = "prove each layer and limiter of this host by use; say what to do",
	.details =
		"Tiny boxes try to get out, and to go beyond each limit. The exit status is 0 if all is fine, 1 if something is weak\n"
		"or missing, 2 if something could not be tried.",
	.options = &simple_options,
	.main = main_doctor,
};
