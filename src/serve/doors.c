/* What the doors may ask: to enter a submission, to cancel one. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "flow/record.h"
#include "serve/service_parts.h"

#define WAITING_BYTES ((size_t)64 << 20) /* of one submitter */

/* What is answered to who asked for it. */
static void make_answer(const struct submission *sub, const struct store_entered *what,
			struct submit_answer *ret)
{
	const struct submission_found *found = &what->found;
	const char *body = sub->body;
	bool is_again = what->result == 0 && found->by_key && str_eq(found->body_sha256, body);
	ret->is_new = what->result > 0;
	/* What is gone on with has its own name, whatever the submission is called. */
	(void)snprintf(ret->id, sizeof ret->id, "%s",
		       is_again && !sub->is_resume ? found->id : submission_shown(sub));
	if (is_again || what->result > 0)
		return;
	if (what->result < 0) { /* whatever is wrong with it: its key may have made it before */
		ret->error = -what->result;
		ret->err = what->err;
	} else if (found->by_key) {
		ret->error = -err_set(&ret->err, ERR_CALLER, EEXIST,
				      "this key was used for something else: %s", found->id);
	} else if (sub->unfit) {
		ret->err = *sub->unfit;
		ret->error = sub->unfit->code;
	} else {
		ret->error = -err_set(&ret->err, ERR_CALLER, EEXIST,
				      "the id '%s' is taken; choose another", found->id);
	}
}

void door_entered(void *data, void *tag, const struct store_entered *what)
{
	struct service *s = data;
	struct submission *sub = tag;
	struct submit_answer answer = { 0 };
	submit_done *done = sub->done;
	void *done_data = sub->done_data;
	make_answer(sub, what, &answer);
	bool is_doubtful = what->result < 0 && what->result != -EINVAL && !sub->unfit;
	if (is_doubtful)
		strv_add(&s->doubtful, sub->id);
	FAULT_PHASE("serve-entered");
	sub->done = NULL;
	if (what->result > 0) {
		queue_wait(&s->queue, sub);
		service_counts(s, sub)->submitted++;
		service_tell(s, &(struct service_change){ .id = submission_shown(sub),
							  .state = "queued",
							  .submitter = service_submitter(s, sub),
							  .what = "submitted" });
		service_poke(s);
	} else {
		if (!is_doubtful) /* which may be there after all: then its values are needed */
			submission_drop_secrets(s->config, sub);
		queue_drop(&s->queue, sub, clock_monotonic_ns());
	}
	if (done)
		done(done_data, &answer);
}

static int check_room(struct service *s, size_t submitter, struct err *err)
{
	const struct submitter_load *load = &s->queue.loads[submitter];
	uint64_t most = s->config->service.max_queued_per_submitter;
	if (most && load->waiting >= most)
		return err_set(err, ERR_CALLER, EDQUOT,
			       "%s has %zu waiting, and may not have more than %llu",
			       s->queue.submitter_names[submitter], load->waiting,
			       (unsigned long long)most);
	if (load->bytes >= WAITING_BYTES)
		return err_set(err, ERR_CALLER, EDQUOT, "what %s has waiting takes %zu MiB",
			       s->queue.submitter_names[submitter], load->bytes >> 20);
	return 0;
}

/* The same once more, before the first one is durable: the ledger tells which of them it is. */
static bool is_own_again(const struct submission *other, const struct submission *sub,
			 size_t submitter)
{
	return other->state == SUBMISSION_ENTERING && other->job.submitter == submitter &&
	       sub->key && str_eq(other->key, sub->key);
}

/* 1 if something of its id is there, and it has a key: what that has made already the ledger knows. */
static int check_id(const struct service *s, const struct submission *sub, size_t submitter,
		    struct err *err)
{
	static const char *const places[] = { "runs", "active", "pipelines" };
	const struct submission *other = sub->is_resume ? queue_find_shown(&s->queue, sub->run)
							: NULL;
	if (other && (!sub->key || !str_eq(other->key, sub->key)))
		return err_set(err, ERR_CALLER, EBUSY, "the pipeline '%s' waits or runs already",
			       sub->run);
	const struct submission *same = queue_find(&s->queue, sub->id);
	bool is_taken = same && !is_own_again(same, sub, submitter);
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		CLEANUP_FREE char *path =
			xasprintf("%s/%s/%s", s->config->home, places[i], sub->id);
		is_taken = is_taken || faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	}
	if (!is_taken)
		return 0;
	int r = err_set(err, ERR_CALLER, EEXIST, "the id '%s' is taken; choose another", sub->id);
	return sub->key ? 1 : r;
}

static int check_ready(const struct service *s, struct err *err)
{
	if (s->is_draining)
		return err_set(err, ERR_HOST, ESHUTDOWN, "the service is about to end");
	if (!s->is_loaded)
		return err_set(err, ERR_HOST, EAGAIN, "the ledger can't be reached%s%s",
			       store_trouble(s->store) ? ": " : " yet",
			       store_trouble(s->store) ? store_trouble(s->store) : "");
	return 0;
}

static void enter(struct service *s, struct submission *sub)
{
	CLEANUP_STORE_ROW struct store_row row = { 0 };
	submission_row(sub, service_submitter(s, sub),
		       &(struct submission_end){ .state = "queued" }, &row);
	row.v[SUBMISSION_KEY] = sub->key ? xstrdup(sub->key) : NULL;
	row.v[SUBMISSION_BODY] = xstrdup(sub->body);
	row.v[SUBMISSION_ANALYSIS] = xstrdup(sub->analysis);
	if (sub->unfit)
		store_find(s->store, &row, sub);
	else
		store_enter(s->store, &row, sub);
}

