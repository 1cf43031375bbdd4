/* What single runs are shown beside what all are: a copy of a database. */
#include "box/plan_parts.h"

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
