#include "health/protection.h"

#include <errno.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "ledger/health_record.h"
#include "spec/dburl.h"

static json_t *first_of(const struct drifts *d)
{
	CLEANUP_JSON json_t *all = drifts_json(d);
	json_t *first = json_array();
	for (size_t i = 0; i < d->n && i < PROTECTION_NAMED_MAX; i++)
		json_array_append(first, json_array_get(json_object_get(all, "drifts"), i));
	return first;
}

static void set_text(json_t *o, const char *key, const char *text)
{
	json_object_set_new(o, key, text ? json_text(text) : json_null());
}

static const json_t *find_record(const json_t *records, const char *shown)
{
	size_t i;
	const json_t *one;
	json_array_foreach(records, i, one)
	{
		if (str_eq(json_string_value(json_object_get(one, "kind")), "protect") &&
		    str_eq(json_string_value(json_object_get(one, "subject")), shown))
			return one;
	}
	return NULL;
}

/* The runs that were alive when a run last saw it change. The keeper's record has them until this check replaces it; a check
 * passes them on to the next, until the state is accepted or is right again. */
static json_t *runs_of_change(const struct config *c, const char *shown)
{
	CLEANUP_JSON json_t *records = NULL;
	if (ledger_health_list(c, &records, NULL) < 0)
		return json_array();
	const json_t *last = find_record(records, shown);
	json_t *runs = json_object_get(json_object_get(last, "detail"), "runs");
	bool is_changed = str_eq(json_string_value(json_object_get(last, "status")), "changed");
	return is_changed && json_is_array(runs) ? json_incref(runs) : json_array();
}

/* What was seen, against what was accepted. */
static int compare(const struct protect_look *q, const struct protect_baseline *b,
		   struct protect_state *now, struct drifts *ret, struct err *err)
{
	CLEANUP_PROTECT_STATE struct protect_state *then = NULL;
	int r = protect_baseline_state(b, q->what, &then, err);
	if (r >= 0)
		protect_compare(then, now, q->depth, ret);
	return r;
}

static const char *judge(const struct protect_look *q, json_t *o, struct err *why)
{
	CLEANUP_PROTECT_BASELINE struct protect_baseline b = { 0 };
	CLEANUP_PROTECT_STATE struct protect_state *now = NULL;
	CLEANUP_DRIFTS struct drifts d = { 0 };
	int r = protect_baseline_read(q->config, q->what, &b, why);
	set_text(o, "accepted", b.time);
	set_text(o, "accepted_by", b.by);
	if (r >= 0 && !b.exists) {
		(void)err_set(why, ERR_HOST, ENOENT, "it was never accepted");
		return "new";
	}
	if (r >= 0)
		r = protect_look(q, &now, why);
	if (r < 0)
		return "unchecked";
	set_text(o, "kind", protect_kind(now));
	json_object_set_new(o, "files", json_u64(protect_files(now)));
	if (q->depth == DEPTH_STAT && protect_same(&b, now) && !protect_needs_reading(now))
		return "ok";
	if (compare(q, &b, now, &d, why) < 0)
		return "unchecked";
	json_object_set_new(o, "changes", json_u64(d.n_all));
	json_object_set_new(o, "first", first_of(&d));
	return d.n_all ? "changed" : "ok";
}

static int remember(const struct config *c, const char *shown, const json_t *o, struct err *err)
{
	const char *status = json_string_value(json_object_get(o, "status"));
	const json_t *error = json_object_get(o, "error");
	const json_t *first = json_array_get(json_object_get(o, "first"), 0);
	const char *what = json_string_value(json_object_get(first, "what"));
	long long changes = json_integer_value(json_object_get(o, "changes"));
	const char *run = json_string_value(json_array_get(json_object_get(o, "runs"), 0));
	CLEANUP_FREE char *summary =
		json_is_string(error)
			? xstrdup(json_string_value(error))
			: xasprintf("%lld change%s%s%s%s%s", changes, changes == 1 ? "" : "s",
				    what ? ", first: " : "", what ? what : "",
				    run ? "; last seen while this ran: " : "", run ? run : "");
	const struct health_record h = { .kind = "protect",
					 .subject = shown,
					 .status = status,
					 .summary = summary,
					 .detail = o };
	return access(c->home, F_OK) < 0 ? 0 : ledger_health_put(c, &h, NULL, err);
}

