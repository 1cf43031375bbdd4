/* What a box must not reach: listeners, shared memory and files of ours. All of it ends with this process, however that ends. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/cleanup.h"
#include "doctor/acts.h"
#include "doctor/parts.h"

static int listen_abstract(char *name, size_t room)
{
	uint64_t chance = 0;
	struct sockaddr_un own = { .sun_family = AF_UNIX };
	if (getrandom(&chance, sizeof chance, 0) != sizeof chance)
		return -1;
	(void)snprintf(name, room, "cupel-doctor-%016llx", (unsigned long long)chance);
	socklen_t length = abstract_address(name, &own);
	CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (const struct sockaddr *)&own, length) < 0 || listen(fd, 4) < 0)
		return -1;
	return take_fd(&fd);
}

/* Marked for removal as soon as it is attached: it is found by its number until this process ends. */
static void make_segment(struct outside *o)
{
	int segment =
		shmget(IPC_PRIVATE, 4096, 0444); /* for all to read: only a namespace hides it */
	if (segment < 0)
		return;
	void *at = shmat(segment, NULL, SHM_RDONLY);
	(void)shmctl(segment, IPC_RMID, NULL);
	if (at == (void *)-1) /* NOLINT(performance-no-int-to-ptr): shmat(2) */
		return;
	o->attached = at;
	o->segment = segment;
}

void outside_open(struct outside *o, const char *home)
{
	(void)act_listen(&o->tcp_fd, &o->port);
	o->abstract_fd = listen_abstract(o->name, sizeof o->name);
	make_segment(o);
	o->home = xstrdup(home);
}

void outside_release(struct outside *o)
{
	cleanup_fd(&o->tcp_fd);
	cleanup_fd(&o->abstract_fd);
	if (o->attached)
		(void)shmdt(o->attached);
	free(o->home);
	*o = (struct outside)OUTSIDE_INIT;
}

void outside_args(const struct outside *o, struct strv *ret)
{
	strv_addf(ret, "%u", o->port);
	strv_add(ret, o->name);
	strv_addf(ret, "%d", o->segment);
	strv_add(ret, o->home);
}

json_t *acts_outside(const struct outside *o)
{
	struct act_call calls[ACT_CALLS_MAX];
	json_t *said = json_pack("{s:i,s:i,s:i,s:i,s:i}", "tcp", act_connect_tcp(o->port),
				 "abstract", act_connect_abstract(o->name), "segment",
				 o->segment < 0 ? EINVAL : act_segment(o->segment), "home",
				 act_open(o->home, O_PATH), "urandom",
				 act_open("/dev/urandom", O_WRONLY));
	for (size_t i = 0, n = act_calls(calls); i < n; i++) {
		CLEANUP_FREE char *key = xasprintf("call.%s", calls[i].name);
		json_object_set_new(said, key, json_integer(calls[i].outcome));
	}
	return said;
}
