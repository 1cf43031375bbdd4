/* libsystemd's loop and its words to the manager. The only header of the service that includes them. */
#pragma once

#include <systemd/sd-daemon.h>
#include <systemd/sd-event.h>

static inline void sd_event_source_freep(sd_event_source **source)
{
	*source = sd_event_source_disable_unref(*source);
}
