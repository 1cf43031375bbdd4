/* A run directory read whole, to be made rows of. What is in it was written by cupel, but names and notes in it are an analysis's. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/fs.h"
#include "ledger/parts.h"

#define RECORD_MAX  ((size_t)8 << 20)
#define EVENTS_MAX  ((size_t)64 << 20)
#define OUTPUTS_MAX ((size_t)256 << 20) /* as collect/outputs.h has it */

static void record_files_release(struct record_files *f)
{
	json_decref(f->verdict);
	json_decref(f->analysis);
	json_decref(f->outputs);
	free(f->events);
	cleanup_fd(&f->dir_fd);
}

void posting_release(struct posting *e)
{
	for (size_t i = 0; i < e->n_rows; i++) {
		for (size_t k = 0; k < e->rows[i].n; k++)
			free(e->rows[i].values[k]);
		free(e->rows[i].values);
	}
	cleanup_free(&e->rows);
	cleanup_free(&e->id);
	cleanup_free(&e->submitter);
	e->n_rows = 0;
}

/* The object, and the digest of the file. -ENOENT if there is none. */
static int read_object(int dir_fd, const char *name, size_t max, json_t **ret,
		       char ret_sha256[HASH_HEX], struct err *err)
{
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;
	json_error_t at;
	int r = fs_read_capped(dir_fd, name, max, &text, &length, err);
	if (r < 0)
		return r;
	json_t *value = json_loadb(text, length, JSON_REJECT_DUPLICATES, &at);
	if (!json_is_object(value)) {
		json_decref(value);
		return err_set(err, ERR_HOST, EBADMSG, "%s is no JSON object: %s", name, at.text);
	}
	hash_bytes(text, length, ret_sha256);
	*ret = value;
	return 0;
}

static int read_files(struct record_files *f, struct err *err)
{
	char unused[HASH_HEX];
	int r = read_object(f->dir_fd, "verdict.json", RECORD_MAX, &f->verdict, f->verdict_sha256,
			    err);
	if (r == -ENOENT)
		return -EAGAIN;
	/* A run that was lost early has no others. */
	if (r >= 0)
		r = read_object(f->dir_fd, "analysis.json", RECORD_MAX, &f->analysis,
				f->analysis_sha256, err);
	if (r >= 0 || r == -ENOENT)
		r = read_object(f->dir_fd, "outputs.json", OUTPUTS_MAX, &f->outputs, unused, err);
	if (r >= 0 || r == -ENOENT)
		r = fs_read_capped(f->dir_fd, "events.jsonl", EVENTS_MAX, &f->events,
				   &f->events_length, err);
	return r == -ENOENT ? 0 : r;
}

/* Each value with its length: no two rows look alike by accident. */
void row_hash(struct hash *h, enum table table, const char *const *values, size_t n)
{
	char head[64];
	(void)snprintf(head, sizeof head, "%d %zu\n", (int)table, n);
	hash_add(h, head, strlen(head));
	for (size_t i = 0; i < n; i++) {
		size_t length = values[i] ? strlen(values[i]) : 0;
		(void)snprintf(head, sizeof head, "%c%zu ", values[i] ? '+' : '-', length);
		hash_add(h, head, strlen(head));
		hash_add(h, values[i], length);
	}
}

static void take_digest(struct posting *e)
{
	CLEANUP_HASH struct hash *h = hash_new();
	for (size_t i = 0; i < e->n_rows; i++)
		if (e->rows[i].table < TABLE_OWN_COUNT_)
			row_hash(h, e->rows[i].table, (const char *const *)e->rows[i].values,
				 e->rows[i].n);
	hash_end(h, e->record);
}

int posting_read(const struct config *c, const char *id, struct posting *ret, struct err *err)
{
	CLEANUP(record_files_release) struct record_files f = { .dir_fd = -1 };
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s", c->home, id);
	f.dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (f.dir_fd < 0)
		return err_errno(err, "open %s", path);
	struct err why = { 0 }; /* of a file that need not be there it is dropped */
	int r = read_files(&f, &why);
	if (r < 0 && why.code)
		return err_set(err, why.kind, -r, "run %s: %s", id, why.text);
	if (r < 0)
		return r;
	CLEANUP_POSTING struct posting e = { .id = xstrdup(id) };
	r = posting_add_rows(&f, &e, err);
	if (r < 0)
		return r;
	take_digest(&e);
	*ret = e;
	e = (struct posting){ 0 };
	return 0;
}
