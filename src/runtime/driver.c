#include "runtime/driver.h"

#include <string.h>

#include "base/path.h"
#include "runtime/notebook.inc"

#define NOTEBOOK ".ipynb"

const size_t driver_file_count = sizeof driver_files / sizeof *driver_files;

bool driver_runs(const struct runtime *r, const struct analysis *a)
{
	if (a->command.n || !a->code.n || !str_ends(a->code.v[0], NOTEBOOK))
		return false;
	for (size_t i = 0; i < r->n_interpreters; i++)
		if (str_ends(a->code.v[0], r->interpreters[i].extension))
			return strv_has(&r->interpreters[i].argv, DRIVER_DIR);
	return true;
}

void driver_digest(char ret_hex[HASH_HEX])
{
	CLEANUP_HASH struct hash *h = hash_new();
	for (size_t i = 0; i < driver_file_count; i++) { /* the NULs tell names and texts apart */
		hash_add(h, driver_files[i].name, strlen(driver_files[i].name) + 1);
		hash_add(h, driver_files[i].text, strlen(driver_files[i].text) + 1);
	}
	hash_end(h, ret_hex);
}

static void add_output(struct analysis *a, char *pattern)
{
	for (size_t i = 0; i < a->n_outputs; i++)
		if (str_eq(a->outputs[i].pattern, pattern))
			return;
	analysis_add_output(a, pattern, NULL, false);
}

void driver_outputs(struct analysis *a)
{
	if (!a->n_outputs) /* then it is everything below out/ */
		return;
	const char *name = path_base(a->code.v[0]);
	CLEANUP_FREE char *stem = xstrndup(name, strlen(name) - strlen(NOTEBOOK));
	for (char *c = stem; *c; c++) /* it becomes a pattern */
		if (strchr("*?[]\\", *c) || (unsigned char)*c < ' ' || *c == 127)
			*c = '?';
	CLEANUP_FREE char *book = xasprintf("out/%s" NOTEBOOK, stem);
	CLEANUP_FREE char *page = xasprintf("out/%s.html", stem);
	add_output(a, book);
	add_output(a, page);
}
