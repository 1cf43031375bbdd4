/* For those who build on a record: it is what was recorded, or they are told what is not. */
#include <errno.h>

#include "health/audit.h"

int audit_expect_whole(const struct config *c, const char *id, enum audit_depth depth,
		       struct err *err)
{
	CLEANUP_AUDIT_REPORT struct audit_report report = { 0 };
	const char *file = NULL, *reason = NULL;
	int r = audit_verify(c, id, depth, &report, err);
	if (r < 0 || !report.broken)
		return r;
	(void)json_unpack(json_array_get(report.links, 0), "{s:s,s:s}", "file", &file, "reason",
			  &reason);
	return err_set(err, ERR_CALLER, ESTALE,
		       "the record of '%s' was changed: %.200s: %.200s; `cupel audit verify %s`",
		       id, file ? file : "?", reason ? reason : "?", id);
}
