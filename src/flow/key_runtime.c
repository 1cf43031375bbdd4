/* The part of a key that is its runtime: what is installed, by content, and what its entry says of it. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/path.h"
#include "flow/key_parts.h"
#include "runtime/catalog.h"
#include "runtime/content.h"
#include "runtime/key_items.h"
#include "runtime/select.h"
#include "runtime/state.h"

static bool is_fresh(uint64_t looked_ns)
{
	return clock_monotonic_ns() - looked_ns < KEY_RUNTIME_NS;
}

static char *script_text(const struct analysis *a)
{
	CLEANUP_STR struct str text = { 0 };
	str_addf(&text, "%s\n%s", a->code.v[0], a->code_contents[0].sha256);
	for (size_t i = 0; i < a->code.n; i++)
		str_addf(&text, "\n%s", path_base(a->code.v[i]));
	return str_take(&text);
}

static struct key_choice *choice_of(struct key_maker *m, char *script)
{
	for (size_t i = 0; i < m->n_choices; i++)
		if (str_eq(m->choices[i].script, script)) {
			free(script);
			return &m->choices[i];
		}
	m->choices = xreallocarray(m->choices, m->n_choices + 1, sizeof *m->choices);
	m->choices[m->n_choices] = (struct key_choice){ .script = script };
	return &m->choices[m->n_choices++];
}

/* As a run would choose it (run/resolve.c). */
static int choose(struct key_maker *m, const struct analysis *a, const char **ret, struct err *err)
{
	CLEANUP_SELECTION struct selection s = { 0 };
	if (a->runtime || !a->code.n) {
		*ret = a->runtime ? a->runtime : m->config->default_runtime;
		return 0;
	}
	struct key_choice *choice = choice_of(m, script_text(a));
	if (!choice->name || !is_fresh(choice->looked_ns)) {
		int r = runtime_select(m->config, a, &s, err);
		if (r < 0)
			return r;
		free(choice->name);
		choice->name = take_ptr(s.name);
		choice->looked_ns = clock_monotonic_ns();
	}
	*ret = choice->name;
	return 0;
}

/* What the entry shows beside the runtime has no fingerprint there. By its tuples where it is too much to be read. */
static int add_read_only(const struct key_maker *m, const struct runtime *r, struct str *f,
			 struct err *err)
{
	CLEANUP_CONTENTS_READER struct contents_reader reader = { .cache_fd = -1 };
	if (r->read_only.n)
		contents_begin(&reader, m->config->home);
	for (size_t i = 0; i < r->read_only.n; i++) {
		struct contents c = { 0 };
		CLEANUP_FREE char *real = path_real(r->read_only.v[i]);
		int e = contents_read(&reader, real ? real : r->read_only.v[i], &c, err);
		if (e < 0)
			return e;
		if (!c.sha256[0] && !c.stat[0])
			return err_set(
				err, ERR_CALLER, ENOTSUP,
				"runtime '%s' shows %s, which has too many entries to be looked at",
				r->name, r->read_only.v[i]);
		fields_add(f, r->read_only.v[i]);
		fields_add(f, c.sha256[0] ? c.sha256 : c.stat);
	}
	return 0;
}

static int add_entry(const struct key_maker *m, const struct runtime *r, struct str *f,
		     struct err *err)
{
	fields_add(f, runtime_kind_names[r->kind]);
	fields_add(f, r->path);
	fields_add(f, "env");
	for (size_t i = 0; i < r->env.n; i++) {
		fields_add(f, r->env.v[i].key);
		fields_add(f, r->env.v[i].value);
	}
	fields_add(f, "interpreters");
	for (size_t i = 0; i < r->n_interpreters; i++) {
		fields_add(f, r->interpreters[i].extension);
		fields_list(f, &r->interpreters[i].argv);
	}
	fields_add(f, "devices");
	fields_list(f, &r->devices);
	fields_add(f, "read_only");
	return add_read_only(m, r, f, err);
}

static const char *extension_of(const char *script)
{
	const char *dot = script ? strrchr(path_base(script), '.') : NULL;
	return dot ? dot : "";
}

/* The package of the interpreter that a script of this extension gets though the entry does not list it; NULL if there is none. */
static const char *unlisted_package(const struct runtime *r, const char *extension)
{
	if (r->kind != RUNTIME_SYSTEM || !r->packages.n)
		return NULL;
	for (size_t i = 0; i < r->n_interpreters; i++) {
		const struct interpreter *one = &r->interpreters[i];
		if (str_eq(one->extension, extension))
			return one->by_default && one->package &&
					       !strv_has(&r->packages, one->package)
				       ? one->package
				       : NULL;
	}
	return NULL;
}

