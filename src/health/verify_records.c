/* The ledger by its own means, the chain of events, and the run directories against the ledger. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "health/audit.h"
#include "health/verify_parts.h"
#include "ledger/chain.h"
#include "ledger/inspect.h"
#include "ledger/ledger.h"
#include "spec/id.h"

#define REBUILD "cupel ledger rebuild"

static bool is_postgres(const struct config *c)
{
	return c->ledger_url && !str_starts(c->ledger_url, "sqlite:");
}

/* A file of its own is made again from the runs; a server's tables and indexes are its administrator's first. */
static void on_fault(void *data, enum inspect_kind kind, const char *where, const char *text)
{
	struct verifying *v = data;
	if (kind == INSPECT_NOTE) {
		verify_note(v, text);
		return;
	}
	CLEANUP_FREE char *reindex = is_postgres(v->q->config)
					     ? xasprintf("reindexdb --schema=cupel; then " REBUILD)
					     : xstrdup(REBUILD);
	verify_found(v, &(struct verify_finding){ "damaged", where, reindex }, "%s", text);
}

/* Whether a run of this home was ever complete, and so is owed to a ledger. */
static bool has_runs(const struct config *c)
{
	CLEANUP_STRV struct strv ids = { 0 };
	return id_list(c->home, "runs", &ids, NULL) >= 0 && ids.n > 0;
}

void verify_ledger(struct verifying *v)
{
	const struct config *c = v->q->config;
	CLEANUP_FREE char *where = config_ledger_shown(c);
	struct err err = { 0 };
	enum inspect_depth depth = v->q->quick ? INSPECT_QUICK : INSPECT_FULL;
	int r = ledger_inspect(c, depth, on_fault, v, &err);
	/* The first runs of a home may still be on their way to it. */
	struct ledger_delivery d = { 0 };
	if (r == -ENOENT && has_runs(c) && ledger_deliver(c, LEDGER_WAIT, &d, &err) >= 0)
		r = ledger_inspect(c, depth, on_fault, v, &err);
	if (r == -ENOENT && has_runs(c)) {
		verify_found(v, &(struct verify_finding){ "missing", where, REBUILD },
			     "the ledger is not there, but there are runs");
	} else if (r < 0 && r != -ENOENT) {
		verify_unchecked(v, err.text);
	}
	verify_say(v, "%s%s: %s", where, v->q->quick ? ", quick" : "",
		   v->found       ? "damaged"
		   : v->unchecked ? "could not be looked at"
		   : r == -ENOENT ? "not there yet"
				  : "whole");
}

/* Of a run whose directory is gone, or NULL: `command` acknowledges that somebody meant it. Owned by the caller. */
static char *remedy_of_gone(const struct verifying *v, const char *run, const char *command)
{
	CLEANUP_FREE char *directory = xasprintf("%s/runs/%s", v->q->config->home, run);
	if (access(directory, F_OK) == 0 || errno != ENOENT)
		return NULL;
	return xasprintf("restore %s from a backup; if it was removed on purpose: %s", directory,
			 command);
}

static void name_link(struct verifying *v, const json_t *link)
{
	const char *run = json_string_value(json_object_get(link, "run"));
	const char *file = json_string_value(json_object_get(link, "file"));
	const char *reason = json_string_value(json_object_get(link, "reason"));
	const json_t *line = json_object_get(link, "line");
	bool is_beside = !run || str_eq(file, CHAIN_FILE);             /* about several runs */
	bool is_of_run = run && (!is_beside || json_is_integer(line)); /* the chain is right */
	CLEANUP_FREE char *place = xasprintf("%s/%s%s%s%s", v->q->config->home,
					     is_beside ? "" : "runs/", is_beside ? "" : run,
					     is_beside ? "" : "/", file ? file : "?");
	CLEANUP_FREE char *where =
		json_is_integer(line)
			? xasprintf("%s:%lld", place, (long long)json_integer_value(line))
			: xstrdup(place);
	CLEANUP_FREE char *removed = xasprintf("cupel audit removed %s", run ? run : "");
	CLEANUP_FREE char *gone = is_beside && run ? remedy_of_gone(v, run, removed) : NULL;
	CLEANUP_FREE char *remedy =
		gone ? take_ptr(gone)
		: is_of_run
			? xasprintf("restore %s/runs/%s from a backup", v->q->config->home, run)
			: xasprintf("restore %s from a backup; man cupel-audit tells more", place);
	verify_found(v, &(struct verify_finding){ "chain", where, remedy }, "%s",
		     reason ? reason : "?");
}

