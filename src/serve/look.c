/* What is to be entered and can't be judged by its words alone is looked at first, by a process of the starter's, and so are files that are to be
 * copied: a few at a time, fewer of one submitter, who came first first. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/proc.h"
#include "serve/service_parts.h"
#include "serve/starter.h"

#define AT_ONCE 8
#define OF_ONE  2
#define CAP_SHARES                                                                                 \
	2 /* a pipeline has at most one of so many parts of what all runs have; its largest step always fits */

/* What it is admitted with: room for as many of its steps as could run at once, within reason. */
static void set_need(const struct service *s, struct submission *sub,
		     const struct starter_said *said)
{
	static const enum limit_id ids[] = { LIMIT_MEMORY, LIMIT_CPUS, LIMIT_PIDS };
	submission_need(sub, said->limits, s->cap);
	for (int i = 0; i < SCHEDULE_RESOURCES_; i++) {
		uint64_t part = s->cap[i] / CAP_SHARES, wide = said->wide[ids[i]];
		if (s->cap[i] && wide > part)
			wide = part;
		if (wide > sub->job.need[i])
			sub->job.need[i] = wide;
	}
	sub->memory_limit_bytes = sub->job.need[SCHEDULE_MEMORY];
}

static void finish(struct service *s, struct submission *sub, int r, const struct err *err)
{
	size_t submitter = sub->job.submitter;
	sd_event_source_freep(&sub->report);
	cleanup_fd(&sub->report_fd);
	door_looked(s, sub, r, err);
	look_ended(s, submitter);
}

static int on_looked(sd_event_source *source, int fd, uint32_t events, void *data)
{
	struct submission *sub = data;
	struct service *s = sub->service;
	struct err err = { 0 };
	union {
		struct keeper_msg msg;
		struct starter_said said;
	} word = { 0 };
	ssize_t n = proc_recv(fd, &word, sizeof word, MSG_DONTWAIT);
	int r = 0;
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n == sizeof word.said) {
		set_need(s, sub, &word.said);
		r = submission_fits(sub, s->cap, &err);
	} else if (n == sizeof word.msg && word.msg.kind == KEEPER_MSG_REFUSED) {
		err = word.msg.err;
		r = err.code ? -err.code : -EIO;
	} else {
		r = err_set(&err, ERR_HOST, EIO,
			    "what was to look at it has died, or it takes too long");
	}
	finish(s, sub, r, &err);
	return 0;
}

static int ask(struct service *s, struct submission *sub, struct err *err)
{
	CLEANUP_JSON json_t *request = follow_request(s, sub);
	CLEANUP_FD int fd = starter_ask(s->starter_fd, STARTER_LOOK, request, err);
	if (fd < 0)
		return fd;
	int r = sd_event_add_io(s->event, &sub->report, fd, EPOLLIN, on_looked, sub);
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "hear the starter: %s", strerrordesc_np(-r));
	sub->report_fd = take_fd(&fd);
	return 0;
}

/* Whose turn it is: one of the two, or nobody's. */
struct turn {
	struct submission *sub;
	struct copying *copying;
	uint64_t n;
};

static bool is_before(const struct service *s, const struct turn *turn, uint64_t n,
		      size_t submitter)
{
	bool is_first = (!turn->sub && !turn->copying) || n < turn->n;
	return is_first && s->queue.loads[submitter].looking < OF_ONE;
}

static struct turn find_turn(const struct service *s)
{
	struct turn turn = { 0 };
	for (size_t i = 0; i < s->queue.entering.n; i++) {
		struct submission *sub = s->queue.entering.v[i];
		if (sub->wants_look && is_before(s, &turn, sub->job.n, sub->job.submitter))
			turn = (struct turn){ .sub = sub, .n = sub->job.n };
	}
	for (struct copying *c = s->copying; c; c = c->next)
		if (c->sent && is_before(s, &turn, c->n, c->submitter))
			turn = (struct turn){ .copying = c, .n = c->n };
	return turn;
}

static void begin(struct service *s, const struct turn *turn)
{
	struct err err = { 0 };
	size_t submitter = turn->sub ? turn->sub->job.submitter : turn->copying->submitter;
	s->n_looking++;
	s->queue.loads[submitter].looking++;
	if (turn->sub)
		turn->sub->wants_look = false;
	int r = turn->sub ? ask(s, turn->sub, &err) : copy_begin(turn->copying);
	if (r >= 0)
		return;
	s->n_looking--;
	s->queue.loads[submitter].looking--;
	if (turn->sub)
		door_looked(s, turn->sub, r, &err);
}

void look_next(struct service *s)
{
	while (s->n_looking < AT_ONCE) {
		const struct turn turn = find_turn(s);
		if (!turn.sub && !turn.copying)
			return;
		begin(s, &turn);
	}
}

void look_ended(struct service *s, size_t submitter)
{
	s->n_looking--;
	s->queue.loads[submitter].looking--;
	look_next(s);
}
