/* The graph of a crate. Every name and text in it may be hostile: names become percent-encoded URIs, texts JSON strings. */
#include "view/crate.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/hash.h"
#include "view/crate_parts.h"

#define PROFILE "https://w3id.org/ro/wfrun/process/0.5"
#define ROOT_ID "./"

static char *encode(const char *text, const char *plain)
{
	CLEANUP_STR struct str s = { 0 };
	for (const char *c = text; *c; c++)
		if (strchr(plain, *c))
			str_add_n(&s, c, 1);
		else
			str_addf(&s, "%%%02X", (unsigned char)*c);
	str_add(&s, "");
	return str_take(&s);
}

#define UNRESERVED "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"

char *crate_uri(const char *path)
{
	return encode(path, UNRESERVED "/");
}

char *crate_fragment(const char *name)
{
	return encode(name, UNRESERVED);
}

json_t *crate_ref(const char *id)
{
	return json_pack("{s:o}", "@id", json_text(id));
}

void crate_release(struct crate *c)
{
	json_decrefp(&c->index);
	json_decrefp(&c->copies);
}

json_t *crate_entity(struct crate *c, const char *id, const char *type)
{
	json_t *e = json_pack("{s:o,s:s}", "@id", json_text(id), "@type", type);
	json_array_append_new(c->graph, e);
	if (!c->index)
		c->index = json_object();
	json_object_set_nocheck(c->index, id, e);
	return e;
}

json_t *crate_find(const struct crate *c, const char *id)
{
	return json_object_get(c->index, id);
}

void crate_add_ref(json_t *entity, const char *key, const char *id)
{
	json_t *list = json_object_get(entity, key);
	if (!list) {
		list = json_array();
		json_object_set_new(entity, key, list);
	}
	json_array_append_new(list, crate_ref(id));
}

void crate_add_once(json_t *entity, const char *key, const char *id)
{
	size_t i;
	json_t *there;
	json_array_foreach(json_object_get(entity, key), i, there)
	{
		if (str_eq(dossier_text(there, "@id"), id))
			return;
	}
	crate_add_ref(entity, key, id);
}

void crate_set(json_t *entity, const char *key, const char *text)
{
	if (text[0])
		json_object_set_new(entity, key, json_text(text));
}

/* Where there are many runs a value is one entity for all that have it. */
static char *value_id(const struct crate *c, const struct crate_value *v)
{
	char hex[HASH_HEX];
	if (!c->is_shared)
		return xstrdup(v->id);
	CLEANUP_FREE char *text = xasprintf("%s\n%s\n%s\n%s\n%s", v->name, v->term ? v->term : "",
					    v->unit ? v->unit : "", v->of ? v->of : "", v->value);
	hash_bytes(text, strlen(text), hex);
	return xasprintf("%s/%.16s", v->id, hex);
}

void crate_add_value(struct crate *c, json_t *entity, const char *key,
		     const struct crate_value *value)
{
	CLEANUP_FREE char *id = value_id(c, value);
	crate_add_ref(entity, key, id);
	if (crate_find(c, id))
		return;
	json_t *e = crate_entity(c, id, "PropertyValue");
	crate_set(e, "name", value->name);
	if (value->term)
		json_object_set_new(e, "propertyID", json_sprintf(CRATE_TERMS "%s", value->term));
	if (value->unit)
		json_object_set_new(e, "unitCode",
				    json_sprintf("https://qudt.org/vocab/unit/%s", value->unit));
	if (value->of)
		json_object_set_new(e, "exampleOfWork", crate_ref(value->of));
	json_object_set_new(e, "value", json_text(value->value));
}

json_t *crate_document(json_t *graph)
{
	static const char *const terms[] = {
		"limit",       "exitInfo",         "runtimeFingerprint",
		"runtimeKind", "runtimeSelection", "missingLayers",
		"quest",       "executor",         "chainHead",
		"taskKey",     "stepState"
	};
	json_t *own = json_object();
	for (size_t i = 0; i < sizeof terms / sizeof *terms; i++)
		json_object_set_new(own, terms[i], json_sprintf(CRATE_TERMS "%s", terms[i]));
	json_t *context = json_pack("[s,s,o]", "https://w3id.org/ro/crate/1.1/context",
				    "https://w3id.org/ro/terms/workflow-run/context", own);
	return json_pack("{s:o,s:o}", "@context", context, "@graph", graph);
}

