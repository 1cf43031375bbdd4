#include "health/verify.h"

#include <stdarg.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "health/verify_parts.h"
#include "ledger/health_record.h"

const char *const verify_part_names[] = {
	"ledger", "chain", "runs", "store", "runtimes", "protect"
};

static void (*const checks[])(struct verifying *v) = { verify_ledger,   verify_chain,
						       verify_runs,     verify_store,
						       verify_runtimes, verify_protect };

void verify_report_release(struct verify_report *r)
{
	json_decrefp(&r->parts);
	json_decrefp(&r->findings);
}

static void verifying_release(struct verifying *v)
{
	json_decrefp(&v->details);
	json_decrefp(&v->notes);
	cleanup_free(&v->summary);
}

void verify_found(struct verifying *v, const struct verify_finding *f, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	CLEANUP_FREE char *what = xvasprintf(format, args);
	va_end(args);
	v->report->problem = true;
	if (v->found++ < VERIFY_NAMED_MAX)
		json_array_append_new(v->report->findings,
				      json_pack("{s:s,s:s,s:o,s:o,s:o}", "part",
						verify_part_names[v->part], "kind", f->kind,
						"where", json_text(f->where), "what",
						json_text(what), "remedy", json_text(f->remedy)));
}

void verify_note(struct verifying *v, const char *text)
{
	json_array_append_new(v->notes, json_text(text));
}

void verify_unchecked(struct verifying *v, const char *text)
{
	v->unchecked = true;
	v->report->unchecked = true;
	verify_note(v, text);
}

void verify_number(struct verifying *v, const char *key, uint64_t value)
{
	json_object_set_new(v->details, key, json_u64(value));
}

void verify_say(struct verifying *v, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	free(v->summary);
	v->summary = xvasprintf(format, args);
	va_end(args);
}

/* A home that nobody has made has nothing to be wrong, and nothing is made in it. */
static void keep(const struct verifying *v, const char *status, const json_t *detail)
{
	const struct health_record h = { .kind = "verify",
					 .subject = verify_part_names[v->part],
					 .status = status,
					 .summary = v->summary,
					 .detail = detail };
	const struct config *c = v->q->config;
	if (access(c->home, F_OK) < 0)
		return;
	struct err away = { 0 };
	if (v->report->ledger_is_bad || v->report->ledger_is_away)
		(void)ledger_health_keep(c, &h, &v->report->unkept);
	else
		(void)ledger_health_put(c, &h, &away, &v->report->unkept);
	v->report->ledger_is_away |= away.text[0] != '\0';
}

static void verify_one(const struct verify_request *q, enum verify_part part,
		       struct verify_report *report)
{
	CLEANUP(verifying_release)
	struct verifying v = { .q = q,
			       .report = report,
			       .part = part,
			       .details = json_object(),
			       .notes = json_array() };
	checks[part](&v);
	report->ledger_is_bad |= part == VERIFY_LEDGER && v.found > 0;
	const char *status = v.found ? "problem" : v.unchecked ? "unchecked" : "ok";
	json_object_set_new(v.details, "part", json_string(verify_part_names[part]));
	json_object_set_new(v.details, "status", json_string(status));
	json_object_set_new(v.details, "summary", json_text(v.summary ? v.summary : ""));
	json_object_set_new(v.details, "found", json_u64(v.found));
	json_object_set(v.details, "notes", v.notes);
	json_array_append(report->parts, v.details);
	keep(&v, status, v.details);
}

void verify_run(const struct verify_request *q, struct verify_report *ret)
{
	*ret = (struct verify_report){ .parts = json_array(), .findings = json_array() };
	size_t number = 0, of = (size_t)__builtin_popcount(q->parts & VERIFY_ALL);
	for (unsigned part = 0; part < VERIFY_PART_COUNT_; part++) {
		if (!(q->parts & 1U << part))
			continue;
		number++;
		if (q->viewer && q->viewer->step)
			q->viewer->step(q->viewer->data, verify_part_names[part], number, of);
		verify_one(q, part, ret);
	}
}
