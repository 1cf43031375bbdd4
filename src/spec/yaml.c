/* libyaml's events into a tree. Every cap is enforced while events arrive, so that a hostile file
 * costs no more than what was read of it. Aliases share nodes; each node knows what it would weigh
 * if they were expanded, because whoever reads the tree pays that price. */
#include "spec/yaml.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <yaml.h>

#include "base/str.h"
#include "spec/show.h"

struct document {
	char *file;          /* owned */
	struct node **nodes; /* owned, each */
	size_t n_nodes;
	struct node *root; /* borrowed from nodes */
};

struct frame {
	struct node *node;
	struct node *key; /* map: the key whose value comes next */
};

struct anchor {
	char *name; /* owned */
	struct node *node;
	bool open; /* its end has not come yet */
};

struct builder {
	struct document *document;
	struct frame stack[YAML_DEPTH_MAX];
	size_t depth;
	struct anchor anchors[YAML_ANCHORS_MAX];
	size_t n_anchors;
	size_t weight; /* so far, aliases expanded */
	size_t bytes;
	bool started;
};

static void builder_release(struct builder *b)
{
	for (size_t i = 0; i < b->n_anchors; i++)
		free(b->anchors[i].name);
	b->n_anchors = 0;
}

void document_free(struct document *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->n_nodes; i++) {
		free(d->nodes[i]->text);
		free(d->nodes[i]->keys);
		free(d->nodes[i]->values);
		free(d->nodes[i]);
	}
	free(d->nodes);
	free(d->file);
	free(d);
}

const struct node *document_root(const struct document *d)
{
	return d->root && node_is_null(d->root) ? NULL : d->root;
}

const char *document_file(const struct document *d)
{
	return d->file;
}

/* A place in the file where no node has been made (yet). */
static struct node place(const yaml_mark_t *mark)
{
	return (struct node){ .line = (int)mark->line + 1, .column = (int)mark->column + 1 };
}

static int count(struct builder *b, const struct node *at, size_t weight, size_t bytes,
		 struct err *err)
{
	b->weight += weight;
	b->bytes += bytes;
	if (b->weight > YAML_NODES_MAX)
		return node_error(b->document, at, err,
				  "more than %d values, aliases expanded; split the file",
				  YAML_NODES_MAX);
	if (b->bytes > YAML_TEXT_MAX)
		return node_error(b->document, at, err,
				  "more than %d bytes of text, aliases expanded; put it into a "
				  "file that is read as an input",
				  YAML_TEXT_MAX);
	return 0;
}

static struct node *node_add(struct builder *b, enum node_kind kind, const yaml_mark_t *mark)
{
	struct document *d = b->document;
	struct node *n = xcalloc(1, sizeof(*n));

	*n = place(mark);
	n->kind = kind;
	n->weight = 1;
	d->nodes = xreallocarray(d->nodes, d->n_nodes + 1, sizeof(struct node *));
	d->nodes[d->n_nodes++] = n;
	return n;
}

static int key_check(struct builder *b, const struct node *map, const struct node *key,
		     struct err *err)
{
	char shown[SHOW_ROOM];

	if (!key->quoted && str_eq(key->text, "<<"))
		return node_error(b->document, key, err,
				  "the merge key '<<' is not supported; write the keys out");
	for (size_t i = 0; i < map->n; i++) {
		if (str_eq(map->keys[i]->text, key->text))
			return node_error(b->document, key, err,
					  "the key '%s' stands here a second time, first at line "
					  "%d column %d; remove one of them",
					  show_text(key->text, shown), map->keys[i]->line,
					  map->keys[i]->column);
	}
	return 0;
}

static void collection_append(struct node *parent, struct node *key, struct node *value)
{
	if (key) {
		parent->keys = xreallocarray(parent->keys, parent->n + 1, sizeof(struct node *));
		parent->keys[parent->n] = key;
		parent->weight += key->weight;
		parent->bytes += key->bytes;
	}
	parent->values = xreallocarray(parent->values, parent->n + 1, sizeof(struct node *));
	parent->values[parent->n++] = value;
	parent->weight += value->weight;
	parent->bytes += value->bytes;
	if (parent->height < value->height + 1)
		parent->height = value->height + 1;
}

/* True while a map is open and waits for its next key. */
static bool key_expected(const struct builder *b)
{
	const struct frame *top = b->depth > 0 ? &b->stack[b->depth - 1] : NULL;

	return top && top->node->kind == NODE_MAP && !top->key;
}

