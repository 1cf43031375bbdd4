/* Chooses the backend by what the host has mounted and what was asked for, and finds the leftovers of dead runs. */
#include "budget/budget.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/path.h"
#include "base/str.h"
#include "budget/group.h"
#include "spec/config.h"
#include "spec/id.h"

#define SWEEP_WAIT_NS (10 * NS_PER_SEC)

static int parent_check(const char *parent, struct err *err)
{
	const char *rest = parent ? parent : "";
	do {
		size_t length = strcspn(rest, "/");
		CLEANUP_FREE char *name = xstrndup(rest, length);
		if (!path_name_ok(name))
			return err_caller(err,
					  "cgroup parent '%s': not a relative path of plain names",
					  parent ? parent : "");
		rest += length;
	} while (*rest++ == '/');
	return 0;
}

/* A parent with a slash is a place that an administrator has prepared: it is used as it is, without systemd. */
static bool wants_systemd(const struct budget_request *request)
{
	if (request->manager == CGROUP_SYSTEMD)
		return true;
	return request->manager == CGROUP_AUTO && scope_host_has_systemd() &&
	       !strchr(request->parent, '/');
}

static int create_v2(const struct hierarchies *host, const struct budget_request *request,
		     struct budget **ret, struct err *err)
{
	if (!wants_systemd(request))
		return cgroup2_create(host, request, ret, err);
	if (!scope_host_has_systemd())
		return err_set(
			err, ERR_HOST, EOPNOTSUPP,
			"cgroup.manager is systemd, but systemd is not running here. Remedy: "
			"cgroup.manager: auto");
	if (strchr(request->parent, '/'))
		return err_caller(err, "cgroup parent '%s': a slice's name has no slash",
				  request->parent);
	return scope_create(host, request, ret, err);
}

/* A tree that is there and cannot be used: the limits are refused, each that may not be missing by its name (unless the failure
 * names one itself), or done without if all of them may be missing. */
static int without_tree(const struct budget_request *request, const struct err *why,
			struct budget **ret, struct err *err)
{
	unsigned missing = 0, refused = request_refuses(request, LIMITER_ALL, &missing);
	if (!refused)
		return none_create(ret);
	if (why->layer[0]) {
		if (err)
			*err = *why;
		return -why->code;
	}
	if (strstr(why->text, "Remedy"))
		return err_layer(err, limiter_names(refused), "%s", why->text);
	return err_layer(err, limiter_names(refused), "%s. Remedy: %s", why->text,
			 why->code == EROFS ? GROUPS_READ_ONLY : "let this user make groups there");
}

static int create_any(const struct hierarchies *host, const struct budget_request *request,
		      struct budget **ret, struct err *err)
{
	/* On a hybrid host the v2 tree is there without these controllers: v1 has them. */
	bool v2 = host->v2.controllers & LIMITER_ALL;
	bool v1 = hierarchies_v1_controllers(host) & LIMITER_ALL;
	if (request->manager == CGROUP_V1)
		v2 = false;
	else if (request->manager != CGROUP_AUTO)
		v1 = false;
	if (v1 && v2) /* some controllers in each: the tree with the memory limit */
		v2 = host->v2.controllers & LIMITER_MEMORY;
	if (v1 || v2) {
		struct err why = { 0 };
		int r = v2 ? create_v2(host, request, ret, &why)
			   : cgroup1_create(host, request, ret, &why);
		if (r < 0 && why.kind != ERR_CALLER)
			return without_tree(request, &why, ret, err);
		if (r < 0 && err)
			*err = why;
		return r;
	}
	unsigned missing = 0, refused = request_refuses(request, LIMITER_ALL, &missing);
	if (refused)
		return err_layer(err, limiter_names(refused),
				 "no cgroup tree with controllers is mounted%s. Remedy, as root: "
				 "mount -t cgroup2 cgroup2 /sys/fs/cgroup",
				 request->manager == CGROUP_AUTO
					 ? ""
					 : " for the configured cgroup.manager");
	return none_create(ret);
}

int budget_create(const struct budget_request *request, struct budget **ret, struct err *err)
{
	int r = id_check_group(request->id, err);
	if (r >= 0)
		r = parent_check(request->parent, err);
	if (r < 0)
		return r;
	CLEANUP_HIERARCHIES struct hierarchies host = { 0 };
	r = hierarchies_read(&host, err);
	if (r < 0)
		return r;
	return create_any(&host, request, ret, err);
}

const char *budget_missing(const struct budget *b)
{
	return limiter_names(b->missing);
}

