/* The budget where systemd owns the v2 tree: it is asked for a delegated scope around the calling process, PARENT-ID.scope in
 * PARENT.slice. In the scope stand `keeper`, with the caller, and `box`, the run's group. The slice carries the aggregate cap.
 * The scope goes by itself when its last process has gone. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/str.h"
#include "budget/bus.h"
#include "budget/group.h"

#define JOB_WAIT_NS        (30 * NS_PER_SEC)
#define CAP_WAIT_NS        (5 * NS_PER_SEC)
#define STOP_TIMEOUT_USEC  UINT64_C(5000000)
#define WANTED_CONTROLLERS (LIMITER_ALL | CONTROLLER_BIT(CONTROLLER_IO))

bool scope_host_has_systemd(void)
{
	struct stat st;
	return lstat("/run/systemd/system", &st) == 0 && S_ISDIR(st.st_mode); /* sd_booted(3) */
}

char *scope_name(const char *parent, const char *id)
{
	return xasprintf("%s-%s.scope", parent, id);
}

/* A dash in a slice's name means nesting (systemd.slice(5)): a-b.slice lies in a.slice. */
char *scope_slice_path(const char *parent)
{
	CLEANUP_STR struct str path = { 0 };
	if (geteuid() != 0)
		str_addf(&path, "user.slice/user-%u.slice/user@%u.service/", (unsigned)geteuid(),
			 (unsigned)geteuid());
	for (const char *dash = strchr(parent, '-'); dash; dash = strchr(dash + 1, '-'))
		str_addf(&path, "%.*s.slice/", (int)(dash - parent), parent);
	str_addf(&path, "%s.slice", parent);
	return str_take(&path);
}

/* StartTransientUnit(name, "fail", properties, no further units). */
static int write_start(struct bus *b, sd_bus_message *m, const struct budget_request *request,
		       const char *name)
{
	CLEANUP_FREE char *slice = xasprintf("%s.slice", request->parent);
	CLEANUP_FREE char *description = xasprintf("cupel run %s", request->id);
	int r = b->message_append(m, "ss", name, "fail");
	if (r >= 0)
		r = b->message_open_container(m, 'a', "(sv)");
	if (r >= 0)
		r = b->message_append(m, "(sv)(sv)(sv)(sv)(sv)(sv)", "Description", "s",
				      description, "PIDs", "au", 1, (uint32_t)getpid(), "Delegate",
				      "b", 1, "Slice", "s", slice, "CollectMode", "s",
				      "inactive-or-failed", "TimeoutStopUSec", "t",
				      STOP_TIMEOUT_USEC);
	if (r >= 0)
		r = b->message_close_container(m);
	if (r >= 0)
		r = b->message_append(m, "a(sa(sv))", 0);
	return r;
}

struct job {
	struct bus *bus;
	const char *path;  /* borrowed from the reply; NULL until it has come */
	char seen[8][128]; /* jobs that ended before the reply was read */
	char result[8][32];
	unsigned n;
};

static int job_removed(sd_bus_message *m, void *data, sd_bus_error *error)
{
	struct job *job = data;
	uint32_t id;
	const char *path = NULL, *unit = NULL, *result = NULL;
	if (job->bus->message_read(m, "uoss", &id, &path, &unit, &result) < 0)
		return 0;
	unsigned slot = job->n++ % 8;
	(void)snprintf(job->seen[slot], sizeof(job->seen[slot]), "%s", path);
	(void)snprintf(job->result[slot], sizeof(job->result[slot]), "%s", result);
	return 0;
}

static const char *job_result(const struct job *job)
{
	for (unsigned i = 0; i < 8 && i < job->n; i++)
		if (str_eq(job->seen[i], job->path))
			return job->result[i];
	return NULL;
}

static int job_wait(struct job *job, struct err *err)
{
	struct bus *b = job->bus;
	uint64_t deadline_ns = clock_monotonic_ns() + JOB_WAIT_NS;
	while (!job_result(job)) {
		int r = b->process(b->link, NULL);
		int left_ms = deadline_ms(deadline_ns);
		if (r == 0 && left_ms > 0)
			r = b->wait(b->link, (uint64_t)left_ms * 1000);
		if (r < 0 && r != -EINTR)
			return err_set(err, ERR_HOST, -r, "wait for systemd's job: %s",
				       strerror(-r));
		if (left_ms == 0)
			return err_set(err, ERR_HOST, ETIMEDOUT, "systemd did not finish its job");
	}
	if (!str_eq(job_result(job), "done"))
		return err_set(err, ERR_HOST, EIO, "systemd's job ended with '%s'",
			       job_result(job));
	return 0;
}

static int scope_start(struct bus *b, const struct budget_request *request, struct err *err)
{
	CLEANUP_FREE char *name = scope_name(request->parent, request->id);
	struct job job = { .bus = b };
	sd_bus_message *call = NULL, *reply = NULL;
	/* Asked for before the call, or the job could end unseen. Goes with the connection. */
	int r = b->match_signal(b->link, NULL, "org.freedesktop.systemd1",
				"/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager",
				"JobRemoved", job_removed, &job);
	if (r >= 0)
		r = bus_manager_call(b, "StartTransientUnit", &call);
	if (r >= 0)
		r = write_start(b, call, request, name);
	if (r < 0)
		(void)err_set(err, ERR_HOST, -r, "StartTransientUnit: %s", strerror(-r));
	else
		r = bus_call(b, call, &reply, err);
	if (r >= 0)
		r = b->message_read(reply, "o", &job.path);
	if (r >= 0)
		r = job_wait(&job, err);
	if (reply)
		b->message_unref(reply);
	if (call)
		b->message_unref(call);
	return r < 0 ? err_wrap(err, "start %s", name) : 0;
}

