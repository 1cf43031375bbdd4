/* What was asked, completed from configuration and host: the last step that reads the world before planning. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/path.h"
#include "keeper/record.h"
#include "keeper/snapshot.h"
#include "run/attended.h"
#include "run/checkpoint_key.h"
#include "run/host_limits.h"
#include "run/post.h"
#include "run/provenance.h"
#include "run/shown.h"
#include "runtime/catalog.h"
#include "runtime/driver.h"
#include "runtime/state.h"
#include "spec/caller.h"
#include "spec/secret.h"

#define DATA_ENTRIES_MAX 2000

void resolved_release(struct resolved *r)
{
	plan_release(&r->plan);
	host_release(&r->host);
	runtime_release(&r->runtime);
	chosen_release(&r->chosen);
	strv_release(&r->notes);
}

/* What another step made is cupel's own, and nobody else can read it. */
static const struct config *owner_of(const struct config *c, const struct input *input)
{
	return input->is_own ? NULL : c;
}

/* Links are followed once, here, as the caller: later steps refuse to follow any. */
static int make_real(const struct config *c, char **path, const char *what, struct err *err)
{
	char *real = NULL;
	int r = caller_real(c, *path, &real);
	if (r < 0)
		return err_set(err, ERR_CALLER, -r, "%s: %s: %s", what, *path, strerrordesc_np(-r));
	free(*path);
	*path = real;
	return 0;
}

/* A copy of it is made with the rights of its owner, so as root only of what all may read. */
static int check_database(const struct config *c, const struct analysis *a, struct err *err)
{
	struct stat st = { 0 };
	const char *path = a->db_snapshot, *origin = a->db_snapshot_origin;
	int r = caller_may_read(c, path);
	if (r >= 0 && (stat(path, &st) < 0 || (geteuid() != 0 && access(path, R_OK) < 0)))
		r = -errno;
	if (r < 0)
		return err_set(err, ERR_CALLER, -r, "%s: %s: %s", origin, path,
			       strerrordesc_np(-r));
	if (geteuid() != 0 || (st.st_mode & 0004))
		return 0;
	return err_set(
		err, ERR_CALLER, EACCES,
		"%s: %s: not all users may read it (mode %04o), and root makes no snapshot of such a database. Run cupel "
		"as its owner, or give a copy",
		origin, path, (unsigned)st.st_mode & 07777);
}

static int resolve_paths(const struct config *c, struct analysis *a, struct err *err)
{
	int r = 0;
	for (size_t i = 0; r >= 0 && i < a->code.n; i++)
		r = make_real(c, &a->code.v[i], analysis_code_origin(a, i), err);
	for (size_t i = 0; r >= 0 && i < a->n_inputs; i++)
		r = make_real(owner_of(c, &a->inputs[i]), &a->inputs[i].path, a->inputs[i].origin,
			      err);
	if (r >= 0 && a->db_snapshot)
		r = make_real(c, &a->db_snapshot, a->db_snapshot_origin, err);
	return r;
}

/* After planning, which refuses what must not be shown at all. */
static int check_paths(const struct config *c, const struct analysis *a,
		       const struct limits *limits, struct plan *plan, struct err *err)
{
	int r = shown_check(c, a, plan, err);
	if (r >= 0 && a->db_snapshot)
		r = check_database(c, a, err);
	if (r >= 0 && a->db_snapshot)
		r = snapshot_check(a->db_snapshot, a->db_snapshot_origin,
				   limits->at[LIMIT_DISK].value, err);
	return r;
}

/* An activation (ACTIVATION_STATIC) writes its whole environment into files that are kept: it gets no secret. */
static void pass_variables(const struct config *c, enum activation_how how, struct analysis *a)
{
	for (size_t i = 0; i < c->env_pass.n; i++) {
		const char *value = getenv(c->env_pass.v[i]);
		if (!value || pairs_get(&a->env, c->env_pass.v[i]) ||
		    (how == ACTIVATION_STATIC && env_is_secret(c->env_pass.v[i], value)))
			continue;
		pairs_set(&a->env, c->env_pass.v[i], value);
		strv_add(&a->passed, c->env_pass.v[i]);
	}
}

/* No link, and nothing that leads to a program or a device. */
static bool is_data(unsigned char type)
{
	return type == DT_REG || type == DT_DIR || type == DT_UNKNOWN;
}

