/* From an analysis to its parts, and from the parts to the key. */
#include "flow/key.h"

#include <errno.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/path.h"
#include "flow/key_parts.h"
#include "keeper/record.h"
#include "runtime/driver.h"
#include "spec/caller.h"
#include "spec/parameters.h"
#include "spec/secret.h"

#define DEFAULT_SHELL "bash -euo pipefail -c, or sh -eu -c" /* runtime_shell */
#define SCHEMA        "cupel-key 1" /* changes when the same words come to mean another result */

void fields_begin(struct str *f, const char *domain)
{
	f->length = 0;
	fields_add(f, SCHEMA);
	fields_add(f, domain);
}

void fields_add(struct str *f, const char *text)
{
	uint64_t length = text ? strlen(text) : UINT64_MAX;
	str_add_n(f, &length, sizeof length);
	if (text)
		str_add_n(f, text, (size_t)length);
}

static void fields_count(struct str *f, uint64_t n)
{
	str_add_n(f, &n, sizeof n);
}

void fields_list(struct str *f, const struct strv *list)
{
	fields_count(f, list->n);
	for (size_t i = 0; i < list->n; i++)
		fields_add(f, list->v[i]);
}

void fields_end(const struct str *f, char ret_hex[HASH_HEX])
{
	hash_bytes(f->text, f->length, ret_hex);
}

int key_maker_new(const struct config *config, const struct fingerprint_progress *progress,
		  struct key_maker **ret, struct err *err)
{
	struct utsname host;
	int r = record_home_trust(config->home, err);
	if (r < 0)
		return r;
	if (uname(&host) < 0)
		return err_errno(err, "ask for the machine's architecture");
	struct key_maker *m = xcalloc(1, sizeof *m);
	m->config = config;
	m->progress = progress;
	m->arch = xstrdup(host.machine);
	contents_begin_all(&m->reader, config->home);
	m->reader.opens_first = caller_is_other(config);
	*ret = m;
	return 0;
}

void key_maker_free(struct key_maker *m)
{
	if (!m)
		return;
	contents_end(&m->reader);
	str_release(&m->fields);
	free(m->arch);
	explicit_bzero(&m->secret, sizeof m->secret);
	for (size_t i = 0; i < m->n_runtimes; i++) {
		free(m->runtimes[i].name);
		free(m->runtimes[i].extension);
	}
	free(m->runtimes);
	for (size_t i = 0; i < m->n_choices; i++) {
		free(m->choices[i].script);
		free(m->choices[i].name);
	}
	free(m->choices);
	for (size_t i = 0; i < m->n_code; i++)
		free(m->code[i].path);
	free(m);
}

/* Takes the name. What can't be shown in it is in the digest all the same, since each part has its own name among its fields. */
static void add_part(struct pairs *parts, char *name, const char *hex)
{
	str_clean(name);
	if ((parts->n & (parts->n - 1)) == 0)
		parts->v = xreallocarray(parts->v, parts->n ? 2 * parts->n : 1, sizeof *parts->v);
	parts->v[parts->n++] = (struct pair){ .key = name, .value = xstrndup(hex, HASH_HEX - 1) };
}

void key_end_part(struct key_maker *m, struct pairs *parts, char *name)
{
	char hex[HASH_HEX];
	fields_end(&m->fields, hex);
	add_part(parts, name, hex);
}

void key_text_part(struct key_maker *m, struct pairs *parts, const char *name, const char *text)
{
	fields_begin(&m->fields, name);
	fields_add(&m->fields, text);
	key_end_part(m, parts, xstrdup(name));
}

static void list_part(struct key_maker *m, struct pairs *parts, const char *name,
		      const struct strv *list)
{
	if (!list->n)
		return;
	fields_begin(&m->fields, name);
	fields_list(&m->fields, list);
	key_end_part(m, parts, xstrdup(name));
}

/* Parts are recorded, so of a secret value there is the keyed digest: nobody can try values against the part. */
static int env_part(struct key_maker *m, struct pairs *parts, const char *name, const char *value,
		    struct err *err)
{
	char hex[HASH_HEX];
	if (env_is_secret(name, value)) {
		int r = m->secret.is_set ? 0 : secret_key_open(m->config->home, &m->secret, err);
		if (r < 0)
			return err_set(err, ERR_HOST, ENOTSUP,
				       "the digest of %s can't be made: %.300s", name, err->text);
		secret_digest(&m->secret, name, value, hex);
		value = hex;
	}
	fields_begin(&m->fields, "env");
	fields_add(&m->fields, name);
	fields_add(&m->fields, value);
	key_end_part(m, parts, xasprintf("env %s", name));
	return 0;
}

static int env_parts(struct key_maker *m, const struct analysis *a, struct pairs *parts,
		     struct err *err)
{
	const struct strv *pass = &m->config->env_pass;
	int r = 0;
	for (size_t i = 0; r >= 0 && i < a->env.n; i++)
		r = env_part(m, parts, a->env.v[i].key, a->env.v[i].value, err);
	for (size_t i = 0; r >= 0 && i < pass->n; i++) {
		const char *value = getenv(pass->v[i]);
		bool again = false; /* said twice, it is passed once */
		for (size_t j = 0; j < i; j++)
			again |= str_eq(pass->v[i], pass->v[j]);
		if (value && !again && !pairs_get(&a->env, pass->v[i]))
			r = env_part(m, parts, pass->v[i], value, err);
	}
	return r;
}

/* One by one, so that it can be said which of them changed. */
static void parameter_parts(struct key_maker *m, const struct analysis *a, struct pairs *parts)
{
	CLEANUP_JSON json_t *all = a->parameters ? parameters_json(a->parameters) : NULL;
	const char *name;
	json_t *value;
	json_object_foreach(all, name, value)
	{
		CLEANUP_FREE char *text =
			json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS);
		fields_begin(&m->fields, "parameter");
		fields_add(&m->fields, name);
		fields_add(&m->fields, text);
		key_end_part(m, parts, xasprintf("parameter %s", name));
	}
}

