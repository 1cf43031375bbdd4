/* cupel token: who may come by TCP. */
#include <stdio.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/num.h"
#include "cli/simple.h"
#include "keeper/record.h"
#include "serve/identity.h"
#include "serve/token.h"
#include "view/table.h"

struct token_args {
	bool json;
	unsigned scopes;
	const char *user;    /* borrowed from argv, or NULL */
	uint64_t expires_ns; /* from now; 0: never */
};

static int set_json(void *target, const struct option_row *row, const char *value, struct err *err)
{
	((struct token_args *)target)->json = true;
	return 0;
}

static int set_scopes(void *target, const struct option_row *row, const char *value,
		      struct err *err)
{
	return token_scopes_parse(value, &((struct token_args *)target)->scopes, err);
}

static int set_user(void *target, const struct option_row *row, const char *value, struct err *err)
{
	((struct token_args *)target)->user = value;
	return 0;
}

static int set_expires(void *target, const struct option_row *row, const char *value,
		       struct err *err)
{
	return num_duration(value, &((struct token_args *)target)->expires_ns, err);
}

static const struct option_row create_rows[] = {
	{ 0, "scope", "SCOPES", "what it may do: read, read-all, submit, admin (default: read)",
	  set_scopes, 0 },
	{ 0, "user", "USER",
	  "the user that it acts and owns runs as (default: itself, with the rights of nobody)",
	  set_user, 0 },
	{ 0, "expires", "TIME", "how long it is good for: 90d (default: for ever)", set_expires,
	  0 },
	{ 0, "json", NULL, "print JSON", set_json, 0 },
};
static const struct options create_options = { create_rows,
					       sizeof create_rows / sizeof *create_rows };
static const struct option_row plain_rows[] = { { 0, "json", NULL, "print JSON", set_json, 0 } };
static const struct options plain_options = { plain_rows, 1 };

/* Options, the configuration, and one operand if `ret_name` is given. < 0: the caller returns cli_stop(). */
static int begin(const struct command *self, int argc, char **argv, struct token_args *args,
		 struct config *c, const char **ret_name, struct err *err)
{
	struct operands rest = { 0 };
	int r = cli_parse(self, argc, argv, args, &rest, err);
	if (r >= 0 && argc - rest.first != (ret_name ? 1 : 0))
		r = err_caller(err, "usage: cupel %s %s", self->name, self->usage);
	if (r >= 0 && ret_name)
		*ret_name = argv[rest.first];
	if (r >= 0)
		r = config_read(&(struct config_where){ 0 }, c, err);
	return r < 0 ? r : record_home(c->home, err);
}

static int main_create(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config c = { 0 };
	struct token_args args = { .scopes = SCOPE_READ };
	const char *name = NULL;
	char text[TOKEN_TEXT];
	struct err err = { 0 };
	int r = begin(self, argc, argv, &args, &c, &name, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	struct token_request q = { .name = name, .scopes = args.scopes, .user = args.user };
	if (args.expires_ns)
		q.expires_ns = clock_real_ns() + args.expires_ns;
	if (token_create(c.home, &q, text, &err) < 0)
		return cli_fail(&err);
	if (args.json) {
		CLEANUP_JSON json_t *o = json_pack("{s:s,s:s,s:o}", "name", name, "token", text,
						   "scopes", token_scopes_json(args.scopes));
		json_print(o);
	} else {
		printf("%s\n", text);
	}
	return 0;
}

static char *joined(const json_t *list)
{
	CLEANUP_STR struct str s = { 0 };
	size_t i;
	json_t *word;
	json_array_foreach(list, i, word)
	{
		str_addf(&s, "%s%s", i ? "," : "", json_string_value(word));
	}
	str_add(&s, "");
	return str_take(&s);
}

static int print_tokens(const json_t *tokens, struct err *err)
{
	static const struct table_column columns[] = {
		{ "NAME", TABLE_TEXT },    { "SCOPES", TABLE_TEXT },  { "USER", TABLE_TEXT },
		{ "CREATED", TABLE_TEXT }, { "EXPIRES", TABLE_TEXT }, { "NOTE", TABLE_TEXT }
	};
	CLEANUP_TABLE struct table t = { columns, sizeof columns / sizeof *columns };
	size_t i;
	json_t *token;
	json_array_foreach(tokens, i, token)
	{
		CLEANUP_FREE char *scopes = joined(json_object_get(token, "scopes"));
		const char *expires = json_string_value(json_object_get(token, "expires"));
		table_add(&t, json_string_value(json_object_get(token, "name")));
		table_add(&t, scopes);
		table_add(&t, json_string_value(json_object_get(token, "user")));
		table_add(&t, json_string_value(json_object_get(token, "created")));
		table_add(&t, expires ? expires : "never");
		table_add(&t, json_string_value(json_object_get(token, "note")));
	}
	return table_print(&t, err);
}

static int main_list(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config c = { 0 };
	CLEANUP_TOKENS struct tokens tokens = { 0 };
	struct token_args args = { 0 };
	struct err err = { 0 };
	int r = begin(self, argc, argv, &args, &c, NULL, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	if (tokens_read(c.home, &tokens, &err) < 0)
		return cli_fail(&err);
	CLEANUP_JSON json_t *list = tokens_json(&tokens);
	if (args.json)
		json_print(list);
	else if (print_tokens(list, &err) < 0)
		return cli_fail(&err);
	return 0;
}

static int main_revoke(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config c = { 0 };
	struct token_args args = { 0 };
	const char *name = NULL;
	struct err err = { 0 };
	int r = begin(self, argc, argv, &args, &c, &name, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	if (token_revoke(c.home, name, &err) < 0)
		return cli_fail(&err);
	if (args.json) {
		CLEANUP_JSON json_t *o = json_pack("{s:s}", "revoked", name);
		json_print(o);
	}
	return 0;
}

static const struct command command_create = {
	.name = "token create",
	.usage = "NAME [--scope SCOPES] [--user USER] [--expires TIME] [--json]",
	.operands = COMPLETE_NOTHING,
	.summary = "make a token; it is printed once, and only its digest is kept",
	.options = &create_options,
	.main = main_create,
};
static const struct command command_tokens = {
	.name = "token list",
	.usage = "[--json]",
	.operands = COMPLETE_NOTHING,
	.summary = "the tokens there are, without what lets anybody in",
	.options = &plain_options,
	.main = main_list,
};
static const struct command command_revoke = {
	.name = "token revoke",
	.usage = "NAME [--json]",
	.operands = COMPLETE_NOTHING,
	.summary = "from now on the token lets nobody in",
	.options = &plain_options,
	.main = main_revoke,
};
static const struct command *const subs[] = { &command_create, &command_tokens, &command_revoke };

const struct command command_token = {
	.name = "token",
	.usage = "(create | list | revoke) [OPTION]... [NAME]",
	.summary = "who may use the service over TCP",
	.options = &cli_no_options,
	.subs = subs,
	.n_subs = sizeof subs / sizeof *subs,
	.main = cli_main_subs,
};
