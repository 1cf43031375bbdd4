/* Asks single functions of the runtime library, for tests that compare them with other implementations. Values are any bytes, so
 * that answers are records that end with NUL.
 *
 *   activation PREFIX         path, whether it is "whole" or comes "first", then NAME=VALUE..., an empty record, the names that the prefix
 *                             says, an empty record, the scripts
 *   program                   the text for bash
 *   difference BEFORE AFTER   +NAME=VALUE... and -NAME...
 *   metadata FILE...          a line of JSON each: what the script's block says, or the error
 *
 * 1 and the error on stderr where the function refuses. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "runtime/activate.h"
#include "runtime/select_parts.h"
#include "spec/spec_json.h"

#define READ_MAX (64 * 1024 * 1024)

static void put(const char *before, const char *text)
{
	printf("%s%s%c", before, text, '\0');
}

static void put_pair(const char *before, const struct pair *p)
{
	printf("%s%s=%s%c", before, p->key, p->value, '\0');
}

static int show_activation(char **argv, struct err *err)
{
	CLEANUP_ACTIVATION struct activation a = { 0 };
	int r = conda_activation(argv[0], &a, err);
	if (r < 0)
		return r;
	put("", a.path);
	put("", a.path_is_whole ? "whole" : "first");
	for (size_t i = 0; i < a.env.n; i++)
		put_pair("", &a.env.v[i]);
	put("", "");
	for (size_t i = 0; i < a.names.n; i++)
		put("", a.names.v[i]);
	put("", "");
	for (size_t i = 0; i < a.scripts.n; i++)
		put("", a.scripts.v[i]);
	return 0;
}

static int show_program(char **argv, struct err *err)
{
	(void)argv;
	(void)err;
	printf("%s", activation_program);
	return 0;
}

static int show_difference(char **argv, struct err *err)
{
	CLEANUP_ENV_CHANGE struct env_change c = { 0 };
	CLEANUP_FREE char *before = NULL, *after = NULL;
	size_t n = 0, m = 0;
	int r = fs_read_capped(AT_FDCWD, argv[0], READ_MAX, &before, &n, err);
	if (r >= 0)
		r = fs_read_capped(AT_FDCWD, argv[1], READ_MAX, &after, &m, err);
	if (r >= 0)
		r = env_difference(before, n, after, m, &c, err);
	for (size_t i = 0; r >= 0 && i < c.set.n; i++)
		put_pair("+", &c.set.v[i]);
	for (size_t i = 0; r >= 0 && i < c.unset.n; i++)
		put("-", c.unset.v[i]);
	return r;
}

static json_t *metadata_json(const char *file)
{
	CLEANUP_SCRIPT_META struct script_meta m = { 0 };
	CLEANUP_FREE char *text = NULL;
	struct err err = { 0 };
	size_t n = 0;
	int r = fs_read_capped(AT_FDCWD, file, READ_MAX, &text, &n, &err);
	if (r >= 0)
		r = script_meta_read(file, text, n, &m, &err);
	if (r < 0)
		return json_pack("{s:o}", "error", json_text(err.text));
	return json_pack("{s:i,s:o,s:o,s:o,s:o}", "line", m.line, "requires-python",
			 json_text(m.requires_python), "dependencies", strv_json(&m.dependencies),
			 "runtime", json_text(m.runtime), "limits", limits_json(&m.limits));
}

static int show_metadata(char **argv, struct err *err)
{
	(void)err;
	for (; *argv; argv++) {
		CLEANUP_JSON json_t *o = metadata_json(*argv);
		CLEANUP_FREE char *text = json_dumps(o, JSON_COMPACT);
		printf("%s\n", text ? text : "null");
	}
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int operands;
		int (*show)(char **argv, struct err *err);
	} rows[] = {
		{ "activation", 1, show_activation },
		{ "program", 0, show_program },
		{ "difference", 2, show_difference },
		{ "metadata", -1, show_metadata },
	};
	struct err err = { 0 };
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (argc > 1 && str_eq(argv[1], rows[i].name) &&
		    (rows[i].operands < 0 || argc == rows[i].operands + 2)) {
			int r = rows[i].show(argv + 2, &err);
			if (r < 0)
				(void)fprintf(stderr, "%s\n", err.text);
			return r < 0;
		}
	(void)fprintf(stderr, "usage: see the source\n");
	return 2;
}
