/* The packages that dpkg has installed, on the host or in a root, and what each one needs. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>

#include "base/fs.h"
#include "runtime/fingerprint_parts.h"

#define STATUS_MAX   (256 << 20)
#define INFO_MAX     (64 << 20)
#define PACKAGES_MAX 1000000

void dpkg_release(struct dpkg *d)
{
	free(d->text);
	free(d->v);
	*d = (struct dpkg){ 0 };
}

/* "Key: value" -> the value, cut at the line's end; NULL if the line is of another key. */
static char *line_value(char *line, const char *key)
{
	size_t length = strlen(key);

	if (strncmp(line, key, length) != 0 || line[length] != ':')
		return NULL;
	return line + length + 1 + strspn(line + length + 1, " \t");
}

/* One line of a stanza. */
static void take_line(struct dpkg_package *p, char *line, bool *installed)
{
	const struct {
		const char *key;
		char **value;
	} rows[] = {
		{ "Package", &p->name },
		{ "Version", &p->version },
		{ "Architecture", &p->arch },
		{ "Depends", &p->depends },
		{ "Pre-Depends", &p->pre_depends },
		{ "Provides", &p->provides },
	};
	char *value = line_value(line, "Status");

	if (value)
		*installed = str_ends(value, " installed");
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if ((value = line_value(line, rows[i].key)))
			*rows[i].value = value;
}

static void add_package(struct dpkg *d, size_t *room, const struct dpkg_package *p)
{
	if (d->n == *room) {
		*room = *room ? 2 * *room : 1024;
		d->v = xreallocarray(d->v, *room, sizeof(*d->v));
	}
	d->v[d->n++] = *p;
}

static int by_name(const void *left, const void *right)
{
	const struct dpkg_package *a = left, *b = right;
	int c = strcmp(a->name, b->name);

	return c ? c : strcmp(a->arch ? a->arch : "", b->arch ? b->arch : "");
}

int dpkg_parse(char *text, size_t length, struct dpkg *ret, struct err *err)
{
	struct dpkg d = { .text = text };
	struct dpkg_package p = { 0 };
	bool installed = false;
	size_t room = 0;

	for (char *line = text, *end = text + length; line <= end;) {
		char *newline = line < end ? memchr(line, '\n', (size_t)(end - line)) : NULL;
		if (!newline)
			newline = end;
		*newline = '\0';
		if (*line) {
			/* Only these can begin a line that is looked at: most are descriptions. */
			if (strchr("PSVAD", *line))
				take_line(&p, line, &installed);
		} else {
			if (p.name && p.version && installed)
				add_package(&d, &room, &p);
			p = (struct dpkg_package){ 0 };
			installed = false;
		}
		line = newline + 1;
	}
	if (p.name && p.version && installed)
		add_package(&d, &room, &p);
	if (d.n > PACKAGES_MAX) {
		dpkg_release(&d);
		return err_set(err, ERR_CALLER, E2BIG, "dpkg's status names too many packages");
	}
	if (d.n > 1)
		qsort(d.v, d.n, sizeof(*d.v), by_name);
	*ret = d;
	return 0;
}

static int read_in(int root_fd, const char *path, size_t max, char **ret, size_t *ret_length)
{
	CLEANUP_FD int fd = fs_open_resolve(root_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0,
					    RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);

	return fd < 0 ? fd : text_read(fd, max, ret, ret_length);
}

int dpkg_read(int root_fd, struct dpkg *ret, struct err *err)
{
	char *text = NULL;
	size_t length = 0;
	int r = read_in(root_fd, DPKG_STATUS, STATUS_MAX, &text, &length);

	if (r == -ENOENT || r == -ENOTDIR) {
		*ret = (struct dpkg){ 0 };
		return 0;
	}
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "read '%s': %s", DPKG_STATUS,
			       strerrordesc_np(-r));
	return dpkg_parse(text, length, ret, err);
}

static bool name_is(const char *name, const char *text, size_t length)
{
	return strncmp(name, text, length) == 0 && name[length] == '\0';
}

/* Each package is put on the stack once, so that it has room for all. */
static void want(struct dpkg_package **stack, size_t *n, struct dpkg_package *p)
{
	if (p->wanted)
		return;
	p->wanted = true;
	stack[(*n)++] = p;
}

