/* Runs of steps in the crate of their pipeline. In it each run has its directory as it is in the home, runs/ID; code and inputs that several
 * runs share are there once. */
#include "view/crate_runs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/path.h"
#include "collect/outputs.h"

void crate_runs_release(struct crate_runs *b)
{
	crate_release(&b->c);
	json_decrefp(&b->made);
	json_decrefp(&b->taken);
	json_decrefp(&b->outs);
	json_decrefp(&b->used);
	json_decrefp(&b->ranges);
	json_decrefp(&b->controls);
	cleanup_free(&b->runs);
	cleanup_free(&b->version);
}

json_t *crate_runs_begin(struct crate_runs *b)
{
	CLEANUP_FREE char *runs = path_join(b->config->home, "runs");
	CLEANUP_FREE char *real = path_real(runs);
	b->c = (struct crate){ .files = b->files, .graph = json_array(), .is_shared = true };
	b->made = json_object();
	b->taken = json_object();
	b->outs = json_array();
	b->used = json_object();
	b->ranges = json_object();
	b->controls = json_array();
	b->runs = real ? take_ptr(real) : take_ptr(runs);
	return crate_document(b->c.graph);
}

static int measure(int fd, struct crate_file *f, struct err *err)
{
	struct stat st = { 0 };
	if (fstat(fd, &st) < 0)
		return err_errno(err, "look at %s", f->path);
	int r = S_ISREG(st.st_mode) ? hash_file(fd, f->sha256) : -EINVAL;
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "read %s: %s", f->path, strerrordesc_np(-r));
	f->size = (uint64_t)st.st_size;
	return 0;
}

int crate_runs_record(struct crate_runs *b, struct err *err)
{
	static const struct {
		const char *path, *name, *media_type;
	} rows[] = {
		{ "pipeline/pipeline.json", "the pipeline as it was planned", "application/json" },
		{ "pipeline/steps.jsonl", "what became of each step, and when",
		  "application/jsonl" },
		{ "pipeline/result.json", "how it ended", "application/json" },
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		CLEANUP_CRATE_FILE struct crate_file f = { .role = CRATE_RECORD,
							   .dir_fd = b->p->dir_fd,
							   .above = strlen("pipeline/") };
		f.path = xstrdup(rows[i].path);
		CLEANUP_FD int fd =
			fs_open_beneath(f.dir_fd, f.path + f.above, O_RDONLY | O_CLOEXEC, 0);
		if (fd == -ENOENT)
			continue;
		f.name = xstrdup(rows[i].name);
		f.media_type = xstrdup(rows[i].media_type);
		int r = fd < 0 ? err_set(err, ERR_HOST, -fd, "open %s: %s", f.path,
					 strerrordesc_np(-fd))
			       : measure(fd, &f, err);
		if (r < 0)
			return r;
		json_t *e = crate_add_file(&b->c, &f);
		json_object_set_new(e, "about", crate_ref(dossier_text(b->run, "@id")));
		crate_add_ref(b->run, "subjectOf", dossier_text(e, "@id"));
		crate_files_add(b->files, &f);
	}
	return 0;
}

/* The copy that the record has, or else the file itself if it is still the same. */
const struct crate_file *crate_runs_workflow(struct crate_runs *b, const char *file,
					     const char *sha256)
{
	static const char copy[] = "pipeline.yaml";
	for (int i = 0; i < 2; i++) {
		CLEANUP_CRATE_FILE struct crate_file f = { .role = CRATE_CODE,
							   .dir_fd = b->p->dir_fd,
							   .above = strlen("workflow/") };
		int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
		CLEANUP_FD int fd = i ? open(file, flags)
				      : fs_open_beneath(f.dir_fd, copy, flags, 0);
		if (fd < 0 || (i && !path_name_ok(path_base(file))))
			continue;
		f.path = path_join("workflow", i ? path_base(file) : copy);
		f.source = i ? xstrdup(file) : NULL;
		f.name = xstrdup(path_base(file));
		if (measure(fd, &f, NULL) < 0 || !str_eq(f.sha256, sha256))
			continue;
		crate_files_add(b->files, &f);
		return &b->files->v[b->files->n - 1];
	}
	return NULL;
}

/* Where a copy of a file of the host goes: beside another of its name, if that is not the same. False if it is there already. */
static bool settle(struct crate_runs *b, struct crate_file *f)
{
	const char *there = json_string_value(json_object_get(b->taken, f->path));
	if (there && !str_eq(there, f->sha256)) {
		CLEANUP_FREE char *dir = path_parent(f->path);
		char *apart = xasprintf("%s/%.16s/%s", dir, f->sha256, path_base(f->path));
		free(f->path);
		f->path = apart;
		there = json_string_value(json_object_get(b->taken, f->path));
	}
	if (there)
		return false;
	json_object_set_new_nocheck(b->taken, f->path, json_string(f->sha256));
	return true;
}

static void take_files(struct crate_runs *b, const char *run, struct crate_files *from)
{
	b->c.first = b->files->n;
	for (size_t i = 0; i < from->n; i++) {
		struct crate_file *f = &from->v[i];
		if (!f->source) {
			char *path = xasprintf("runs/%s/%s", run, f->path);
			free(f->path);
			f->path = path;
			f->dir_fd = b->p->runs_fd;
			f->above = strlen("runs/");
			crate_files_add(b->files, f);
		} else if (settle(b, f))
			crate_files_add(b->files, f);
		else
			(void)crate_add_file(&b->c, f); /* notes where it was, too */
	}
	json_object_set_new(b->ranges, run,
			    json_pack("[I,I]", (json_int_t)b->c.first, (json_int_t)b->files->n));
}

/* All that is left is what the record of the pipeline says. */
static void add_gone(struct crate_runs *b, const struct dossier_task *t, const char *run,
		     const char *action)
{
	json_t *e = crate_entity(&b->c, action, "CreateAction");
	bool is_ok = (t->state == TASK_OK || t->state == TASK_REUSED) && str_eq(t->run, run);
	json_object_set_new(e, "name", json_sprintf("run %s of step %s", run, b->step.name));
	crate_set(e, "description", "the record of this run is not there any more");
	json_object_set_new(e, "instrument", crate_ref(dossier_text(b->step.tool, "@id")));
	json_object_set_new(e, "agent", crate_ref("#caller"));
	crate_set_status(e, is_ok, t->cause[0] ? t->cause : "unknown");
	json_array_append_new(b->c.mentions, crate_ref(action));
}

int crate_runs_add(struct crate_runs *b, const struct dossier_task *t, const char *run,
		   const char *action, struct err *err)
{
	CLEANUP_DOSSIER struct dossier d = DOSSIER_INIT;
	CLEANUP_CRATE_FILES struct crate_files own = { 0 };
	int r = dossier_read(b->config, run, &d, err);
	if (r == -ENOENT || r == -EBUSY) {
		add_gone(b, t, run, action);
		return 0;
	}
	if (r >= 0)
		r = crate_gather(&d, b->files->with, &own, err);
	if (r < 0)
		return r;
	if (!b->version) {
		const json_t *data = json_object_get(json_array_get(d.events, 0), "data");
		b->version = xstrdup(dossier_text(data, "cupel"));
	}
	take_files(b, run, &own);
	b->c.d = &d;
	b->c.step = &b->step;
	crate_run(&b->c, action);
	if (!json_object_get(b->c.action, "taskKey"))
		crate_key(&b->c, t->key, t->parts);
	b->c.d = NULL;
	return 0;
}