/* -ENOENT if there is no such group. */
static int open_parent(const struct hierarchy *h, const char *parent)
{
	CLEANUP_FD int mount_fd = open(h->mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return mount_fd < 0 ? -errno : group_open(mount_fd, parent, false);
}

static int sweep_group(const struct hierarchy *h, const char *parent, const char *id,
		       struct err *err)
{
	CLEANUP_FD int parent_fd = open_parent(h, parent);
	CLEANUP_FD int dir_fd = parent_fd < 0 ? -1 : group_open(parent_fd, id, false);
	if (dir_fd < 0)
		return 0;
	uint64_t deadline_ns = clock_monotonic_ns() + SWEEP_WAIT_NS;
	bool v2 = group_has(dir_fd, "cgroup.events");
	int r = v2 ? cgroup2_kill(dir_fd, deadline_ns, err)
		   : group_kill(&dir_fd, 1, deadline_ns, err);
	if (r >= 0)
		r = group_remove(parent_fd, id, err);
	return r < 0 ? err_wrap(err, "sweep %s/%s/%s", h->mount, parent, id) : 1;
}

/* systemd removes a scope when its last process is gone; that is waited for, so that the id is free again. */
static int sweep_scope(const struct hierarchy *v2, const char *parent, const char *id,
		       struct err *err)
{
	CLEANUP_FREE char *slice = scope_slice_path(parent);
	CLEANUP_FREE char *name = scope_name(parent, id);
	CLEANUP_FD int slice_fd = open_parent(v2, slice);
	CLEANUP_FD int scope_fd = slice_fd < 0 ? -1 : group_open(slice_fd, name, false);
	if (scope_fd < 0)
		return 0;
	CLEANUP_FREE char *own = hierarchy_own_path(v2);
	CLEANUP_FREE char *scope_path = xasprintf("/%s/%s", slice, name);
	if (own && path_within(own, scope_path))
		return err_set(err, ERR_HOST, EBUSY, "sweep %s: this very process is in it", name);

	uint64_t deadline_ns = clock_monotonic_ns() + SWEEP_WAIT_NS;
	int r = cgroup2_kill(scope_fd, deadline_ns, err);
	while (r >= 0 && faccessat(slice_fd, name, F_OK, 0) == 0) {
		if (deadline_ms(deadline_ns) == 0)
			r = err_set(err, ERR_HOST, ETIMEDOUT, "systemd did not remove the scope");
		else
			(void)poll(NULL, 0,
				   2); /* the removal of a directory has no event on cgroupfs */
	}
	return r < 0 ? err_wrap(err, "sweep %s", name) : 1;
}

int budget_sweep(const char *parent, const char *id, struct err *err)
{
	int r = id_check_group(id, err);
	if (r >= 0)
		r = parent_check(parent, err);
	if (r < 0)
		return r;
	CLEANUP_HIERARCHIES struct hierarchies host = { 0 };
	r = hierarchies_read(&host, err);
	int removed = 0;
	for (size_t i = 0; r >= 0 && i < host.n_v1; i++) {
		r = sweep_group(&host.v1[i], parent, id, err);
		removed |= r > 0;
	}
	if (r >= 0 && host.v2.controllers & LIMITER_ALL) {
		r = sweep_group(&host.v2, parent, id, err);
		removed |= r > 0;
		if (r >= 0 && scope_host_has_systemd() && !strchr(parent, '/')) {
			r = sweep_scope(&host.v2, parent, id, err);
			removed |= r > 0;
		}
	}
	return r < 0 ? r : removed;
}

/* Adds the directories in dir_fd called PREFIX id SUFFIX, each id once. */
static int list_ids(int dir_fd, const char *prefix, const char *suffix, struct strv *ret)
{
	CLEANUP_FD int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	CLEANUP_DIR DIR *dir = fdopendir(fd);
	if (!dir)
		return -errno;
	(void)take_fd(&fd);
	for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
		const char *name = entry->d_name;
		size_t length = strlen(name), around = strlen(prefix) + strlen(suffix);
		if (entry->d_type != DT_DIR || length <= around || !str_starts(name, prefix) ||
		    !str_ends(name, suffix))
			continue;
		CLEANUP_FREE char *id = xstrndup(name + strlen(prefix), length - around);
		if (id_check_group(id, NULL) >= 0 && !strv_has(ret, id))
			strv_add(ret, id);
	}
	return 0;
}

int budget_list(const char *parent, struct strv *ret, struct err *err)
{
	int r = parent_check(parent, err);
	if (r < 0)
		return r;
	CLEANUP_HIERARCHIES struct hierarchies host = { 0 };
	r = hierarchies_read(&host, err);
	if (r < 0)
		return r;
	CLEANUP_STRV struct strv ids = { 0 };
	for (size_t i = 0; i <= host.n_v1; i++) {
		const struct hierarchy *h = i < host.n_v1 ? &host.v1[i] : &host.v2;
		CLEANUP_FD int fd = h->mount ? open_parent(h, parent) : -ENOENT;
		if (fd >= 0)
			(void)list_ids(fd, "", "", &ids);
	}
	if (host.v2.mount && scope_host_has_systemd() && !strchr(parent, '/')) {
		CLEANUP_FREE char *slice = scope_slice_path(parent);
		CLEANUP_FREE char *prefix = xasprintf("%s-", parent);
		CLEANUP_FD int fd = open_parent(&host.v2, slice);
		if (fd >= 0)
			(void)list_ids(fd, prefix, ".scope", &ids);
	}
	strv_copy(ret, &ids);
	return 0;
}