static size_t lower_bound(const struct dpkg *d, const char *text, size_t length)
{
	size_t low = 0, high = d->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const char *name = d->v[middle].name;
		int c = strncmp(name, text, length);
		if (c < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The next name in a list "a (>= 1), b | c:any"; empty at its end. */
static const char *next_name(const char *text, size_t *ret_length)
{
	for (;;) {
		text += strspn(text, " ,|)\t");
		if (*text == ':')
			text += strcspn(text, " ,|(");
		else if (*text == '(')
			text += strcspn(text, ")");
		else
			break;
	}
	*ret_length = strcspn(text, " ,|():\t");
	return text;
}

static bool provides(const struct dpkg_package *p, const char *name, size_t length)
{
	size_t n = 0;

	for (const char *at = next_name(p->provides, &n); n > 0; at = next_name(at + n, &n))
		if (n == length && strncmp(at, name, n) == 0)
			return true;
	return false;
}

/* Packages of this name, of every architecture; or else those that provide it. */
static bool want_name(struct dpkg *d, const char *name, size_t length, struct dpkg_package **stack,
		      size_t *n)
{
	bool found = false;

	for (size_t i = lower_bound(d, name, length);
	     i < d->n && strncmp(d->v[i].name, name, length) == 0; i++)
		if (name_is(d->v[i].name, name, length)) {
			want(stack, n, &d->v[i]);
			found = true;
		}
	if (found)
		return true;
	/* All of them: which one is used, of two that provide a BLAS, is decided elsewhere. */
	for (size_t i = 0; i < d->n; i++)
		if (d->v[i].provides && provides(&d->v[i], name, length)) {
			want(stack, n, &d->v[i]);
			found = true;
		}
	return found;
}

static void want_list(struct dpkg *d, const char *list, struct dpkg_package **stack, size_t *n)
{
	size_t length = 0;

	if (!list)
		return;
	for (const char *at = next_name(list, &length); length > 0;
	     at = next_name(at + length, &length))
		(void)want_name(d, at, length, stack, n);
}

void dpkg_want(struct dpkg *d, const struct strv *names, struct strv *ret_absent)
{
	CLEANUP_FREE struct dpkg_package **stack = xcalloc(d->n + 1, sizeof(struct dpkg_package *));
	size_t n = 0;

	for (size_t i = 0; i < names->n; i++)
		if (!want_name(d, names->v[i], strcspn(names->v[i], ":"), stack, &n) && ret_absent)
			strv_add(ret_absent, names->v[i]);
	while (n > 0) {
		const struct dpkg_package *p = stack[--n];
		want_list(d, p->pre_depends, stack, &n);
		want_list(d, p->depends, stack, &n);
	}
}

void dpkg_want_all(struct dpkg *d)
{
	for (size_t i = 0; i < d->n; i++)
		d->v[i].wanted = true;
}

void dpkg_names(const struct runtime *r, struct strv *ret)
{
	if (r->packages.n > 0) {
		strv_copy(ret, &r->packages);
		return;
	}
	for (size_t i = 0; i < r->n_interpreters; i++)
		if (r->interpreters[i].package && !strv_has(ret, r->interpreters[i].package))
			strv_add(ret, r->interpreters[i].package);
}

int dpkg_info(int root_fd, const struct dpkg_package *p, const char *suffix, char **ret,
	      struct err *err)
{
	CLEANUP_FREE char *path =
		xasprintf(DPKG_INFO "/%s:%s.%s", p->name, p->arch ? p->arch : "", suffix);
	int r = strchr(p->name, '/') || (p->arch && strchr(p->arch, '/'))
			? -EINVAL
			: read_in(root_fd, path, INFO_MAX, ret, NULL);

	if (r == -ENOENT) {
		free(path);
		path = xasprintf(DPKG_INFO "/%s.%s", p->name, suffix);
		r = read_in(root_fd, path, INFO_MAX, ret, NULL);
	}
	if (r == -ENOENT || r == -ENOTDIR) {
		*ret = NULL;
		return 0;
	}
	return r < 0 ? err_set(err, ERR_HOST, -r, "read '%s': %s", path, strerrordesc_np(-r)) : 0;
}
