#include "spec/viewer.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/str.h"

#define RECORD_MAX ((size_t)64 << 20)

const struct viewer viewer_all = { .sees_all = true };

bool viewer_owns(const struct viewer *v, const char *submitter)
{
	if (!submitter || !submitter[0])
		return v->owns_home;
	for (size_t i = 0; i < VIEWER_NAMES; i++)
		if (str_eq(v->names[i], submitter))
			return true;
	return false;
}

bool viewer_sees(const struct viewer *v, const char *submitter)
{
	return v->sees_all || viewer_owns(v, submitter);
}

void viewer_of(const struct config *c, struct viewer *ret)
{
	bool is_owner = !c->caller.is_set && !c->submitter[0];
	*ret = (struct viewer){ .sees_all = is_owner || c->service.visibility == VISIBILITY_ALL,
				.owns_home = is_owner ||
					     (c->submitter[0] && c->caller.uid == geteuid()) };
	(void)snprintf(ret->names[0], sizeof ret->names[0], "%s", c->submitter);
}

int viewer_submitter_of_run(const struct config *c, const char *id, char **ret)
{
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s/analysis.json", c->home, id);
	CLEANUP_JSON json_t *record = NULL;
	int r = json_read_file(AT_FDCWD, path, RECORD_MAX, &record, NULL);
	if (r < 0)
		return r;
	const char *submitter = json_string_value(json_object_get(record, "submitter"));
	*ret = submitter ? xstrdup(submitter) : NULL;
	return 0;
}
