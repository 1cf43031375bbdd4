/* {{name}} in the texts of a step: a shard's variables and parameters. Whatever else is in braces stays as it is, since shells and awk use
 * them too; \{{ stands for {{. */
#include <ctype.h>
#include <string.h>

#include "base/path.h"
#include "flow/parts.h"
#include "spec/show.h"

#define EXPANDED_MAX ANALYSIS_STRING_MAX

void clones_release(struct clones *c)
{
	for (size_t i = 0; i < c->n; i++)
		free(c->v[i]);
	free(c->v);
	*c = (struct clones){ 0 };
}

static void *keep(struct clones *c, void *owned)
{
	c->v = xreallocarray(c->v, c->n + 1, sizeof *c->v);
	c->v[c->n++] = owned;
	return owned;
}

char *template_value(const json_t *value)
{
	if (json_is_string(value))
		return xstrdup(json_string_value(value));
	if (json_is_array(value) || json_is_object(value))
		return NULL;
	return json_dumps_short(value, JSON_ENCODE_ANY | JSON_COMPACT);
}

/* What stands between the braces. */
struct mark {
	char name[130];
	char part[8];  /* "", "name" or "stem" */
	size_t length; /* of all of it, braces included; 0: it is none */
};

static struct mark mark_at(const char *text)
{
	struct mark m = { 0 };
	const char *c = text + 2;
	c += strspn(c, " ");
	size_t n = 0;
	while (isalnum((unsigned char)c[n]) || c[n] == '_')
		n++;
	if (n == 0 || n >= sizeof m.name || isdigit((unsigned char)c[0]))
		return m;
	memcpy(m.name, c, n);
	c += n;
	if (*c == '.') {
		n = strcspn(c + 1, " }");
		if (n == 0 || n >= sizeof m.part)
			return m;
		memcpy(m.part, c + 1, n);
		c += 1 + n;
	}
	c += strspn(c, " ");
	if (c[0] == '}' && c[1] == '}')
		m.length = (size_t)(c + 2 - text);
	return m;
}

static int unknown(const struct document *d, const struct node *n, const struct mark *m,
		   const json_t *values, struct err *err)
{
	CLEANUP_STR struct str known = { 0 };
	CLEANUP_STRV struct strv names = { 0 };
	const char *name;
	json_t *value;
	json_object_foreach((json_t *)values, name, value)
	{
		strv_add(&names, name);
		str_addf(&known, "%s%s", known.length ? ", " : "", name);
	}
	const char *near = str_nearest(m->name, (const char *const *)names.v, names.n);
	if (near)
		return node_error(d, n, err,
				  "{{%s}}: there is no variable or parameter '%s'; did you mean "
				  "{{%s}}?",
				  m->name, m->name, near);
	return node_error(
		d, n, err,
		"{{%s}}: there is no variable or parameter '%s'; known here: %.300s. Add it to "
		"'parameters' or 'scatter', or write \\{{%s}} for the text itself",
		m->name, m->name, known.length ? known.text : "none", m->name);
}

static int mark_text(const struct document *d, const struct node *n, const struct mark *m,
		     const json_t *values, struct str *to, struct err *err)
{
	const json_t *value = json_object_get(values, m->name);
	CLEANUP_FREE char *text = value ? template_value(value) : NULL;
	if (!value)
		return unknown(d, n, m, values, err);
	if (!text)
		return node_error(
			d, n, err,
			"{{%s}} is a list or a map, which no text can hold; the step finds it in "
			"CUPEL_PARAMETERS",
			m->name);
	const char *from = m->part[0] ? path_base(text) : text;
	if (str_eq(m->part, "stem")) {
		const char *dot = from[0] ? strchr(from + 1, '.') : NULL;
		str_add_n(to, from, dot ? (size_t)(dot - from) : strlen(from));
		return 0;
	}
	if (m->part[0] && !str_eq(m->part, "name"))
		return node_error(
			d, n, err,
			"{{%s.%s}}: expected .name (without directories) or .stem (and without its extension)",
			m->name, m->part);
	str_add(to, from);
	return 0;
}

static int expand(const struct document *d, const struct node *n, const json_t *values,
		  struct str *to, struct err *err)
{
	for (const char *rest = n->text; *rest;) {
		const char *open = strstr(rest, "{{");
		if (!open) {
			str_add(to, rest);
			break;
		}
		bool escaped = open > rest && open[-1] == '\\';
		str_add_n(to, rest, (size_t)(open - rest) - escaped);
		struct mark m = { 0 };
		if (!escaped)
			m = mark_at(open);
		int r = m.length ? mark_text(d, n, &m, values, to, err) : 0;
		if (r < 0)
			return r;
		if (!m.length)
			str_add(to, "{{");
		if (to->length > EXPANDED_MAX)
			return node_error(d, n, err, "more than %d bytes with its values",
					  EXPANDED_MAX);
		rest = open + (m.length ? m.length : 2);
	}
	return 0;
}

static int clone_scalar(struct clones *c, const struct document *d, const struct node *n,
			const json_t *values, const struct node **ret, struct err *err)
{
	CLEANUP_STR struct str text = { 0 };
	*ret = n;
	if (!strstr(n->text, "{{"))
		return 0;
	int r = expand(d, n, values, &text, err);
	if (r < 0)
		return r;
	struct node *made = keep(c, xmalloc(sizeof *made));
	*made = *n;
	made->text = keep(c, text.length ? str_take(&text) : xstrdup(""));
	*ret = made;
	return 0;
}

int template_node(struct clones *c, const struct document *d, const struct node *n,
		  const json_t *values, const struct node **ret, struct err *err)
{
	struct node *made = NULL;
	if (n->kind == NODE_SCALAR)
		return clone_scalar(c, d, n, values, ret, err);
	for (size_t i = 0; i < n->n; i++) {
		const struct node *value = NULL;
		int r = template_node(c, d, n->values[i], values, &value, err);
		if (r < 0)
			return r;
		if (value == n->values[i])
			continue;
		if (!made) {
			made = keep(c, xmalloc(sizeof *made));
			*made = *n;
			made->values = keep(c, xcalloc(n->n, sizeof *made->values));
			memcpy(made->values, n->values, n->n * sizeof *made->values);
		}
		made->values[i] = (struct node *)value;
	}
	*ret = made ? made : n;
	return 0;
}
