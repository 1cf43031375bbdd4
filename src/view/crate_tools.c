/* What was run, in what, and on what: instrument, runtime, code, inputs. */
#include <string.h>
#include <sys/stat.h>

#include "base/path.h"
#include "view/crate_parts.h"

#define RUNTIME_ID  "#runtime"
#define PROGRAM_ID  "#program"
#define SNAPSHOT_ID "#db-snapshot"

static void add_ref(json_t *entity, const char *key, const char *id)
{
	json_t *list = json_object_get(entity, key);
	if (!list) {
		list = json_array();
		json_object_set_new(entity, key, list);
	}
	json_array_append_new(list, crate_ref(id));
}

static void add_runtime(struct crate *c)
{
	static const char *const texts[][2] = { { "name", "name" },
						{ "softwareVersion", "version" },
						{ "runtimeKind", "kind" },
						{ "identifier", "digest" } };
	const json_t *r = json_object_get(c->d->analysis, "runtime");
	const json_t *selection = json_object_get(r, "selection");
	const char *depth;
	json_t *digest;
	json_t *e = crate_entity(c, RUNTIME_ID, "SoftwareApplication");
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
}

/* The file of the crate that was copied from there; NULL if it is not in it. */
static const struct crate_file *copy_of(const struct crate *c, const char *source)
{
	for (size_t i = 0; i < c->files->n; i++)
		if (str_eq(c->files->v[i].source, source))
			return &c->files->v[i];
	return NULL;
}

/* The id of a file on the host: that of its copy in the crate, or else its place on the host. Owned by the caller. */
static char *host_file_id(const struct crate *c, const char *path)
{
	const struct crate_file *copy = copy_of(c, path);
	CLEANUP_FREE char *uri = crate_uri(copy ? copy->path : path);
	return copy ? take_ptr(uri) : xasprintf("file://%s", uri);
}

static json_t *find_entity(const struct crate *c, const char *id)
{
	size_t i;
	json_t *e;
	json_array_foreach(c->graph, i, e)
	{
		if (str_eq(dossier_text(e, "@id"), id))
			return e;
	}
	return NULL;
}

/* A file may be shown to an analysis under several names: it is one entity. */
static json_t *add_host_file(struct crate *c, const char *path, const json_t *entry)
{
	struct stat st = { 0 };
	CLEANUP_FREE char *id = host_file_id(c, path);
	json_t *e = find_entity(c, id);
	if (e)
		return e;
	bool is_dir = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
	e = crate_entity(c, id, is_dir ? "Dataset" : "File");
	crate_set(e, "name", path_base(path));
	crate_set(e, "sha256", dossier_text(entry, "sha256"));
	json_array_append_new(c->parts, crate_ref(id));
	return e;
}

/* The script is the tool; a bare command is a program of the runtime. */
static void add_code(struct crate *c)
{
	size_t i;
	json_t *entry;
	const json_t *code = json_object_get(c->d->analysis, "code");
	json_array_foreach(code, i, entry)
	{
		const char *path = json_is_string(entry) ? json_string_value(entry)
							 : dossier_text(entry, "path");
		CLEANUP_FREE char *id = host_file_id(c, path);
		json_t *e = add_host_file(c, path, dossier_code(c->d, i));
		json_object_set_new(e, "@type", json_pack("[s,s]", "File", "SoftwareSourceCode"));
		if (i == 0) {
			json_object_set_new(e, "softwareRequirements", crate_ref(RUNTIME_ID));
			json_object_set_new(c->action, "instrument", crate_ref(id));
		} else
			add_ref(c->action, "object", id);
	}
	if (json_array_size(code))
		return;
	const char *program =
		json_string_value(json_array_get(json_object_get(c->d->analysis, "command"), 0));
	json_t *e = crate_entity(c, PROGRAM_ID, "SoftwareApplication");
	crate_set(e, "name", program ? program : "unknown");
	json_object_set_new(e, "softwareRequirements", crate_ref(RUNTIME_ID));
	json_object_set_new(c->action, "instrument", crate_ref(PROGRAM_ID));
}

static void add_inputs(struct crate *c)
{
	size_t i;
	json_t *entry;
	json_array_foreach(json_object_get(c->d->analysis, "inputs"), i, entry)
	{
		const char *path = dossier_text(entry, "path");
		CLEANUP_FREE char *id = host_file_id(c, path);
		json_t *e = add_host_file(c, path, entry);
		if (json_object_get(entry, "bytes"))
			json_object_set_new(e, "contentSize",
					    json_sprintf("%llu", (unsigned long long)dossier_number(
									 entry, "bytes")));
		add_ref(c->action, "object", id);
	}
}

/* A copy that was shown and is no more: the file it was made of has gone on since. */
static void add_snapshot(struct crate *c)
{
	const json_t *snapshot = json_object_get(c->d->analysis, "db_snapshot");
	const char *sha256 = dossier_text(snapshot, "sha256");
	if (!sha256[0])
		return;
	CLEANUP_FREE char *name = xasprintf("snapshot of %s", dossier_text(snapshot, "path"));
	CLEANUP_FREE char *identifier = xasprintf("sha256:%s", sha256);
	json_t *e = crate_entity(c, SNAPSHOT_ID, "CreativeWork");
	crate_set(e, "name", name);
	crate_set(e, "identifier", identifier);
	crate_set(e, "encodingFormat", "application/vnd.sqlite3");
	add_ref(c->action, "object", SNAPSHOT_ID);
}

void crate_tools(struct crate *c)
{
	add_runtime(c);
	add_code(c);
	add_inputs(c);
	add_snapshot(c);
}
