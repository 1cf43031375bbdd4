/* What a case came to. */
#include <stdarg.h>
#include <stdio.h>

#include "conform/parts.h"

const char *const outcome_names[] = {
	[OUTCOME_PASSED] = "passed", [OUTCOME_FAILED] = "failed", [OUTCOME_SKIPPED] = "skipped"
};

__attribute__((format(printf, 3, 0))) static void
note(struct outcome *o, enum outcome_status status, const char *format, va_list args)
{
	if (o->status == OUTCOME_FAILED)
		return;
	o->status = status;
	(void)vsnprintf(o->text, sizeof o->text, format, args);
	str_clean(o->text);
}

bool outcome_fail(struct outcome *o, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	note(o, OUTCOME_FAILED, format, args);
	va_end(args);
	return false;
}

bool outcome_skip(struct outcome *o, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	note(o, OUTCOME_SKIPPED, format, args);
	va_end(args);
	return false;
}

void outcome_remark(struct outcome *o, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	note(o, o->status, format, args);
	va_end(args);
}

void conform_report_release(struct conform_report *r)
{
	strv_release(&r->without);
	r->n = 0;
}

json_t *conform_json(const char *executor, const struct conform_report *r)
{
	json_t *cases = json_array(), *without = json_array();
	for (size_t i = 0; i < r->n; i++) {
		const struct outcome *o = &r->outcomes[i];
		json_array_append_new(
			cases, json_pack("{s:s,s:s,s:s,s:o,s:f}", "case", o->name, "asks",
					 o->summary, "outcome", outcome_names[o->status], "text",
					 json_text(o->text), "wall_s", (double)o->wall_ns / 1e9));
	}
	for (size_t i = 0; i < r->without.n; i++)
		json_array_append_new(without, json_text(r->without.v[i]));
	return json_pack("{s:o,s:o,s:o,s:i,s:i,s:i,s:b,s:o}", "executor", json_text(executor),
			 "capability", capability_json(&r->capability), "without", without,
			 "passed", (int)r->counts[OUTCOME_PASSED], "failed",
			 (int)r->counts[OUTCOME_FAILED], "skipped", (int)r->counts[OUTCOME_SKIPPED],
			 "interrupted", r->is_interrupted, "cases", cases);
}
