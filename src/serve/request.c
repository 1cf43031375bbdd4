/* What handlers ask of their requests. */
#include "serve/request.h"

#include <string.h>

#include "base/num.h"

bool request_number(struct request *r, const char *key, uint64_t max, uint64_t otherwise,
		    uint64_t *ret)
{
	static const struct problem malformed = { 400, "malformed", NULL };
	const char *text = url_value(&r->url, key);
	*ret = otherwise;
	if (!text)
		return true;
	if (num_u64(text, max, ret) >= 0)
		return true;
	respond_problem(r, &malformed, "%s: a number up to %llu is wanted", key,
			(unsigned long long)max);
	return false;
}

#define JSON_DEPTH_MAX 32

/* jansson goes as deep as 2048; nothing that is asked of us is. */
static bool is_too_deep(const char *text, size_t length)
{
	int depth = 0;
	bool in_text = false;
	for (size_t i = 0; i < length; i++) {
		if (in_text && text[i] == '\\')
			i++;
		else if (text[i] == '"')
			in_text = !in_text;
		else if (!in_text && (text[i] == '{' || text[i] == '['))
			depth++;
		else if (!in_text && (text[i] == '}' || text[i] == ']'))
			depth--;
		if (depth > JSON_DEPTH_MAX)
			return true;
	}
	return false;
}

json_t *request_object(struct request *r)
{
	static const struct problem malformed = { 400, "malformed", NULL },
				    media = { 415, "unsupported-media-type",
					      "send Content-Type: application/json" };
	const char *type = request_header(r, "Content-Type");
	json_error_t error;
	if (!type || strncasecmp(type, "application/json", 16) != 0 ||
	    (type[16] && type[16] != ';' && type[16] != ' ')) {
		respond_problem(r, &media, "a JSON document is wanted");
		return NULL;
	}
	if (is_too_deep(str_text(&r->body), r->body.length)) {
		respond_problem(r, &malformed, "the document has more than %d levels",
				JSON_DEPTH_MAX);
		return NULL;
	}
	CLEANUP_JSON json_t *o =
		json_loadb(str_text(&r->body), r->body.length, JSON_REJECT_DUPLICATES, &error);
	if (!o) {
		respond_problem(r, &malformed, "the document is no JSON: %s, line %d column %d",
				error.text, error.line, error.column);
		return NULL;
	}
	if (!json_is_object(o)) {
		respond_problem(r, &malformed, "an object is wanted");
		return NULL;
	}
	return json_incref(o);
}

struct task_at_desk {
	struct request *request; /* borrowed: it waits, so it is there */
	const struct reading *reading;
	void *data;
};

static void work(void *data)
{
	const struct task_at_desk *t = data;
	t->reading->work(t->data);
}

static void done(void *data, bool is_done)
{
	static const struct problem ends = { 503, "shutting-down", "ask again in a moment" };
	struct task_at_desk *t = data;
	unsigned n_waits = t->request->n_waits;
	if (is_done)
		t->reading->answer(t->request, t->data);
	else
		respond_problem(t->request, &ends, "the service ends");
	request_must_go_on(t->request, n_waits);
	t->reading->release(t->data);
	free(t);
}

void request_read(struct request *r, const struct reading *reading, void *data)
{
	struct task_at_desk *t = xcalloc(1, sizeof *t);
	*t = (struct task_at_desk){ r, reading, data };
	request_wait(r);
	desk_give(r->context->desk, &(struct desk_job){ work, done, t });
}
