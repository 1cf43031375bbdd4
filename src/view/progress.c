#include "view/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/num.h"
#include "base/str.h"
#include "base/terminal.h"

#define PAUSE_NS (NS_PER_SEC / 10)

static void say(struct progress *p, const char *text)
{
	CLEANUP_FREE char *clean = str_visible(text);
	CLEANUP_FREE char *line = xasprintf("\r\033[Kcupel: %s: %.100s", p->about, clean);
	terminal_control(stderr, line);
	p->on_screen = true;
	p->last_ns = clock_monotonic_ns();
}

void progress_step(void *data, const char *what, size_t number, size_t of)
{
	struct progress *p = data;
	if (!p->shown)
		return;
	CLEANUP_FREE char *text = of ? xasprintf("%s (%zu of %zu)", what, number, of)
				     : xstrdup(what);
	say(p, text);
}

void progress_files(void *data, uint64_t files, uint64_t bytes)
{
	struct progress *p = data;
	char size[32];
	if (!p->shown || clock_monotonic_ns() - p->last_ns < PAUSE_NS)
		return;
	CLEANUP_FREE char *text = xasprintf("%llu files, %s", (unsigned long long)files,
					    num_print_size(bytes, size, sizeof size));
	say(p, text);
}

void progress_clear(struct progress *p)
{
	if (p->on_screen)
		terminal_control(stderr, "\r\033[K");
	p->on_screen = false;
}
