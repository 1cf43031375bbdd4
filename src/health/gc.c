#include "health/gc.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/path.h"
#include "base/str.h"
#include "budget/budget.h"
#include "budget/scratch.h"
#include "budget/template.h"
#include "collect/outputs.h"
#include "health/gc_doctor.h"
#include "health/gc_runtimes.h"
#include "keeper/oci.h"
#include "keeper/record.h"
#include "keeper/traces.h"
#include "keeper/verdict.h"
#include "spec/id.h"

#define ANALYSIS_JSON_MAX (8 << 20)

/* Processes and groups first: nothing may write into a directory that is being removed. */
static int remove_leftovers(const struct record *r, const char *home, const struct traces *t,
			    struct str *found, struct err *err)
{
	struct fs_removed removed = { 0 };
	CLEANUP_FREE char *group = record_group(home, r->id);
	int groups = budget_sweep(t->cgroup_parent, group, err);
	if (groups < 0)
		return groups;
	FAULT_PHASE("gc-group");
	int bundle = oci_box_sweep(home, r->id, err);
	if (bundle < 0)
		return bundle;
	FAULT_PHASE("gc-bundle");
	CLEANUP_FREE char *job = xasprintf(RECORD_JOBS "/%s", r->id);
	int jobs = fs_remove_tree(r->home_fd, job, NULL, err);
	if (jobs < 0)
		return jobs;
	struct scratch_dead dead = { .path = t->work_dir,
				     .home = home,
				     .mark = t->has_mark ? &t->mark : NULL };
	int directory = scratch_sweep(&dead, &removed, err);
	if (directory < 0)
		return directory;
	FAULT_PHASE("gc-directory");
	if (groups)
		str_add(found, "its cgroup");
	if (directory)
		str_addf(found, "%sits working directory (%llu files)", groups ? ", " : "",
			 (unsigned long long)removed.files);
	if (bundle)
		str_addf(found, "%sits bundle", found->length ? ", " : "");
	if (!groups && !directory && !bundle)
		str_add(found, "nothing");
	return 0;
}

/* The same keys as any other verdict has, as far as the record tells. */
static json_t *lost_verdict(const struct record *r, const char *found, bool outputs_aside)
{
	CLEANUP_JSON json_t *analysis = NULL;
	json_t *verdict = verdict_lost_json(r->id, found, outputs_aside);
	if (json_read_file(r->dir_fd, "analysis.json", ANALYSIS_JSON_MAX, &analysis, NULL) < 0)
		return verdict;
	static const char *const keys[] = { "name", "quest" };
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (json_object_get(analysis, keys[i]))
			json_object_set(verdict, keys[i], json_object_get(analysis, keys[i]));
	json_t *runtime = json_object_get(json_object_get(analysis, "runtime"), "name");
	if (runtime)
		json_object_set(verdict, "runtime", runtime);
	return verdict;
}

static int record_lost(struct record *r, const struct config *c, struct err *err)
{
	CLEANUP_TRACES struct traces t = { 0 };
	CLEANUP_STR struct str found = { 0 };
	traces_read(r, c, &t);
	int e = remove_leftovers(r, c->home, &t, &found, err);
	if (e >= 0)
		e = traces_remove_unfinished(r, err);
	FAULT_PHASE("gc-unfinished");
	if (e >= 0)
		e = traces_remove_torn(r, err);
	int aside = e < 0 ? e : record_set_outputs_aside(r, err);
	if (aside < 0)
		return aside;
	FAULT_PHASE("gc-aside");
	CLEANUP_JSON json_t *verdict = lost_verdict(r, str_text(&found), aside);
	json_t *data =
		json_pack("{s:s,s:b}", "removed", str_text(&found), "outputs_set_aside", aside);
	record_seal(r, verdict, data);
	e = record_event(r, "lost", data, err);
	FAULT_PHASE("gc-lost");
	return e < 0 ? e : record_finish(r, take_ptr(verdict), err);
}

static void drop_entry(const struct record *r)
{
	CLEANUP_FREE char *entry = xasprintf("active/%s", r->id);
	(void)unlinkat(r->home_fd, entry, 0);
}

/* What the run had on the host, of which nobody will read what it was. */
static int clear_host(const struct record *r, const struct config *c, struct err *err)
{
	CLEANUP_TRACES struct traces t = { 0 };
	CLEANUP_STR struct str found = { 0 };
	traces_read(r, c, &t);
	return remove_leftovers(r, c->home, &t, &found, err);
}

/* Somebody removed its directory: there is no record to complete, but what the run had on the host is still known. */
static int clear_unrecorded(const struct record *r, const struct config *c, struct err *err)
{
	int e = clear_host(r, c, err);
	if (e >= 0)
		drop_entry(r);
	return e;
}

