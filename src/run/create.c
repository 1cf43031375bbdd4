/* Makes a runtime, front to back. */
#include "run/create.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/path.h"
#include "health/gc_runtimes.h"
#include "health/use.h"
#include "keeper/record.h"
#include "run/create_parts.h"
#include "spec/id.h"

void create_request_release(struct create_request *q)
{
	strv_release(&q->packages);
	strv_release(&q->mirrors);
	strv_release(&q->channels);
	strv_release(&q->said);
}

void create_result_release(struct create_result *r)
{
	free(r->entry);
	free(r->place);
	free(r->log);
	free(r->own);
	json_decref(r->notes);
	*r = (struct create_result){ 0 };
}

static void creation_release(struct creation *c)
{
	making_release(&c->making);
	cleanup_fd(&c->log_fd);
	cleanup_free(&c->dir);
	cleanup_free(&c->log);
	cleanup_free(&c->place);
	json_decref(c->notes);
	c->notes = NULL;
}

/* Before minutes are spent on what they are for. */
static int check_files(const struct create_request *q, struct err *err)
{
	const char *const files[][2] = { { "requirements", q->requirements },
					 { "wheels", q->wheels },
					 { "file", q->file } };
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (files[i][1] && access(files[i][1], R_OK) < 0)
			return err_set(err, ERR_CALLER, errno, "--%s %s: %s", files[i][0],
				       files[i][1], strerrordesc_np(errno));
	return 0;
}

/* What the kind needs is said, and nothing that it would not look at. */
static int check(const struct create_request *q, struct err *err)
{
	const struct {
		bool said;
		const char *option;
		unsigned kinds; /* a bit each */
	} rows[] = {
		{ q->requirements, "requirements", 1 << RUNTIME_VENV },
		{ q->wheels, "wheels", 1 << RUNTIME_VENV },
		{ q->python, "python", 1 << RUNTIME_VENV },
		{ q->system_site_packages, "system-site-packages", 1 << RUNTIME_VENV },
		{ q->packages.n > 0, "packages", 1 << RUNTIME_ROOTFS | 1 << RUNTIME_CONDA },
		{ q->suite, "suite", 1 << RUNTIME_ROOTFS },
		{ q->mirrors.n > 0, "mirror", 1 << RUNTIME_ROOTFS },
		{ q->squashfs, "squashfs", 1 << RUNTIME_ROOTFS },
		{ q->file, "file", 1 << RUNTIME_CONDA },
		{ q->channels.n > 0, "channel", 1 << RUNTIME_CONDA },
		{ q->layout, "layout", 1 << RUNTIME_IMAGE },
	};
	int r = id_check_runtime(q->name, err);
	if (r < 0)
		return r;
	if (q->kind == RUNTIME_SYSTEM)
		return err_caller(
			err,
			"a system runtime is the host's own /usr: there is nothing to make; write a catalog entry");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].said && !(rows[i].kinds & 1U << q->kind))
			return err_caller(err, "--%s is not for --kind %s", rows[i].option,
					  runtime_kind_names[q->kind]);
	if (q->kind == RUNTIME_IMAGE && !q->layout)
		return err_caller(
			err,
			"--kind image needs --layout PATH: an OCI layout or an archive of one");
	if (q->kind == RUNTIME_CONDA && !q->file && q->packages.n == 0)
		return err_caller(err, "--kind conda needs --file FILE or --packages LIST");
	return check_files(q, err);
}

static bool exists(const char *path)
{
	struct stat st = { 0 };
	return lstat(path, &st) == 0;
}

/* Nobody else is at it, and the name is free or may be replaced. */
static int take_name(struct creation *c, const char *entry, struct err *err)
{
	CLEANUP_STRV struct strv generations = { 0 };
	const char *name = c->q->name;
	int r = making_lock(c->config->home, name, &c->making, err);
	if (r == -EAGAIN)
		return err_set(err, ERR_CALLER, EBUSY,
			       "'%s' is being made or removed by another process", name);
	if (r < 0)
		return r;
	made_generations(&c->making, &generations);
	bool ours = made_is_named(&c->making, NULL, entry);
	if (exists(entry) && !ours)
		return err_set(
			err, ERR_CALLER, EEXIST,
			"%s is there and was not made by `cupel runtime create`; choose another name or remove it",
			entry);
	if ((ours || generations.n > 0) && !c->q->replace)
		return err_set(
			err, ERR_CALLER, EEXIST,
			"there is a runtime '%s' already; --replace makes it anew and keeps the old one until then",
			name);
	return 0;
}