static int list_data(const struct config *c, const struct analysis *a, struct strv *ret,
		     struct err *err)
{
	if (!c->project_data || a->n_inputs == 0)
		return 0;
	CLEANUP_DIR DIR *dir = opendir(c->project_data);
	if (!dir)
		return err_errno(err, "open the project's data directory %s", c->project_data);
	for (struct dirent *entry; (entry = readdir(dir));) {
		if (str_eq(entry->d_name, ".") || str_eq(entry->d_name, "..") ||
		    !is_data(entry->d_type))
			continue;
		if (ret->n == DATA_ENTRIES_MAX)
			return err_caller(
				err,
				"%s has more than %d entries: too many to show beside inputs; put them into directories",
				c->project_data, DATA_ENTRIES_MAX);
		strv_add(ret, entry->d_name);
	}
	return 0;
}

static int choose_id(const struct analysis *a, char ret[ID_MAX + 1], struct err *err)
{
	if (!a->id) {
		id_generate(ret);
		return 0;
	}
	int r = id_check(a->id, err);
	if (r >= 0)
		(void)snprintf(ret, ID_MAX + 1, "%s", a->id);
	return r;
}

/* The configured default is for runs that can have it. */
static int choose_scratch(const struct config *c, struct analysis *a, const struct runtime *r,
			  struct err *err)
{
	const char *executor = a->executor   ? a->executor
			       : r->executor ? r->executor
					     : c->default_executor;
	bool is_local = str_eq(executor, "local");
	if (!a->scratch_said)
		a->scratch = is_local ? c->scratch : SCRATCH_DISK;
	if (a->scratch == SCRATCH_MEMORY && config_executor(c, executor))
		return err_caller(
			err,
			"scratch: memory is for runs in cupel's own box, and the executor %s has working directories on disk "
			"only. Leave it out, or use --executor local",
			executor);
	return 0;
}

static int complete(const struct config *c, struct analysis *a, enum activation_how how,
		    struct resolved *r, struct err *err)
{
	int e = choose_id(a, r->id, err);
	if (e >= 0)
		e = analysis_check(a, err);
	if (e >= 0)
		e = resolve_paths(c, a, err);
	if (e >= 0) {
		e = runtime_select(c, a, &r->chosen.selection, err);
		if (e < 0 && a->code_origins.n)
			e = err_wrap(err, "%s", a->code_origins.v[0]);
	}
	if (e >= 0) { /* what the caller says goes over what the script says of itself */
		struct limits said = r->chosen.selection.limits;
		limits_merge(&said, &a->limits);
		a->limits = said;
		e = catalog_find(c, r->chosen.selection.name, &r->runtime, err);
		if (e < 0 && a->runtime && a->runtime_origin)
			e = err_wrap(err, "%s", a->runtime_origin);
	}
	if (e >= 0)
		e = config_limits(c, &r->runtime.limits, a, &r->limits, err);
	if (e >= 0)
		e = host_read(&r->host, err);
	if (e >= 0)
		e = host_limits_fit(c, a, r, &r->notes, err);
	if (e >= 0)
		e = choose_scratch(c, a, &r->runtime, err);
	if (e < 0)
		return e;
	pass_variables(c, how, a);
	if (driver_runs(&r->runtime, a))
		driver_outputs(a);
	analysis_complete(a, &r->limits);
	if (!a->keep_said)
		a->keep = c->keep;
	r->keep = a->keep;
	return 0;
}

/* A runtime that is out of reach or not fit is no error here: a run in it is refused, and recorded as that. True if it can be planned
 * with. */
static bool look_at_runtime(const struct config *c, const struct analysis *a,
			    enum activation_how how, struct resolved *r, struct strv *warnings)
{
	struct chosen *chosen = &r->chosen;
	struct err *why = &chosen->unfit;
	bool in_reach = runtime_open(c, &r->runtime, why) >= 0;
	int e = in_reach ? runtime_fit(c, &r->runtime, &chosen->fingerprint, why) : -1;
	chosen->allowed = e == -ESTALE && a->allow_drift;
	if (e >= 0 || chosen->allowed) {
		struct activation_request request = {
			.config = c, .analysis = a, .id = r->id, .how = how, .warnings = warnings
		};
		struct err failed = { 0 };
		if (activation_apply(&request, &r->runtime, chosen, &failed) < 0) {
			*why = failed;
			chosen->allowed = false;
		}
	}
	if (chosen->allowed)
		strv_addf(warnings, "the runtime can't be relied on, and is used all the same: %s",
			  why->text);
	else if (why->code)
		strv_addf(warnings, "a run would be refused as runtime-broken: %s", why->text);
	return in_reach;
}

/* The box follows no link on the way to what is in the home. */
static char *real_home(const struct config *c)
{
	char *home = path_real(c->home);
	return home ? home : xstrdup(c->home);
}

