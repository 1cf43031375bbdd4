/* The list of what was taken and what was not, as memory and as JSON. */
#include "collect/manifest.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

/* Room doubles at each power of two, so no separate capacity is carried. */
static bool is_full(size_t n)
{
	return (n & (n - 1)) == 0;
}

void manifest_add(struct manifest *m, const struct collected *file)
{
	if (is_full(m->n_files))
		m->files =
			xreallocarray(m->files, m->n_files ? m->n_files * 2 : 1, sizeof *m->files);
	m->files[m->n_files++] = *file;
	m->bytes += file->size;
}

void manifest_refuse(struct manifest *m, const char *path, const char *reason)
{
	m->n_refused_all++;
	if (m->n_refused == OUTPUT_REFUSED_MAX)
		return;
	if (is_full(m->n_refused))
		m->refused = xreallocarray(m->refused, m->n_refused ? m->n_refused * 2 : 1,
					   sizeof *m->refused);
	m->refused[m->n_refused++] =
		(struct refused){ .path = xstrdup(path), .reason = xstrdup(reason) };
}

static int compare_files(const void *a, const void *b)
{
	return strcmp(((const struct collected *)a)->path, ((const struct collected *)b)->path);
}

static int compare_refused(const void *a, const void *b)
{
	return strcmp(((const struct refused *)a)->path, ((const struct refused *)b)->path);
}

void manifest_sort(struct manifest *m)
{
	if (m->n_files > 1)
		qsort(m->files, m->n_files, sizeof *m->files, compare_files);
	if (m->n_refused > 1)
		qsort(m->refused, m->n_refused, sizeof *m->refused, compare_refused);
}

void manifest_release(struct manifest *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->n_files; i++) {
		free(m->files[i].path);
		free(m->files[i].media_type);
	}
	for (size_t i = 0; i < m->n_refused; i++) {
		free(m->refused[i].path);
		free(m->refused[i].reason);
	}
	free(m->files);
	free(m->refused);
	free(m->missing);
	free(m->damaged);
	free(m->invalid);
	free(m->warning);
	*m = (struct manifest){ 0 };
}

/* Lossy text for people, exact bytes for programs. */
static json_t *path_object(const char *path)
{
	json_t *object = json_object();
	json_object_set_new(object, "path", json_text(path));
	if (str_is_utf8(path, strlen(path)))
		return object;
	CLEANUP_STR struct str hex = { 0 };
	for (const char *c = path; *c; c++)
		str_addf(&hex, "%02x", (unsigned char)*c);
	json_object_set_new(object, "path_hex", json_string(str_text(&hex)));
	return object;
}

static json_t *file_json(const struct collected *file)
{
	json_t *object = path_object(file->path);
	json_object_set_new(object, "size", json_u64(file->size));
	json_object_set_new(object, "sha256", json_string(file->sha256));
	if (file->media_type)
		json_object_set_new(object, "media_type", json_text(file->media_type));
	json_object_set_new(object, "stored", json_boolean(file->stored));
	const struct check_finding *f = &file->finding;
	if (f->state == CHECK_NONE)
		return object;
	json_t *check = json_pack("{s:s,s:s}", "state", check_state_name(f->state), "format",
				  check_format_name(check_format_of(file->media_type)));
	if (f->text[0])
		json_object_set_new(check, "note", json_text(f->text));
	json_object_set_new(object, "check", check);
	return object;
}

json_t *manifest_json(const struct manifest *m)
{
	json_t *files = json_array();
	for (size_t i = 0; i < m->n_files; i++)
		json_array_append_new(files, file_json(&m->files[i]));

	json_t *refused = json_array();
	for (size_t i = 0; i < m->n_refused; i++) {
		json_t *object = path_object(m->refused[i].path);
		json_object_set_new(object, "reason", json_text(m->refused[i].reason));
		json_array_append_new(refused, object);
	}

	json_t *object = json_object();
	json_object_set_new(object, "files", files);
	json_object_set_new(object, "count", json_u64(m->n_files));
	json_object_set_new(object, "bytes", json_u64(m->bytes));
	json_object_set_new(object, "refused", refused);
	json_object_set_new(object, "refused_count", json_u64(m->n_refused_all));
	json_object_set_new(object, "missing", m->missing ? json_text(m->missing) : json_null());
	json_object_set_new(object, "invalid", m->invalid ? json_text(m->invalid) : json_null());
	json_object_set_new(object, "partial", json_boolean(m->partial));
	json_object_set_new(object, "over_cap", json_boolean(m->over_cap));
	return object;
}
