/* The store beside the runs: what no run names any more is only room. */
#include <errno.h>
#include <fcntl.h>

#include "base/cleanup.h"
#include "collect/store.h"
#include "health/gc.h"

int gc_store(const struct config *c, uint64_t *ret_files, uint64_t *ret_bytes, struct err *err)
{
	CLEANUP_FD int home_fd = open(c->home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (home_fd < 0 && errno == ENOENT)
		return 0;
	if (home_fd < 0)
		return err_errno(err, "open %s", c->home);
	return store_prune(home_fd, ret_files, ret_bytes, err);
}
