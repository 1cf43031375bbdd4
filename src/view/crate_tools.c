/* What was run, in what, and on what: instrument, runtime, code, inputs. */
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/path.h"
#include "view/crate_parts.h"

#define RUNTIME_ID  "#runtime"
#define PROGRAM_ID  "#program"
#define SNAPSHOT_ID "#db-snapshot"

/* One of several has its content in its id: steps that run in the same one share it. Owned by the caller. */
static char *runtime_id(const struct crate *c, const json_t *runtime)
{
	char hex[HASH_HEX];
	if (!c->is_shared)
		return xstrdup(RUNTIME_ID);
	CLEANUP_FREE char *text = json_dumps(runtime, JSON_COMPACT | JSON_SORT_KEYS);
	CLEANUP_FREE char *name = crate_uri(dossier_text(runtime, "name"));
	hash_bytes(text ? text : "", text ? strlen(text) : 0, hex);
	return xasprintf(RUNTIME_ID "/%s/%.16s", name, hex);
}

/* Its id, owned by the caller. */
static char *add_runtime(struct crate *c)
{
	static const char *const texts[][2] = { { "name", "name" },
						{ "softwareVersion", "version" },
						{ "runtimeKind", "kind" },
						{ "identifier", "digest" } };
	const json_t *r = json_object_get(c->d->analysis, "runtime");
	const json_t *selection = json_object_get(r, "selection");
	const char *depth;
	json_t *digest;
	CLEANUP_FREE char *own = runtime_id(c, r);
	if (crate_find(c, own))
		return take_ptr(own);
	json_t *e = crate_entity(c, own, "SoftwareApplication");
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		crate_set(e, texts[i][0], dossier_text(r, texts[i][1]));
	json_object_foreach(json_object_get(r, "fingerprint"), depth, digest)
	{
		CLEANUP_FREE char *safe = crate_uri(depth);
		CLEANUP_FREE char *id = xasprintf("#fingerprint-%s", safe);
		CLEANUP_FREE char *term = xasprintf("fingerprint-%s", safe);
		const char *text = json_string_value(digest);
		crate_add_value(c, e, "runtimeFingerprint",
				&(struct crate_value){ id, depth, term, NULL, text ? text : "" });
	}
	crate_add_value(c, e, "runtimeSelection",
			&(struct crate_value){ "#selection-rule", "rule", "selectionRule", NULL,
					       dossier_text(r, "rule") });
	crate_add_value(c, e, "runtimeSelection",
			&(struct crate_value){ "#selection-why", "why", "selectionWhy", NULL,
					       dossier_text(selection, "why") });
	return take_ptr(own);
}

/* The id of a file on the host: that of its copy in the crate, or else its place on the host. Owned by the caller. */
static char *host_file_id(const struct crate *c, const char *path, const json_t *entry)
{
	CLEANUP_FREE char *key = xasprintf("%s\n%s", path, dossier_text(entry, "sha256"));
	const char *copy = json_string_value(json_object_get(c->copies, key));
	CLEANUP_FREE char *uri = crate_uri(path);
	if (copy)
		return xstrdup(copy);
	CLEANUP_FREE char *id = xasprintf("file://%s", uri);
	const char *sha256 = dossier_text(entry, "sha256");
	const char *known = dossier_text(crate_find(c, id), "sha256");
	/* Another run saw another file there. */
	return sha256[0] && known[0] && !str_eq(sha256, known)
		       ? xasprintf("%s#sha256-%s", id, sha256)
		       : take_ptr(id);
}

/* A file may be shown to an analysis under several names: it is one entity. */
static json_t *add_host_file(struct crate *c, const char *path, const json_t *entry)
{
	struct stat st = { 0 };
	CLEANUP_FREE char *id = host_file_id(c, path, entry);
	json_t *e = crate_find(c, id);
	if (e)
		return e;
	bool is_dir = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
	e = crate_entity(c, id, is_dir ? "Dataset" : "File");
	crate_set(e, "name", path_base(path));
	crate_set(e, "sha256", dossier_text(entry, "sha256"));
	json_array_append_new(c->parts, crate_ref(id));
	return e;
}

/* Of a step the tool is the step's own, which the workflow has; what implements it is named there. */
static void add_step_code(struct crate *c, const char *id, size_t at)
{
	if (at == 0 && !json_object_get(c->step->tool, "mainEntity"))
		json_object_set_new(c->step->tool, "mainEntity", crate_ref(id));
	crate_add_once(c->step->tool, "softwareRequirements", id);
}

static void add_program(struct crate *c, const char *runtime)
{
	const char *program =
		json_string_value(json_array_get(json_object_get(c->d->analysis, "command"), 0));
	json_t *e = crate_entity(c, PROGRAM_ID, "SoftwareApplication");
	crate_set(e, "name", program ? program : "unknown");
	json_object_set_new(e, "softwareRequirements", crate_ref(runtime));
	json_object_set_new(c->action, "instrument", crate_ref(PROGRAM_ID));
}

