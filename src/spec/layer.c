/* The layers of isolation and limiting by the names that people and records use. */
#include <stddef.h>

#include "base/str.h"
#include "spec/analysis.h"
#include "spec/show.h"

const char *const layer_names[] = { "user",     "mount",   "pid",    "net", "ipc",  "uts", "cgroup",
				    "landlock", "seccomp", "memory", "cpu", "pids", "disk" };
const size_t layer_count = sizeof(layer_names) / sizeof(layer_names[0]);

int layer_check(const char *name, struct err *err)
{
	CLEANUP_STR struct str known = { 0 };
	char shown[SHOW_ROOM];

	/* Without these two there is no box at all: nothing would hide the host's files, and nothing
	 * would end the box's processes with it. */
	if (str_eq(name, "mount") || str_eq(name, "pid"))
		return err_caller(err,
				  "the layer '%s' is never optional: there is no box without it; "
				  "take it out of allow_missing",
				  name);
	for (size_t i = 0; i < layer_count; i++) {
		if (str_eq(name, layer_names[i]))
			return 0;
		str_addf(&known, "%s%s", i ? ", " : "", layer_names[i]);
	}
	show_text(name, shown);
	const char *nearest = str_nearest(name, layer_names, layer_count);
	if (nearest)
		return err_caller(err, "unknown layer '%s'; did you mean '%s'?", shown, nearest);
	return err_caller(err, "unknown layer '%s'; known: %s", shown, str_text(&known));
}
