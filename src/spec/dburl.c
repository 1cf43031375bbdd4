/* A strict reading: what libpq would read in several ways, such as several hosts, is refused. */
#include "spec/dburl.h"

#include <string.h>

#include "base/num.h"
#include "base/path.h"

#define URL_MAX        4096
#define DEFAULT_PORT   5432
#define DEFAULT_SOCKET "/run/postgresql"

void dburl_release(struct dburl *u)
{
	free(u->path);
	free(u->user);
	free(u->password);
	free(u->name);
	free(u->host);
	free(u->params);
	*u = (struct dburl){ 0 };
}

static int digit(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = c ? strchr(digits, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c) : NULL;
	return at ? (int)(at - digits) : -1;
}

/* NULL if a %XX is none, or stands for a control character. */
static char *decode(const char *text, size_t length)
{
	CLEANUP_STR struct str out = { 0 };
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)text[i];
		if (c == '%') {
			int high = i + 2 < length ? digit(text[i + 1]) : -1;
			int low = i + 2 < length ? digit(text[i + 2]) : -1;
			if (high < 0 || low < 0)
				return NULL;
			c = (unsigned char)(high * 16 + low);
			i += 2;
		}
		if (c < 0x20 || c == 0x7f)
			return NULL;
		str_add_n(&out, &c, 1);
	}
	str_add(&out, "");
	return str_take(&out);
}

static bool set(char **to, const char *text, size_t length)
{
	char *value = decode(text, length);
	if (!value)
		return false;
	free(*to);
	*to = value;
	return true;
}

static bool set_port(struct dburl *u, const char *text, size_t length)
{
	CLEANUP_FREE char *said = xstrndup(text, length);
	uint64_t number = 0;
	if (num_u64(said, UINT16_MAX, &number) < 0 || number == 0)
		return false;
	u->port = (uint16_t)number;
	return true;
}

/* HOST[:PORT], [V6][:PORT]; nothing at all is a socket. */
static bool set_place(struct dburl *u, const char *text, size_t length)
{
	const char *close = length && text[0] == '[' ? memchr(text, ']', length) : NULL;
	const char *host = close ? text + 1 : text;
	const char *rest = close ? close + 1 : text;
	const char *colon = memchr(rest, ':', length - (size_t)(rest - text));
	const char *end = close ? close : colon ? colon : text + length;
	if (length == 0)
		return true;
	if (memchr(text, ',', length) || (close && close + 1 < text + length && colon != close + 1))
		return false;
	if (colon && !set_port(u, colon + 1, (size_t)(text + length - colon - 1)))
		return false;
	return end == host || set(&u->host, host, (size_t)(end - host));
}

static bool set_param(struct dburl *u, const char *text, size_t length, struct str *rest)
{
	const char *equals = memchr(text, '=', length);
	const struct {
		const char *key;
		char **to;
	} known[] = { { "host", &u->host },
		      { "user", &u->user },
		      { "password", &u->password },
		      { "dbname", &u->name } };
	if (!equals || memchr(text, '%', (size_t)(equals - text)))
		return false; /* no key needs it, and "%70assword" would be passed on as it is */
	size_t key = (size_t)(equals - text), value = length - key - 1;
	if (key == strlen("port") && memcmp(text, "port", key) == 0)
		return set_port(u, equals + 1, value);
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strlen(known[i].key) == key && memcmp(text, known[i].key, key) == 0)
			return set(known[i].to, equals + 1, value);
	str_add(rest, rest->length ? "&" : "");
	str_add_n(rest, text, length);
	return true;
}

static bool set_params(struct dburl *u, const char *text)
{
	CLEANUP_STR struct str rest = { 0 };
	while (*text) {
		size_t length = strcspn(text, "&");
		if (!set_param(u, text, length, &rest))
			return false;
		text += length + (text[length] == '&');
	}
	str_add(&rest, "");
	u->params = str_take(&rest);
	return true;
}

static bool parse_postgres(const char *text, struct dburl *u)
{
	size_t length = strcspn(text, "/?");
	const char *at = memrchr(text, '@', length);
	const char *place = at ? at + 1 : text;
	const char *colon = at ? memchr(text, ':', (size_t)(at - text)) : NULL;
	const char *name = text[length] == '/' ? text + length + 1 : text + length;
	size_t name_length = strcspn(name, "?");
	u->port = DEFAULT_PORT;
	u->host = xstrdup(DEFAULT_SOCKET);
	if (at && !set(&u->user, text, (size_t)((colon ? colon : at) - text)))
		return false;
	if (colon && !set(&u->password, colon + 1, (size_t)(at - colon - 1)))
		return false;
	if (name_length && !set(&u->name, name, name_length))
		return false;
	return set_place(u, place, (size_t)(text + length - place)) &&
	       set_params(u, name[name_length] == '?' ? name + name_length + 1 : "");
}

/* In any of libpq's ways to say so, whichever characters are encoded. */
static bool asks_for_more(const char *params)
{
	static const char *const asking[] = { "sslmode=require", "sslmode=verify", "ssl=true",
					      "channel_binding=require", "gssencmode=require" };
	while (*params) {
		size_t length = strcspn(params, "&");
		CLEANUP_FREE char *plain = decode(params, length);
		for (size_t i = 0; plain && i < sizeof asking / sizeof *asking; i++)
			if (str_starts(plain, asking[i]))
				return true;
		params += length + (params[length] == '&');
	}
	return false;
}

