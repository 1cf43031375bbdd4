/* By type, else by name. */
#include "serve/preview.h"

#include <stddef.h>
#include <string.h>

#include "base/str.h"

static const char *const images[] = { "image/png", "image/jpeg", "image/gif", "image/webp" };

static const struct {
	const char *end, *type;
	enum preview kind;
} names[] = {
	{ ".png", "image/png", PREVIEW_IMAGE },
	{ ".jpg", "image/jpeg", PREVIEW_IMAGE },
	{ ".jpeg", "image/jpeg", PREVIEW_IMAGE },
	{ ".gif", "image/gif", PREVIEW_IMAGE },
	{ ".webp", "image/webp", PREVIEW_IMAGE },
	{ ".svg", "image/svg+xml", PREVIEW_IMAGE },
	{ ".csv", "text/csv; charset=utf-8", PREVIEW_TABLE },
	{ ".tsv", "text/tab-separated-values; charset=utf-8", PREVIEW_TABLE },
	{ ".txt", "text/plain; charset=utf-8", PREVIEW_TEXT },
	{ ".log", "text/plain; charset=utf-8", PREVIEW_TEXT },
	{ ".md", "text/plain; charset=utf-8", PREVIEW_TEXT },
	{ ".json", "application/json", PREVIEW_TEXT },
	{ ".jsonl", "application/x-ndjson", PREVIEW_TEXT },
	{ ".yaml", "text/plain; charset=utf-8", PREVIEW_TEXT },
	{ ".yml", "text/plain; charset=utf-8", PREVIEW_TEXT },
	{ ".vcf", "text/plain; charset=utf-8", PREVIEW_TEXT },
	{ ".fasta", "text/plain; charset=utf-8", PREVIEW_TEXT },
	{ ".py", "text/plain; charset=utf-8", PREVIEW_TEXT },
};
#define N_NAMES (sizeof names / sizeof *names)

static bool is_image(const char *type)
{
	for (size_t i = 0; i < sizeof images / sizeof *images; i++)
		if (str_eq(type, images[i]))
			return true;
	return false;
}

enum preview preview_kind(const char *path, const char *media_type)
{
	/* An SVG file is a picture to whoever shows it as one, but no page: preview_is_safe() does not have it. */
	if (media_type && (is_image(media_type) || str_eq(media_type, "image/svg+xml")))
		return PREVIEW_IMAGE;
	for (size_t i = 0; path && i < N_NAMES; i++)
		if (str_ends(path, names[i].end) && names[i].kind != PREVIEW_IMAGE)
			return names[i].kind;
	if (media_type && str_starts(media_type, "text/csv"))
		return PREVIEW_TABLE;
	if (media_type && str_starts(media_type, "text/plain"))
		return PREVIEW_TEXT;
	for (size_t i = 0; path && !media_type && i < N_NAMES; i++)
		if (str_ends(path, names[i].end))
			return names[i].kind;
	return PREVIEW_NONE;
}

const char *preview_kind_name(enum preview kind)
{
	static const char *const kinds[] = { "none", "image", "table", "text" };
	return kinds[kind];
}

static bool is_well_formed(const char *type)
{
	size_t n = strspn(type, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				"/.+-_; =");
	return n == strlen(type) && strchr(type, '/') && n < 100;
}

const char *preview_media_type(const char *path, const char *media_type)
{
	for (size_t i = 0; i < N_NAMES; i++)
		if ((!media_type || str_starts(names[i].type, media_type)) &&
		    str_ends(path, names[i].end))
			return names[i].type;
	return media_type && is_well_formed(media_type) ? media_type : "application/octet-stream";
}

bool preview_is_safe(const char *media_type)
{
	return media_type && (is_image(media_type) || str_starts(media_type, "text/plain"));
}
