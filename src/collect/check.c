/* Which check is for which format, and how a finding is put into words. */
#include "collect/check.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/str.h"
#include "collect/check_parts.h"

static const struct {
	const char *name;
	void (*check)(struct checking *c);
} formats[CHECK_FORMAT_COUNT_] = {
	[CHECK_FORMAT_NONE] = { "none", NULL },
	[CHECK_FORMAT_GZIP] = { "gzip", format_gzip },
	[CHECK_FORMAT_BAM] = { "bam", format_bam },
	[CHECK_FORMAT_ZIP] = { "zip", format_zip },
	[CHECK_FORMAT_PNG] = { "png", format_png },
	[CHECK_FORMAT_HDF5] = { "hdf5", format_hdf5 },
	[CHECK_FORMAT_PARQUET] = { "parquet", format_parquet },
	[CHECK_FORMAT_JSON] = { "json", format_json },
	[CHECK_FORMAT_JSON_LINES] = { "json lines", format_json_lines },
	[CHECK_FORMAT_CSV] = { "csv", format_csv },
	[CHECK_FORMAT_TSV] = { "tsv", format_tsv },
};

const char *check_format_name(enum check_format format)
{
	return formats[format].name;
}

const char *check_state_name(enum check_state state)
{
	static const char *const names[] = { [CHECK_NONE] = "none",
					     [CHECK_OK] = "ok",
					     [CHECK_WARNED] = "warned",
					     [CHECK_UNCHECKED] = "unchecked",
					     [CHECK_DAMAGED] = "damaged" };
	return names[state];
}

enum check_format check_format_of(const char *media_type)
{
	static const struct {
		const char *type;
		enum check_format format;
	} known[] = {
		{ "application/gzip", CHECK_FORMAT_GZIP },
		{ "application/x-gzip", CHECK_FORMAT_GZIP },
		{ "application/vnd.ga4gh.bam", CHECK_FORMAT_BAM },
		{ "application/zip", CHECK_FORMAT_ZIP },
		{ "image/png", CHECK_FORMAT_PNG },
		{ "application/x-hdf5", CHECK_FORMAT_HDF5 },
		{ "application/x-hdf", CHECK_FORMAT_HDF5 },
		{ "application/vnd.apache.parquet", CHECK_FORMAT_PARQUET },
		{ "application/json", CHECK_FORMAT_JSON },
		{ "application/x-ipynb+json", CHECK_FORMAT_JSON },
		{ "application/ld+json", CHECK_FORMAT_JSON },
		{ "application/geo+json", CHECK_FORMAT_JSON },
		{ "application/jsonl", CHECK_FORMAT_JSON_LINES },
		{ "application/x-ndjson", CHECK_FORMAT_JSON_LINES },
		{ "text/csv", CHECK_FORMAT_CSV },
		{ "text/tab-separated-values", CHECK_FORMAT_TSV },
	};
	for (size_t i = 0; media_type && i < sizeof known / sizeof *known; i++)
		if (str_eq(media_type, known[i].type))
			return known[i].format;
	return CHECK_FORMAT_NONE;
}

void checking_say(struct checking *c, enum check_state state, const char *format, ...)
{
	struct check_finding *f = c->finding;
	size_t used = strlen(f->text);
	va_list args;
	if (state > f->state)
		f->state = state;
	if (used + 2 < sizeof f->text && used > 0)
		used += (size_t)snprintf(f->text + used, sizeof f->text - used, "; ");
	va_start(args, format);
	(void)vsnprintf(f->text + used, sizeof f->text - used, format, args);
	va_end(args);
}

void *checking_room(struct checking *c, size_t size)
{
	size_t at = (c->arena_used + 15) & ~(size_t)15;
	if (at > CHECK_ARENA || size > CHECK_ARENA - at)
		return NULL;
	c->arena_used = at + size;
	return c->arena + at;
}

const char *checking_name(const unsigned char *bytes, size_t length, char *buffer, size_t room)
{
	size_t n = length < room - 1 ? length : room - 1;
	for (size_t i = 0; i < n; i++)
		buffer[i] = bytes[i] >= ' ' && bytes[i] < 127 ? (char)bytes[i] : '?';
	buffer[n] = '\0';
	return buffer;
}

void check_bytes(const struct check_input *input, struct check_finding *ret)
{
	struct checking c = {
		.bytes = input->bytes,
		.size = input->size,
		.arena = input->arena,
		.left = input->bytes_max,
		.finding = ret,
	};
	*ret = (struct check_finding){ .state = CHECK_OK };
	if (input->size == 0)
		checking_say(&c, formats[input->format].check ? CHECK_DAMAGED : CHECK_WARNED,
			     "it is empty");
	else if (formats[input->format].check)
		formats[input->format].check(&c);
}
