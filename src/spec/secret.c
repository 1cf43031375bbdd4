#include "spec/secret.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"

#define KEY_FILE     "secret.key"
#define DOMAIN       "cupel secret 1"
#define VALUES       "env"
#define TAKEN        "secret_env"
#define NAME_WORDS   64
#define SHOWN_LENGTH 400 /* of the names in one message */

struct words {
	struct word {
		const char *text; /* borrowed from the name */
		size_t length;
	} v[NAME_WORDS];
	size_t n;
};

/* Longer names than NAME_WORDS are cut: their last word counts as the last one all the same. */
static void words_split(const char *name, struct words *ret)
{
	ret->n = 0;
	for (const char *at = name + strspn(name, "_"); *at; at += strspn(at, "_")) {
		size_t length = strcspn(at, "_");
		size_t slot = ret->n < NAME_WORDS ? ret->n++ : NAME_WORDS - 1;
		ret->v[slot] = (struct word){ at, length };
		at += length;
	}
}

static bool word_is(const struct word *w, const char *text)
{
	return strlen(text) == w->length && strncasecmp(w->text, text, w->length) == 0;
}

static bool word_ends(const struct word *w, const char *text)
{
	size_t length = strlen(text);
	return w->length >= length && strncasecmp(w->text + w->length - length, text, length) == 0;
}

static bool word_in(const struct word *w, const char *const *list)
{
	while (*list && !word_is(w, *list))
		list++;
	return *list;
}

/* PGPASSWORD is one word: so what ends in these counts too. */
static bool word_is_secret(const struct word *w)
{
	static const char *const words[] = { "SECRET",     "SECRETS",       "TOKEN",
					     "CREDENTIAL", "JWT",           "CREDENTIALS",
					     "APIKEY",     "AUTHORIZATION", NULL };
	return word_in(w, words) || word_ends(w, "PASSWORD") || word_ends(w, "PASSWD") ||
	       word_ends(w, "PASSPHRASE");
}

/* MYSQL_PWD, DB_PASS, BASIC_AUTH, SIGNING_KEY; but PWD is a directory, and a sort key is nobody's secret. */
static bool last_is_secret(const struct words *w)
{
	static const char *const last[] = { "PWD", "PASS", "AUTH", NULL };
	static const char *const harmless[] = { "PUBLIC", "PRIMARY", "FOREIGN", "SORT", NULL };
	if (w->n < 2)
		return false;
	return word_in(&w->v[w->n - 1], last) ||
	       (word_is(&w->v[w->n - 1], "KEY") && !word_in(&w->v[w->n - 2], harmless));
}

bool env_name_is_secret(const char *name)
{
	static const char *const kinds[] = { "API", "ACCESS", "PRIVATE", NULL };
	struct words w;
	words_split(name, &w);
	for (size_t i = 0; i < w.n; i++)
		if (word_is_secret(&w.v[i]) ||
		    (i && word_is(&w.v[i], "KEY") && word_in(&w.v[i - 1], kinds)))
			return true;
	return last_is_secret(&w);
}

/* SCHEME://USER:PASSWORD@HOST or SCHEME://...?password=PASSWORD, anywhere in the value. */
static bool has_password(const char *value)
{
	for (const char *at = strstr(value, "://"); at; at = strstr(at + 3, "://")) {
		const char *from = at + 3;
		size_t length = strcspn(from, "/?# \t\r\n");
		const char *host = memrchr(from, '@', length);
		const char *colon = host ? memchr(from, ':', (size_t)(host - from)) : NULL;
		if (at > value && isalnum((unsigned char)at[-1]) &&
		    ((colon && colon + 1 < host) || strcasestr(from, "password=")))
			return true;
	}
	return false;
}

bool env_is_secret(const char *name, const char *value)
{
	return env_name_is_secret(name) || has_password(value);
}

bool env_entry_is_secret(const char *entry)
{
	const char *equals = strchr(entry, '=');
	CLEANUP_FREE char *name = xstrndup(entry, equals ? (size_t)(equals - entry) : 0);
	return equals && env_is_secret(name, equals + 1);
}

static int key_read(int home_fd, struct secret_key *ret)
{
	struct stat st = { 0 };
	struct secret_key key = { .is_set = true };
	CLEANUP_FD int fd = openat(home_fd, KEY_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 0077))
		return -EPERM;
	if (read(fd, key.bytes, sizeof key.bytes) != sizeof key.bytes)
		return -EBADMSG;
	*ret = key;
	return 0;
}

static int key_make(int home_fd)
{
	unsigned char bytes[HASH_KEY_SIZE];
	if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
		return -EIO;
	int r = fs_write_new(home_fd, KEY_FILE, bytes, sizeof bytes, 0600, NULL);
	explicit_bzero(bytes, sizeof bytes);
	return r == -EEXIST ? 0 : r; /* another process made it meanwhile */
}

