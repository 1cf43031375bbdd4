/* libsystemd's bus, loaded when it is used: `cupel run` starts without it. The only header that includes sd-bus.h. */
#pragma once

#include <systemd/sd-bus.h>

#include "base/err.h"

/* The functions used, by their own names without "sd_bus_". */
#define BUS_FUNCTIONS(ROW)                                                                         \
	ROW(open_system)                                                                           \
	ROW(open_user)                                                                             \
	ROW(new)                                                                                   \
	ROW(set_address)                                                                           \
	ROW(set_bus_client)                                                                        \
	ROW(start)                                                                                 \
	ROW(flush_close_unref)                                                                     \
	ROW(match_signal)                                                                          \
	ROW(process)                                                                               \
	ROW(wait)                                                                                  \
	ROW(call)                                                                                  \
	ROW(error_free)                                                                            \
	ROW(message_new_method_call)                                                               \
	ROW(message_append)                                                                        \
	ROW(message_open_container)                                                                \
	ROW(message_close_container)                                                               \
	ROW(message_read)                                                                          \
	ROW(message_unref)

struct bus {
	void *library; /* owned */
	sd_bus *link;  /* owned */
#define BUS_MEMBER(name) __typeof__(sd_bus_##name) *name;
	BUS_FUNCTIONS(BUS_MEMBER)
#undef BUS_MEMBER
};

/* Connects to systemd: the system's as root, otherwise the user's own. -EOPNOTSUPP (layer "memory") with the remedy. */
int bus_open(struct bus *ret, struct err *err);
void bus_release(struct bus *b);
#define CLEANUP_BUS __attribute__((cleanup(bus_release)))

/* A call of org.freedesktop.systemd1.Manager, to be filled and given to bus_call. Negative errno. */
int bus_manager_call(struct bus *b, const char *member, sd_bus_message **ret);
/* Sends it; *ret_reply (may be NULL) is the caller's. A refusal is put in words; its D-Bus name decides the code. */
int bus_call(struct bus *b, sd_bus_message *call, sd_bus_message **ret_reply, struct err *err);