void crate_set_time(json_t *entity, const char *key, const char *time)
{
	size_t length = strlen(time);
	if (length && time[length - 1] == 'Z')
		json_object_set_new(entity, key, json_sprintf("%.*s+00:00", (int)length - 1, time));
}

void crate_set_status(json_t *entity, bool is_ok, const char *error)
{
	json_object_set_new(entity, "actionStatus",
			    json_string(is_ok ? "http://schema.org/CompletedActionStatus"
					      : "http://schema.org/FailedActionStatus"));
	if (!is_ok)
		crate_set(entity, "error", error);
}

/* A label `license` names one, by its SPDX name or a URI. A crate must have one: that nobody has stated any is said too. */
static void add_license(struct crate *c, json_t *root, const json_t *labels)
{
	const char *said = dossier_text(labels, "license");
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

json_t *crate_begin(struct crate *c, const struct crate_root *r)
{
	json_t *descriptor = crate_entity(c, CRATE_METADATA, "CreativeWork");
	json_object_set_new(descriptor, "conformsTo", crate_ref("https://w3id.org/ro/crate/1.1"));
	json_object_set_new(descriptor, "about", crate_ref(ROOT_ID));
	json_t *root = crate_entity(c, ROOT_ID, "Dataset");
	crate_set(root, "name", r->name);
	crate_set(root, "identifier", r->id);
	crate_set(root, "description", r->description);
	crate_set_time(root, "datePublished", r->ended);
	crate_set(root, "quest", r->quest);
	add_license(c, root, r->labels);
	c->parts = json_array();
	c->mentions = json_array();
	json_object_set_new(root, "hasPart", c->parts);
	json_object_set_new(root, "author", crate_ref("#caller"));
	json_object_set_new(root, "mentions", c->mentions);
	if (c->files->with != CRATE_IN_PLACE) {
		json_t *preview = crate_entity(c, CRATE_PREVIEW, "CreativeWork");
		crate_set(preview, "name", "report of the run");
		json_object_set_new(preview, "about", crate_ref(ROOT_ID));
	}
	return root;
}

void crate_profile(struct crate *c, json_t *root, const char *id, const char *name,
		   const char *version)
{
	json_t *profile = crate_entity(c, id, "CreativeWork");
	crate_set(profile, "name", name);
	crate_set(profile, "version", version);
	crate_add_ref(root, "conformsTo", id);
}

void crate_agents(struct crate *c, const char *caller)
{
	json_t *person = crate_entity(c, "#caller", "Person");
	crate_set(person, "name", caller);
	json_t *cupel = crate_entity(c, "#cupel", "SoftwareApplication");
	crate_set(cupel, "name", "cupel");
	crate_set(cupel, "softwareVersion", c->cupel);
}

static void add_action(struct crate *c)
{
	const struct dossier *d = c->d;
	const char *notes = dossier_text(d->verdict, "completion_notes");
	CLEANUP_FREE char *argv = json_dumps(json_object_get(d->plan, "argv"), JSON_COMPACT);
	json_object_set_new(c->action, "name",
			    c->step ? json_sprintf("run %s of step %s", d->id, c->step->name)
				    : json_sprintf("run %s", d->id));
	if (argv)
		json_object_set_new(c->action, "description", json_sprintf("argv=%s", argv));
	else
		crate_set(c->action, "description", notes);
	crate_set_time(c->action, "startTime", dossier_began(d));
	crate_set_time(c->action, "endTime", dossier_ended(d));
	json_object_set_new(c->action, "agent", crate_ref("#caller"));
	json_object_set_new(c->action, "executor", crate_ref("#cupel"));
	/* One that saved its state did not complete; and one of which nothing is said counts as completed, by the profile. */
	crate_set_status(c->action, str_eq(dossier_text(d->verdict, "cause"), "ok"), notes);
}

/* A copy is known by where it was taken, and by what it was there: runs may have been shown different files of one name. */
static void note_copy(struct crate *c, const struct crate_file *f, const char *id)
{
	if (!c->copies)
		c->copies = json_object();
	for (int i = 0; i < 2; i++) {
		CLEANUP_FREE char *key = xasprintf("%s\n%s", f->source, i ? f->sha256 : "");
		json_object_set_new_nocheck(c->copies, key, json_text(id));
	}
}

json_t *crate_add_file(struct crate *c, const struct crate_file *f)
{
	CLEANUP_FREE char *id = crate_uri(f->path);
	json_t *e = crate_find(c, id);
	if (f->source)
		note_copy(c, f, id);
	if (e)
		return e;
	e = crate_entity(c, id, "File");
	crate_set(e, "name", f->name);
	json_object_set_new(e, "contentSize", json_sprintf("%llu", (unsigned long long)f->size));
	crate_set(e, "sha256", f->sha256);
	crate_set(e, "encodingFormat", f->media_type ? f->media_type : "");
	json_array_append_new(c->parts, crate_ref(id));
	return e;
}

static void add_output(struct crate *c, const struct crate_file *f, json_t *e)
{
	const char *id = dossier_text(e, "@id");
	json_array_append_new(json_object_get(c->action, "result"), crate_ref(id));
	if (!c->step)
		return;
	const char *slot = crate_output_slot(c, f->name);
	crate_fill_slot(c, c->step->tool, SLOT_OUTPUT, slot, e);
	json_array_append_new(c->step->outs, json_pack("{s:o,s:o}", "@id", json_text(id), "slot",
						       json_sprintf("%s/%s", c->step->name, slot)));
	json_object_set_new_nocheck(c->step->made, f->sha256, json_text(id));
}

static void add_files(struct crate *c)
{
	json_t *about = json_array();
	const char *action = dossier_text(c->action, "@id");
	json_object_set_new(c->action, "result", json_array());
	json_object_set_new(c->action, "subjectOf", about);
	for (size_t i = c->first; i < c->files->n; i++) {
		const struct crate_file *f = &c->files->v[i];
		json_t *e = crate_add_file(c, f);
		if (f->role == CRATE_OUTPUT)
			add_output(c, f, e);
		if (f->role == CRATE_LOG || f->role == CRATE_RECORD) {
			json_object_set_new(e, "about", crate_ref(action));
			json_array_append_new(about, crate_ref(dossier_text(e, "@id")));
		}
	}
}

void crate_run(struct crate *c, const char *action)
{
	json_array_append_new(c->mentions, crate_ref(action));
	c->action = crate_entity(c, action, "CreateAction");
	add_action(c);
	add_files(c);
	crate_tools(c);
	crate_values(c);
}

json_t *crate_json(const struct dossier *d, const struct crate_files *files)
{
	CLEANUP_CRATE struct crate c = { .d = d, .files = files, .graph = json_array() };
	json_t *whole = crate_document(c.graph);
	const json_t *accepted = json_object_get(json_array_get(d->events, 0), "data");
	const char *name = dossier_text(d->analysis, "name");
	CLEANUP_FREE char *otherwise = xasprintf("run %s", d->id);
	CLEANUP_FREE char *action = xasprintf("#run-%s", d->id);
	CLEANUP_FREE char *caller = xasprintf("the user with uid %llu",
					      (unsigned long long)dossier_number(accepted, "uid"));
	struct crate_root r = { d->id,
				name[0] ? name : otherwise,
				dossier_text(d->verdict, "completion_notes"),
				dossier_ended(d),
				dossier_text(d->analysis, "quest"),
				json_object_get(d->analysis, "labels") };
	crate_profile(&c, crate_begin(&c, &r), PROFILE, "Process Run Crate", "0.5");
	c.cupel = dossier_text(accepted, "cupel");
	crate_agents(&c, caller);
	crate_run(&c, action);
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
