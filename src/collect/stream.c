/* A log: bounded on disk whatever the box writes, and never a reason to stop reading. */
#include "collect/stream.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/num.h"
#include "base/str.h"

#define STREAM_READ_SIZE  (64 * 1024)
#define STREAM_SMALL_SIZE 4096

/* Counts what reached the file, also of a write that fails half-way. */
static int append(struct stream *s, const char *bytes, size_t length)
{
	while (length > 0) {
		ssize_t n = write(s->file_fd, bytes, length);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		s->kept_bytes += (uint64_t)n;
		bytes += n;
		length -= (size_t)n;
	}
	return 0;
}

static int fail(struct stream *s, int code)
{
	s->truncated = true;
	s->write_error = -code;
	return code;
}

int stream_feed(struct stream *s, const char *bytes, size_t length)
{
	if (s->truncated) {
		s->dropped_bytes += length;
		return 0;
	}
	uint64_t room = s->limit_bytes - s->kept_bytes; /* no mark is in kept_bytes yet */
	size_t take = length < room ? length : (size_t)room;
	uint64_t before = s->kept_bytes;
	int r = append(s, bytes, take);
	s->dropped_bytes += length - (size_t)(s->kept_bytes - before);
	if (r < 0)
		return fail(s, r);
	if (take == length)
		return 0;

	char limit[32];
	CLEANUP_FREE char *mark =
		xasprintf("\n[cupel: log limit of %s reached; the rest was dropped]\n",
			  num_print_size(s->limit_bytes, limit, sizeof limit));
	s->truncated = true;
	r = append(s, mark, strlen(mark));
	return r < 0 ? fail(s, r) : 0;
}

int stream_pump(struct stream *s)
{
	/* A log is mostly short, or nothing. */
	char small[STREAM_SMALL_SIZE] = { 0 };
	CLEANUP_FREE char *large = NULL;
	for (size_t done = 0; s->pipe_fd >= 0 && done < STREAM_PUMP_MAX;) {
		if (done >= STREAM_SMALL_SIZE && !large)
			large = xmalloc(STREAM_READ_SIZE);
		char *buffer = large ? large : small;
		ssize_t n = read(s->pipe_fd, buffer, large ? STREAM_READ_SIZE : sizeof small);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 1;
		if (n <= 0) {
			cleanup_fd(&s->pipe_fd);
			break;
		}
		done += (size_t)n;
		int r = stream_feed(s, buffer, (size_t)n);
		if (r < 0)
			return r;
	}
	return s->pipe_fd >= 0 ? 1 : 0;
}

int stream_finish(struct stream *s)
{
	CLEANUP_STR struct str mark = { 0 };
	if (s->write_error) /* the line before may be cut anywhere */
		str_addf(&mark,
			 "\n[cupel: the log could not be written (%s); %" PRIu64
			 " bytes dropped]\n",
			 strerror(s->write_error), s->dropped_bytes);
	else if (s->dropped_bytes > 0)
		str_addf(&mark, "[cupel: %" PRIu64 " bytes dropped]\n", s->dropped_bytes);

	int r = append(s, str_text(&mark), mark.length);
	/* A log that is a pipe or a device has nothing to sync. */
	if (s->kept_bytes > 0 && fsync(s->file_fd) < 0 && errno != EINVAL && errno != EROFS &&
	    r == 0)
		r = -errno;
	return r;
}

void stream_release(struct stream *s)
{
	if (!s)
		return;
	cleanup_fd(&s->pipe_fd);
	cleanup_fd(&s->file_fd);
}
