#include "keeper/alive.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/proc.h"
#include "spec/id.h"

bool run_is_alive(const struct config *c, const char *id, pid_t *ret_keeper)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	CLEANUP_FREE char *path = xasprintf("%s/active/%s", c->home, id);
	CLEANUP_FD int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	bool alive = fd >= 0 && fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
	if (alive && ret_keeper)
		*ret_keeper = lock.l_pid;
	return alive;
}

void run_ask_to_end(const struct config *c, const char *id, pid_t *told)
{
	pid_t keeper = 0, still = 0;
	if (!run_is_alive(c, id, &keeper) || keeper <= 0 || keeper == *told)
		return;
	CLEANUP_FD int fd = proc_pidfd_open(keeper);
	/* The lock is asked again when the descriptor is there: it is then of the process that held it, not of the next one with its number. */
	if (fd >= 0 && run_is_alive(c, id, &still) && still == keeper &&
	    proc_signal(fd, SIGTERM) >= 0)
		*told = keeper;
}

static bool ended_since(const char *home, const char *id, uint64_t since_real_ns)
{
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s/verdict.json", home, id);
	struct stat st = { 0 };
	return lstat(path, &st) == 0 &&
	       (uint64_t)st.st_mtim.tv_sec * NS_PER_SEC + (uint64_t)st.st_mtim.tv_nsec >=
		       since_real_ns;
}

int runs_alive_since(const struct config *c, const char *own, uint64_t since_real_ns,
		     struct strv *ret, struct err *err)
{
	CLEANUP_STRV struct strv ids = { 0 };
	int r = id_list(c->home, "runs", &ids, err);
	for (size_t i = 0; r >= 0 && i < ids.n; i++) {
		const char *id = ids.v[i];
		if (str_eq(id, own) || ended_since(c->home, id, since_real_ns) ||
		    run_is_alive(c, id, NULL))
			strv_add(ret, id);
	}
	return r < 0 ? r : 0;
}
