#include "view/status.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/num.h"
#include "base/str.h"
#include "base/terminal.h"

#define ROOM_LEFT 3 /* at the end of the live line: a terminal writes ^C there */

bool status_wanted(void)
{
	const char *term = getenv("TERM");
	return isatty(STDERR_FILENO) && term && !str_eq(term, "dumb");
}

static unsigned columns(void)
{
	struct winsize size = { 0 };
	return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

/* As many bytes as are at most `room` characters. */
static size_t fitting(const char *text, unsigned room)
{
	size_t at = 0, length = strlen(text);
	while (at < length && room-- > 0) {
		size_t n = str_utf8_length(text + at, length - at);
		at += n ? n : 1;
	}
	return at;
}

void status_show(const char *text)
{
	CLEANUP_STR struct str line = { 0 };
	struct terminal_filter filter = { 0 };
	str_add(&line, "\r\033[K");
	terminal_filter_add(&filter, text, fitting(text, columns() - ROOM_LEFT), &line);
	terminal_send(stderr, line.text, line.length);
}

void status_clear(void *data)
{
	struct status *s = data;
	if (s->on_screen)
		terminal_control(stderr, "\r\033[K");
	s->on_screen = false;
}

const char *status_elapsed(uint64_t ns, char *buffer, size_t room)
{
	uint64_t seconds = ns / 1000000000;
	if (seconds >= 60)
		return num_print_duration(seconds * 1000000000, buffer, room);
	(void)snprintf(buffer, room, "%llu s", (unsigned long long)seconds);
	return buffer;
}

void status_sample(void *data, const struct keeper_msg *msg)
{
	struct status *s = data;
	char line[200], elapsed[32], used[32], limit[32];
	if (!s->shown)
		return;
	uint64_t wall = msg->sample.wall_ns - s->last_wall_ns;
	double cpus = wall ? (double)(msg->sample.cpu_usec - s->last_cpu_usec) * 1000 / (double)wall
			   : 0;
	s->last_wall_ns = msg->sample.wall_ns;
	s->last_cpu_usec = msg->sample.cpu_usec;
	(void)snprintf(line, sizeof line, "cupel: %s  memory %s of %s  cpu %.1f  processes %llu",
		       status_elapsed(msg->sample.wall_ns, elapsed, sizeof elapsed),
		       num_print_size(msg->sample.mem_bytes, used, sizeof used),
		       num_print_size(s->limit_bytes, limit, sizeof limit), cpus,
		       (unsigned long long)msg->sample.pids);
	status_show(line);
	s->on_screen = true;
}