/* Where the keeper will put the copy. */
static char *snapshot_path(const struct config *c, const struct analysis *a, const char *id)
{
	CLEANUP_FREE char *home = a->db_snapshot ? real_home(c) : NULL;
	return home ? xasprintf("%s/runs/%s/" SNAPSHOT_NAME, home, id) : NULL;
}

/* Has the caller made a directory where the run is to work? Only his own counts, and no link is followed. It is never written to, so it
 * may change afterwards: the run works beside it, and the box alone has that directory at this path. */
static bool caller_has_work_dir(const struct config *c, const struct analysis *a, const char *id)
{
	struct stat st;
	if (!a->id) /* a new id is nobody's */
		return false;
	CLEANUP_FREE char *path = config_work_dir(c, id);
	CLEANUP_FD int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	uid_t caller = c->caller.is_set ? c->caller.uid : geteuid();
	return fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == caller;
}

/* Those of the runtime's entry. */
static void drop_secrets(struct strv *env)
{
	CLEANUP_STRV struct strv kept = { 0 };
	for (size_t i = 0; i < env->n; i++)
		if (!env_entry_is_secret(env->v[i]))
			strv_add(&kept, env->v[i]);
	strv_release(env);
	*env = kept;
	kept = (struct strv){ 0 };
}

static int resolve(const struct config *c, struct analysis *a, enum activation_how how,
		   const struct plan_grant *grant, struct resolved *r, struct err *err)
{
	CLEANUP_STRV struct strv entries = { 0 };
	CLEANUP_STRV struct strv warnings = { 0 };
	int e = record_home_trust(c->home, err);
	if (e >= 0)
		e = complete(c, a, how, r, err);
	if (e >= 0)
		e = list_data(c, a, &entries, err);
	if (e < 0)
		return e;
	bool in_reach = look_at_runtime(c, a, how, r, &warnings);
	CLEANUP_FREE char *snapshot = snapshot_path(c, a, r->id);
	CLEANUP_FREE char *home = a->checkpoint ? real_home(c) : NULL;
	struct plan_request request = {
		.id = r->id,
		.analysis = a,
		.config = c,
		.runtime = &r->runtime,
		.host = &r->host,
		.limits = &r->limits,
		.data_entries = &entries,
		.grant = grant,
		.snapshot = snapshot,
		.home = home,
		.caller_has_work_dir = caller_has_work_dir(c, a, r->id),
		.deadline_unix = (clock_real_ns() + r->limits.at[LIMIT_TIME].value) / NS_PER_SEC,
	};
	if (a->command_is_text) /* else it is from the record of a run that is run again */
		strv_release(&a->shell_used);
	if (in_reach && a->command_is_text)
		e = runtime_shell(&r->runtime, a, &a->shell_used, err);
	if (e >= 0 && in_reach)
		e = plan_make(&request, &r->plan, err);
	else if (e >= 0)
		plan_refused(&request, &r->plan);
	if (e < 0)
		return e;
	if (how == ACTIVATION_STATIC)
		drop_secrets(&r->plan.env);
	strv_copy(&r->plan.warnings, &warnings);
	for (size_t i = 0; i < r->notes.n; i++)
		strv_add(&r->plan.warnings, r->notes.v[i]);
	return check_paths(c, a, &r->limits, &r->plan, err);
}

/* With the caller's rights: a digest of what he may not read would tell him what it is. */
static int read_one(const struct config *c, struct contents_reader *reader, const char *path,
		    struct contents *ret, struct err *err)
{
	CLEANUP(caller_leave) struct caller_before before = { 0 };
	int r = caller_enter(c, &before);
	if (r < 0)
		return err_set(err, ERR_CALLER, -r, "%s: %s", path, strerrordesc_np(-r));
	return contents_read(reader, path, ret, err);
}

/* What is shown, as it is now: recorded, and looked at again when the run is over. */
static int read_contents(const struct config *c, struct analysis *a, struct err *err)
{
	CLEANUP_CONTENTS_READER struct contents_reader reader = { .cache_fd = -1 };
	if (!a->code.n && !a->n_inputs)
		return 0;
	if (a->key.sha256
		    [0]) /* what its key was made from is to be compared with what it is shown */
		contents_begin_all(&reader, c->home);
	else
		contents_begin(&reader, c->home);
	reader.opens_first = caller_is_other(c);
	free(a->code_contents);
	a->code_contents = a->code.n ? xcalloc(a->code.n, sizeof *a->code_contents) : NULL;
	int r = 0;
	for (size_t i = 0; r >= 0 && i < a->code.n; i++)
		r = read_one(c, &reader, a->code.v[i], &a->code_contents[i], err);
	for (size_t i = 0; r >= 0 && i < a->n_inputs; i++)
		r = read_one(owner_of(c, &a->inputs[i]), &reader, a->inputs[i].path,
			     &a->inputs[i].contents, err);
	return r;
}

