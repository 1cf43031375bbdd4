/* The pages: files that were embedded. They have no data in them; their script asks for it as anybody does. */
#include <string.h>

#include "base/hash.h"
#include "serve/routes.h"

static const struct {
	const char *name, *text;
}
#include "serve/pages.inc"
#define N_PAGES (sizeof pages / sizeof *pages)

static const char *
type_of(const char *name)
{
	static const char *const types[][2] = {
		{ ".html", "text/html; charset=utf-8" },
		{ ".css", "text/css; charset=utf-8" },
		{ ".js", "text/javascript; charset=utf-8" },
		{ ".svg", "image/svg+xml" },
		{ ".json", "application/json" },
	};
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (str_ends(name, types[i][0]))
			return types[i][1];
	return "text/plain; charset=utf-8";
}

static void give(struct request *r, const char *name)
{
	static const struct problem unknown = { 404, "not-found", NULL };
	char hex[HASH_HEX];
	for (size_t i = 0; i + 1 <= N_PAGES; i++)
		if (str_eq(pages[i].name, name)) {
			hash_bytes(pages[i].text, strlen(pages[i].text), hex);
			respond_static(r, type_of(name), pages[i].text, hex);
			return;
		}
	respond_problem(r, &unknown, "there is no page '%.60s'", name);
}

/* One shell for all of them: its script looks at the address. */
void page_shell(struct request *r)
{
	give(r, "index.html");
}

void page_asset(struct request *r)
{
	give(r, r->arg[0]);
}
