/* A row a file; then what was refused. */
#include "view/outputs_view.h"

#include <stdio.h>

#include "base/num.h"
#include "base/str.h"
#include "view/table.h"

static const char *text_of(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

static void add_row(struct table *t, const json_t *file)
{
	char size[32];
	const json_t *check = json_object_get(file, "check");
	const char *note = text_of(check, "note");
	const char *state = text_of(check, "state");
	CLEANUP_FREE char *said =
		xasprintf("%s%s%s", state ? state : "", note ? ": " : "", note ? note : "");
	const char *sha256 = text_of(file, "sha256");
	CLEANUP_FREE char *digest = xasprintf("%.12s", sha256 ? sha256 : "");
	num_print_size((uint64_t)json_integer_value(json_object_get(file, "size")), size,
		       sizeof size);
	table_add(t, text_of(file, "path"));
	table_add(t, size);
	table_add(t, digest);
	table_add(t, text_of(file, "media_type"));
	table_add(t, said);
}

int outputs_print(const json_t *manifest, const json_t *files, struct err *err)
{
	static const struct table_column columns[] = { { "PATH", TABLE_WRAP },
						       { "SIZE", TABLE_NUMBER },
						       { "SHA256", TABLE_TEXT },
						       { "TYPE", TABLE_TEXT },
						       { "CHECK", TABLE_WRAP } };
	CLEANUP_TABLE struct table t = { columns, sizeof columns / sizeof *columns };
	size_t i;
	json_t *entry;
	json_array_foreach(files, i, entry)
	{
		add_row(&t, entry);
	}
	int r = table_print(&t, err);
	if (r < 0)
		return r;
	if (json_is_true(json_object_get(manifest, "partial")))
		printf("partial: the run did not succeed, and nothing vouches for these\n");
	json_array_foreach(json_object_get(manifest, "refused"), i, entry)
	{
		CLEANUP_FREE char *path = str_visible(text_of(entry, "path"));
		CLEANUP_FREE char *reason = str_visible(text_of(entry, "reason"));
		printf("refused: %s: %s\n", path, reason);
	}
	return 0;
}
