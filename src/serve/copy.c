/* A pipeline's file as its submitter may read it, for a question about it: a process of the starter's reads it, checks it, and leaves a text of ours. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/proc.h"
#include "serve/service_parts.h"
#include "serve/starter.h"

void copying_free(struct copying *c)
{
	sd_event_source_freep(&c->report);
	cleanup_fd(&c->report_fd);
	json_decref(c->sent);
	free(c);
}

static void finish(struct copying *c, int error, const struct err *err)
{
	struct copying **at = &c->service->copying;
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	if (c->done)
		c->done(c->done_data, error, err);
	copying_free(c);
}

static int on_copied(sd_event_source *source, int fd, uint32_t events, void *data)
{
	struct copying *c = data;
	struct service *s = c->service;
	size_t submitter = c->submitter;
	struct err err = { 0 };
	union {
		struct keeper_msg msg;
		struct starter_said said;
	} word = { 0 };
	ssize_t n = proc_recv(fd, &word, sizeof word, MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n == sizeof word.msg && word.msg.kind == KEEPER_MSG_REFUSED)
		err = word.msg.err;
	else if (n != sizeof word.said)
		(void)err_set(&err, ERR_HOST, EIO,
			      "what was to read it has died, or it takes too long");
	finish(c, n == sizeof word.said ? 0 : err.code ? err.code : EIO, &err);
	look_ended(s, submitter);
	return 0;
}

int copy_begin(struct copying *c)
{
	struct err err = { 0 };
	c->report_fd = starter_ask(c->service->starter_fd, STARTER_LOOK, c->sent, &err);
	int r = c->report_fd;
	json_decref(c->sent);
	c->sent = NULL;
	if (r >= 0) {
		r = sd_event_add_io(c->service->event, &c->report, c->report_fd, EPOLLIN, on_copied,
				    c);
		if (r < 0)
			(void)err_set(&err, ERR_HOST, -r, "hear the starter: %s",
				      strerrordesc_np(-r));
	}
	if (r < 0)
		finish(c, -r, &err);
	return r;
}

void service_copy(struct service *s, const struct copy_request *q, copy_done *done, void *data)
{
	struct copying *c = xcalloc(1, sizeof *c);
	*c = (struct copying){
		.service = s,
		.n = ++s->last_n,
		.submitter = queue_submitter(&s->queue, s->config, q->who->name),
		.sent = json_pack("{s:o,s:I,s:I,s:b,s:s,s:s,s:O}", "submitter",
				  json_text(q->who->name), "uid", (json_int_t)q->who->uid, "gid",
				  (json_int_t)q->who->gid, "admin",
				  (q->who->scopes & SCOPE_ADMIN) != 0, "run", "plan", "copy_to",
				  q->path, "analysis", q->analysis),
		.report_fd = -1,
		.done = done,
		.done_data = data,
		.next = s->copying,
	};
	s->copying = c;
	look_next(s);
}
