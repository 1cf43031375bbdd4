/* Between the outputs and the verdict: a step of the host's takes them, as a run of its own. This one waits for it, and still hears who wants
 * its end. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "keeper/describe.h"
#include "keeper/state.h"

struct cancelled {
	bool is_said;
	int signal_number;
	const char *by;
};

static void wait_for_end(struct keeping *k, int fd, struct cancelled *ret)
{
	const struct keeper_after *after = k->q->after;
	for (bool ended = false; !ended;) {
		struct pollfd fds[] = { { .fd = fd, .events = POLLIN },
					{ .fd = k->signal_fd, .events = POLLIN },
					{ .fd = k->report_fd, .events = POLLIN } };
		int signal_number = 0;
		const char *by = NULL;
		if (poll(fds, 3, -1) < 0 && errno != EINTR)
			return;
		if (watch_hear_cancel(k, &signal_number, &by)) {
			after->cancel(after->data, signal_number);
			if (!ret->is_said)
				*ret = (struct cancelled){ true, signal_number, by };
		}
		if (fds[0].revents)
			ended = after->hear(after->data);
	}
}

void keeper_after(struct keeper_state *s)
{
	struct keeping *k = &s->k;
	const struct keeper_after *after = k->q->after;
	struct cancelled cancelled = { 0 };
	struct err err = { 0 };
	(void)record_event(&k->record, "post-process",
			   json_pack("{s:o}", "step", json_text(after->step)), NULL);
	FAULT_PHASE("after-announced");
	int fd = after->start(after->data, &err);
	FAULT_PHASE("after-started");
	if (fd >= 0)
		wait_for_end(k, fd, &cancelled);
	s->after = (struct step_end){ .step = after->step, .exit_code = -1 };
	if (fd < 0) {
		(void)snprintf(s->after.cause, sizeof s->after.cause, "%s",
			       cause_name(CAUSE_SETUP));
		(void)snprintf(s->after.notes, sizeof s->after.notes, "%.590s.", err.text);
	}
	after->finish(after->data, &s->after);
	FAULT_PHASE("after-ended");
	k->ending.after = &s->after;
	if (cancelled.is_said && !str_eq(s->after.cause, cause_name(CAUSE_OK))) {
		k->ending.stop = STOP_CANCEL;
		k->ending.stop_signal = cancelled.signal_number;
		k->ending.stop_by = cancelled.by;
	}
	(void)record_event(&k->record, "post-processed", describe_after(&s->after), NULL);
}