/* What is not in its own content and yet runs. dpkg's word on the host's packages counts too: on all of them, if the runtime lists none,
 * since of those only the interpreters are read; otherwise on those that it lists. */
static int add_host(struct key_maker *m, const struct runtime *r, const char *identity,
		    const char *extension, struct err *err)
{
	struct str *f = &m->fields;
	const char *package = unlisted_package(r, extension);
	char host[HASH_HEX], covered[HASH_HEX] = "", interpreter[HASH_HEX];
	if (r->kind == RUNTIME_ROOTFS || r->kind == RUNTIME_IMAGE)
		return 0;
	int e = host_content(m->config, m->progress, host, err);
	if (e >= 0)
		e = key_identity(m->config, r, identity, covered, err);
	if (e >= 0 && package)
		e = package_content(m->config, package, m->progress, interpreter, err);
	if (e < 0)
		return e;
	fields_add(f, host);
	fields_add(f, r->kind == RUNTIME_SYSTEM ? covered : NULL);
	if (package)
		fields_add(f, interpreter);
	return 0;
}

static int look(struct key_maker *m, const char *extension, bool allow_drift, const char *name,
		char ret_hex[HASH_HEX], struct err *err)
{
	CLEANUP_RUNTIME struct runtime runtime = { 0 };
	struct fingerprint f = { 0 };
	char content[HASH_HEX];
	int r = catalog_find(m->config, name, &runtime, err);
	if (r >= 0)
		r = runtime_unpack(m->config, &runtime, err);
	if (r < 0)
		return r;
	int fit = runtime_fit(m->config, &runtime, &f, err);
	if (fit < 0 && !(fit == -ESTALE && allow_drift))
		return fit;
	const struct content_request q = { .config = m->config,
					   .runtime = &runtime,
					   .identity = f.hex[DEPTH_IDENTITY],
					   .progress = m->progress };
	r = runtime_content(&q, content, err);
	if (r < 0)
		return r;
	fields_begin(&m->fields, "runtime");
	fields_add(&m->fields, content);
	r = add_host(m, &runtime, f.hex[DEPTH_IDENTITY], extension, err);
	if (r >= 0)
		r = add_entry(m, &runtime, &m->fields, err);
	if (r < 0)
		return r;
	fields_end(&m->fields, ret_hex);
	key_items_keep(m->config, &runtime, ret_hex);
	if (fit < 0 && err) /* allowed: what was said of it is no error */
		*err = (struct err){ 0 };
	return fit < 0 ? 0 : 1;
}

int key_runtime_part(struct key_maker *m, const struct analysis *a, const char **ret_name,
		     char ret_hex[HASH_HEX], struct err *err)
{
	const char *name = NULL;
	int r = choose(m, a, &name, err);
	if (r < 0)
		return r;
	struct key_runtime *known = NULL;
	const char *script = a->code.n && !a->command.n ? a->code.v[0] : NULL;
	/* A text is given to the shell that a shell script would have. */
	const char *extension = a->command_is_text ? ".sh" : extension_of(script);
	for (size_t i = 0; i < m->n_runtimes && !known; i++)
		if (str_eq(m->runtimes[i].name, name) &&
		    str_eq(m->runtimes[i].extension, extension))
			known = &m->runtimes[i];
	if (!known || !is_fresh(known->looked_ns)) {
		r = look(m, extension, a->allow_drift, name, ret_hex, err);
		if (r < 0)
			return r;
		*ret_name = name;
		if (r == 0) /* not fit: nobody else is to rely on it */
			return 0;
		if (!known) {
			m->runtimes =
				xreallocarray(m->runtimes, m->n_runtimes + 1, sizeof *m->runtimes);
			known = &m->runtimes[m->n_runtimes++];
			*known = (struct key_runtime){ .name = xstrdup(name),
						       .extension = xstrdup(extension) };
		}
		known->looked_ns = clock_monotonic_ns();
		memcpy(known->hex, ret_hex, HASH_HEX);
		return 0;
	}
	memcpy(ret_hex, known->hex, HASH_HEX);
	*ret_name = known->name;
	return 0;
}

int key_runtime_now(const struct config *config, const char *name, const char *script,
		    char ret_hex[HASH_HEX], struct err *err)
{
	CLEANUP_KEY_MAKER struct key_maker *m = NULL;
	int r = key_maker_new(config, NULL, &m, err);
	if (r >= 0)
		r = look(m, extension_of(script), true, name, ret_hex, err);
	return r < 0 ? r : 0;
}