int secret_key_open(const char *home, struct secret_key *ret, struct err *err)
{
	CLEANUP_FD int home_fd = open(home, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (home_fd < 0)
		return err_errno(err, "open %s", home);
	int r = key_read(home_fd, ret);
	if (r == -ENOENT) {
		r = key_make(home_fd);
		if (r >= 0)
			r = key_read(home_fd, ret);
	}
	if (r == -EPERM)
		return err_set(
			err, ERR_HOST, EPERM,
			"%s/" KEY_FILE
			" must be a file that only its owner can read; make it yours with mode 0600",
			home);
	if (r == -EBADMSG)
		return err_set(
			err, ERR_HOST, EBADMSG,
			"%s/" KEY_FILE
			" is damaged; remove it, and results that depend on secret variables are made again",
			home);
	return r < 0 ? err_set(err, ERR_HOST, -r, "read or make %s/" KEY_FILE ": %s", home,
			       strerrordesc_np(-r))
		     : 0;
}

void secret_digest(const struct secret_key *key, const char *name, const char *value,
		   char ret_hex[HASH_HEX])
{
	CLEANUP_STR struct str text = { 0 };
	str_add_n(&text, DOMAIN, sizeof DOMAIN); /* each with its NUL: no two pairs look alike */
	str_add_n(&text, name, strlen(name) + 1);
	str_add_n(&text, value, strlen(value));
	hash_keyed(key->bytes, str_text(&text), text.length, ret_hex);
	explicit_bzero(text.text, text.length);
}

int secrets_note(const char *home, struct analysis *a, struct err *err)
{
	struct secret_key key = { 0 };
	pairs_release(&a->secrets);
	for (size_t i = 0; i < a->env.n; i++) {
		char hex[HASH_HEX];
		const struct pair *p = &a->env.v[i];
		if (!env_is_secret(p->key, p->value))
			continue;
		int r = key.is_set ? 0 : secret_key_open(home, &key, err);
		if (r < 0)
			return r;
		secret_digest(&key, p->key, p->value, hex);
		pairs_set(&a->secrets, p->key, hex);
	}
	explicit_bzero(&key, sizeof key);
	return 0;
}

int secrets_check_given(const struct analysis *a, struct err *err)
{
	CLEANUP_STR struct str missing = { 0 };
	const char *first = NULL;
	for (size_t i = 0; i < a->secrets.n; i++) {
		if (pairs_get(&a->env, a->secrets.v[i].key))
			continue;
		if (!first)
			first = a->secrets.v[i].key;
		str_addf(&missing, "%s%s", missing.length ? ", " : "", a->secrets.v[i].key);
	}
	if (!first)
		return 0;
	return err_set(
		err, ERR_CALLER, ENOKEY,
		"secret variables are not recorded; give the value of %.*s again: --env %.100s=VALUE, --env %.100s "
		"(yours), or env in Python and in requests to the service",
		SHOWN_LENGTH, str_text(&missing), first, first);
}

int secrets_check_same(const char *home, const struct analysis *a, struct err *err)
{
	struct secret_key key = { 0 };
	int r = a->secrets.n ? secret_key_open(home, &key, err) : 0;
	for (size_t i = 0; r >= 0 && i < a->secrets.n; i++) {
		char hex[HASH_HEX];
		const char *name = a->secrets.v[i].key, *value = pairs_get(&a->env, name);
		secret_digest(&key, name, value ? value : "", hex);
		if (!value || !str_eq(hex, a->secrets.v[i].value))
			r = err_set(
				err, ERR_CALLER, ESTALE,
				"the value of %.100s is not the one that the run had; if it was replaced on "
				"purpose, say --allow-changed-secrets",
				name);
	}
	explicit_bzero(&key, sizeof key);
	return r;
}

static bool member_is_secret(const char *name, const json_t *value)
{
	return env_name_is_secret(name) ||
	       (json_is_string(value) && has_password(json_string_value(value)));
}

static json_t *member_digest(const char *name, const json_t *value, const struct secret_key *key)
{
	char hex[HASH_HEX];
	if (!key || !key->is_set || !json_is_string(value))
		return json_null();
	secret_digest(key, name, json_string_value(value), hex);
	return json_string(hex);
}

/* Of one map with `env`, such as an analysis or a step. NULL: it has none. */
static json_t *take_one(json_t *map, const struct secret_key *key)
{
	json_t *env = json_object_get(map, VALUES), *value, *values = NULL;
	CLEANUP_JSON json_t *digests = json_object();
	const char *name;
	void *next;
	json_object_foreach_safe(env, next, name, value)
	{
		if (!member_is_secret(name, value))
			continue;
		values = values ? values : json_object();
		json_object_set(values, name, value);
		json_object_set_new(digests, name, member_digest(name, value, key));
		json_object_del(env, name);
	}
	if (values)
		json_object_set(map, TAKEN, digests);
	return values;
}

json_t *secrets_take(json_t *analysis, const struct secret_key *key)
{
	json_t *all = take_one(analysis, key), *step, *steps = NULL;
	const char *name;
	json_object_foreach(json_object_get(analysis, "steps"), name, step)
	{
		json_t *one = take_one(step, key);
		if (!one)
			continue;
		steps = steps ? steps : json_object();
		json_object_set_new(steps, name, one);
	}
	if (!all && !steps)
		return NULL;
	return json_pack("{s:o,s:o}", VALUES, all ? all : json_object(), "steps",
			 steps ? steps : json_object());
}

static void give_one(json_t *map, const json_t *values)
{
	if (!json_object_size(values))
		return;
	json_object_del(map, TAKEN);
	if (!json_object_get(map, VALUES))
		json_object_set_new(map, VALUES, json_object());
	json_object_update(json_object_get(map, VALUES), (json_t *)values);
}

void secrets_give(json_t *analysis, const json_t *secrets)
{
	json_t *steps = json_object_get(analysis, "steps"), *values;
	const char *name;
	give_one(analysis, json_object_get(secrets, VALUES));
	json_object_foreach(json_object_get(secrets, "steps"), name, values)
	{
		give_one(json_object_get(steps, name), values);
	}
}

bool secrets_are_taken(const json_t *analysis)
{
	const char *name;
	json_t *step;
	bool taken = json_object_get(analysis, TAKEN);
	json_object_foreach(json_object_get(analysis, "steps"), name, step)
	{
		taken = taken || json_object_get(step, TAKEN);
	}
	return taken;
}
