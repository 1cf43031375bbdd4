/* The interpreters and the health checks of an entry. */
#include <string.h>

#include "base/hash.h"
#include "base/path.h"
#include "runtime/catalog_parts.h"
#include "runtime/kinds.h"
#include "spec/show.h"

#define DIGEST "sha256:"

/* A program, or a program with its own arguments. */
static int argv_read(const struct document *d, const struct node *n, struct strv *ret,
		     struct err *err)
{
	CLEANUP_FREE char *text = NULL;
	if (n->kind == NODE_LIST) {
		int r = node_strings(d, n, ANALYSIS_ARGS_MAX, ret, err);
		if (r >= 0 && (ret->n == 0 || !ret->v[0][0]))
			return node_error(d, n, err, "the list is empty; name a program");
		return r;
	}
	int r = node_string(d, n, &text, err);
	if (r < 0)
		return r;
	if (!text[0])
		return node_error(d, n, err, "the program is empty; name one");
	strv_take(ret, take_ptr(text));
	return 0;
}

static int interpreter_read(const struct document *d, const struct node *key,
			    const struct node *value, struct runtime *r, struct err *err)
{
	CLEANUP_STRV struct strv argv = { 0 };
	const char *extensions[2] = { key->text };
	char shown[SHOW_ROOM];
	size_t n = 1;
	if (key->text[0] != '.')
		n = language_extensions(key->text, extensions);
	if (n == 0 || str_eq(extensions[0], ".") || strchr(extensions[0], '/'))
		return node_error(
			d, key, err,
			"'%s' is neither an ending of file names such as .py nor one of python, r, bash, perl, julia, awk",
			show_text(key->text, shown));
	int e = argv_read(d, value, &argv, err);
	for (size_t i = 0; e >= 0 && i < n; i++)
		interpreter_add(r, extensions[i], &argv, NULL);
	return e;
}

int entry_interpreters(const struct document *d, const struct node *n, void *target,
		       struct err *err)
{
	if (n->kind != NODE_MAP || n->n > CATALOG_LIST_MAX)
		return node_error(d, n, err, "expected a map, such as {.py: python3}");
	int r = 0;
	for (size_t i = 0; r >= 0 && i < n->n; i++)
		r = interpreter_read(d, n->keys[i], n->values[i], &((struct entry *)target)->r,
				     err);
	return r;
}

static void check_release(struct runtime_check *c)
{
	free(c->name);
	strv_release(&c->command);
	free(c->expect);
}

/* `MODULE`, {python: MODULE} or {r: PACKAGE}. */
static int import_read(const struct document *d, const struct node *n, struct runtime_check *c,
		       struct err *err)
{
	CLEANUP_FREE char *module = NULL;
	const char *language = "python";
	if (n->kind == NODE_MAP) {
		if (n->n != 1 ||
		    (!str_eq(n->keys[0]->text, "python") && !str_eq(n->keys[0]->text, "r")))
			return node_error(d, n, err,
					  "expected MODULE, {python: MODULE} or {r: "
					  "PACKAGE}");
		language = n->keys[0]->text;
		n = n->values[0];
	}
	int r = node_string(d, n, &module, err);
	if (r < 0)
		return r;
	/* It becomes part of a program's text. */
	for (const char *at = module; *at; at++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._",
			    *at))
			return node_error(d, n, err,
					  "a module's name has letters, digits, '_' and "
					  "'.' only");
	if (!module[0])
		return node_error(d, n, err, "the module's name is empty");
	strv_add(&c->command, language);
	strv_add(&c->command, module);
	c->name = xasprintf("import %s", module);
	return 0;
}

READER(read_check_name)
{
	struct runtime_check *c = target;
	char shown[SHOW_ROOM];
	free(c->name);
	c->name = NULL;
	int r = node_string(d, n, &c->name, err);
	if (r >= 0 && !text_is_label(c->name, ANALYSIS_LABEL_MAX))
		return node_error(d, n, err, "'%s' is not a name for a check",
				  show_text(c->name, shown));
	return r;
}

READER(read_check_command)
{
	struct runtime_check *c = target;
	return argv_read(d, n, &c->command, err);
}

READER(read_check_expect)
{
	struct runtime_check *c = target;
	int r = node_string(d, n, &c->expect, err);
	if (r < 0 || !str_starts(c->expect, DIGEST))
		return r;
	const char *hex = c->expect + strlen(DIGEST);
	if (strlen(hex) != HASH_HEX - 1 || strspn(hex, "0123456789abcdef") != HASH_HEX - 1)
		return node_error(d, n, err,
				  "after 'sha256:' come 64 digits of 0-9 a-f, the digest of what "
				  "the command prints");
	return 0;
}

READER(read_check_at_least)
{
	struct runtime_check *c = target;
	int r = node_string(d, n, &c->expect, err);
	if (r >= 0 && (c->expect[0] < '0' || c->expect[0] > '9'))
		return node_error(d, n, err, "a version begins with a digit, such as \"1.16\"");
	return r;
}

static int command_check(const struct document *d, const struct node *n, struct runtime_check *c,
			 struct err *err)
{
	static const struct key_row run_rows[] = { { "name", read_check_name },
						   { "command", read_check_command },
						   { "expect", read_check_expect } };
	static const struct key_row version_rows[] = { { "name", read_check_name },
						       { "command", read_check_command },
						       { "at_least", read_check_at_least } };
	int r = c->kind == CHECK_RUN ? map_read(d, n, ROWS(run_rows), c, err)
				     : map_read(d, n, ROWS(version_rows), c, err);
	if (r < 0)
		return r;
	if (!c->command.n)
		return node_error(d, n, err, "the check needs 'command: [PROGRAM, ...]'");
	if (c->kind == CHECK_VERSION && !c->expect)
		return node_error(d, n, err, "the check needs 'at_least: VERSION'");
	if (!c->name)
		c->name = xasprintf("%s %s", c->kind == CHECK_RUN ? "run" : "version",
				    path_base(c->command.v[0]));
	return 0;
}

static int check_read(const struct document *d, const struct node *n, struct runtime *r,
		      struct err *err)
{
	static const char *const words[] = {
		[CHECK_IMPORT] = "import", [CHECK_VERSION] = "version", [CHECK_RUN] = "run"
	};
	CLEANUP(check_release) struct runtime_check c = { 0 };
	if (n->kind != NODE_MAP || n->n != 1)
		return node_error(d, n, err,
				  "a check is one of 'import: MODULE', 'version: {...}', 'run: "
				  "{...}'");
	int word = node_word(d, n->keys[0], words, CHECK_KIND_COUNT_, err);
	if (word < 0)
		return word;
	c.kind = (enum runtime_check_kind)word;
	int e = c.kind == CHECK_IMPORT ? import_read(d, n->values[0], &c, err)
				       : command_check(d, n->values[0], &c, err);
	if (e < 0)
		return e;
	r->checks = xreallocarray(r->checks, r->n_checks + 1, sizeof *r->checks);
	r->checks[r->n_checks++] = c;
	c = (struct runtime_check){ 0 };
	return 0;
}

int entry_checks(const struct document *d, const struct node *n, void *target, struct err *err)
{
	if (n->kind != NODE_LIST || n->n > CATALOG_LIST_MAX)
		return node_error(d, n, err, "expected a list of checks, one '- ...' a line");
	int r = 0;
	for (size_t i = 0; r >= 0 && i < n->n; i++)
		r = check_read(d, n->values[i], &((struct entry *)target)->r, err);
	return r;
}