void verify_chain(struct verifying *v)
{
	CLEANUP_AUDIT_REPORT struct audit_report report = { 0 };
	struct err err = { 0 };
	size_t i;
	const json_t *link;
	int r = audit_verify(v->q->config, NULL, v->q->deep ? AUDIT_OUTPUTS : AUDIT_RECORDS,
			     &report, &err);
	if (r < 0) {
		verify_unchecked(v, err.text);
		verify_say(v, "could not be followed: %s", err.text);
		return;
	}
	json_array_foreach(report.links, i, link)
	{
		name_link(v, link);
	}
	if (report.uncompared) {
		CLEANUP_FREE char *note = xasprintf(
			"the chain of runs was not held against the ledger: %s", report.uncompared);
		verify_note(v, note);
	}
	v->found = report.broken; /* all of them, not only those that are named */
	verify_number(v, "runs", report.runs);
	verify_number(v, "events", report.events);
	verify_number(v, "files", report.files);
	verify_say(v, "%llu runs, %llu events, %llu files: %llu broken",
		   (unsigned long long)report.runs, (unsigned long long)report.events,
		   (unsigned long long)report.files, (unsigned long long)report.broken);
}

/* "ID: what", as ledger_check names them. */
static void name_run(struct verifying *v, const char *text)
{
	const char *colon = strstr(text, ": ");
	CLEANUP_FREE char *id = colon ? xstrndup(text, (size_t)(colon - text)) : xstrdup(text);
	CLEANUP_FREE char *where = xasprintf("%s/runs/%s", v->q->config->home, id);
	CLEANUP_FREE char *gone = remedy_of_gone(v, id, REBUILD);
	verify_found(v, &(struct verify_finding){ "ledger-differs", where, gone ? gone : REBUILD },
		     "%s", colon ? colon + 2 : "");
}

/* What is owed is no fault of the ledger: it is delivered first, as a command that runs something would see to. */
void verify_runs(struct verifying *v)
{
	const struct config *c = v->q->config;
	CLEANUP_LEDGER_AUDIT struct ledger_audit a = { 0 };
	struct ledger_delivery d = { 0 };
	struct err err = { 0 };
	if (!has_runs(c)) {
		verify_say(v, "no runs yet");
		return;
	}
	int r = v->report->ledger_is_bad
			? err_set(&err, ERR_HOST, EBADMSG, "the ledger is damaged; first: " REBUILD)
			: ledger_deliver(c, LEDGER_WAIT, &d, &err);
	if (r >= 0)
		r = ledger_check(c, &a, &err);
	if (r < 0) {
		verify_unchecked(v, err.text);
		verify_say(v, "could not be compared with the ledger: %s", err.text);
		return;
	}
	for (size_t i = 0; i < a.names.n; i++)
		name_run(v, a.names.v[i]);
	if (a.totals)
		verify_found(v, &(struct verify_finding){ "ledger-differs", "sums", REBUILD },
			     "%llu sums are not what their runs add up to",
			     (unsigned long long)a.totals);
	v->found = a.missing + a.different + a.extra + a.unreadable + a.totals;
	verify_number(v, "runs", a.runs);
	verify_number(v, "missing", a.missing);
	verify_number(v, "different", a.different);
	verify_number(v, "extra", a.extra);
	verify_number(v, "unreadable", a.unreadable);
	verify_say(v, "%llu runs: %llu not as the ledger has them", (unsigned long long)a.runs,
		   (unsigned long long)v->found);
}
