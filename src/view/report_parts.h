/* The parts of the page: private to report*.c. */
#pragma once

#include "view/html.h"
#include "view/report.h"

extern const char report_style[];

/* Up to <body>; with the crate, if it is given and not too large. */
void report_begin(struct str *s, const char *title, const json_t *crate);

/* report_plot.c: memory and cpu over time against their limits. */
void report_plots(const struct dossier *d, struct str *s);
/* report_outputs.c: what came out, with previews; what was refused; the ends of the logs. */
void report_outputs(const struct dossier *d, struct str *s);
void report_logs(const struct dossier *d, struct str *s);
/* How much of outputs is in the page already. */
struct previews {
	size_t n, picture_bytes;
};
/* An output that is a picture, at `path` below dir_fd. False if it is none, or there are enough of them. */
bool report_picture(struct previews *p, int dir_fd, const char *path, const json_t *file,
		    struct str *s);
/* The last `max` bytes of a log as a pre element. False if there are none. */
bool report_tail(int dir_fd, const char *name, size_t max, struct str *s);
/* report_tables.c: what was run, what was used of each limit, what happened when, the box. */
void report_facts(const struct dossier *d, struct str *s);
void report_budget(const struct dossier *d, struct str *s);
void report_timeline(const struct dossier *d, struct str *s);
void report_box(const struct dossier *d, struct str *s);
