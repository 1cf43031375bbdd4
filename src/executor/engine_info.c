/* What an engine says of itself, remembered for as long as it is the same engine: a service, or a pipeline, asks before each of its runs. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

#include "executor/engine_parts.h"

#define REMEMBERED 4
#define INFO_MS    30000L /* it answered a moment ago, and may have to run programs for this one */

/* An engine that starts again has a new socket, or another version. */
struct identity {
	dev_t device;
	ino_t inode;
	struct timespec changed;
	char version[40];
};

struct memory {
	bool is_known;
	struct identity identity;
	struct engine_info info;
};

/* Of the process, since each run opens its executor anew. It holds nothing but answers that asking again would give. */
static struct {
	pthread_mutex_t lock;
	struct memory entries[REMEMBERED];
	size_t next;
} remembered = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool identify(const struct executor *x, struct identity *ret)
{
	const struct engine *e = x->data;
	const char *socket = pairs_get(&x->settings->options, "socket");
	struct stat st = { 0 };
	if (!socket || stat(socket, &st) < 0)
		return false;
	*ret = (struct identity){ .device = st.st_dev, .inode = st.st_ino, .changed = st.st_ctim };
	(void)snprintf(ret->version, sizeof ret->version, "%s", e->version);
	return true;
}

static bool is_same(const struct identity *a, const struct identity *b)
{
	return a->device == b->device && a->inode == b->inode &&
	       a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec &&
	       str_eq(a->version, b->version);
}

/* Nobody ever waits for the lock: a process that was forked may find it taken for ever. */
static bool recall(const struct identity *who, struct engine_info *ret)
{
	bool found = false;
	if (pthread_mutex_trylock(&remembered.lock) != 0)
		return false;
	for (size_t i = 0; !found && i < REMEMBERED; i++) {
		const struct memory *m = &remembered.entries[i];
		found = m->is_known && is_same(&m->identity, who);
		if (found)
			*ret = m->info;
	}
	(void)pthread_mutex_unlock(&remembered.lock);
	return found;
}

static void remember(const struct identity *who, const struct engine_info *info)
{
	if (pthread_mutex_trylock(&remembered.lock) != 0)
		return;
	remembered.entries[remembered.next] = (struct memory){ true, *who, *info };
	remembered.next = (remembered.next + 1) % REMEMBERED;
	(void)pthread_mutex_unlock(&remembered.lock);
}

static bool says(const json_t *answer, const char *key)
{
	return json_is_true(json_object_get(answer, key));
}

static bool has_option(const json_t *answer, const char *name)
{
	const json_t *options = json_object_get(answer, "SecurityOptions");
	for (size_t i = 0; i < json_array_size(options); i++) {
		const char *text = json_string_value(json_array_get(options, i));
		if (text && str_starts(text, "name=") && str_starts(text + 5, name))
			return true;
	}
	return false;
}

int engine_info(struct executor *x, struct engine_info *ret, struct err *err)
{
	CLEANUP_ANSWER struct answer a = { 0 };
	struct identity who = { 0 };
	bool is_identified = identify(x, &who);
	if (is_identified && recall(&who, ret))
		return 0;
	int r = engine_ask(x, &(struct question){ "GET", "/info", NULL, INFO_MS }, &a, err);
	if (r < 0)
		return r;
	if (a.status != 200)
		return engine_refused(&a, "ask what it can do", EOPNOTSUPP, err);
	*ret = (struct engine_info){
		.has_seccomp = has_option(a.body, "seccomp"),
		.limits_memory = says(a.body, "MemoryLimit") && says(a.body, "SwapLimit"),
		.limits_cpus = says(a.body, "CpuCfsQuota"),
		.limits_pids = says(a.body, "PidsLimit"),
		.maps_users = has_option(a.body, "rootless") || has_option(a.body, "userns") ||
			      says(a.body, "Rootless"),
	};
	if (is_identified)
		remember(&who, ret);
	return 0;
}
