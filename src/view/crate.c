/* The graph of a crate. Every name and text in it may be hostile: names become percent-encoded URIs, texts JSON strings. */
#include "view/crate.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "view/crate_parts.h"

#define PROFILE "https://w3id.org/ro/wfrun/process/0.5"
#define ROOT_ID "./"

char *crate_uri(const char *path)
{
	static const char plain[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
	CLEANUP_STR struct str s = { 0 };
	for (const char *c = path; *c; c++)
		if (strchr(plain, *c))
			str_add_n(&s, c, 1);
		else
			str_addf(&s, "%%%02X", (unsigned char)*c);
	str_add(&s, "");
	return str_take(&s);
}

json_t *crate_ref(const char *id)
{
	return json_pack("{s:o}", "@id", json_text(id));
}

json_t *crate_entity(struct crate *c, const char *id, const char *type)
{
	json_t *e = json_pack("{s:o,s:s}", "@id", json_text(id), "@type", type);
	json_array_append_new(c->graph, e);
	return e;
}

void crate_set(json_t *entity, const char *key, const char *text)
{
	if (text[0])
		json_object_set_new(entity, key, json_text(text));
}

void crate_add_value(struct crate *c, json_t *entity, const char *key,
		     const struct crate_value *value)
{
	json_t *e = crate_entity(c, value->id, "PropertyValue");
	crate_set(e, "name", value->name);
	if (value->term)
		json_object_set_new(e, "propertyID", json_sprintf(CRATE_TERMS "%s", value->term));
	if (value->unit)
		json_object_set_new(e, "unitCode",
				    json_sprintf("https://qudt.org/vocab/unit/%s", value->unit));
	json_object_set_new(e, "value", json_text(value->value));
	json_t *list = json_object_get(entity, key);
	if (!list) {
		list = json_array();
		json_object_set_new(entity, key, list);
	}
	json_array_append_new(list, crate_ref(value->id));
}

static json_t *context(void)
{
	static const char *const terms[] = {
		"limit",       "exitInfo",         "runtimeFingerprint",
		"runtimeKind", "runtimeSelection", "missingLayers",
		"quest",       "executor",         "chainHead"
	};
	json_t *own = json_object();
	for (size_t i = 0; i < sizeof terms / sizeof *terms; i++)
		json_object_set_new(own, terms[i], json_sprintf(CRATE_TERMS "%s", terms[i]));
	return json_pack("[s,s,o]", "https://w3id.org/ro/crate/1.1/context",
			 "https://w3id.org/ro/terms/workflow-run/context", own);
}

/* The profile takes no "Z". */
static void set_time(json_t *entity, const char *key, const char *time)
{
	size_t length = strlen(time);
	if (length && time[length - 1] == 'Z')
		json_object_set_new(entity, key, json_sprintf("%.*s+00:00", (int)length - 1, time));
}

/* A label `license` names one, by its SPDX name or a URI. A crate must have one: that nobody has stated any is said too. */
static void add_license(struct crate *c, json_t *root)
{
	const char *said = dossier_text(json_object_get(c->d->analysis, "labels"), "license");
	CLEANUP_FREE char *safe = crate_uri(said);
	CLEANUP_FREE char *id = !said[0] ? xstrdup("#license")
				: strstr(said, "://")
					? xstrdup(said)
					: xasprintf("https://spdx.org/licenses/%s", safe);
	json_t *e = crate_entity(c, id, "CreativeWork");
	crate_set(e, "name", said[0] ? said : "no licence stated");
	crate_set(
		e, "description",
		said[0] ? "the licence that the analysis names in its label 'license'"
			: "Nobody has stated under which terms this may be used; ask whoever gave "
			  "it to you.");
	json_object_set_new(root, "license", crate_ref(id));
}

static void add_root(struct crate *c)
{
	const struct dossier *d = c->d;
	json_t *descriptor = crate_entity(c, CRATE_METADATA, "CreativeWork");
	json_object_set_new(descriptor, "conformsTo", crate_ref("https://w3id.org/ro/crate/1.1"));
	json_object_set_new(descriptor, "about", crate_ref(ROOT_ID));
	json_t *root = crate_entity(c, ROOT_ID, "Dataset");
	const char *name = dossier_text(d->analysis, "name");
	json_object_set_new(root, "name",
			    name[0] ? json_text(name) : json_sprintf("run %s", d->id));
	crate_set(root, "identifier", d->id);
	crate_set(root, "description", dossier_text(d->verdict, "completion_notes"));
	set_time(root, "datePublished", dossier_ended(d));
	crate_set(root, "quest", dossier_text(d->analysis, "quest"));
	add_license(c, root);
	json_object_set_new(root, "conformsTo", crate_ref(PROFILE));
	c->parts = json_array();
	json_object_set_new(root, "hasPart", c->parts);
	json_object_set_new(root, "author", crate_ref("#caller"));
	CLEANUP_FREE char *action = xasprintf("#run-%s", d->id);
	json_object_set_new(root, "mentions", crate_ref(action));
	json_t *profile = crate_entity(c, PROFILE, "CreativeWork");
	crate_set(profile, "name", "Process Run Crate");
	crate_set(profile, "version", "0.5");
	if (c->files->with != CRATE_IN_PLACE) {
		json_t *preview = crate_entity(c, CRATE_PREVIEW, "CreativeWork");
		crate_set(preview, "name", "report of the run");
		json_object_set_new(preview, "about", crate_ref(ROOT_ID));
	}
	c->action = crate_entity(c, action, "CreateAction");
}

static void add_agents(struct crate *c)
{
	const json_t *accepted = json_object_get(json_array_get(c->d->events, 0), "data");
	json_t *caller = crate_entity(c, "#caller", "Person");
	json_object_set_new(caller, "name",
			    json_sprintf("the user with uid %llu",
					 (unsigned long long)dossier_number(accepted, "uid")));
	json_t *cupel = crate_entity(c, "#cupel", "SoftwareApplication");
	crate_set(cupel, "name", "cupel");
	crate_set(cupel, "softwareVersion", dossier_text(accepted, "cupel"));
	json_object_set_new(c->action, "agent", crate_ref("#caller"));
	json_object_set_new(c->action, "executor", crate_ref("#cupel"));
}

static void add_action(struct crate *c)
{
	const struct dossier *d = c->d;
	const char *notes = dossier_text(d->verdict, "completion_notes");
	bool is_ok = str_eq(dossier_text(d->verdict, "cause"), "ok");
	CLEANUP_FREE char *argv = json_dumps(json_object_get(d->plan, "argv"), JSON_COMPACT);
	json_object_set_new(c->action, "name", json_sprintf("run %s", d->id));
	if (argv)
		json_object_set_new(c->action, "description", json_sprintf("argv=%s", argv));
	else
		crate_set(c->action, "description", notes);
	set_time(c->action, "startTime", dossier_began(d));
	set_time(c->action, "endTime", dossier_ended(d));
	/* Neither done nor failed: it is to be run again. */
	if (str_eq(dossier_text(d->verdict, "cause"), "checkpointed"))
		return;
	json_object_set_new(c->action, "actionStatus",
			    json_string(is_ok ? "http://schema.org/CompletedActionStatus"
					      : "http://schema.org/FailedActionStatus"));
	if (!is_ok)
		crate_set(c->action, "error", notes);
}

static void add_files(struct crate *c)
{
	json_t *results = json_array();
	json_t *about = json_array();
	const char *action = dossier_text(c->action, "@id");
	for (size_t i = 0; i < c->files->n; i++) {
		const struct crate_file *f = &c->files->v[i];
		CLEANUP_FREE char *id = crate_uri(f->path);
		json_t *e = crate_entity(c, id, "File");
		crate_set(e, "name", f->name);
		json_object_set_new(e, "contentSize",
				    json_sprintf("%llu", (unsigned long long)f->size));
		crate_set(e, "sha256", f->sha256);
		crate_set(e, "encodingFormat", f->media_type ? f->media_type : "");
		json_array_append_new(c->parts, crate_ref(id));
		if (f->role == CRATE_OUTPUT)
			json_array_append_new(results, crate_ref(id));
		if (f->role == CRATE_LOG || f->role == CRATE_RECORD) {
			json_object_set_new(e, "about", crate_ref(action));
			json_array_append_new(about, crate_ref(id));
		}
	}
	json_object_set_new(c->action, "result", results);
	json_object_set_new(c->action, "subjectOf", about);
}

json_t *crate_json(const struct dossier *d, const struct crate_files *files)
{
	struct crate c = { .d = d, .files = files, .graph = json_array() };
	json_t *whole = json_pack("{s:o,s:o}", "@context", context(), "@graph", c.graph);
	add_root(&c);
	add_agents(&c);
	add_action(&c);
	add_files(&c);
	crate_tools(&c);
	crate_values(&c);
	return whole;
}

int crate_write(const struct config *c, const char *id, struct err *err)
{
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s/" CRATE_METADATA, c->home, id);
	CLEANUP_DOSSIER struct dossier d = DOSSIER_INIT;
	CLEANUP_CRATE_FILES struct crate_files files = { 0 };
	if (access(path, F_OK) == 0)
		return 0;
	int r = dossier_read(c, id, &d, err);
	if (r >= 0)
		r = crate_gather(&d, CRATE_IN_PLACE, &files, err);
	if (r < 0)
		return r;
	CLEANUP_JSON json_t *crate = crate_json(&d, &files);
	CLEANUP_FREE char *text = json_dumps(crate, JSON_INDENT(2));
	CLEANUP_STR struct str line = { 0 };
	if (!text)
		return err_set(err, ERR_HOST, ENOMEM, "write " CRATE_METADATA);
	str_addf(&line, "%s\n", text);
	r = fs_write_new(d.dir_fd, CRATE_METADATA, line.text, line.length, 0644, err);
	return r == -EEXIST ? 0 : r; /* another was quicker */
}