static int attach(struct builder *b, struct node *n, struct err *err)
{
	if (b->depth == 0) {
		b->document->root = n;
		return 0;
	}
	struct frame *top = &b->stack[b->depth - 1];
	if (key_expected(b)) {
		int r = key_check(b, top->node, n, err);
		if (r < 0)
			return r;
		top->key = n;
		return 0;
	}
	collection_append(top->node, take_ptr(top->key), n);
	return 0;
}

static int anchor_add(struct builder *b, struct node *n, const yaml_char_t *name, struct err *err)
{
	if (!name)
		return 0;
	if (b->n_anchors == YAML_ANCHORS_MAX)
		return node_error(b->document, n, err, "more than %d anchors; write the values out",
				  YAML_ANCHORS_MAX);
	b->anchors[b->n_anchors++] = (struct anchor){ .name = xstrdup((const char *)name),
						      .node = n,
						      .open = n->kind != NODE_SCALAR };
	return 0;
}

static int tag_check(struct builder *b, const struct node *at, const yaml_char_t *tag,
		     struct err *err)
{
	char shown[SHOW_ROOM];

	if (!tag)
		return 0;
	return node_error(b->document, at, err, "the tag '%s' is not supported; remove it",
			  show_text((const char *)tag, shown));
}

static int scalar_add(struct builder *b, const yaml_event_t *event, struct err *err)
{
	size_t length = event->data.scalar.length;
	const char *text = (const char *)event->data.scalar.value;
	struct node at = place(&event->start_mark);

	if (length > YAML_SCALAR_MAX)
		return node_error(b->document, &at, err,
				  "a text of %zu bytes; at most %d are allowed, put it into a file",
				  length, YAML_SCALAR_MAX);
	if (memchr(text, '\0', length))
		return node_error(b->document, &at, err,
				  "a NUL character inside the text; remove it");
	int r = tag_check(b, &at, event->data.scalar.tag, err);
	if (r < 0)
		return r;
	r = count(b, &at, 1, length, err);
	if (r < 0)
		return r;

	struct node *n = node_add(b, NODE_SCALAR, &event->start_mark);
	n->text = xstrndup(text, length);
	n->bytes = length;
	n->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
	r = anchor_add(b, n, event->data.scalar.anchor, err);
	if (r < 0)
		return r;
	return attach(b, n, err);
}

static int collection_open(struct builder *b, const yaml_event_t *event, struct err *err)
{
	bool list = event->type == YAML_SEQUENCE_START_EVENT;
	struct node at = place(&event->start_mark);
	bool is_braces = !list && event->data.mapping_start.style == YAML_FLOW_MAPPING_STYLE;

	if (key_expected(b))
		return node_error(
			b->document, &at, err, "a key must be a plain text, not a list or a map%s",
			is_braces ? "; a text that begins with {{ is written in quotes" : "");
	if (b->depth == YAML_DEPTH_MAX)
		return node_error(b->document, &at, err,
				  "nested deeper than %d levels; flatten the file", YAML_DEPTH_MAX);
	int r = tag_check(
		b, &at, list ? event->data.sequence_start.tag : event->data.mapping_start.tag, err);
	if (r < 0)
		return r;
	r = count(b, &at, 1, 0, err);
	if (r < 0)
		return r;

	struct node *n = node_add(b, list ? NODE_LIST : NODE_MAP, &event->start_mark);
	b->stack[b->depth++] = (struct frame){ .node = n };
	return anchor_add(
		b, n, list ? event->data.sequence_start.anchor : event->data.mapping_start.anchor,
		err);
}

static int collection_close(struct builder *b, struct err *err)
{
	assert(b->depth > 0); /* libyaml's ends match its beginnings */
	struct node *n = b->stack[--b->depth].node;

	for (size_t i = 0; i < b->n_anchors; i++) {
		if (b->anchors[i].node == n)
			b->anchors[i].open = false;
	}
	return attach(b, n, err);
}

