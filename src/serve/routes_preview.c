/* The beginning of an output, for a page. */
#include <unistd.h>

#include "serve/given.h"
#include "serve/live.h"
#include "serve/preview.h"
#include "serve/routes.h"
#include "serve/table_text.h"
#include "view/crate.h"

#define PREVIEW_BYTES (256 << 10)
#define ROWS_DEFAULT  50
#define ROWS_MAX      1000

struct showing {
	const struct config *config;
	char *id, *path; /* owned */
	uint64_t rows;
	json_t *answer; /* owned or NULL */
	int result;
	struct err err;
};

static void showing_release(void *data)
{
	struct showing *s = data;
	json_decref(s->answer);
	free(s->id);
	free(s->path);
	free(s);
}

static json_t *image_json(const struct showing *s)
{
	CLEANUP_FREE char *path = crate_uri(s->path);
	return json_pack("{s:s,s:o}", "kind", "image", "href",
			 json_sprintf("/v1/runs/%s/outputs/%s?inline=1", s->id, path));
}

static json_t *text_json(const struct showing *s, const struct given *o, enum preview kind)
{
	CLEANUP_FREE char *bytes = xmalloc(PREVIEW_BYTES);
	ssize_t n = pread(o->fd, bytes, PREVIEW_BYTES, 0);
	size_t length = n < 0 ? 0 : (size_t)n;
	bool is_whole = length >= o->size;
	if (kind == PREVIEW_TABLE)
		return table_text(bytes, length, str_ends(s->path, ".tsv") ? '\t' : ',',
				  (size_t)s->rows, is_whole);
	CLEANUP_FREE char *text = live_text(bytes, length);
	return json_pack("{s:s,s:o,s:b}", "kind", "text", "text", json_text(text), "truncated",
			 !is_whole);
}

static void work(void *data)
{
	struct showing *s = data;
	CLEANUP(given_release) struct given o = GIVEN_INIT;
	s->result = given_open(s->config, s->id, s->path, &o, &s->err);
	if (s->result < 0)
		return;
	enum preview kind = preview_kind(s->path, o.type);
	s->answer = kind == PREVIEW_IMAGE  ? image_json(s)
		    : kind == PREVIEW_NONE ? json_pack("{s:s}", "kind", "none")
					   : text_json(s, &o, kind);
}

static void answer(struct request *r, void *data)
{
	struct showing *s = data;
	if (s->result < 0)
		respond_failure(r, s->result, &s->err);
	else
		respond_json(r, 200, take_ptr(s->answer));
}

void files_preview(struct request *r)
{
	static const struct reading reading = { work, answer, showing_release };
	uint64_t rows = 0;
	if (!request_number(r, "rows", ROWS_MAX, ROWS_DEFAULT, &rows))
		return;
	struct showing *s = xcalloc(1, sizeof *s);
	s->config = r->context->config;
	s->id = xstrdup(r->arg[0]);
	s->path = xstrdup(r->rest);
	s->rows = rows;
	request_read(r, &reading, s);
}