static int check_postgres(const struct dburl *u, struct err *err)
{
	if (!u->user || !u->user[0] || !u->name || !u->name[0])
		return err_caller(
			err,
			"the user and the database have to be said: postgresql://USER@/DATABASE?host=/run/postgresql");
	if (u->host[0] == '@' || strpbrk(u->host, ", ") || strlen(u->host) > 255 || !u->host[0])
		return err_caller(
			err,
			"the host is the directory of a socket, or one name or address; write postgresql://USER@HOST:PORT/DATABASE");
	/* libpq leaves TLS out on a socket, and a relay of bytes can't add it. */
	if (u->host[0] != '/' && asks_for_more(u->params))
		return err_caller(
			err,
			"the parameters ask for TLS, which a step's connection does not have: name the directory of the server's socket, or of a "
			"local proxy that speaks TLS");
	return 0;
}

int dburl_parse(const char *text, struct dburl *ret, struct err *err)
{
	CLEANUP_DBURL struct dburl u = { 0 };
	bool good = strlen(text) < URL_MAX;
	if (str_starts(text, "sqlite:")) {
		u.path = text[7] == '/' ? path_normal("/", text + 7) : NULL;
		good = good && u.path && !strpbrk(u.path, "\n\r");
	} else {
		const char *rest = str_starts(text, "postgresql://") ? text + 13
				   : str_starts(text, "postgres://") ? text + 11
								     : NULL;
		u.kind = DB_POSTGRES;
		good = good && rest && parse_postgres(rest, &u);
	}
	if (!good)
		return err_caller(
			err,
			"this is no database; write sqlite:/PATH or postgresql://USER@/DATABASE?host=/run/postgresql");
	int r = u.kind == DB_POSTGRES ? check_postgres(&u, err) : 0;
	if (r < 0)
		return r;
	*ret = u;
	u = (struct dburl){ 0 };
	return 0;
}

bool dburl_is(const char *text)
{
	return str_starts(text, "sqlite:") || str_starts(text, "postgresql://") ||
	       str_starts(text, "postgres://");
}

/* What may be a password: between "//USER:" and the last '@' before the path, and behind "password=" among the parameters. */
char *dburl_shown(const char *text)
{
	CLEANUP_STR struct str shown = { 0 };
	const char *start = strstr(text, "://");
	const char *rest = start ? start + 3 : text;
	const char *at = start ? memrchr(rest, '@', strcspn(rest, "/?")) : NULL;
	const char *colon = at ? memchr(rest, ':', (size_t)(at - rest)) : NULL;
	if (!dburl_is(text))
		return xstrdup(text);
	if (colon) {
		str_add_n(&shown, text, (size_t)(colon - text));
		str_add(&shown, ":***");
		rest = at;
	} else {
		rest = text;
	}
	for (const char *secret; (secret = strcasestr(rest, "password="));) {
		str_add_n(&shown, rest, (size_t)(secret - rest) + strlen("password="));
		str_add(&shown, "***");
		rest = secret + strlen("password=");
		rest += strcspn(rest, "&");
	}
	str_add(&shown, rest);
	return str_take(&shown);
}

static void add_encoded(struct str *s, const char *text)
{
	for (; *text; text++) {
		bool plain = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
			     (*text >= '0' && *text <= '9') || strchr("-._~/", *text);
		if (plain)
			str_add_n(s, text, 1);
		else
			str_addf(s, "%%%02X", (unsigned char)*text);
	}
}

char *dburl_inside(const struct dburl *u, const char *directory)
{
	CLEANUP_STR struct str out = { 0 };
	if (u->kind == DB_SQLITE) {
		str_addf(&out, "sqlite:%s/%s", directory, path_base(u->path));
		return str_take(&out);
	}
	str_add(&out, "postgresql://");
	add_encoded(&out, u->user);
	str_add(&out, "@/");
	add_encoded(&out, u->name);
	str_addf(&out, "?host=%s&port=%u", directory, u->port);
	if (u->params[0])
		str_addf(&out, "&%s", u->params);
	return str_take(&out);
}

char *dburl_pgpass(const struct dburl *u)
{
	CLEANUP_STR struct str out = { 0 };
	if (!u->password)
		return NULL;
	str_add(&out, "*:*:*:*:");
	for (const char *c = u->password; *c; c++)
		str_addf(&out, "%s%c", *c == ':' || *c == '\\' ? "\\" : "", *c);
	str_add(&out, "\n");
	return str_take(&out);
}

bool dburl_same(const char *a, const char *b)
{
	CLEANUP_DBURL struct dburl x = { 0 };
	CLEANUP_DBURL struct dburl y = { 0 };
	struct err err = { 0 };
	if (dburl_parse(a, &x, &err) < 0 || dburl_parse(b, &y, &err) < 0)
		return str_eq(a, b);
	if (x.kind != y.kind)
		return false;
	if (x.kind == DB_POSTGRES)
		return str_eq(x.name, y.name) && str_eq(x.host, y.host) && x.port == y.port;
	CLEANUP_FREE char *real_x = path_real(x.path);
	CLEANUP_FREE char *real_y = path_real(y.path);
	return str_eq(real_x ? real_x : x.path, real_y ? real_y : y.path);
}