static int begin(struct creation *c, const char *entry, struct err *err)
{
	char id[ID_MAX + 1];
	id_generate(id);
	CLEANUP_FREE char *generation = xasprintf("g-%s", id);
	int r = making_note(&c->making, MAKING_CREATE, generation, entry, err);
	if (r < 0)
		return r;
	c->dir = xasprintf("%s/%s", c->making.path, generation);
	c->log = xasprintf("%s/create.log", c->making.path);
	r = fs_make_dirs(c->making.path, 0755, err);
	if (r < 0)
		return r;
	if (mkdir(c->dir, 0755) < 0 || chmod(c->dir, 0755) < 0 || chmod(c->making.path, 0755) < 0)
		return err_errno(err, "make %s", c->dir);
	c->log_fd = open(c->log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_CLOEXEC,
			 0644);
	return c->log_fd < 0 ? err_errno(err, "make %s", c->log) : 0;
}

static int build(struct creation *c, struct err *err)
{
	static int (*const by_kind[])(struct creation *, struct err *) = {
		[RUNTIME_CONDA] = create_conda,
		[RUNTIME_VENV] = create_venv,
		[RUNTIME_ROOTFS] = create_rootfs,
		[RUNTIME_IMAGE] = create_image,
	};
	return by_kind[c->q->kind](c, err);
}

/* How it came about, beside it; then all of it to disk. */
static int settle(struct creation *c, const char *entry, struct err *err)
{
	char time[40];
	CLEANUP_FREE char *path = xasprintf("%s/created.json", c->dir);
	CLEANUP_FREE char *cwd = path_cwd();
	json_t *said = json_array();
	for (size_t i = 0; i < c->q->said.n; i++)
		json_array_append_new(said, json_text(c->q->said.v[i]));
	CLEANUP_JSON json_t *created =
		json_pack("{s:s,s:s,s:s,s:o,s:o,s:o,s:O}", "name", c->q->name, "kind",
			  runtime_kind_names[c->q->kind], "time",
			  clock_write(clock_real_ns(), time, sizeof(time)), "entry",
			  json_text(entry), "place", json_text(c->place), "command", said,
			  "directory", json_text(cwd), "notes", c->notes);
	create_tell(c, "bring it to disk");
	int r = json_write_file(AT_FDCWD, path, created, err);
	if (r < 0)
		return r;
	return syncfs(c->log_fd) < 0 ? err_errno(err, "bring %s to disk", c->dir) : 0;
}

/* The entry names the new one: what it replaced goes, unless a run is still in it; then the next sweep takes it. */
static void finish(struct creation *c)
{
	char id[ID_MAX + 1];
	CLEANUP_FREE char *state = xasprintf("%s/state.json", c->making.path);
	(void)unlink(state); /* it was the old one's health */
	if (runtime_in_use(c->config, c->q->name, id, NULL) == 0 &&
	    made_clear(&c->making, c->making.generation, NULL) >= 0)
		making_done(&c->making);
}

/* Nothing is left but the log. */
static void undo(struct creation *c)
{
	if (c->making.act != MAKING_CREATE)
		return; /* it had not begun */
	if (!c->dir || fs_remove_tree(AT_FDCWD, c->dir, NULL, NULL) >= 0)
		making_done(&c->making);
}

static int create(struct creation *c, const char *entry, struct err *err)
{
	int r = take_name(c, entry, err);
	if (r < 0) {
		/* A lock file made for the question alone. */
		if (c->making.lock_fd >= 0 && c->making.act == MAKING_NOTHING)
			making_done(&c->making);
		return r;
	}
	r = begin(c, entry, err);
	if (r >= 0)
		r = build(c, err);
	if (r >= 0)
		r = settle(c, entry, err);
	if (r >= 0)
		r = entry_write(c, entry, err);
	if (r < 0)
		undo(c);
	else
		finish(c);
	return r;
}

int runtime_create(const struct config *config, const struct create_request *q,
		   struct create_result *ret, struct err *err)
{
	struct config settled = *config;
	struct gc_report ignored = { 0 };
	CLEANUP(creation_release)
	struct creation c = { .config = &settled, .q = q, .making = MAKING_INIT, .log_fd = -1 };
	int r = check(q, err);
	if (r >= 0)
		r = record_home(config->home, err);
	if (r < 0)
		return r;
	CLEANUP_FREE char *entry = create_entry_path(q, q->name, err);
	if (!entry)
		return -err->code;
	/* Its name goes into files: without links, as it is compared later. */
	CLEANUP_FREE char *home = path_real(config->home);
	if (!home)
		return err_errno(err, "look at %s", config->home);
	settled.home = home;
	c.notes = json_object();
	gc_runtimes(&settled, &ignored);
	r = create(&c, entry, err);
	if (r < 0)
		return r;
	struct create_result made = { 0 };
	made.own = create_entry_own(config, entry, q->name);
	made.entry = take_ptr(entry);
	made.place = take_ptr(c.place);
	made.log = take_ptr(c.log);
	made.notes = take_ptr(c.notes);
	*ret = made;
	return 0;
}
