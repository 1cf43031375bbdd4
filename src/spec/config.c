/* The configuration in effect: built-in values, then each file over them, then the environment. */
#include "spec/config.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/num.h"
#include "base/path.h"
#include "spec/caller.h"
#include "spec/config_layer.h"
#include "spec/dburl.h"

#define SYSTEM_FILE "/etc/cupel/cupel.yaml"
#define MIB         (1024ULL * 1024)

void config_release(struct config *c)
{
	if (!c)
		return;
	free(c->home);
	free(c->project_root);
	free(c->project_data);
	free(c->project_docs);
	strv_release(&c->runtime_dirs);
	strv_release(&c->protect);
	pairs_release(&c->watch_levels);
	strv_release(&c->watch);
	for (size_t i = 0; i < c->n_profiles; i++)
		free(c->profiles[i].name);
	free(c->profiles);
	for (size_t i = 0; i < c->n_post_processes; i++)
		post_process_release(&c->post_processes[i]);
	free(c->post_processes);
	free(c->work_root);
	free(c->work_template);
	free(c->default_runtime);
	free(c->default_profile);
	strv_release(&c->allow_missing);
	strv_release(&c->env_pass);
	free(c->cgroup_parent);
	free(c->ledger_url);
	for (size_t i = 0; i < c->n_quests; i++)
		quest_settings_release(&c->quests[i]);
	free(c->quests);
	service_settings_release(&c->service);
	for (size_t i = 0; i < c->n_executors; i++)
		executor_settings_release(&c->executors[i]);
	free(c->executors);
	free(c->default_executor);
	for (size_t i = 0; i < c->n_values; i++) {
		free(c->values[i].key);
		free(c->values[i].text);
		free(c->values[i].origin);
	}
	free(c->values);
	*c = (struct config){ 0 };
}

/* Bytes of memory in the host, as containers' views of /proc show it; 0 if it cannot be told. */
static uint64_t host_memory(void)
{
	char text[4096];
	uint64_t kib = 0;

	if (fs_read_small(AT_FDCWD, "/proc/meminfo", text, sizeof(text)) < 0)
		return 0;
	char *digits = strstr(text, "MemTotal:");
	if (!digits)
		return 0;
	digits += strlen("MemTotal:");
	digits += strspn(digits, " ");
	digits[strspn(digits, "0123456789")] = '\0';
	return num_u64(digits, UINT64_MAX / 2048, &kib) < 0 ? 0 : kib * 1024;
}

static void config_built_in(struct config *c)
{
	uint64_t memory = host_memory() / 10 * 9 / MIB * MIB;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	c->work_root = xstrdup("/tmp");
	c->work_template = xstrdup("scidex-analysis-{id}");
	c->default_runtime = xstrdup("base");
	c->default_profile = xstrdup("default");
	c->default_executor = xstrdup("local");
	c->keep = KEEP_NEVER;
	c->scratch = SCRATCH_DISK;
	c->drift_allowed = true;
	c->cpu_weight = CPU_WEIGHT_DEFAULT;
	c->uid_first = 1900000000;
	c->uid_count = 65536;
	c->partial_age_ns = 30 * 24 * 3600 * 1000000000ULL;
	c->checkpoint_age_ns = c->partial_age_ns;
	c->service.max_queued_per_submitter = 10000;
	c->service.check_runtimes_ns = 24 * 3600 * 1000000000ULL;
	/* A group of his own for each user: what is given to one is nobody else's. */
	c->cgroup_parent = geteuid() == 0 ? xstrdup("cupel")
					  : xasprintf("cupel-%u", (unsigned)geteuid());
	strv_add(&c->env_pass, "LANG");
	strv_add(&c->env_pass, "LC_ALL");
	strv_add(&c->env_pass, "TZ");
	if (memory)
		limits_set(&c->aggregate, LIMIT_MEMORY, memory, "built-in");
	limits_set(&c->aggregate, LIMIT_CPUS, (uint64_t)(cpus > 0 ? cpus : 1) * 900, "built-in");
	limits_set(&c->aggregate, LIMIT_PIDS, 16384, "built-in");
}

/* A variable that holds an absolute path; XDG says that others are to be ignored. */
static const char *env_path(const char *name)
{
	const char *value = getenv(name);

	return value && value[0] == '/' ? value : NULL;
}

static char *user_file(const struct config_where *where)
{
	const char *base = env_path("XDG_CONFIG_HOME"), *home = env_path("HOME");

	if (where->user_file)
		return xstrdup(where->user_file);
	if (base)
		return path_join(base, "cupel/cupel.yaml");
	return home ? path_join(home, ".config/cupel/cupel.yaml") : NULL;
}

/* $CUPEL_HOME over the files over the place for this user. */
static int home_settle(const struct config_where *where, struct config *c, struct pairs *origins,
		       struct err *err)
{
	const char *said = where->home ? where->home : getenv("CUPEL_HOME");
	const char *state = env_path("XDG_STATE_HOME"), *home = env_path("HOME");
	char *path = NULL;