/* A complete run whose keeper died before it had dropped its entry, or could not remove everything. */
static int clear_entry(const struct record *r, const struct config *c, struct err *err)
{
	int e = clear_host(r, c, err);
	if (e >= 0)
		e = traces_remove_unfinished(r, err);
	if (e >= 0 && fsync(r->dir_fd) < 0) /* the keeper may have died before it did */
		e = err_errno(err, "sync the run directory of %s", r->id);
	int owed = e < 0 ? e : record_owe(r);
	return owed < 0 && e >= 0 ? err_set(err, ERR_HOST, -owed, "remove %s/active/%s: %s",
					    c->home, r->id, strerrordesc_np(-owed))
				  : e;
}

/* What it left is where it is carried out, and goes on there: nothing is lost yet. */
static bool is_elsewhere(const struct record *r, struct gc_report *report)
{
	struct stat st;
	CLEANUP_JSON json_t *noted = NULL;
	if (r->dir_fd < 0 || fstatat(r->dir_fd, "executor.json", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	if (json_read_file(r->dir_fd, "executor.json", ANALYSIS_JSON_MAX, &noted, NULL) >= 0 &&
	    str_eq(json_string_value(json_object_get(noted, "phase")), "reaped"))
		return false; /* there is nothing left there */
	if (report->n_unattended < GC_UNATTENDED_MAX)
		(void)snprintf(report->unattended[report->n_unattended++], ID_MAX + 1, "%s", r->id);
	return true;
}

static void sweep_one(const struct config *c, const char *id, struct gc_report *report)
{
	struct record r = RECORD_INIT;
	struct err err = { 0 };
	struct stat st;
	int e = record_adopt(c->home, id, &r, &err);
	if (e == -EAGAIN) {
		report->alive++;
		return;
	}
	if (e == -ENOENT) { /* the keeper died between its lock and the run directory */
		report->cleared++;
		return;
	}
	if (e >= 0 && is_elsewhere(&r, report)) {
		record_release(&r);
		return;
	}
	if (e >= 0 && r.dir_fd < 0) {
		e = clear_unrecorded(&r, c, &err);
		report->cleared += e >= 0;
	} else if (e >= 0 && fstatat(r.dir_fd, "verdict.json", &st, AT_SYMLINK_NOFOLLOW) == 0) {
		e = clear_entry(&r, c, &err);
		report->cleared += e >= 0;
	} else if (e >= 0) {
		e = record_lost(&r, c, &err);
		report->lost += e >= 0;
	}
	if (e < 0) {
		report->failed++;
		report->last_error = err;
	}
	record_release(&r);
}

/* After a power cut an entry in active/ may be gone while its run directory is there, so the first look after a boot is at all. */
static int list_unfinished(const struct config *c, struct strv *ret, struct err *err)
{
	CLEANUP_STRV struct strv all = { 0 };
	int r = id_list(c->home, "runs", &all, err);
	for (size_t i = 0; r >= 0 && i < all.n; i++) {
		CLEANUP_FREE char *verdict =
			xasprintf("%s/runs/%s/verdict.json", c->home, all.v[i]);
		if (access(verdict, F_OK) < 0 && !strv_has(ret, all.v[i]))
			strv_add(ret, all.v[i]);
	}
	return r;
}

static bool is_new_boot(int home_fd, char boot[64])
{
	char last[64] = "";
	if (fs_read_small(AT_FDCWD, "/proc/sys/kernel/random/boot_id", boot, 64) < 0)
		return true;
	(void)fs_read_small(home_fd, "boot", last, sizeof last);
	return !str_eq(boot, last);
}

/* Not through a temporary file, which a crash would leave: half a word is no boot's, and means one more look at all. */
static void note_boot(int home_fd, const char *boot)
{
	CLEANUP_FD int fd = openat(home_fd, "boot",
				   O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0)
		(void)fs_write_all(fd, boot, strlen(boot));
}

static int sweep(const struct config *c, bool all, struct gc_report *ret, struct err *err)
{
	struct gc_report report = { 0 };
	char boot[64] = "";
	CLEANUP_STRV struct strv ids = { 0 };
	CLEANUP_FD int home_fd = open(c->home, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (home_fd < 0 && errno == ENOENT) {
		*ret = report;
		return 0;
	}
	if (home_fd < 0)
		return err_errno(err, "open %s", c->home);
	int r = id_list(c->home, "active", &ids, err);
	bool new_boot = is_new_boot(home_fd, boot);
	if (r >= 0 && (new_boot || all))
		r = list_unfinished(c, &ids, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < ids.n; i++)
		sweep_one(c, ids.v[i], &report);
	FAULT_PHASE("gc-swept");
	template_sweep(home_fd);
	FAULT_PHASE("gc-templates");
	gc_runtimes(c, &report);
	gc_doctor(c, &report);
	if (new_boot && !report.failed)
		note_boot(home_fd, boot);
	*ret = report;
	return 0;
}

int gc_sweep(const struct config *c, struct gc_report *ret, struct err *err)
{
	return sweep(c, false, ret, err);
}

int gc_sweep_all(const struct config *c, struct gc_report *ret, struct err *err)
{
	return sweep(c, true, ret, err);
}