static void set_unfit(struct submission *sub, const struct err *why)
{
	sub->unfit = xcalloc(1, sizeof *sub->unfit);
	*sub->unfit = *why;
}

/* Whatever is wrong with it by now: what its key has made before is what is asked for. */
void door_looked(struct service *s, struct submission *sub, int result, const struct err *err)
{
	if (result < 0) {
		set_unfit(sub, err);
		sub->unfit->code = -result;
	}
	if (result >= 0 || sub->key) {
		enter(s, sub);
		return;
	}
	struct submit_answer answer = { .error = -result, .err = *err };
	submit_done *done = sub->done;
	void *done_data = sub->done_data;
	submission_drop_secrets(s->config, sub);
	queue_drop(&s->queue, sub, clock_monotonic_ns());
	if (done)
		done(done_data, &answer);
	service_check_drained(s);
}

int service_submit(struct service *s, const struct submit_request *q, submit_done *done, void *data,
		   struct err *err)
{
	CLEANUP_SUBMISSION struct submission *sub = NULL;
	int r = check_ready(s, err);
	if (r >= 0)
		r = submission_make(s->config, s->cap, q, &sub, err);
	if (r < 0)
		return r;
	size_t submitter = queue_submitter(&s->queue, s->config, q->who->name);
	r = check_id(s, sub, submitter, err);
	if (r > 0) { /* never looked at, never entered: it is another's, or its own of before */
		set_unfit(sub, err);
		sub->wants_look = false;
	}
	if (r == 0)
		r = names_check(s, sub, submitter, err);
	if (r >= 0)
		r = check_room(s, submitter, err);
	if (r < 0)
		return r;
	sub->service = s;
	sub->job.n = ++s->last_n;
	r = submission_keep_secrets(s->config, sub, err);
	if (r < 0)
		return r;
	sub->done = done;
	sub->done_data = data;
	struct submission *taken = take_ptr(sub);
	queue_add(&s->queue, taken, submitter, clock_monotonic_ns());
	if (taken->wants_look)
		look_next(s);
	else
		enter(s, taken);
	return 0;
}

void service_forget(struct service *s, void *data)
{
	for (size_t i = 0; i < s->queue.entering.n; i++)
		if (s->queue.entering.v[i]->done_data == data)
			s->queue.entering.v[i]->done = NULL;
	for (struct cancelling *c = s->cancelling; c; c = c->next)
		if (c->done_data == data)
			c->done = NULL;
}

void door_settled(void *data, void *tag, int result, const struct err *err)
{
	struct service *s = data;
	struct cancelling *c = tag, **at = &s->cancelling;
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	if (c->done)
		c->done(c->done_data, c->id, result < 0 ? -result : 0, err);
	free(c);
}

/* That it is to end is written too: one whose keeper was never reached is not begun by the next service. */
static void cancel_running(struct service *s, struct submission *sub, void *tag)
{
	CLEANUP_STORE_ROW struct store_row row = { 0 };
	follow_cancel(sub);
	submission_row(sub, service_submitter(s, sub),
		       &(struct submission_end){ .state = "running" }, &row);
	store_settle(s->store, &row, tag);
}

/* A pipeline stays its submitter's, whoever had it resumed. */
static bool is_own(const struct service *s, const struct identity *who,
		   const struct submission *sub)
{
	struct viewer viewer;
	char name[VIEWER_NAME_MAX + 1];
	identity_viewer(who, s->config, &viewer);
	return viewer_owns(&viewer, service_submitter(s, sub)) ||
	       (sub->is_resume && flow_record_submitter(s->config, sub->run, name) >= 0 &&
		viewer_owns(&viewer, name));
}

int service_cancel(struct service *s, const struct identity *who, const char *id, cancel_done *done,
		   void *data, struct err *err)
{
	struct submission *sub = queue_find_shown(&s->queue, id);
	if (!sub || sub->state == SUBMISSION_ENTERING)
		return err_set(err, ERR_CALLER, ESRCH, "nothing of the id '%.64s' waits or runs",
			       id);
	if (!(who->scopes & SCOPE_ADMIN) && !is_own(s, who, sub))
		return err_set(err, ERR_CALLER, EPERM, "'%s' is not %s's to cancel", id, who->name);
	const char *trouble = store_trouble(s->store);
	if (trouble && sub->state == SUBMISSION_WAITING)
		return err_set(err, ERR_HOST, EAGAIN, "the ledger can't be reached: %s", trouble);
	struct cancelling *c = xcalloc(1, sizeof *c);
	*c = (struct cancelling){ .done = done, .done_data = data, .next = s->cancelling };
	(void)snprintf(c->id, sizeof c->id, "%s", id);
	s->cancelling = c;
	if (sub->state == SUBMISSION_WAITING)
		service_withdraw(s, sub, c);
	else
		cancel_running(s, sub, c);
	return 0;
}

void service_watch(struct service *s, service_news *news, void *data)
{
	s->watchers = xreallocarray(s->watchers, s->n_watchers + 1, sizeof *s->watchers);
	s->watchers[s->n_watchers++] = (struct watcher){ news, data };
}
