#include "health/use.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/str.h"
#include "keeper/alive.h"

#define ANALYSIS_JSON_MAX (8 << 20)

/* A run that has not said yet what it runs in may run in anything. */
static bool uses(const char *home, const char *id, const char *name)
{
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s/analysis.json", home, id);
	CLEANUP_JSON json_t *analysis = NULL;
	if (json_read_file(AT_FDCWD, path, ANALYSIS_JSON_MAX, &analysis, NULL) < 0)
		return true;
	const json_t *runtime = json_object_get(analysis, "runtime");
	return str_eq(json_string_value(json_object_get(runtime, "name")), name);
}

int runtime_in_use(const struct config *c, const char *name, char ret_id[ID_MAX + 1],
		   struct err *err)
{
	CLEANUP_FREE char *path = xasprintf("%s/active", c->home);
	CLEANUP_DIR DIR *dir = opendir(path);
	if (!dir)
		return errno == ENOENT ? 0 : err_errno(err, "open %s", path);
	for (const struct dirent *entry; (entry = readdir(dir));) {
		const char *id = entry->d_name;
		if (id_check(id, NULL) < 0 || !run_is_alive(c, id, NULL) ||
		    !uses(c->home, id, name))
			continue;
		(void)snprintf(ret_id, ID_MAX + 1, "%.*s", ID_MAX, id);
		return 1;
	}
	return 0;
}
