/* Configuration: the first byte says whose file the rest is. A project's file, which comes with
 * the project, must leave everything that is the host's to say as it was, and show nothing from
 * outside its folder. */
#include "fuzz.h"

#include <sys/stat.h>

#include "base/path.h"
#include "spec/config.h"
#include "spec/dburl.h"

struct places {
	char project[256]; /* a folder with data/ */
	char file[3][300]; /* the host's, the user's, the project's */
};

static const struct places *places_get(void)
{
	static struct places p;
	char data[300];

	if (p.project[0])
		return &p;
	(void)snprintf(p.project, sizeof(p.project), "%s/project", fuzz_folder());
	(void)snprintf(data, sizeof(data), "%s/data", p.project);
	CHECK(mkdir(p.project, 0700) == 0 && mkdir(data, 0700) == 0);
	(void)snprintf(p.file[0], sizeof(p.file[0]), "%s/system.yaml", fuzz_folder());
	(void)snprintf(p.file[1], sizeof(p.file[1]), "%s/user.yaml", fuzz_folder());
	(void)snprintf(p.file[2], sizeof(p.file[2]), "%s/cupel.yaml", p.project);
	return &p;
}

/* Where records go when no file says so. */
static const char *home_without_files(void)
{
	static struct config c;
	const struct config_where where = {
		.system_file = "/none", .user_file = "/none", .start_dir = "/", .home = ""
	};

	if (!c.home)
		CHECK(config_read(&where, &c, NULL) >= 0);
	return c.home;
}

static void check_project(const struct places *p, const struct config *c)
{
	CHECK(str_eq(c->home, home_without_files()));
	CHECK(str_eq(c->work_root, "/tmp") && str_eq(c->work_template, "scidex-analysis-{id}"));
	CHECK(str_eq(c->cgroup_parent, "cupel") && c->cgroup_manager == CGROUP_AUTO);
	CHECK(c->disk == DISK_AUTO && !c->network_host_allowed && c->allow_missing.n == 0);
	CHECK(c->n_post_processes == 0);
	CHECK(c->uid_first == 1900000000 && c->uid_count == 65536 && c->env_pass.n == 3);
	for (int id = 0; id < LIMIT_COUNT_; id++)
		CHECK(!c->aggregate.at[id].value || str_eq(c->aggregate.at[id].origin, "built-in"));
	CHECK(!c->project_data || path_within(c->project_data, p->project));
	CHECK(!c->project_docs || path_within(c->project_docs, p->project));
}

/* What a step is told of its database has no password, and is the same database. */
static void check_step(const struct post_process *p)
{
	CLEANUP_DBURL struct dburl url = { 0 }, again = { 0 };

	CHECK(!p->script != !p->command.n && p->name && p->origin && p->database_origin);
	CHECK(dburl_parse(p->database, &url, NULL) >= 0);
	CLEANUP_FREE char *inside = dburl_inside(&url, "/run/cupel/database");
	CLEANUP_FREE char *shown = dburl_shown(p->database);
	CHECK(shown && dburl_parse(inside, &again, NULL) >= 0 && url.kind == again.kind);
	if (url.kind == DB_POSTGRES)
		CHECK(!again.password && str_eq(again.user, url.user) &&
		      str_eq(again.name, url.name));
}

static void check_any(const struct config *c)
{
	CLEANUP_FREE char *work = config_work_dir(c, "the-id");
	struct analysis nothing = { 0 };
	struct limits limits = { 0 };
	struct err err = { 0 };

	CHECK(work[0] == '/' && strstr(path_base(work), "the-id"));
	CHECK(path_name_ok(path_base(work)) && path_within(work, c->work_root));
	CHECK(c->uid_first >= 65536 && c->uid_count >= 1);
	CHECK((uint64_t)c->uid_first + c->uid_count <= UINT32_MAX);
	CHECK(c->cgroup_parent[0] != '/' && !strstr(c->cgroup_parent, ".."));
	for (size_t i = 0; i < c->protect.n; i++)
		CHECK(c->protect.v[i][0] == '/');
	for (size_t i = 0; i < c->n_values; i++)
		CHECK(c->values[i].key && c->values[i].text && c->values[i].origin);
	for (size_t i = 0; i < c->n_post_processes; i++)
		check_step(&c->post_processes[i]);
	if (!fuzz_accepted(config_limits(c, NULL, &nothing, &limits, &err), &err))
		return;
	for (int id = 0; id < LIMIT_COUNT_; id++)
		CHECK(!c->ceilings.at[id].value || limits.at[id].value <= c->ceilings.at[id].value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct places *p = places_get();
	CLEANUP_CONFIG struct config c = { 0 };
	struct err err = { 0 };

	if (size == 0)
		return 0;
	int which = data[0] % 3;
	const struct config_where where = { .system_file = which == 0 ? p->file[0] : "/none",
					    .user_file = which == 1 ? p->file[1] : "/none",
					    .start_dir = which == 2 ? p->project : "/",
					    .home = "" };
	fuzz_write(p->file[which], data + 1, size - 1);
	int r = config_read(&where, &c, &err);
	if (!fuzz_accepted(r, &err))
		return 0;
	check_any(&c);
	if (which == 2)
		check_project(p, &c);
	return 0;
}
