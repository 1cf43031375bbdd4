/* A prefix made by conda, mamba, micromamba or pixi. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/path.h"
#include "runtime/kinds.h"

int conda_open(const struct config *config, struct runtime *r, struct err *err)
{
	struct stat st = { 0 };
	CLEANUP_FREE char *meta = path_join(r->prefix, "conda-meta");
	if (stat(r->prefix, &st) < 0)
		return err_set(err, ERR_HOST, errno,
			       "its prefix %s: %s. Remedy: make it, or correct the entry",
			       r->prefix, strerrordesc_np(errno));
	if (stat(meta, &st) < 0 || !S_ISDIR(st.st_mode))
		return err_set(
			err, ERR_HOST, EINVAL,
			"%s has no conda-meta: it is not a prefix made by conda. Remedy: correct the entry, or say "
			"'kind: venv'",
			r->prefix);
	return 0;
}