static json_t *answer_new(const char *shown)
{
	return json_pack("{s:o,s:n,s:n,s:n,s:n,s:i,s:i,s:[],s:[],s:n,s:n}", "what",
			 json_text(shown), "kind", "status", "accepted", "accepted_by", "files", 0,
			 "changes", 0, "first", "runs", "error", "remedy");
}

int protection_check(const struct protect_look *q, json_t **ret, struct err *err)
{
	CLEANUP_FREE char *shown = dburl_shown(q->what);
	CLEANUP_FREE char *accept = xasprintf("cupel protect accept '%s'", shown);
	CLEANUP_JSON json_t *o = answer_new(shown);
	struct err why = { 0 };
	const char *status = judge(q, o, &why);
	set_text(o, "status", status);
	set_text(o, "error", why.text[0] ? why.text : NULL);
	if (!str_eq(status, "ok") && !str_eq(status, "unchecked"))
		set_text(o, "remedy", accept);
	if (str_eq(status, "changed"))
		json_object_set_new(o, "runs", runs_of_change(q->config, shown));
	int r = remember(q->config, shown, o, err);
	if (r >= 0)
		*ret = take_ptr(o);
	return r;
}

int protection_accept(const struct protect_look *q, json_t **ret, struct err *err)
{
	CLEANUP_PROTECT_BASELINE struct protect_baseline b = { 0 };
	CLEANUP_PROTECT_STATE struct protect_state *now = NULL;
	CLEANUP_DRIFTS struct drifts d = { 0 };
	CLEANUP_FREE char *shown = dburl_shown(q->what);
	CLEANUP_JSON json_t *o = answer_new(shown);
	struct protect_look deep = *q;
	deep.depth = DEPTH_CONTENT;
	int r = protect_look(&deep, &now, err);
	if (r < 0)
		return r;
	if (protect_baseline_read(q->config, q->what, &b, NULL) >= 0 && b.exists)
		(void)compare(&deep, &b, now, &d, NULL); /* a damaged one is replaced */
	r = protect_baseline_write(q->config, now, NULL, err);
	if (r < 0)
		return r;
	protect_baseline_release(&b);
	(void)protect_baseline_read(q->config, q->what, &b, NULL);
	set_text(o, "kind", protect_kind(now));
	set_text(o, "status", "ok");
	set_text(o, "accepted", b.time);
	json_object_set_new(o, "files", json_u64(protect_files(now)));
	json_object_set_new(o, "changes", json_u64(d.n_all));
	json_object_set_new(o, "first", first_of(&d));
	r = remember(q->config, shown, o, err);
	if (r >= 0)
		*ret = take_ptr(o);
	return r;
}

int protection_status(const struct config *c, const char *what, json_t **ret, struct err *err)
{
	CLEANUP_PROTECT_BASELINE struct protect_baseline b = { 0 };
	CLEANUP_JSON json_t *records = NULL;
	CLEANUP_FREE char *shown = dburl_shown(what);
	int r = protect_baseline_read(c, what, &b, err);
	if (r >= 0)
		r = ledger_health_list(c, &records, err);
	if (r < 0)
		return r;
	const json_t *last = find_record(records, shown);
	const char *status = json_string_value(json_object_get(last, "status"));
	json_t *o = json_pack("{s:o,s:o}", "what", json_text(shown), "files", json_u64(b.files));
	set_text(o, "accepted", b.time);
	set_text(o, "accepted_by", b.by);
	set_text(o, "checked", json_string_value(json_object_get(last, "time")));
	set_text(o, "status", status ? status : b.exists ? "ok" : "new");
	set_text(o, "summary", json_string_value(json_object_get(last, "summary")));
	*ret = o;
	return 0;
}
