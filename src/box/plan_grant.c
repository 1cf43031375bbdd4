/* What single runs are shown beside what all are: a copy of a database; what runs a notebook; and a step of the host's, outputs and the database itself. */
#include "box/plan_parts.h"

#include "runtime/driver.h"

#define OUTPUTS  "/run/cupel/outputs"
#define PGPASS   "/run/cupel/pgpass"
#define DATABASE PLAN_DATABASE_DIR

int plan_snapshot(const struct plan_request *q, struct plan *p, struct err *err)
{
	const struct analysis *a = q->analysis;
	if (!q->snapshot)
		return 0;
	int r = plan_check_shown(q, a->db_snapshot, a->db_snapshot_origin, err);
	if (r >= 0)
		plan_step(p, STEP_BIND, PLAN_SNAPSHOT, q->snapshot);
	return r;
}

void plan_driver(const struct plan_request *q, struct plan *p)
{
	for (size_t i = 0; driver_runs(q->runtime, q->analysis) && i < driver_file_count; i++) {
		CLEANUP_FREE char *path = xasprintf(DRIVER_DIR "/%s", driver_files[i].name);
		plan_step(p, STEP_FILE, path, driver_files[i].text)->mode = 0444;
	}
}

/* The whole directory, since SQLite makes and removes files beside the database, and all who use it must see the same ones. Whatever else
 * is there is covered. */
static void plan_sqlite(const struct plan_grant *g, struct plan *p)
{
	plan_step(p, STEP_BIND, DATABASE, g->database_dir)->writable = true;
	for (size_t i = 0; i < g->others->n; i++) {
		CLEANUP_FREE char *path = xasprintf(DATABASE "/%s", g->others->v[i]);
		plan_step(p, STEP_MASK, path, NULL);
	}
	plan_rule(p, DATABASE, ACCESS_WRITE);
}

static void plan_server(const struct plan_grant *g, struct plan *p)
{
	CLEANUP_FREE char *target = xasprintf(DATABASE "/%s", g->socket_name);
	plan_step(p, STEP_SOCKET, target, g->socket);
	if (!g->pgpass)
		return;
	struct step *s = plan_step(p, STEP_FILE, PGPASS, g->pgpass);
	s->mode = 0400; /* libpq ignores one that others could read */
	s->secret = true;
}

void plan_grant(const struct plan_request *q, struct plan *p)
{
	const struct plan_grant *g = q->grant;
	if (!g)
		return;
	if (g->outputs)
		plan_step(p, STEP_BIND, OUTPUTS, g->outputs);
	else
		plan_step(p, STEP_DIR, OUTPUTS, NULL)->mode = 0755;
	if (g->database_dir)
		plan_sqlite(g, p);
	if (g->socket)
		plan_server(g, p);
}

void plan_grant_env(const struct plan_grant *g, struct pairs *env)
{
	pairs_set(env, "CUPEL_RUN_ID", g->run_id);
	pairs_set(env, "CUPEL_OUTPUTS", OUTPUTS);
	pairs_set(env, "CUPEL_DATABASE_URL", g->url);
	if (g->pgpass)
		pairs_set(env, "PGPASSFILE", PGPASS);
}