	if (said && said[0]) {
		path = said[0] == '/' ? path_normal("/", said) : NULL;
		if (!path)
			return err_caller(err, "CUPEL_HOME must be an absolute path");
		free(c->home);
		c->home = path;
		pairs_set(origins, "home", "environment CUPEL_HOME");
	}
	if (c->home && str_eq(c->home, "/"))
		return err_caller(err,
				  "the home of cupel (%s) cannot be '/'; name a directory of "
				  "its own",
				  pairs_get(origins, "home"));
	if (c->home)
		return 0;
	if (geteuid() == 0)
		c->home = xstrdup("/var/lib/cupel");
	else if (state)
		c->home = path_join(state, "cupel");
	else if (home)
		c->home = path_join(home, ".local/state/cupel");
	else
		return err_caller(err, "neither HOME nor CUPEL_HOME is set; set CUPEL_HOME to a "
				       "directory for the records of runs");
	return 0;
}

/* A project's file came with the project: it may not have a directory from elsewhere shown to the project's code, not even through
 * a link. The user's and the host's files may. */
static int stays_in_project(const struct config_layer *layer, const char *key, const char *path,
			    struct err *err)
{
	CLEANUP_FREE char *real = path_real(path);
	CLEANUP_FREE char *directory = path_real(layer->directory);

	if (layer->source != CONFIG_PROJECT || (real && directory && path_within(real, directory)))
		return 0;
	return err_caller(err,
			  "%s: %s leads to %s, outside the project; show it with --data or inputs:",
			  layer->file, key, real ? real : path);
}

/* A directory of the project: as named, or NAME below the root if that is there. */
static int project_dir(const struct config_layer *layer, const char *said, const char *name,
		       char **ret, struct err *err)
{
	CLEANUP_FREE char *path = path_normal(layer->config->project_root, said ? said : name);
	CLEANUP_FREE char *key = xasprintf("project.%s", name);
	struct stat st;
	bool there = path && stat(path, &st) == 0 && S_ISDIR(st.st_mode);

	if (said && !there)
		return err_caller(err,
				  "%s: %s: %s is not a directory; create it or correct the name",
				  pairs_get(layer->origins, key), key, path ? path : said);
	if (!said)
		pairs_set(layer->origins, key, there ? layer->file : "built-in");
	int r = there ? stays_in_project(layer, key, path, err) : 0;
	if (r < 0)
		return r;
	free(*ret);
	*ret = there ? take_ptr(path) : NULL;
	return 0;
}

/* A project's file makes its directory the project; other files must name one. */
static int project_settle(struct config_layer *layer, struct err *err)
{
	struct config *c = layer->config;
	struct stat st;

	if (layer->source != CONFIG_PROJECT && !layer->project_root) {
		if (layer->project_data || layer->project_docs)
			return err_caller(
				err, "%s: project.data and project.docs need project.root here",
				layer->file);
		return 0;
	}
	if (!layer->project_root) {
		layer->project_root = xstrdup(layer->directory);
		pairs_set(layer->origins, "project.root", layer->file);
	}
	if (stat(layer->project_root, &st) < 0 || !S_ISDIR(st.st_mode))
		return err_caller(err, "%s: project.root: %s is not a directory; correct it",
				  pairs_get(layer->origins, "project.root"), layer->project_root);
	free(c->project_root);
	c->project_root = take_ptr(layer->project_root);
	int r = project_dir(layer, layer->project_data, "data", &c->project_data, err);
	if (r < 0)
		return r;
	return project_dir(layer, layer->project_docs, "docs", &c->project_docs, err);
}

static void protect_add(struct config_layer *layer, const char *path, const char *origin)
{
	struct config *c = layer->config;
	CLEANUP_FREE char *key = xasprintf("protect.%zu", c->protect.n);

	if (strv_has(&c->protect, path))
		return;
	pairs_set(layer->origins, key, origin);
	strv_add(&c->protect, path);
}

enum watch_level config_watch_level(const struct config *c, const char *what)
{
	const char *level = pairs_get(&c->watch_levels, what);
	return str_eq(level, "schema") ? WATCH_SCHEMA
	       : str_eq(level, "rows") ? WATCH_ROWS
				       : WATCH_CONTENT;
}

/* No file has it watched less closely than another one wants it. */
static void watch_level_set(struct config *c, const char *what, const char *level, bool is_new)
{
	const char *before = is_new ? NULL : pairs_get(&c->watch_levels, what);
	bool is_content = str_eq(level, "content") || (!is_new && !before);
	bool is_rows = str_eq(level, "rows") || str_eq(before, "rows");
	pairs_set(&c->watch_levels, what, is_content ? "content" : is_rows ? "rows" : "schema");
}

/* A project keeps its own paths from being shown; what is looked at around each run is the host's and the user's to say. */
static void watch_add(struct config_layer *layer, const char *what, const char *origin)
{
	struct strv *watch = &layer->config->watch;

	if (layer->source == CONFIG_PROJECT || strv_has(watch, what))
		return;
	strv_add(watch, what);
	if (dburl_is(what))
		pairs_set(layer->origins, what, origin);
}

