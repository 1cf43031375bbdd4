/* quests.json: {"quests":{"NAME":{"title":TEXT,...}}}, replaced as a whole, under a lock. */
#include "serve/quests.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/num.h"

#define QUESTS_FILE     "quests.json"
#define QUESTS_SIZE_MAX (4 << 20)

static json_t *field_json(enum quest_field field, const char *text)
{
	uint64_t number = 0;
	if (field == QUEST_PRIORITY && num_u64(text, INT64_MAX, &number) >= 0)
		return json_u64(number);
	return json_text(text);
}

static json_t *nothing_said(void)
{
	json_t *o = json_object();
	for (int i = 0; i < QUEST_FIELD_COUNT_; i++)
		json_object_set_new(o, quest_field_names[i], json_null());
	return o;
}

static json_t *quest_of(json_t *quests, const char *name)
{
	json_t *quest = json_object_get(quests, name);
	if (!quest)
		json_object_set_new(quests, name, quest = nothing_said());
	return quest;
}

static int read_file(const struct config *c, json_t **ret, struct err *err)
{
	CLEANUP_FREE char *path = xasprintf("%s/" QUESTS_FILE, c->home);
	CLEANUP_JSON json_t *file = NULL;
	int r = json_read_file(AT_FDCWD, path, QUESTS_SIZE_MAX, &file, err);
	if (r < 0 && r != -ENOENT)
		return err_wrap(err, "read what was said of quests");
	json_t *quests = json_object_get(file, "quests");
	if (r >= 0 && !json_is_object(quests))
		return err_set(err, ERR_HOST, EINVAL,
			       "%s has no object 'quests'; remove the file to begin anew", path);
	*ret = quests ? json_incref(quests) : json_object();
	return 0;
}

int quests_about(const struct config *c, json_t **ret, struct err *err)
{
	CLEANUP_JSON json_t *quests = json_object();
	CLEANUP_JSON json_t *said = NULL;
	const char *name;
	json_t *over;
	for (size_t i = 0; i < c->n_quests; i++) {
		json_t *quest = quest_of(quests, c->quests[i].name);
		for (int k = 0; k < QUEST_FIELD_COUNT_; k++) {
			const char *text = pairs_get(&c->quests[i].about, quest_field_names[k]);
			if (text)
				json_object_set_new(quest, quest_field_names[k],
						    field_json(k, text));
		}
	}
	int r = read_file(c, &said, err);
	if (r < 0)
		return r;
	json_object_foreach(said, name, over)
	{
		for (int k = 0; k < QUEST_FIELD_COUNT_; k++) {
			json_t *value = json_object_get(over, quest_field_names[k]);
			if (json_is_string(value) || json_is_integer(value))
				json_object_set(quest_of(quests, name), quest_field_names[k],
						value);
		}
	}
	*ret = take_ptr(quests);
	return 0;
}

static int set_field(json_t *to, enum quest_field field, const json_t *value, struct err *err)
{
	const char *key = quest_field_names[field];
	char number[32];
	if (json_is_null(value)) {
		json_object_del(to, key);
		return 0;
	}
	bool is_number = field == QUEST_PRIORITY;
	if (is_number ? !json_is_integer(value) : !json_is_string(value))
		return err_caller(err, "%s: expected %s or null", key,
				  is_number ? "a number" : "a text");
	(void)snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
	int r = quest_field_check(field, is_number ? number : json_string_value(value), err);
	if (r >= 0)
		json_object_set(to, key, (json_t *)value);
	return r;
}

static int set_fields(json_t *to, const json_t *body, struct err *err)
{
	const char *key;
	json_t *value;
	json_object_foreach((json_t *)body, key, value)
	{
		int field = 0;
		while (field < QUEST_FIELD_COUNT_ && !str_eq(key, quest_field_names[field]))
			field++;
		if (field == QUEST_FIELD_COUNT_ && !str_eq(key, "quest"))
			return err_caller(
				err,
				"unknown key '%.40s'; a quest has quest, title, layer, priority, status and link",
				key);
		int r = field < QUEST_FIELD_COUNT_ ? set_field(to, field, value, err) : 0;
		if (r < 0)
			return r;
	}
	return 0;
}

/* What is said of one quest, changed as the body says. A quest of which nothing is said any more is left out. */
static int change(json_t *quests, const json_t *body, struct err *err)
{
	const char *name = json_string_value(json_object_get(body, "quest"));
	if (!name)
		return err_caller(err, "quest: expected the name of a quest");
	int r = quest_name_check(name, err);
	if (r < 0)
		return r;
	const json_t *old = json_object_get(quests, name);
	CLEANUP_JSON json_t *quest = old ? json_deep_copy(old) : json_object();
	r = set_fields(quest, body, err);
	if (r < 0)
		return r;
	if (json_object_size(quest) == 0)
		json_object_del(quests, name);
	else if (!old && json_object_size(quests) >= QUESTS_MAX)
		return err_caller(err, "there are %d quests already; take some back", QUESTS_MAX);
	else
		json_object_set(quests, name, quest);
	return 0;
}

int quests_set(const struct config *c, const json_t *body, json_t **ret, struct err *err)
{
	CLEANUP_JSON json_t *quests = NULL;
	CLEANUP_JSON json_t *about = NULL;
	CLEANUP_FD int home_fd = open(c->home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CLEANUP_FD int lock = home_fd < 0 ? -1
					  : openat(home_fd, "quests.lock",
						   O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (lock < 0 || flock(lock, LOCK_EX) < 0)
		return err_errno(err, "lock " QUESTS_FILE);
	int r = read_file(c, &quests, err);
	if (r >= 0)
		r = change(quests, body, err);
	if (r < 0)
		return r;
	CLEANUP_JSON json_t *file = json_pack("{s:O}", "quests", quests);
	CLEANUP_FREE char *text = json_dumps(file, JSON_INDENT(2) | JSON_SORT_KEYS);
	r = fs_write_atomic(home_fd, QUESTS_FILE, text, strlen(text), 0644, err);
	if (r >= 0)
		r = quests_about(c, &about, err);
	if (r < 0)
		return r;
	const char *name = json_string_value(json_object_get(body, "quest"));
	*ret = json_incref(quest_of(about, name));
	json_object_set_new(*ret, "quest", json_text(name));
	return 0;
}
