#include "view/status.h"

#include <stdio.h>
#include <unistd.h>

#include "base/num.h"
#include "base/str.h"

bool status_wanted(void)
{
	const char *term = getenv("TERM");
	return isatty(STDERR_FILENO) && term && !str_eq(term, "dumb");
}

void status_clear(void *data)
{
	struct status *s = data;
	if (s->on_screen)
		(void)!write(STDERR_FILENO, "\r\033[K", 4);
	s->on_screen = false;
}

/* Whole seconds: the line is for a glance. */
static const char *elapsed_text(uint64_t ns, char *buffer, size_t room)
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
	int n = snprintf(line, sizeof line,
			 "\r\033[Kcupel: %s  memory %s of %s  cpu %.1f  processes %llu",
			 elapsed_text(msg->sample.wall_ns, elapsed, sizeof elapsed),
			 num_print_size(msg->sample.mem_bytes, used, sizeof used),
			 num_print_size(s->limit_bytes, limit, sizeof limit), cpus,
			 (unsigned long long)msg->sample.pids);
	if (n > 0)
		(void)!write(STDERR_FILENO, line, (size_t)n);
	s->on_screen = true;
}
