/* `quests`: titles, layers, priorities, states and links of quests. */
#include <string.h>

#include "base/num.h"
#include "spec/config_layer.h"
#include "spec/show.h"

#define LINK_MAX     1000
#define PRIORITY_MAX 100

const char *const quest_field_names[QUEST_FIELD_COUNT_] = {
	[QUEST_TITLE] = "title",   [QUEST_LAYER] = "layer", [QUEST_PRIORITY] = "priority",
	[QUEST_STATUS] = "status", [QUEST_LINK] = "link",
};

void quest_settings_release(struct quest_settings *q)
{
	free(q->name);
	free(q->origin);
	pairs_release(&q->about);
	*q = (struct quest_settings){ 0 };
}

int quest_name_check(const char *name, struct err *err)
{
	char shown[SHOW_ROOM];
	if (text_is_label(name, ANALYSIS_LABEL_MAX))
		return 0;
	return err_caller(
		err,
		"'%s' cannot be the name of a quest: use 1 to %d bytes of UTF-8 without control characters",
		show_text(name, shown), ANALYSIS_LABEL_MAX);
}

/* Browsers open it: nothing but the web, and nothing that would end the address early. */
static bool is_link(const char *text)
{
	const char *host = str_starts(text, "https://")  ? text + 8
			   : str_starts(text, "http://") ? text + 7
							 : "";
	if (!*host || *host == '/' || strlen(text) > LINK_MAX)
		return false;
	for (const char *c = text; *c; c++)
		if (*c <= ' ' || *c >= 0x7f || strchr("\"<>\\^`{|}", *c))
			return false;
	return true;
}

int quest_field_check(enum quest_field field, const char *text, struct err *err)
{
	static const size_t most[QUEST_FIELD_COUNT_] = {
		[QUEST_TITLE] = 200, [QUEST_LAYER] = 60, [QUEST_STATUS] = 40
	};
	char shown[SHOW_ROOM];
	uint64_t number = 0;
	if (field == QUEST_PRIORITY && num_u64(text, PRIORITY_MAX, &number) < 0)
		return err_caller(err, "priority '%s' is not a number from 0 to %d",
				  show_text(text, shown), PRIORITY_MAX);
	if (field == QUEST_LINK && !is_link(text))
		return err_caller(
			err,
			"link '%s' is not a web address: write https://HOST/PATH, at most %d characters",
			show_text(text, shown), LINK_MAX);
	if (most[field] && !text_is_label(text, most[field]))
		return err_caller(
			err, "%s '%s' must be 1 to %zu bytes of UTF-8 without control characters",
			quest_field_names[field], show_text(text, shown), most[field]);
	return 0;
}

static int read_field(const struct document *d, const struct node *n, struct quest_settings *q,
		      enum quest_field field, struct err *err)
{
	CLEANUP_FREE char *text = NULL;
	struct err why = { 0 };
	int r = node_string(d, n, &text, err);
	if (r < 0)
		return r;
	if (quest_field_check(field, text, &why) < 0)
		return node_error(d, n, err, "%s", why.text);
	pairs_set(&q->about, quest_field_names[field], text);
	return 0;
}

READER(read_title)
{
	return read_field(d, n, target, QUEST_TITLE, err);
}

READER(read_layer)
{
	return read_field(d, n, target, QUEST_LAYER, err);
}

READER(read_priority)
{
	return read_field(d, n, target, QUEST_PRIORITY, err);
}

READER(read_status)
{
	return read_field(d, n, target, QUEST_STATUS, err);
}

READER(read_link)
{
	return read_field(d, n, target, QUEST_LINK, err);
}

/* A later file's quest takes the place of an earlier one of that name, as a whole. */
static void quest_add(struct config *c, struct quest_settings *q)
{
	size_t at = 0;
	while (at < c->n_quests && !str_eq(c->quests[at].name, q->name))
		at++;
	if (at < c->n_quests) {
		quest_settings_release(&c->quests[at]);
	} else {
		c->quests = xreallocarray(c->quests, c->n_quests + 1, sizeof *c->quests);
		c->n_quests++;
	}
	c->quests[at] = *q;
	*q = (struct quest_settings){ 0 };
}

static int read_quest(const struct document *d, const struct node *name, const struct node *n,
		      struct config *c, struct err *err)
{
	static const struct key_row rows[] = {
		{ "title", read_title },   { "layer", read_layer }, { "priority", read_priority },
		{ "status", read_status }, { "link", read_link },
	};
	CLEANUP(quest_settings_release) struct quest_settings q = { 0 };
	struct err why = { 0 };
	if (quest_name_check(name->text, &why) < 0)
		return node_error(d, name, err, "%s", why.text);
	q.name = xstrdup(name->text);
	q.origin = xasprintf("%s:%d:%d", document_file(d), name->line, name->column);
	int r = map_read(d, n, ROWS(rows), &q, err);
	if (r >= 0)
		quest_add(c, &q);
	return r;
}

int config_read_quests(const struct document *d, const struct node *n, void *target,
		       struct err *err)
{
	struct config_layer *layer = target;
	if (n->kind != NODE_MAP)
		return node_error(
			d, n, err,
			"expected a map of quests, such as {aging: {title: Why cells age}}");
	for (size_t i = 0; i < n->n; i++) {
		if (layer->config->n_quests >= QUESTS_MAX)
			return node_error(d, n->keys[i], err, "more than %d quests", QUESTS_MAX);
		int r = read_quest(d, n->keys[i], n->values[i], layer->config, err);
		if (r < 0)
			return r;
	}
	config_say(layer, d, n, "quests");
	return 0;
}
