/* Which files make up the crate of a run. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/path.h"
#include "collect/fetch.h"
#include "collect/outputs.h"
#include "view/dossier.h"

static const struct {
	const char *path, *name, *media_type;
	enum crate_role role;
} own_files[] = {
	{ "analysis.json", "the analysis as it was resolved", "application/json", CRATE_RECORD },
	{ "plan.json", "the plan of its box", "application/json", CRATE_RECORD },
	{ "receipt.json", "what the kernel enforced", "application/json", CRATE_RECORD },
	{ "events.jsonl", "its events, chained by SHA-256", "application/jsonl", CRATE_RECORD },
	{ "usage.jsonl", "samples of what it used", "application/jsonl", CRATE_RECORD },
	{ "outputs.json", "the manifest of its outputs", "application/json", CRATE_RECORD },
	{ "verdict.json", "how it ended, with the evidence", "application/json", CRATE_RECORD },
	{ "stdout.log", "standard output", "text/plain", CRATE_LOG },
	{ "stderr.log", "standard error", "text/plain", CRATE_LOG },
};

void crate_file_release(struct crate_file *f)
{
	cleanup_free(&f->path);
	cleanup_free(&f->source);
	cleanup_free(&f->name);
	cleanup_free(&f->media_type);
}

void crate_files_release(struct crate_files *files)
{
	for (size_t i = 0; i < files->n; i++)
		crate_file_release(&files->v[i]);
	cleanup_free(&files->v);
	files->n = 0;
}

void crate_files_add(struct crate_files *files, struct crate_file *taken)
{
	if ((files->n & (files->n - 1)) == 0)
		files->v = xreallocarray(files->v, files->n ? files->n * 2 : 1, sizeof *files->v);
	files->v[files->n++] = *taken;
	*taken = (struct crate_file){ 0 };
}

static int measure(int fd, struct crate_file *f, struct err *err)
{
	struct stat st = { 0 };
	if (fstat(fd, &st) < 0)
		return err_errno(err, "look at %s", f->path);
	int r = hash_file(fd, f->sha256);
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "read %s: %s", f->path, strerrordesc_np(-r));
	f->size = (uint64_t)st.st_size;
	return 0;
}

static int gather_own(const struct dossier *d, struct crate_files *files, struct err *err)
{
	for (size_t i = 0; i < sizeof own_files / sizeof *own_files; i++) {
		CLEANUP_CRATE_FILE
		struct crate_file f = { .role = own_files[i].role, .dir_fd = d->dir_fd };
		CLEANUP_FD int fd =
			fs_open_beneath(d->dir_fd, own_files[i].path, O_RDONLY | O_CLOEXEC, 0);
		if (fd == -ENOENT)
			continue; /* it never came to that */
		f.path = xstrdup(own_files[i].path);
		f.name = xstrdup(own_files[i].name);
		f.media_type = xstrdup(own_files[i].media_type);
		int r = fd < 0 ? err_set(err, ERR_HOST, -fd, "open %s: %s", f.path,
					 strerrordesc_np(-fd))
			       : measure(fd, &f, err);
		if (r < 0)
			return r;
		crate_files_add(files, &f);
	}
	return 0;
}

/* Their digests are those of the manifest: what is copied is held against them. */
static void gather_outputs(const struct dossier *d, struct crate_files *files)
{
	size_t i;
	json_t *file;
	const char *dir = dossier_outputs_dir(d);
	if (!dir || !str_eq(dir, "outputs"))
		return;
	json_array_foreach(json_object_get(d->outputs, "files"), i, file)
	{
		CLEANUP_FREE char *path = fetch_path(file);
		const char *type = dossier_text(file, "media_type");
		if (!path)
			continue;
		struct crate_file f = { .role = CRATE_OUTPUT,
					.dir_fd = d->dir_fd,
					.path = path_join(dir, path),
					.name = xstrdup(dossier_text(file, "path")),
					.media_type = type[0] ? xstrdup(type) : NULL,
					.size = dossier_number(file, "size") };
		(void)snprintf(f.sha256, sizeof f.sha256, "%s", dossier_text(file, "sha256"));
		crate_files_add(files, &f);
	}
}

/* Is the file still what the run saw? Its digest tells; without one its ctime does, which nobody can set. */
static bool is_unchanged(const struct dossier *d, const json_t *entry, const struct stat *st,
			 const char *sha256)
{
	const char *recorded = dossier_text(entry, "sha256");
	if (recorded[0])
		return str_eq(recorded, sha256);
	char changed[40];
	const char *accepted = dossier_text(d->verdict, "accepted");
	uint64_t ns = (uint64_t)st->st_ctim.tv_sec * NS_PER_SEC + (uint64_t)st->st_ctim.tv_nsec;
	/* Both in UTC with the same digits: the texts are in the order of time. */
	return accepted[0] && strcmp(clock_write(ns, changed, sizeof changed), accepted) < 0;
}

struct wanted {
	enum crate_role role;
	const char *dir, *name, *source;
	const json_t *entry;
};

/* What is gone, changed or no regular file is no part of the crate; it is named there all the same. */
static void gather_source(const struct dossier *d, const struct wanted *w,
			  struct crate_files *files)
{
	struct stat st = { 0 };
	CLEANUP_FD int fd = open(w->source, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	CLEANUP_CRATE_FILE struct crate_file f = { .role = w->role };
	if (!path_name_ok(w->name) || fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	f.path = path_join(w->dir, w->name);
	f.source = xstrdup(w->source);
	f.name = xstrdup(w->name);
	const char *type = media_type_guess(w->name);
	f.media_type = type ? xstrdup(type) : NULL;
	if (measure(fd, &f, NULL) >= 0 && is_unchanged(d, w->entry, &st, f.sha256))
		crate_files_add(files, &f);
}

static void gather_code(const struct dossier *d, struct crate_files *files)
{
	size_t i;
	json_t *entry;
	json_array_foreach(json_object_get(d->analysis, "code"), i, entry)
	{
		const char *source = json_is_string(entry) ? json_string_value(entry)
							   : dossier_text(entry, "path");
		struct wanted w = { CRATE_CODE, "code", path_base(source), source,
				    dossier_code(d, i) };
		gather_source(d, &w, files);
	}
}

static void gather_inputs(const struct dossier *d, struct crate_files *files)
{
	size_t i;
	json_t *entry;
	json_array_foreach(json_object_get(d->analysis, "inputs"), i, entry)
	{
		struct wanted w = { CRATE_INPUT, "data", dossier_text(entry, "name"),
				    dossier_text(entry, "path"), entry };
		gather_source(d, &w, files);
	}
}

int crate_gather(const struct dossier *d, enum crate_with with, struct crate_files *ret,
		 struct err *err)
{
	CLEANUP_CRATE_FILES struct crate_files files = { 0 };
	int r = gather_own(d, &files, err);
	if (r < 0)
		return r;
	files.with = with;
	gather_outputs(d, &files);
	if (with != CRATE_IN_PLACE)
		gather_code(d, &files);
	if (with == CRATE_WITH_INPUTS)
		gather_inputs(d, &files);
	*ret = files;
	files = (struct crate_files){ 0 };
	return 0;
}
