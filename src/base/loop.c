/* loop(4): LO_FLAGS_AUTOCLEAR frees the device with its last user, however that ends. */
#include "base/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/cleanup.h"

#define LOOP_TRIES 64

static int loop_configure(int loop_fd, const struct loop_request *q)
{
	struct loop_config config = { .fd = (uint32_t)q->file_fd, .block_size = q->block_size };
	config.info.lo_flags = LO_FLAGS_AUTOCLEAR | (q->read_only ? LO_FLAGS_READ_ONLY : 0);
	(void)snprintf((char *)config.info.lo_file_name, LO_NAME_SIZE, "%s", q->name);
	if (ioctl(loop_fd, LOOP_CONFIGURE, &config) == 0)
		return 0;
	if (errno != EINVAL || !q->block_size)
		return -errno;
	config.block_size = 0;
	return ioctl(loop_fd, LOOP_CONFIGURE, &config) == 0 ? 0 : -errno;
}

/* Finds a free device and takes it; somebody else may be quicker between the two, so this is tried again. */
int loop_attach(const struct loop_request *request, char ret_device[LOOP_DEVICE_ROOM],
		struct err *err)
{
	CLEANUP_FD int control_fd = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	if (control_fd < 0)
		return err_errno(err, "open /dev/loop-control");
	int r = -EBUSY;
	for (int i = 0; i < LOOP_TRIES && (r == -EBUSY || r == -ENOENT || r == -ENXIO); i++) {
		int number = ioctl(control_fd, LOOP_CTL_GET_FREE);
		if (number < 0)
			return err_errno(err, "find a free loop device");
		(void)snprintf(ret_device, LOOP_DEVICE_ROOM, "/dev/loop%d", number);
		CLEANUP_FD int loop_fd =
			open(ret_device, (request->read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC);
		r = loop_fd < 0 ? -errno : loop_configure(loop_fd, request);
		if (r == 0)
			return take_fd(&loop_fd);
	}
	return err_set(err, ERR_HOST, -r, "attach %s: %s", ret_device, strerrordesc_np(-r));
}
