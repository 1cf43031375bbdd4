/* Jupyter, MPI and test servers of an analysis talk to themselves over the loopback. */
#include "box/net.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/cleanup.h"

int net_loopback_up(struct err *err)
{
	struct ifreq request = { .ifr_name = "lo" };
	CLEANUP_FD int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_errno(err, "network: socket");
	if (ioctl(fd, SIOCGIFFLAGS, &request) < 0)
		return err_errno(err, "network: read the loopback's state");
	request.ifr_flags |= IFF_UP;
	if (ioctl(fd, SIOCSIFFLAGS, &request) < 0)
		return err_errno(err, "network: bring the loopback up");
	return 0;
}
