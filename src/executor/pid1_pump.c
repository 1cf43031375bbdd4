#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "executor/pid1.h"

#define DROPPED_SHOWN (1ULL << 30)

int pump_open(struct pump *p, const char *path, uint64_t max_bytes, int *ret_write_fd)
{
	int ends[2];
	p->file_fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
	if (p->file_fd < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	/* Only ours: the analysis's end waits for us as it would for any reader. */
	if (fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	p->pipe_fd = ends[0];
	p->max_bytes = max_bytes;
	*ret_write_fd = ends[1];
	return 0;
}

/* As much as fits below the limit; a disk that is full drops the rest too. */
static void keep(struct pump *p, const char *bytes, size_t length)
{
	if (length > p->max_bytes - p->kept_bytes)
		length = (size_t)(p->max_bytes - p->kept_bytes);
	while (length > 0) {
		ssize_t n = write(p->file_fd, bytes, length);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			p->error = n < 0 ? errno : EIO;
			p->max_bytes = p->kept_bytes;
			return;
		}
		p->kept_bytes += (uint64_t)n;
		bytes += n;
		length -= (size_t)n;
	}
}

void pump_some(struct pump *p)
{
	char buffer[65536];
	if (p->pipe_fd < 0)
		return;
	ssize_t n = read(p->pipe_fd, buffer, sizeof buffer);
	if (n > 0) {
		p->all_bytes += (uint64_t)n;
		keep(p, buffer, (size_t)n);
	} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
		(void)close(p->pipe_fd);
		p->pipe_fd = -1;
	}
}

/* All processes of the container are dead. One outside may have got the other end from them: it is not waited for, and what it goes on to write is
 * not read. */
void pump_end(struct pump *p)
{
	int left = 0;
	if (p->pipe_fd < 0 || ioctl(p->pipe_fd, FIONREAD, &left) < 0)
		left = 0;
	for (uint64_t end = p->all_bytes + (uint64_t)left, before = UINT64_MAX;
	     p->all_bytes < end && p->all_bytes != before;) {
		before = p->all_bytes;
		pump_some(p);
	}
	if (p->error)
		return;
	uint64_t length = p->kept_bytes + DROPPED_SHOWN;
	if (length > p->all_bytes)
		length = p->all_bytes;
	if (length > p->kept_bytes)
		(void)!ftruncate(p->file_fd, (off_t)length);
}