static bool cap_holds(int slice_fd, const char *file, const char *want)
{
	char have[64];
	return want[0] == '\0' || !group_has(slice_fd, file) ||
	       (fs_read_small(slice_fd, file, have, sizeof(have)) >= 0 && str_eq(have, want));
}

static bool caps_hold(int slice_fd, const struct cgroup2_caps *caps)
{
	return cap_holds(slice_fd, "memory.max", caps->memory) &&
	       cap_holds(slice_fd, "cpu.max", caps->cpu) &&
	       cap_holds(slice_fd, "cpu.weight", caps->weight) &&
	       cap_holds(slice_fd, "pids.max", caps->pids);
}

/* SetUnitProperties(slice, runtime, properties): systemd rewrites its slice's files at will, so they are not ours to write. */
static int slice_set(struct bus *b, const char *slice, const struct budget_request *request,
		     struct err *err)
{
	const struct limits *cap = request->aggregate;
	sd_bus_message *call = NULL;
	int r = bus_manager_call(b, "SetUnitProperties", &call);
	if (r >= 0)
		r = b->message_append(call, "sb", slice, 1);
	if (r >= 0)
		r = b->message_open_container(call, 'a', "(sv)");
	if (r >= 0 && cap->at[LIMIT_MEMORY].value)
		r = b->message_append(call, "(sv)", "MemoryMax", "t",
				      round_to_page(cap->at[LIMIT_MEMORY].value));
	if (r >= 0 && cap->at[LIMIT_CPUS].value) /* thousandths of a cpu = ms per second */
		r = b->message_append(call, "(sv)", "CPUQuotaPerSecUSec", "t",
				      cap->at[LIMIT_CPUS].value * 1000);
	if (r >= 0)
		r = b->message_append(call, "(sv)", "CPUWeight", "t",
				      (uint64_t)request_cpu_weight(request));
	if (r >= 0 && cap->at[LIMIT_PIDS].value)
		r = b->message_append(call, "(sv)", "TasksMax", "t", cap->at[LIMIT_PIDS].value);
	if (r >= 0)
		r = b->message_close_container(call);
	if (r < 0)
		(void)err_set(err, ERR_HOST, -r, "SetUnitProperties: %s", strerror(-r));
	else
		r = bus_call(b, call, NULL, err);
	if (call)
		b->message_unref(call);
	return r;
}

static int slice_cap(struct bus *b, int slice_fd, const struct budget_request *request,
		     struct err *err)
{
	struct cgroup2_caps caps;
	cgroup2_caps(request->aggregate, request_cpu_weight(request), &caps);
	if (caps_hold(slice_fd, &caps))
		return 0;
	CLEANUP_FREE char *slice = xasprintf("%s.slice", request->parent);
	int r = slice_set(b, slice, request, err);
	uint64_t deadline_ns = clock_monotonic_ns() + CAP_WAIT_NS;
	/* systemd answers first and writes the files from its queue right after; a limit file has no event to wait for. */
	while (r >= 0 && !caps_hold(slice_fd, &caps)) {
		if (deadline_ms(deadline_ns) == 0)
			return err_set(err, ERR_HOST, EIO,
				       "systemd did not apply the cap of all runs to %s", slice);
		(void)poll(NULL, 0, 2);
	}
	return r < 0 ? err_wrap(err, "the cap of all runs on %s", slice) : 0;
}

/* The caller goes to `keeper`, since a group whose children have controllers may have no members. */
static int scope_divide(int scope_fd, unsigned *ret_enabled, struct err *err)
{
	CLEANUP_FD int keeper_fd = group_make(scope_fd, "keeper");
	if (keeper_fd < 0)
		return err_set(err, ERR_HOST, -keeper_fd, "make the keeper's group: %s",
			       strerror(-keeper_fd));
	int r = fs_write_small(keeper_fd, "cgroup.procs", "0");
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "move into the keeper's group: %s", strerror(-r));
	return cgroup2_enable(scope_fd, WANTED_CONTROLLERS, ret_enabled, err);
}

int scope_create(const struct hierarchies *host, const struct budget_request *request,
		 struct budget **ret, struct err *err)
{
	CLEANUP_BUS struct bus bus = { 0 };
	int r = bus_open(&bus, err);
	if (r >= 0)
		r = scope_start(&bus, request, err);
	if (r < 0)
		return r;

	CLEANUP_FREE char *own = hierarchy_own_path(&host->v2);
	CLEANUP_FREE char *name = scope_name(request->parent, request->id);
	CLEANUP_FREE char *tail = xasprintf(".slice/%s", name);
	if (!own || !str_ends(own, tail))
		return err_set(err, ERR_HOST, EIO,
			       "systemd started %s, but this process is in '%s'", name,
			       own ? own : "an unknown group");
	CLEANUP_FREE char *scope_path = xasprintf("%s%s", host->v2.mount, own);
	CLEANUP_FD int scope_fd = open(scope_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (scope_fd < 0)
		return err_errno(err, "open %s", scope_path);
	CLEANUP_FD int slice_fd = openat(scope_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (slice_fd < 0)
		return err_errno(err, "open the slice above %s", scope_path);

	unsigned enabled = 0;
	r = slice_cap(&bus, slice_fd, request, err);
	if (r >= 0)
		r = scope_divide(scope_fd, &enabled, err);
	if (r < 0)
		return r;
	CLEANUP_FREE char *path = xasprintf("%s/box", own + 1);
	struct cgroup2_place place = { .parent_fd = take_fd(&scope_fd),
				       .name = "box",
				       .path = path,
				       .controllers = enabled,
				       .ops = &cgroup2_systemd_ops };
	return cgroup2_create_at(&place, request, ret, err);
}
