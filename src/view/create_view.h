/* How the making of a runtime goes on, and what became of it. */
#pragma once

#include "run/create.h"

/* One line on a terminal that is written over; nothing when piped. */
struct create_line {
	bool shown;
	bool on_screen;
};
/* As struct create_viewer wants it: `data` is a struct create_line. */
void create_line_tell(void *data, const char *phase, const char *line);
void create_line_clear(struct create_line *l);

void create_print(const struct create_request *q, const struct create_result *r);
void create_print_json(const struct create_request *q, const struct create_result *r);
void remove_print(const char *name, enum remove_how how, const struct remove_result *r);
void remove_print_json(const char *name, enum remove_how how, const struct remove_result *r);
