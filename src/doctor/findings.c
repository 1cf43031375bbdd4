/* Findings: kept, told apart into evidence and remedy, and summed up. */
#include <assert.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "doctor/parts.h"

const char *const finding_status_names[] = { "ok", "note", "unknown", "weak", "missing" };

void diagnosis_release(struct diagnosis *d)
{
	for (size_t i = 0; i < d->n; i++) {
		free(d->v[i].evidence);
		free(d->v[i].remedy);
	}
	free(d->missing);
	free(d->summary);
	*d = (struct diagnosis){ 0 };
}

struct finding *finding_add(struct diagnosis *d, const char *group, const char *name)
{
	assert(d->n < FINDINGS_MAX);
	struct finding *f = &d->v[d->n++];
	*f = (struct finding){ .group = group, .name = name, .status = FINDING_UNKNOWN };
	return f;
}

struct finding *finding_find(struct diagnosis *d, const char *name)
{
	for (size_t i = 0; i < d->n; i++)
		if (str_eq(d->v[i].name, name))
			return &d->v[i];
	return NULL;
}

__attribute__((format(printf, 2, 0))) static void put(char **where, const char *format,
						      va_list args)
{
	free(*where);
	*where = xvasprintf(format, args);
	str_clean(*where);
}

void finding_is(struct finding *f, enum finding_status status, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	put(&f->evidence, format, args);
	va_end(args);
	f->status = status;
}

void finding_remedy(struct finding *f, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	put(&f->remedy, format, args);
	va_end(args);
}

void finding_root_remedy(struct finding *f, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	put(&f->remedy, format, args);
	va_end(args);
	f->remedy_as_root = true;
}

void finding_refused(struct finding *f, const char *text)
{
	const char *remedy = strstr(text, "Remedy");
	const char *colon = remedy ? strstr(remedy, ": ") : NULL;
	if (!colon) { /* "WHAT; DO" */
		remedy = strstr(text, "; ");
		colon = remedy;
	}
	finding_is(f, FINDING_MISSING, "%.*s", remedy ? (int)(remedy - text) : (int)strlen(text),
		   text);
	for (size_t n = strlen(f->evidence); n && strchr(". ", f->evidence[n - 1]); n--)
		f->evidence[n - 1] = '\0';
	if (!colon)
		return;
	/* "Remedy, as root: DO", "Remedy: as root: DO" */
	f->remedy_as_root = remedy < colon && str_starts(remedy + sizeof "Remedy, " - 1, "as root");
	const char *what = colon + 2;
	finding_remedy(f, "%s",
		       str_starts(what, "as root: ") ? what + sizeof "as root: " - 1 : what);
	char *end = strstr(f->remedy, ", or allow it to be missing");
	if (end)
		*end = '\0';
}

enum finding_status diagnosis_status(const struct diagnosis *d)
{
	enum finding_status worst = FINDING_OK;
	for (size_t i = 0; i < d->n; i++)
		if (d->v[i].status > worst && d->v[i].status != FINDING_NOTE)
			worst = d->v[i].status;
	return worst;
}

json_t *diagnosis_json(const struct diagnosis *d)
{
	json_t *checks = json_array();
	for (size_t i = 0; i < d->n; i++) {
		const struct finding *f = &d->v[i];
		json_array_append_new(
			checks,
			json_pack("{s:s,s:s,s:s,s:o,s:o,s:b,s:s?}", "group", f->group, "name",
				  f->name, "status", finding_status_names[f->status], "evidence",
				  json_text(f->evidence ? f->evidence : ""), "remedy",
				  f->remedy ? json_text(f->remedy) : json_null(), "remedy_as_root",
				  f->remedy_as_root, "promise", f->promise));
	}
	return json_pack("{s:s,s:o,s:s,s:o,s:i,s:o}", "status",
			 finding_status_names[diagnosis_status(d)], "summary",
			 json_text(d->summary ? d->summary : ""), "runs",
			 !d->can_run                   ? "none"
			 : d->missing && d->missing[0] ? "weaker"
						       : "full",
			 "missing_layers", json_text(d->missing ? d->missing : ""), "uid",
			 (int)geteuid(), "checks", checks);
}
