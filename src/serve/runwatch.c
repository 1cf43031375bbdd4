/* inotify on the run directory (the loop has one instance for all), and the keeper's pidfd for a death that writes nothing. */
#include "serve/runwatch.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/inotify.h>

#include "base/json.h"
#include "base/proc.h"
#include "keeper/alive.h"
#include "serve/rows.h"

#define VERDICT_MAX (8 << 20)

struct runwatch {
	sd_event *event;             /* borrowed */
	const struct config *config; /* borrowed */
	char *id;                    /* owned */
	void (*changed)(void *data);
	void *data;
	int dir_fd;                      /* owned; -1: not there yet */
	int keeper_fd;                   /* owned; -1: none */
	sd_event_source *watch, *keeper; /* owned */
};

static int on_change(sd_event_source *source, const struct inotify_event *event, void *data)
{
	struct runwatch *f = data;
	f->changed(f->data);
	return 0;
}

static int on_keeper(sd_event_source *source, int fd, uint32_t events, void *data)
{
	struct runwatch *f = data;
	(void)sd_event_source_set_enabled(source, SD_EVENT_OFF);
	f->changed(f->data);
	return 0;
}

static void watch_keeper(struct runwatch *f)
{
	pid_t keeper = 0;
	if (f->keeper || !run_is_alive(f->config, f->id, &keeper) || keeper <= 0)
		return;
	f->keeper_fd = proc_pidfd_open(keeper);
	if (f->keeper_fd >= 0)
		(void)sd_event_add_io(f->event, &f->keeper, f->keeper_fd, EPOLLIN, on_keeper, f);
}

/* The watch first: what is written between it and the opening is told twice, not never. */
static void look(struct runwatch *f)
{
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s", f->config->home, f->id);
	if (f->dir_fd >= 0)
		return;
	f->dir_fd = rows_open_run(f->config, f->id, NULL);
	if (f->dir_fd < 0) {
		f->dir_fd = -1;
		return;
	}
	sd_event_source_freep(&f->watch);
	(void)sd_event_add_inotify(f->event, &f->watch, path, IN_MODIFY | IN_CREATE | IN_MOVED_TO,
				   on_change, f);
	watch_keeper(f);
}

struct runwatch *runwatch_new(sd_event *event, const struct config *config, const char *id,
			      void (*changed)(void *data), void *data)
{
	struct runwatch *f = xcalloc(1, sizeof *f);
	CLEANUP_FREE char *runs = xasprintf("%s/runs", config->home);
	*f = (struct runwatch){ .event = event,
				.config = config,
				.id = xstrdup(id),
				.changed = changed,
				.data = data,
				.dir_fd = -1,
				.keeper_fd = -1 };
	look(f);
	if (f->dir_fd < 0) {
		(void)sd_event_add_inotify(event, &f->watch, runs, IN_CREATE, on_change, f);
		look(f);
	}
	return f;
}

void runwatch_free(struct runwatch *f)
{
	if (!f)
		return;
	sd_event_source_freep(&f->watch);
	sd_event_source_freep(&f->keeper);
	cleanup_fd(&f->keeper_fd);
	cleanup_fd(&f->dir_fd);
	free(f->id);
	free(f);
}

int runwatch_dir(struct runwatch *f)
{
	look(f);
	if (f->dir_fd >= 0)
		watch_keeper(f);
	return f->dir_fd;
}

bool runwatch_has_ended(struct runwatch *f, char *ret_cause, size_t room)
{
	CLEANUP_JSON json_t *verdict = NULL;
	if (runwatch_dir(f) < 0)
		return false;
	/* In this order: a keeper writes its verdict before it ends. */
	bool is_alive = run_is_alive(f->config, f->id, NULL);
	if (json_read_file(f->dir_fd, "verdict.json", VERDICT_MAX, &verdict, NULL) < 0) {
		(void)snprintf(ret_cause, room, "lost");
		return !is_alive;
	}
	const char *cause = json_string_value(json_object_get(verdict, "cause"));
	(void)snprintf(ret_cause, room, "%s", cause ? cause : "unknown");
	return true;
}