/* What records will say of secret values. */
static int note_secrets(const struct config *c, struct analysis *a, struct err *err)
{
	bool any = false;
	for (size_t i = 0; i < a->env.n; i++)
		any |= env_is_secret(a->env.v[i].key, a->env.v[i].value);
	int r = any ? record_home(c->home, err) : 0; /* which has the key */
	return r < 0 ? r : secrets_note(c->home, a, err);
}

int run_resolve_granted(const struct config *config, struct analysis *analysis,
			enum activation_how how, const struct plan_grant *grant,
			struct resolved *ret, struct err *err)
{
	struct resolved r = { 0 };
	int e = resolve(config, analysis, how, grant, &r, err);
	if (e >= 0 && grant)
		e = read_contents(config, analysis, err);
	if (e >= 0 && grant && how != ACTIVATION_KNOWN)
		e = note_secrets(config, analysis, err);
	if (e < 0) {
		resolved_release(&r);
		return e;
	}
	*ret = r;
	return 0;
}

int run_resolve_how(const struct config *config, struct analysis *analysis, enum activation_how how,
		    struct resolved *ret, struct err *err)
{
	return run_resolve_granted(config, analysis, how, NULL, ret, err);
}

/* The caller's own wish; what cupel itself runs to find out how a runtime is does not come this way. */
static int check_policy(const struct config *c, const struct analysis *a, struct err *err)
{
	if (!a->allow_drift || c->drift_allowed)
		return 0;
	return err_set(
		err, ERR_CALLER, EPERM,
		"allow_drift: runtimes that are not what they were are not run in here; the host's policy would "
		"have to say 'policy: {allow_drift: true}' in its cupel.yaml");
}

/* What is wrong with the step that takes the outputs is said before anything runs. */
static int look_at_step(const struct config *c, const struct analysis *a, const char *id,
			enum activation_how how, struct err *err)
{
	CLEANUP_POST struct post post = POST_INIT;
	return a->post_process ? post_resolve(c, a, id, how, &post, err) : 0;
}

/* Whoever starts the run may have said which it is; otherwise what the analysis is tells, which is known only now. */
static void find_checkpoint(const struct config *c, struct analysis *a, struct resolved *r)
{
	if (!a->checkpoint)
		return;
	CLEANUP_FREE char *home = real_home(c);
	if (!a->checkpoint_key[0]) {
		checkpoint_key(a, r, a->checkpoint_key);
		checkpoint_key_for(c->submitter, a->checkpoint_key);
	}
	plan_set_checkpoint(&r->plan, home, a->checkpoint_key);
}

int run_resolve(const struct config *config, struct analysis *analysis, struct resolved *ret,
		struct err *err)
{
	struct resolved resolved = { 0 };
	int r = check_policy(config, analysis, err);
	/* Its real path is in plans. */
	if (r >= 0 && (analysis->db_snapshot || analysis->post_process || analysis->checkpoint))
		r = record_home(config->home, err);
	if (r >= 0)
		r = run_resolve_how(config, analysis, ACTIVATION_RUN, &resolved, err);
	if (r >= 0)
		r = attended_resolve(config, analysis, &resolved, err);
	if (r >= 0)
		r = read_contents(config, analysis, err);
	if (r >= 0)
		r = note_secrets(config, analysis, err);
	if (r >= 0)
		find_checkpoint(config, analysis, &resolved);
	if (r >= 0)
		provenance_show(analysis, &resolved);
	if (r >= 0)
		r = look_at_step(config, analysis, resolved.id, ACTIVATION_RUN, err);
	if (r < 0)
		resolved_release(&resolved);
	else
		*ret = resolved;
	return r;
}

int run_foresee(const struct config *config, struct analysis *analysis, struct resolved *ret,
		struct err *err)
{
	struct resolved resolved = { 0 };
	int r = check_policy(config, analysis, err);
	if (r >= 0)
		r = run_resolve_how(config, analysis, ACTIVATION_KNOWN, &resolved, err);
	if (r >= 0)
		r = attended_foresee(config, analysis, &resolved.runtime, err);
	if (r < 0)
		resolved_release(&resolved);
	else
		*ret = resolved;
	return r;
}

int run_foresee_step(const struct config *config, const struct analysis *analysis, const char *id,
		     json_t **ret, struct err *err)
{
	CLEANUP_POST struct post post = POST_INIT;
	if (!analysis->post_process)
		return 0;
	int r = post_resolve(config, analysis, id, ACTIVATION_KNOWN, &post, err);
	if (r >= 0)
		*ret = post_json(&post);
	return r;
}
