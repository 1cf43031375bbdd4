/* The parts of a key that are files: code, inputs, and what a project shows to all of its analyses. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/path.h"
#include "flow/key_parts.h"
#include "spec/caller.h"

static void shown_fields(const struct key_shown *s, struct str *f)
{
	fields_begin(f, s->what);
	fields_add(f, s->name);
	fields_add(f, s->kind == CONTENTS_DIRECTORY ? "directory" : "file");
	fields_add(f, s->executable ? "x" : "");
	fields_add(f, s->sha256);
}

void key_shown_part(const struct key_shown *s, char ret_hex[HASH_HEX])
{
	CLEANUP_STR struct str f = { 0 };
	shown_fields(s, &f);
	fields_end(&f, ret_hex);
}

static char *shown_name(const struct key_shown *s)
{
	return xasprintf("%s %s%s", s->what, str_eq(s->what, "input") ? "data/" : "", s->name);
}

char *key_shown_name(const struct key_shown *s)
{
	char *name = shown_name(s);
	str_clean(name);
	return name;
}

/* Links are followed as the run follows them: only the last component's matters to what is read, and to a name. */
static int make_real(char **path, const char *what, struct stat *ret, struct err *err)
{
	if (lstat(*path, ret) == 0 && !S_ISLNK(ret->st_mode))
		return 0;
	char *real = path_real(*path);
	if (!real || stat(real, ret) < 0) {
		int r = err_set(err, ERR_CALLER, errno, "%s: %s: %s", what, *path,
				strerrordesc_np(errno));
		free(real);
		return r;
	}
	free(*path);
	*path = real;
	return 0;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mode == b->st_mode && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec && a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
	       a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static struct key_code *code_of(struct key_maker *m, const char *path)
{
	for (size_t i = 0; i < m->n_code; i++)
		if (str_eq(m->code[i].path, path))
			return &m->code[i];
	size_t at = m->n_code < KEY_CODE_MAX ? m->n_code++ : m->next_code++ % KEY_CODE_MAX;
	free(m->code[at].path);
	m->code[at] = (struct key_code){ .path = xstrdup(path) };
	return &m->code[at];
}

/* A file is known again by a tuple that was old enough to prove something; that of a directory says nothing. */
static void code_read(struct key_maker *m, const char *path, const struct stat *st,
		      struct contents *ret)
{
	if (!S_ISREG(st->st_mode)) {
		contents_read_known(&m->reader, path, st, ret);
		return;
	}
	struct key_code *c = code_of(m, path);
	if (!same_file(&c->st, st) || c->contents.is_young || !c->contents.sha256[0]) {
		contents_read_known(&m->reader, path, st, &c->contents);
		c->st = *st;
	}
	*ret = c->contents;
}

/* `s` says what it is and, for an input, its name. */
static int shown_part(struct key_maker *m, char **path, struct key_shown s, struct contents *ret,
		      struct pairs *parts, struct err *err)
{
	struct stat st = { 0 };
	int r = make_real(path, s.what, &st, err);
	if (r < 0)
		return r;
	if (s.name) {
		contents_read_known(&m->reader, *path, &st, ret);
	} else {
		code_read(m, *path, &st, ret);
		s.name = path_base(*path);
	}
	if (!ret->sha256[0])
		return err_set(err, ERR_CALLER, ENOTSUP, "%s %s has no digest: %s", s.what, *path,
			       ret->kind == CONTENTS_OTHER
				       ? "it is neither a file nor a directory"
				       : "it changes, or some of it can't be read");
	s.kind = ret->kind;
	s.executable = ret->kind == CONTENTS_FILE && (st.st_mode & 0111);
	s.sha256 = ret->sha256;
	shown_fields(&s, &m->fields);
	key_end_part(m, parts, shown_name(&s));
	return 0;
}

static int input_part(struct key_maker *m, struct input *input, struct pairs *parts,
		      struct err *err)
{
	return shown_part(m, &input->path,
			  (struct key_shown){ .what = "input", .name = input->name },
			  &input->contents, parts, err);
}

/* With the rights of whom it is for: a key of what he may not read would tell him what it is. */
static int callers_parts(struct key_maker *m, struct analysis *a, struct pairs *parts,
			 struct err *err)
{
	CLEANUP(caller_leave) struct caller_before before = { 0 };
	int r = caller_enter(m->config, &before);
	if (r < 0)
		return err_set(err, ERR_CALLER, -r, "we can't act for its submitter: %s",
			       strerrordesc_np(-r));
	for (size_t i = 0; r >= 0 && i < a->code.n; i++)
		r = shown_part(m, &a->code.v[i], (struct key_shown){ .what = "code" },
			       &a->code_contents[i], parts, err);
	for (size_t i = 0; r >= 0 && i < a->n_inputs; i++)
		if (!a->inputs[i].is_own)
			r = input_part(m, &a->inputs[i], parts, err);
	return r;
}

int key_shown_parts(struct key_maker *m, struct analysis *a, struct pairs *parts, struct err *err)
{
	free(a->code_contents);
	a->code_contents = a->code.n ? xcalloc(a->code.n, sizeof *a->code_contents) : NULL;
	int r = callers_parts(m, a, parts, err);
	for (size_t i = 0; r >= 0 && i < a->n_inputs; i++) /* cupel's own */
		if (a->inputs[i].is_own)
			r = input_part(m, &a->inputs[i], parts, err);
	return r;
}

/* What a project shows to each of its analyses may be much, and is looked at for all that come within a moment. */
static int project_part(struct key_maker *m, const char *name, const char *path,
			struct key_project *known, struct pairs *parts, struct err *err)
{
	if (!path)
		return 0;
	if (!known->looked_ns || clock_monotonic_ns() - known->looked_ns >= KEY_PROJECT_NS) {
		CLEANUP_CONTENTS_READER struct contents_reader reader = { .cache_fd = -1 };
		struct contents c = { 0 };
		contents_begin(&reader, m->config->home);
		int r = contents_read(&reader, path, &c, err);
		if (r < 0)
			return r;
		known->looked_ns = clock_monotonic_ns();
		memcpy(known->hex, c.sha256, HASH_HEX);
	}
	if (!known->hex[0])
		return err_set(
			err, ERR_CALLER, ENOTSUP,
			"%s is shown to every analysis of the project, and is too much to be read for a key",
			path);
	key_text_part(m, parts, name, known->hex);
	return 0;
}

int key_project_parts(struct key_maker *m, struct pairs *parts, struct err *err)
{
	const struct config *c = m->config;
	int r = project_part(m, "project data", c->project_data, &m->data, parts, err);
	return r < 0 ? r : project_part(m, "project docs", c->project_docs, &m->docs, parts, err);
}