static int alias_add(struct builder *b, const yaml_event_t *event, struct err *err)
{
	const char *name = (const char *)event->data.alias.anchor;
	struct node at = place(&event->start_mark);
	const struct anchor *anchor = NULL;
	char shown[SHOW_ROOM];

	/* the latest of that name counts */
	for (size_t i = b->n_anchors; i > 0 && !anchor; i--) {
		if (str_eq(b->anchors[i - 1].name, name))
			anchor = &b->anchors[i - 1];
	}
	show_text(name, shown);
	if (!anchor)
		return node_error(b->document, &at, err,
				  "the alias '*%s' has no anchor before it; define '&%s' first",
				  shown, shown);
	if (anchor->open)
		return node_error(b->document, &at, err,
				  "the alias '*%s' stands inside what it refers to; remove it",
				  shown);
	if (key_expected(b))
		return node_error(b->document, &at, err,
				  "an alias cannot be a key; write the key out");
	if (b->depth + anchor->node->height + 1 > YAML_DEPTH_MAX)
		return node_error(b->document, &at, err,
				  "nested deeper than %d levels through '*%s'; flatten the file",
				  YAML_DEPTH_MAX, shown);
	int r = count(b, &at, anchor->node->weight, anchor->node->bytes, err);
	if (r < 0)
		return r;
	return attach(b, anchor->node, err);
}

static int event_handle(struct builder *b, const yaml_event_t *event, struct err *err)
{
	struct node at = place(&event->start_mark);

	switch (event->type) {
	case YAML_SCALAR_EVENT:
		return scalar_add(b, event, err);
	case YAML_SEQUENCE_START_EVENT:
	case YAML_MAPPING_START_EVENT:
		return collection_open(b, event, err);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		return collection_close(b, err);
	case YAML_ALIAS_EVENT:
		return alias_add(b, event, err);
	case YAML_DOCUMENT_START_EVENT:
		if (b->started)
			return node_error(b->document, &at, err,
					  "a second document begins here; keep one per file");
		b->started = true;
		return 0;
	default: /* the stream's ends, and the document's */
		return 0;
	}
}

/* libyaml compares each %TAG with all before it: a file of them would cost many seconds. Tags are refused anyway. */
static int directives_check(const struct document *d, const char *text, size_t length,
			    struct err *err)
{
	const char *at = text;

	for (; (at = memmem(at, (size_t)(text + length - at), "%TAG", 4)); at++) {
		/* the last bytes of what YAML takes for a line break: LF, CR, NEL, LS, PS */
		if (at > text && !strchr("\n\r\x85\xa8\xa9", at[-1]))
			continue;
		struct node where = text_place(text, (size_t)(at - text));
		return node_error(d, &where, err, "the directive %%TAG is not supported");
	}
	return 0;
}

/* libyaml's own complaint; its reader gives a byte offset instead of a mark. */
static int syntax_error(const struct document *d, const yaml_parser_t *parser, const char *text,
			size_t length, struct err *err)
{
	struct node at = place(&parser->problem_mark);
	const char *problem = parser->problem ? parser->problem : "unreadable";

	if (parser->error == YAML_READER_ERROR) {
		size_t end = parser->problem_offset < length ? parser->problem_offset : length;
		at = text_place(text, end);
		return node_error(d, &at, err, "%s; save the file as UTF-8 text", problem);
	}
	return node_error(d, &at, err, "not valid YAML: %s%s%s; %s", problem,
			  parser->context ? " " : "", parser->context ? parser->context : "",
			  text_remedy(text, length, at.line));
}

int document_parse(const char *file, const char *text, size_t length, struct document **ret,
		   struct err *err)
{
	CLEANUP_DOCUMENT struct document *d = xcalloc(1, sizeof(*d));
	CLEANUP(builder_release) struct builder b = { .document = d };
	CLEANUP(yaml_parser_delete) yaml_parser_t parser = { 0 };
	bool more = true;

	d->file = xstrdup(file);
	if (length > YAML_BYTES_MAX)
		return err_caller(err, "%s: larger than %d bytes; make the file smaller", file,
				  YAML_BYTES_MAX);
	int r = directives_check(d, text, length, err);
	if (r < 0)
		return r;
	if (!yaml_parser_initialize(&parser))
		return err_set(err, ERR_HOST, ENOMEM, "%s: no memory to read it", file);
	/* Said, not guessed: a byte-order mark of UTF-16 must not change how bytes are read. */
	yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
	while (more) {
		CLEANUP(yaml_event_delete) yaml_event_t event = { 0 };
		if (!yaml_parser_parse(&parser, &event))
			return syntax_error(d, &parser, text, length, err);
		r = event_handle(&b, &event, err);
		if (r < 0)
			return r;
		more = event.type != YAML_STREAM_END_EVENT;
	}
	*ret = take_ptr(d);
	return 0;
}
