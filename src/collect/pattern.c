/* Output patterns, and media types by extension. Names are bytes; fnmatch() of glibc does not blow up on many stars. */
#include "collect/pattern.h"

#include <fnmatch.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "collect/outputs.h"

void pattern_init(struct pattern *p, const char *text)
{
	*p = (struct pattern){ .text = xstrdup(text) };
	if (text[0] == '\0' || text[0] == '/')
		return;

	char *rest = p->text;
	while (rest) {
		char *part = strsep(&rest, "/");
		if (part[0] == '\0' || str_eq(part, "."))
			continue;
		bool again = str_eq(part, "**") && p->n > 0 && str_eq(p->parts[p->n - 1], "**");
		if (again)
			continue;
		if (str_eq(part, "..") || p->n == PATTERN_PARTS_MAX)
			return;
		p->parts[p->n++] = part;
	}
	/* A match includes everything below it, so "**" at the end needs to consume one name only. */
	if (p->n > 0 && str_eq(p->parts[p->n - 1], "**"))
		p->parts[p->n - 1] = "*";
	p->valid = true;
}

void pattern_release(struct pattern *p)
{
	if (!p)
		return;
	free(p->text);
	*p = (struct pattern){ 0 };
}

/* "**" may consume nothing: its successor is reached with it. */
static uint64_t with_successors(const struct pattern *p, uint64_t state)
{
	for (size_t i = 0; i < p->n; i++)
		if ((state & (1ULL << i)) && str_eq(p->parts[i], "**"))
			state |= 1ULL << (i + 1);
	return state;
}

uint64_t pattern_start(const struct pattern *p)
{
	return p->valid ? with_successors(p, 1) : 0;
}

uint64_t pattern_step(const struct pattern *p, uint64_t state, const char *name)
{
	if (pattern_matched(p, state))
		return 1ULL << p->n;

	uint64_t next = 0;
	for (size_t i = 0; i < p->n; i++) {
		if (!(state & (1ULL << i)))
			continue;
		if (str_eq(p->parts[i], "**"))
			next |= 1ULL << i;
		else if (fnmatch(p->parts[i], name, 0) == 0)
			next |= 1ULL << (i + 1);
	}
	return with_successors(p, next);
}

bool pattern_matched(const struct pattern *p, uint64_t state)
{
	return state & (1ULL << p->n);
}

bool outputs_match(const char *pattern, const char *path)
{
	CLEANUP(pattern_release) struct pattern p;
	pattern_init(&p, pattern);

	CLEANUP_FREE char *copy = xstrdup(path);
	uint64_t state = pattern_start(&p);
	char *rest = copy;
	while (rest && state)
		state = pattern_step(&p, state, strsep(&rest, "/"));
	return pattern_matched(&p, state);
}

const char *media_type_guess(const char *path)
{
	static const struct {
		const char *extension, *type;
	} known[] = {
		{ ".bam", "application/vnd.ga4gh.bam" },
		{ ".bed", "text/x-bed" },
		{ ".bz2", "application/x-bzip2" },
		{ ".csv", "text/csv" },
		{ ".fa", "text/x-fasta" },
		{ ".fasta", "text/x-fasta" },
		{ ".fastq", "text/x-fastq" },
		{ ".gif", "image/gif" },
		{ ".gz", "application/gzip" },
		{ ".h5", "application/x-hdf5" },
		{ ".h5ad", "application/x-hdf5" },
		{ ".hdf5", "application/x-hdf5" },
		{ ".htm", "text/html" },
		{ ".html", "text/html" },
		{ ".ipynb", "application/x-ipynb+json" },
		{ ".jpeg", "image/jpeg" },
		{ ".jpg", "image/jpeg" },
		{ ".json", "application/json" },
		{ ".jsonl", "application/jsonl" },
		{ ".log", "text/plain" },
		{ ".md", "text/markdown" },
		{ ".npy", "application/x-npy" },
		{ ".npz", "application/zip" },
		{ ".parquet", "application/vnd.apache.parquet" },
		{ ".pdf", "application/pdf" },
		{ ".png", "image/png" },
		{ ".py", "text/x-python" },
		{ ".sam", "text/x-sam" },
		{ ".sqlite", "application/vnd.sqlite3" },
		{ ".svg", "image/svg+xml" },
		{ ".tar", "application/x-tar" },
		{ ".tif", "image/tiff" },
		{ ".tiff", "image/tiff" },
		{ ".tsv", "text/tab-separated-values" },
		{ ".txt", "text/plain" },
		{ ".vcf", "text/x-vcf" },
		{ ".webp", "image/webp" },
		{ ".xml", "application/xml" },
		{ ".yaml", "application/yaml" },
		{ ".yml", "application/yaml" },
		{ ".zip", "application/zip" },
		{ ".zst", "application/zstd" },
	};
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	const char *dot = strrchr(name, '.');
	if (!dot || dot == name)
		return NULL;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strcasecmp(dot, known[i].extension) == 0)
			return known[i].type;
	return NULL;
}
