/* What activate.d does: the shell's part of it, and what differs afterwards. */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "runtime/activate.h"

#define DUMP_MAX                                                                                   \
	(2 * 1024 * 1024) /* what the kernel takes with a usual stack: arguments and environment */
#define VARS_MAX 4096

/* The names are long enough that no script has them by chance; none is exported. Scripts may have changed PATH, options, traps and
 * file descriptors, so each is put right before the next, env is called by its full name, and files are opened by theirs. exit runs
 * the trap; a script that replaces the shell or kills it leaves no AFTER. */
const char activation_program[] =
	"set +e\n"
	"__cupel_after=$2 __cupel_now= __cupel_done=\n"
	"/usr/bin/env -0 >\"$1\" || exit 4\n"
	"shift 2\n"
	"__cupel_scripts=(\"$@\")\n"
	"set --\n"
	"__cupel_dump() {\n"
	"	trap - EXIT DEBUG ERR RETURN\n"
	"	/usr/bin/env -0 >|\"$__cupel_after\" || exit 4\n"
	"	if [ -z \"$__cupel_done\" ]; then\n"
	"		printf '%s ended the shell\\n' \"$__cupel_now\" >&2\n"
	"		exit 3\n"
	"	fi\n"
	"	exit 0\n"
	"}\n"
	"for __cupel_now in \"${__cupel_scripts[@]}\"; do\n"
	"	trap __cupel_dump EXIT\n"
	"	. \"$__cupel_now\"\n"
	"	set +aeufnvxCET +o posix\n"
	"	trap - DEBUG ERR RETURN\n"
	"done\n"
	"__cupel_done=1\n"
	"__cupel_dump\n";

void env_change_release(struct env_change *c)
{
	pairs_release(&c->set);
	strv_release(&c->unset);
	*c = (struct env_change){ 0 };
}

struct entry {
	const char *name; /* NAME=VALUE, in the dump */
	size_t length;    /* of NAME */
	size_t order;
};

struct dump {
	struct entry *
		v; /* owned; sorted by name, each once: the last one counts, as for getenv's setter */
	size_t n;
};

static void dump_release(struct dump *d)
{
	free(d->v);
}

static int compare_names(const struct entry *a, const struct entry *b)
{
	size_t n = a->length < b->length ? a->length : b->length;
	int c = memcmp(a->name, b->name, n);
	return c ? c : (a->length > b->length) - (a->length < b->length);
}

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int c = compare_names(x, y);
	return c ? c : (x->order > y->order) - (x->order < y->order);
}

/* bash's own, and what nobody but cupel sets. */
static bool is_apart(const struct entry *e)
{
	static const char *const names[] = { "_", "SHLVL", "PWD", "OLDPWD" };
	static const char *const beginnings[] = { "CUPEL_", "__cupel_" };
	bool is = false;
	for (size_t i = 0; !is && i < sizeof names / sizeof *names; i++)
		is = e->length == strlen(names[i]) && memcmp(e->name, names[i], e->length) == 0;
	for (size_t i = 0; !is && i < sizeof beginnings / sizeof *beginnings; i++)
		is = strncmp(e->name, beginnings[i], strlen(beginnings[i])) == 0;
	return is;
}

static void keep_last(struct dump *d)
{
	size_t n = 0;
	if (d->n > 1)
		qsort(d->v, d->n, sizeof *d->v, compare_entries);
	for (size_t i = 0; i < d->n; i++)
		if (i + 1 == d->n || compare_names(&d->v[i], &d->v[i + 1]) != 0)
			d->v[n++] = d->v[i];
	d->n = n;
}

static int dump_read(const char *text, size_t length, struct dump *ret, struct err *err)
{
	if (length > DUMP_MAX)
		return err_set(err, ERR_CALLER, E2BIG, "the environment is larger than %d bytes",
			       DUMP_MAX);
	if (length == 0 || text[length - 1] != '\0')
		return err_caller(err, "the environment was not written to its end");
	ret->v = xcalloc(VARS_MAX, sizeof *ret->v);
	for (const char *p = text; p < text + length; p += strlen(p) + 1) {
		const char *equals = strchr(p, '=');
		if (!equals || equals == p)
			return err_caller(err,
					  "the environment holds '%.60s', which is no variable", p);
		if (strlen(equals + 1) >= ANALYSIS_STRING_MAX)
			return err_set(err, ERR_CALLER, E2BIG, "the variable %.*s is too long",
				       equals - p < 100 ? (int)(equals - p) : 100, p);
		struct entry e = { p, (size_t)(equals - p), ret->n };
		if (is_apart(&e))
			continue;
		if (ret->n == VARS_MAX)
			return err_set(err, ERR_CALLER, E2BIG, "more than %d variables", VARS_MAX);
		ret->v[ret->n++] = e;
	}
	keep_last(ret);
	return 0;
}

static void put(struct env_change *c, const struct entry *e)
{
	c->set.v = xreallocarray(c->set.v, c->set.n + 1, sizeof *c->set.v);
	c->set.v[c->set.n++] = (struct pair){ .key = xstrndup(e->name, e->length),
					      .value = xstrdup(e->name + e->length + 1) };
}

int env_difference(const char *before, size_t before_length, const char *after, size_t after_length,
		   struct env_change *ret, struct err *err)
{
	CLEANUP(dump_release) struct dump old = { 0 }, new = { 0 };
	struct env_change c = { 0 };
	int r = dump_read(before, before_length, &old, err);
	if (r >= 0)
		r = dump_read(after, after_length, &new, err);
	if (r < 0)
		return r;
	for (size_t i = 0, j = 0; i < old.n || j < new.n;) {
		int order = i == old.n ? 1 : j == new.n ? -1 : compare_names(&old.v[i], &new.v[j]);
		if (order < 0) {
			strv_take(&c.unset, xstrndup(old.v[i].name, old.v[i].length));
			i++;
			continue;
		}
		if (order > 0 || strcmp(old.v[i].name, new.v[j].name) != 0)
			put(&c, &new.v[j]);
		i += order == 0;
		j++;
	}
	*ret = c;
	return 0;
}
