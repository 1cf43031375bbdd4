/* A snapshot as text, one line an item or file, fields between tabs:
 *   cupel-manifest 1 RUNTIME
 *   i KIND NAME VERSION WHERE DIGEST
 *   f|d|l|m|o MODE SIZE MTIME CTIME SHA256|- PATH [TARGET]
 *   end LINES */
#include <string.h>

#include "runtime/fingerprint_parts.h"

static void add_field(struct str *out, const char *text)
{
	str_add(out, "\t");
	text_escape(out, text);
}

static void write_entry(struct str *out, const struct entry *e)
{
	str_addf(out, "%c\t%04o\t%llu\t%lld\t%lld\t%s", e->kind, e->mode,
		 (unsigned long long)e->size, (long long)e->mtime_ns, (long long)e->ctime_ns,
		 e->sha256[0] ? e->sha256 : "-");
	add_field(out, e->path);
	if (e->target)
		add_field(out, e->target);
	str_add(out, "\n");
}

void manifest_write(const char *runtime, const struct snapshot *s, struct str *ret)
{
	str_add(ret, "cupel-manifest\t1");
	add_field(ret, runtime);
	str_add(ret, "\n");
	for (size_t i = 0; i < s->items.n; i++) {
		const struct item *item = &s->items.v[i];
		str_add(ret, "i");
		add_field(ret, item->kind);
		add_field(ret, item->name);
		add_field(ret, item->version);
		add_field(ret, item->where);
		add_field(ret, item->digest);
		str_add(ret, "\n");
	}
	for (size_t i = 0; i < s->tree.n; i++)
		write_entry(ret, &s->tree.v[i]);
	str_addf(ret, "end\t%zu\n", s->items.n + s->tree.n);
}