/* The script is the tool; a bare command is a program of the runtime. */
static void add_code(struct crate *c, const char *runtime)
{
	size_t i;
	json_t *entry;
	const json_t *code = json_object_get(c->d->analysis, "code");
	json_array_foreach(code, i, entry)
	{
		const char *path = json_is_string(entry) ? json_string_value(entry)
							 : dossier_text(entry, "path");
		json_t *e = add_host_file(c, path, dossier_code(c->d, i));
		const char *id = dossier_text(e, "@id");
		json_object_set_new(e, "@type", json_pack("[s,s]", "File", "SoftwareSourceCode"));
		if (c->step)
			add_step_code(c, id, i);
		else if (i == 0) {
			json_object_set_new(e, "softwareRequirements", crate_ref(runtime));
			json_object_set_new(c->action, "instrument", crate_ref(id));
		} else
			crate_add_ref(c->action, "object", id);
	}
	if (c->step) {
		crate_add_once(c->step->tool, "softwareRequirements", runtime);
		json_object_set_new(c->action, "instrument",
				    crate_ref(dossier_text(c->step->tool, "@id")));
	} else if (!json_array_size(code))
		add_program(c, runtime);
}

/* An output of another step that is in the crate: by its place, or else, if the step that made it was run again, by its content. NULL if it is
 * none. */
static json_t *find_made(const struct crate *c, const json_t *entry)
{
	const char *path = dossier_text(entry, "path");
	const char *sha256 = dossier_text(entry, "sha256");
	if (!c->step || !path_within(path, c->step->runs))
		return NULL;
	CLEANUP_FREE char *below = xasprintf("runs%s", path + strlen(c->step->runs));
	CLEANUP_FREE char *id = crate_uri(below);
	json_t *e = crate_find(c, id);
	const char *made = json_string_value(json_object_get(c->step->made, sha256));
	return e || !made ? e : crate_find(c, made);
}

static void add_step_input(struct crate *c, const json_t *entry, json_t *e, bool is_made)
{
	const struct crate_step *step = c->step;
	const char *name = dossier_text(entry, "name");
	/* What is below a name is one of many that were gathered there. */
	CLEANUP_FREE char *slot = step->is_scattered
					  ? xstrdup("data")
					  : xasprintf("data/%.*s", (int)strcspn(name, "/"), name);
	CLEANUP_FREE char *outer = xasprintf("%s/%s", step->name, slot);
	if (is_made) {
		crate_connect(c, step->how_to, slot, e);
		json_object_set_new(step->used, dossier_text(e, "@id"), json_true());
	} else {
		/* In the objects of the whole it stands once. */
		if (!json_object_get(e, "exampleOfWork"))
			crate_add_ref(step->run, "object", dossier_text(e, "@id"));
		crate_fill_slot(c, step->workflow, SLOT_INPUT, outer, e);
	}
	crate_fill_slot(c, step->tool, SLOT_INPUT, slot, e);
}

/* All outputs of a step, or those in a directory: each of them. False if it is none such, or its run is not in the crate. */
static bool add_made_directory(struct crate *c, const json_t *entry)
{
	const char *path = dossier_text(entry, "path");
	bool has_any = false;
	if (!c->step || !path_within(path, c->step->runs))
		return false;
	const char *run = path + strlen(c->step->runs);
	run += *run == '/';
	CLEANUP_FREE char *id = xstrndup(run, strcspn(run, "/"));
	CLEANUP_FREE char *below = xasprintf("runs/%s/", run);
	const json_t *range = json_object_get(c->step->ranges, id);
	size_t end = (size_t)json_integer_value(json_array_get(range, 1));
	for (size_t i = (size_t)json_integer_value(json_array_get(range, 0)); i < end; i++) {
		const struct crate_file *f = &c->files->v[i];
		if (f->role != CRATE_OUTPUT || !str_starts(f->path, below))
			continue;
		json_t *e = crate_add_file(c, f);
		crate_add_ref(c->action, "object", dossier_text(e, "@id"));
		add_step_input(c, entry, e, true);
		has_any = true;
	}
	return has_any;
}

static void add_inputs(struct crate *c)
{
	size_t i;
	json_t *entry;
	json_array_foreach(json_object_get(c->d->analysis, "inputs"), i, entry)
	{
		if (add_made_directory(c, entry))
			continue;
		json_t *made = find_made(c, entry);
		json_t *e = made ? made : add_host_file(c, dossier_text(entry, "path"), entry);
		if (!made && json_object_get(entry, "bytes"))
			json_object_set_new(e, "contentSize",
					    json_sprintf("%llu", (unsigned long long)dossier_number(
									 entry, "bytes")));
		crate_add_once(c->action, "object", dossier_text(e, "@id"));
		if (c->step)
			add_step_input(c, entry, e, made != NULL);
	}
}

/* A copy that was shown and is no more: the file it was made of has gone on since. */
static void add_snapshot(struct crate *c)
{
	const json_t *snapshot = json_object_get(c->d->analysis, "db_snapshot");
	const char *sha256 = dossier_text(snapshot, "sha256");
	if (!sha256[0] || crate_find(c, SNAPSHOT_ID))
		return;
	CLEANUP_FREE char *name = xasprintf("snapshot of %s", dossier_text(snapshot, "path"));
	CLEANUP_FREE char *identifier = xasprintf("sha256:%s", sha256);
	json_t *e = crate_entity(c, SNAPSHOT_ID, "CreativeWork");
	crate_set(e, "name", name);
	crate_set(e, "identifier", identifier);
	crate_set(e, "encodingFormat", "application/vnd.sqlite3");
	crate_add_ref(c->action, "object", SNAPSHOT_ID);
}

void crate_tools(struct crate *c)
{
	CLEANUP_FREE char *runtime = add_runtime(c);
	add_code(c, runtime);
	add_inputs(c);
	add_snapshot(c);
}