/* What one file protects stays protected, whatever later files say. A path that leads through a link is
 * protected by both its names: what is to be shown comes with its links resolved. */
static int protect_settle(struct config_layer *layer, struct err *err)
{
	const struct config *c = layer->config;
	const char *base = layer->source == CONFIG_PROJECT ? c->project_root : layer->directory;

	for (size_t i = 0; i < layer->protect.n; i++) {
		const char *said = layer->protect.v[i], *origin = layer->protect_at.v[i];
		bool is_url = dburl_is(said), is_file = str_starts(said, "sqlite:");
		if (is_url) {
			bool is_new = !strv_has(&c->watch, said);
			watch_add(layer, said, origin);
			watch_level_set(layer->config, said, layer->protect_levels.v[i], is_new);
		}
		if (is_url && !is_file)
			continue;
		CLEANUP_FREE char *path =
			path_normal(base, is_file ? said + strlen("sqlite:") : said);
		CLEANUP_FREE char *real = path ? path_real(path) : NULL;
		if (!path)
			return err_caller(err, "%s: a protected path is not usable; correct it",
					  origin);
		protect_add(layer, path, origin);
		if (real)
			protect_add(layer, real, origin);
		if (!is_file)
			watch_add(layer, path, origin);
		if (!is_file && real)
			watch_add(layer, real, origin);
	}
	return 0;
}

/* `loaded` is what loading it returned: 0 when there is no such file. */
static int layer_apply(int loaded, struct config_layer *layer, struct config *c,
		       struct pairs *origins, struct err *err)
{
	if (loaded <= 0)
		return loaded;
	layer->config = c;
	layer->origins = origins;
	int r = config_layer_read(layer, err);
	if (r < 0)
		return r;
	r = project_settle(layer, err);
	if (r < 0)
		return r;
	return protect_settle(layer, err);
}

static void runtimes_add(struct config *c, const char *file)
{
	CLEANUP_FREE char *directory = path_parent(file);

	strv_take(&c->runtime_dirs, path_join(directory, "runtimes.d"));
}

/* $CUPEL_CONFIG stands in for the system's file, and must then be there. */
static int system_load(const char *file, bool must_exist, struct config_layer *ret, struct err *err)
{
	int r = config_file_load(file, CONFIG_SYSTEM, ret, err);

	if (r == 0 && must_exist)
		return err_caller(err, "%s: no such file; correct CUPEL_CONFIG or unset it", file);
	return r;
}

static int layers_apply(const struct config_where *where, const char *cwd, struct config *c,
			struct pairs *origins, struct err *err)
{
	CLEANUP_LAYER struct config_layer host = { 0 }, user = { 0 }, project = { 0 };
	const char *named = where->system_file ? NULL : getenv("CUPEL_CONFIG");
	const char *said = where->system_file ? where->system_file : SYSTEM_FILE;
	CLEANUP_FREE char *system_path = path_normal(cwd, named && named[0] ? named : said);
	CLEANUP_FREE char *user_path = user_file(where);
	CLEANUP_FREE char *start = path_normal(cwd, where->start_dir ? where->start_dir : cwd);

	if (!system_path || !start)
		return err_caller(err, "the path of the configuration leads above the root; "
				       "correct CUPEL_CONFIG");
	runtimes_add(c, system_path);
	if (user_path)
		runtimes_add(c, user_path);
	int r = system_load(system_path, named && named[0], &host, err);
	r = layer_apply(r, &host, c, origins, err);
	if (r < 0)
		return r;
	r = user_path ? config_file_load(user_path, CONFIG_USER, &user, err) : 0;
	r = layer_apply(r, &user, c, origins, err);
	if (r < 0)
		return r;
	r = config_project_load(start, system_path, user_path, &project, err);
	c->has_project_runtimes = r > 0;
	if (r > 0)
		runtimes_add(c, project.file);
	return layer_apply(r, &project, c, origins, err);
}

static void submitter_read(struct config *c)
{
	const char *said = c->caller.is_set ? getenv("CUPEL_SUBMITTER_NAME") : NULL;

	(void)snprintf(c->submitter, sizeof(c->submitter), "%s", said ? said : "");
}

int config_read(const struct config_where *where, struct config *ret, struct err *err)
{
	static const struct config_where real = { 0 };
	CLEANUP_CONFIG struct config c = { 0 };
	CLEANUP(pairs_release) struct pairs origins = { 0 };
	CLEANUP_FREE char *cwd = path_cwd();

	if (!cwd)
		return err_errno(err, "find the current directory");
	if (!where)
		where = &real;
	config_built_in(&c);
	int r = layers_apply(where, cwd, &c, &origins, err);
	if (r < 0)
		return r;
	r = home_settle(where, &c, &origins, err);
	if (r >= 0)
		r = caller_read(&c.caller, err);
	submitter_read(&c);
	if (r < 0)
		return r;
	/* Inputs are compared with it, and they come with their links resolved. */
	char *real_home = path_real(c.home);
	if (real_home) {
		free(c.home);
		c.home = real_home;
	}
	config_values_fill(&c, &origins);
	*ret = c;
	c = (struct config){ 0 };
	return 0;
}
