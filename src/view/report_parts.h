/* The parts of the page: private to report*.c. */
#pragma once

#include "view/html.h"
#include "view/report.h"

extern const char report_style[];

/* report_plot.c: memory and cpu over time against their limits. */
void report_plots(const struct dossier *d, struct str *s);
/* report_outputs.c: what came out, with previews; what was refused; the ends of the logs. */
void report_outputs(const struct dossier *d, struct str *s);
void report_logs(const struct dossier *d, struct str *s);
/* report_tables.c: what was run, what was used of each limit, what happened when, the box. */
void report_facts(const struct dossier *d, struct str *s);
void report_budget(const struct dossier *d, struct str *s);
void report_timeline(const struct dossier *d, struct str *s);
void report_box(const struct dossier *d, struct str *s);
