/* Loads libsystemd and connects to systemd's manager. */
#include "budget/bus.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"

#define CALL_TIMEOUT_USEC (30ULL * 1000 * 1000)
#define MANAGER           "org.freedesktop.systemd1"

static bool bus_load(struct bus *b, struct err *err)
{
	b->library = dlopen("libsystemd.so.0", RTLD_NOW | RTLD_LOCAL);
	if (!b->library) {
		(void)err_set(err, ERR_HOST, EOPNOTSUPP,
			      "systemd owns the cgroup tree, and libsystemd.so.0 cannot be loaded "
			      "(%s). Remedy: apt-get install libsystemd0",
			      dlerror());
		return false;
	}
	/* POSIX gives data and function pointers one size; the copy says so to the compiler. */
#define BUS_LOAD(name)                                                                             \
	do {                                                                                       \
		void *symbol = dlsym(b->library, "sd_bus_" #name);                                 \
		if (!symbol) {                                                                     \
			(void)err_set(err, ERR_HOST, EOPNOTSUPP,                                   \
				      "libsystemd.so.0 has no sd_bus_" #name);                     \
			return false;                                                              \
		}                                                                                  \
		memcpy(&b->name, &symbol, sizeof(symbol));                                         \
	} while (0);
	BUS_FUNCTIONS(BUS_LOAD)
#undef BUS_LOAD
	return true;
}

/* A login without a session's environment (cron, ssh with a plain shell, sudo -u) still has its manager here. */
static int open_user_by_path(struct bus *b)
{
	CLEANUP_FREE char *address = xasprintf("unix:path=/run/user/%u/bus", (unsigned)geteuid());
	int r = b->new (&b->link);
	if (r >= 0)
		r = b->set_address(b->link, address);
	if (r >= 0)
		r = b->set_bus_client(b->link, 1);
	return r < 0 ? r : b->start(b->link);
}

int bus_open(struct bus *ret, struct err *err)
{
	CLEANUP_BUS struct bus b = { 0 };
	int r;
	if (!bus_load(&b, err))
		return -EOPNOTSUPP;
	if (geteuid() == 0) {
		r = b.open_system(&b.link);
	} else {
		r = b.open_user(&b.link);
		if (r < 0)
			r = open_user_by_path(&b);
	}
	if (r < 0)
		return err_set(
			err, ERR_HOST, EOPNOTSUPP,
			"systemd owns the cgroup tree, and its bus does not answer: %s. Remedy: %s",
			strerror(-r),
			geteuid() == 0 ? "apt-get install dbus && systemctl start dbus"
				       : "as root: apt-get install dbus-user-session && "
					 "loginctl enable-linger USER");
	*ret = b;
	b = (struct bus){ 0 };
	return 0;
}

void bus_release(struct bus *b)
{
	if (b->link)
		(void)b->flush_close_unref(b->link);
	if (b->library)
		(void)dlclose(b->library);
	*b = (struct bus){ 0 };
}

int bus_manager_call(struct bus *b, const char *member, sd_bus_message **ret)
{
	return b->message_new_method_call(b->link, ret, MANAGER, "/org/freedesktop/systemd1",
					  MANAGER ".Manager", member);
}

int bus_call(struct bus *b, sd_bus_message *call, sd_bus_message **ret_reply, struct err *err)
{
	sd_bus_error error = SD_BUS_ERROR_NULL;
	int r = b->call(b->link, call, CALL_TIMEOUT_USEC, &error, ret_reply);
	if (r >= 0)
		return r;
	/* libsystemd knows the errno of its own names only when they are registered, so this one is told apart by name. */
	if (error.name && strcmp(error.name, MANAGER ".UnitExists") == 0)
		r = -EEXIST;
	const char *text = error.message ? error.message : strerror(-r);
	(void)err_set(err, r == -EEXIST ? ERR_CALLER : ERR_HOST, -r, "systemd: %s", text);
	b->error_free(&error);
	return r;
}
