/* Loop devices: a file as a block device that frees itself with its last user. Needs root, and Linux 5.8 (LOOP_CONFIGURE). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define LOOP_DEVICE_ROOM 32

struct loop_request {
	int file_fd;      /* borrowed */
	const char *name; /* whose it is, for whoever lists them; cut to 63 bytes */
	uint32_t
		block_size; /* 0: the driver's own; refused by the file's filesystem it is left out */
	bool read_only;
};

/* The device's descriptor, which the caller owns: its file is let go when that and every mount of it are gone. */
int loop_attach(const struct loop_request *request, char ret_device[LOOP_DEVICE_ROOM],
		struct err *err);