static void output_part(struct key_maker *m, struct pairs *parts, const struct output *o)
{
	fields_begin(&m->fields, "output");
	fields_add(&m->fields, o->pattern);
	fields_add(&m->fields, o->media_type);
	fields_add(&m->fields, o->required ? "required" : "");
	fields_add(&m->fields, output_check_names[o->check]);
	key_end_part(m, parts, xasprintf("output %s", o->pattern));
}

/* Of those that match a file the first says what it is (collect/take.c), so their order counts. */
static void output_parts(struct key_maker *m, const struct analysis *a, struct pairs *parts)
{
	struct output all = { .pattern = (char[]){ "out/**" } }; /* analysis_complete */
	for (size_t i = 0; i < a->n_outputs; i++)
		output_part(m, parts, &a->outputs[i]);
	if (!a->n_outputs)
		output_part(m, parts, &all);
	if (a->n_outputs < 2)
		return;
	fields_begin(&m->fields, "outputs");
	for (size_t i = 0; i < a->n_outputs; i++)
		fields_add(&m->fields, a->outputs[i].pattern);
	key_end_part(m, parts, xstrdup("order of outputs"));
}

static int runtime_part(struct key_maker *m, const struct analysis *a, struct pairs *parts,
			struct err *err)
{
	const char *name = NULL;
	char hex[HASH_HEX];
	int r = key_runtime_part(m, a, &name, hex, err);
	if (r >= 0)
		add_part(parts, xasprintf("runtime %s", name), hex);
	return r;
}

/* The shell is a part of its own, so that it can be named as what changed. Which one a runtime has by default follows from the content of
 * the runtime, which is in the key. */
static void command_parts(struct key_maker *m, const struct analysis *a, struct pairs *parts)
{
	CLEANUP_STRV struct strv command = { 0 };
	if (a->command_is_text) {
		shell_words("sh",
			    &command); /* as 0.1 had it: what it did not have is the other part */
		fields_begin(&m->fields, "shell");
		fields_add(&m->fields, a->shell.n ? NULL : DEFAULT_SHELL);
		fields_list(&m->fields, &a->shell);
		key_end_part(m, parts, xstrdup("shell"));
	}
	strv_copy(&command, &a->command);
	list_part(m, parts, "command", &command);
}

static int make_parts(struct key_maker *m, struct analysis *a, struct pairs *parts, struct err *err)
{
	if (a->db_snapshot)
		return err_set(err, ERR_CALLER, ENOTSUP,
			       "db_snapshot: a database that goes on living has no digest");
	if (a->post_process)
		return err_set(
			err, ERR_CALLER, ENOTSUP,
			"post_process: what it does elsewhere is not done by using a result again");
	int r = key_shown_parts(m, a, parts, err);
	if (r >= 0)
		r = runtime_part(m, a, parts, err);
	if (r >= 0)
		r = key_project_parts(m, parts, err);
	if (r < 0)
		return r;
	key_text_part(m, parts, "schema", SCHEMA);
	key_text_part(m, parts, "arch", m->arch);
	key_text_part(m, parts, "network", network_names[a->network]);
	command_parts(m, a, parts);
	list_part(m, parts, "args", &a->args);
	if (a->code.n)
		key_text_part(m, parts, "script", path_base(a->code.v[0]));
	parameter_parts(m, a, parts);
	if (a->code.n && str_ends(a->code.v[0], ".ipynb")) { /* what runs it is part of cupel */
		char driver[HASH_HEX];
		driver_digest(driver);
		key_text_part(m, parts, "notebook driver", driver);
	}
	if (a->checkpoint) {
		char code[16];
		(void)snprintf(code, sizeof code, "%d", a->checkpoint_exit_code);
		fields_begin(&m->fields, "checkpoint");
		fields_add(&m->fields, a->checkpoint);
		fields_add(&m->fields, code);
		key_end_part(m, parts, xstrdup("checkpoint"));
	}
	output_parts(m, a, parts);
	return env_parts(m, a, parts, err);
}

static int by_name(const void *left, const void *right)
{
	const struct pair *a = left, *b = right;
	int c = strcmp(a->key, b->key);
	return c ? c : strcmp(a->value, b->value);
}

/* Names that look alike are told apart, in the order of their digests. */
static void settle_names(struct pairs *parts)
{
	if (parts->n)
		qsort(parts->v, parts->n, sizeof *parts->v, by_name);
	for (size_t i = 0, same = 1; i + 1 < parts->n; i++) {
		same = str_eq(parts->v[i + 1].key, parts->v[i + 1 - same].key) ? same + 1 : 1;
		if (same == 1)
			continue;
		char *name = xasprintf("%s (%zu)", parts->v[i + 1].key, same);
		free(parts->v[i + 1].key);
		parts->v[i + 1].key = name;
	}
}

int key_make(struct key_maker *m, struct analysis *a, struct err *err)
{
	CLEANUP(pairs_release) struct pairs parts = { 0 };
	pairs_release(&a->key.parts);
	a->key = (struct analysis_key){ 0 };
	int r = make_parts(m, a, &parts, err);
	if (r < 0)
		return r;
	settle_names(&parts);
	fields_begin(&m->fields, "key");
	for (size_t i = 0; i < parts.n; i++) {
		fields_add(&m->fields, parts.v[i].key);
		fields_add(&m->fields, parts.v[i].value);
	}
	fields_end(&m->fields, a->key.sha256);
	a->key.parts = parts;
	parts = (struct pairs){ 0 };
	return 0;
}
