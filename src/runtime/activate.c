/* Conda's activation from level 0, without a shell: conda/activate.py's build_activate for an empty environment. */
#include "runtime/activate.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/path.h"

#define STATE_MAX   (1024 * 1024)
#define SCRIPTS_MAX 1000
#define UNSET_MARK  "***unset***"

void activation_release(struct activation *a)
{
	pairs_release(&a->env);
	free(a->path);
	strv_release(&a->scripts);
	strv_release(&a->names);
	*a = (struct activation){ 0 };
}

/* The names in PREFIX/SUB, sorted by bytes, which for UTF-8 is Python's order of strings; no directory: none. */
static int list_names(const char *directory, struct strv *ret, struct err *err)
{
	CLEANUP_DIR DIR *dir = opendir(directory);
	if (!dir && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (!dir)
		return err_errno(err, "open %s", directory);
	for (struct dirent *entry; (entry = readdir(dir));) {
		if (str_eq(entry->d_name, ".") || str_eq(entry->d_name, ".."))
			continue;
		if (ret->n == SCRIPTS_MAX)
			return err_set(err, ERR_CALLER, E2BIG, "%s has more than %d entries",
				       directory, SCRIPTS_MAX);
		strv_add(ret, entry->d_name);
	}
	strv_sort(ret);
	return 0;
}

/* As repr() of Python: the fewest digits that give the same number again; an exponent below 1e-4 and from 1e16 on. */
static void add_real(struct str *out, double value)
{
	char text[40];
	int precision = 0;
	do
		(void)snprintf(text, sizeof text, "%.*e", precision, value);
	while (strtod(text, NULL) != value && ++precision < 17);
	const char *sign = text[0] == '-' ? "-" : "";
	char *digits = text + (text[0] == '-');
	char *e = strchr(digits, 'e');
	int exponent = (int)strtol(e + 1, NULL, 10);
	*e = '\0';
	if (exponent < -4 || exponent >= 16) {
		str_addf(out, "%s%se%c%02d", sign, digits, exponent < 0 ? '-' : '+', abs(exponent));
		return;
	}
	int after = precision - exponent; /* digits behind the point */
	str_addf(out, "%.*f", after > 0 ? after : 1, value);
}

/* As repr() of Python, but for characters beyond ASCII that cannot be printed, which stay as they are. */
static void add_quoted(struct str *out, const char *text)
{
	char quote = strchr(text, '\'') && !strchr(text, '"') ? '"' : '\'';
	str_add_n(out, &quote, 1);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;
		if (c == '\\' || c == (unsigned char)quote)
			str_addf(out, "\\%c", c);
		else if (c == '\n' || c == '\r' || c == '\t')
			str_add(out, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
		else if (c < 0x20 || c == 0x7f)
			str_addf(out, "\\x%02x", c);
		else
			str_add_n(out, text, 1);
	}
	str_add_n(out, &quote, 1);
}

/* As repr() of Python of what JSON holds. The depth is that of the reader of JSON, which has a limit. */
static void add_python(struct str *out, const json_t *value)
{
	const char *key;
	json_t *inner;
	size_t i;
	const char *between = "";
	switch (json_typeof(value)) {
	case JSON_STRING:
		add_quoted(out, json_string_value(value));
		break;
	case JSON_INTEGER:
		str_addf(out, "%lld", (long long)json_integer_value(value));
		break;
	case JSON_REAL:
		add_real(out, json_real_value(value));
		break;
	case JSON_ARRAY:
		str_add(out, "[");
		json_array_foreach(value, i, inner)
		{
			str_add(out, i ? ", " : "");
			add_python(out, inner);
		}
		str_add(out, "]");
		break;
	case JSON_OBJECT:
		str_add(out, "{");
		json_object_foreach((json_t *)value, key, inner)
		{
			str_add(out, between);
			add_quoted(out, key);
			str_add(out, ": ");
			add_python(out, inner);
			between = ", ";
		}
		str_add(out, "}");
		break;
	default:
		str_add(out, json_is_null(value) ? "None" : json_is_true(value) ? "True" : "False");
	}
}

/* conda writes '%s' of whatever JSON holds: what str() of Python makes of it. NULL of null, which is no value. */
static char *value_text(const json_t *value)
{
	CLEANUP_STR struct str out = { 0 };
	if (json_is_string(value))
		return xstrdup(json_string_value(value));
	if (json_is_null(value))
		return NULL;
	add_python(&out, value);
	return str_take(&out);
}

/* As Python's dict.update: a key that is there keeps its place. In `vars` a value has '=' before it, and null is "". */
static int merge(const char *file, json_t *object, struct pairs *vars, struct err *err)
{
	const char *key;
	json_t *value;
	if (!json_is_object(object))
		return err_caller(err, "%s: the variables are no JSON object", file);
	json_object_foreach(object, key, value)
	{
		CLEANUP_FREE char *text = value_text(value);
		CLEANUP_FREE char *entry = text ? xasprintf("=%s", text) : xstrdup("");
		if (text && strlen(text) >= ANALYSIS_STRING_MAX)
			return err_set(err, ERR_CALLER, E2BIG,
				       "%s: the value of %.100s is too long", file, key);
		if (vars->n == ANALYSIS_ENV_MAX && !pairs_get(vars, key))
			return err_set(err, ERR_CALLER, E2BIG, "%s: more than %d variables", file,
				       ANALYSIS_ENV_MAX);
		pairs_set(vars, key, entry);
	}
	return 0;
}

/* Packages may be installed as symbolic links, which are followed, but not out of the prefix: we read with our own rights, and what is
 * found becomes variables of an analysis, which is shown nothing else of the host. -ENOENT: there is no such file. */
static int read_json(const char *prefix, const char *path, json_t **ret, struct err *err)
{
	CLEANUP_FREE char *real = path_real(path);
	if (!real && (errno == ENOENT || errno == ENOTDIR))
		return -ENOENT;
	CLEANUP_FREE char *top = real ? path_real(prefix) : NULL;
	if (!top)
		return err_errno(err, "open %s", path);
	if (!path_within(real, top))
		return err_set(err, ERR_CALLER, EPERM,
			       "%s leads out of the prefix, to %s; put the file itself there", path,
			       real);
	/* Again by descriptor, without links: the tree is somebody else's, and may have changed since. */
	CLEANUP_FREE char *parent = path_parent(real);
	CLEANUP_FD int top_fd = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);
	const char *within = str_eq(parent, top) ? "." : parent + strlen(top) + 1;
	CLEANUP_FD int fd = top_fd < 0 ? -errno
				       : fs_open_beneath(top_fd, within, O_PATH | O_DIRECTORY, 0);
	if (fd < 0)
		return err_set(err, ERR_HOST, -fd, "open %s: %s", path, strerrordesc_np(-fd));
	struct err why = { 0 };
	int r = json_read_file(fd, path_base(real), STATE_MAX, ret, &why);
	return r < 0 ? err_set(err, why.kind, -r, "%s/%s", parent, why.text) : 0;
}

static int read_package_vars(const char *prefix, struct pairs *vars, struct err *err)
{
	CLEANUP_FREE char *directory = path_join(prefix, "etc/conda/env_vars.d");
	CLEANUP_STRV struct strv names = { 0 };
	int r = list_names(directory, &names, err);
	for (size_t i = 0; r >= 0 && i < names.n; i++) {
		CLEANUP_JSON json_t *object = NULL;
		CLEANUP_FREE char *file = path_join(directory, names.v[i]);
		r = read_json(prefix, file, &object, err);
		if (r == -ENOENT)
			return err_caller(err, "%s leads nowhere", file);
		if (r >= 0)
			r = merge(file, object, vars, err);
	}
	return r;
}

static int read_state_vars(const char *prefix, struct pairs *vars, struct err *err)
{
	CLEANUP_FREE char *file = path_join(prefix, "conda-meta/state");
	CLEANUP_JSON json_t *state = NULL;
	int r = read_json(prefix, file, &state, err);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	if (!json_is_object(state))
		return err_caller(err, "%s is no JSON object", file);
	json_t *object = json_object_get(state, "env_vars");
	return object ? merge(file, object, vars, err) : 0;
}

/* In capitals into `ret`; false: a shell would refuse the name, or it is reserved. */
static bool variable_name(const char *key, struct str *ret)
{
	for (; *key; key++) {
		char c = *key >= 'a' && *key <= 'z' ? (char)(*key - 'a' + 'A') : *key;
		if (!((c >= 'A' && c <= 'Z') || c == '_' || (ret->length && c >= '0' && c <= '9')))
			return false;
		str_add_n(ret, &c, 1);
	}
	return ret->length && !str_starts(ret->text, "CUPEL_");
}

/* conda puts an empty value in place of null before it exports anything, its own variables too: those win. */
static void add_nulls(const struct pairs *vars, struct activation *a)
{
	for (size_t i = 0; i < vars->n; i++) {
		CLEANUP_STR struct str name = { 0 };
		if (!vars->v[i].value[0] && variable_name(vars->v[i].key, &name) &&
		    !str_eq(name.text, "PATH") && !pairs_get(&a->env, name.text))
			pairs_set(&a->env, name.text, "");
	}
}

static void add_value(const char *name, const char *value, struct activation *a)
{
	if (!str_eq(name, "PATH")) {
		pairs_set(&a->env, name, value);
		return;
	}
	free(a->path);
	a->path = xstrdup(value);
	a->path_is_whole = true;
}

static int add_own_vars(const char *prefix, struct activation *a, struct err *err)
{
	CLEANUP(pairs_release) struct pairs vars = { 0 };
	int r = read_package_vars(prefix, &vars, err);
	if (r >= 0)
		r = read_state_vars(prefix, &vars, err);
	if (r < 0)
		return r;
	add_nulls(&vars, a);
	for (size_t i = 0; i < vars.n; i++) {
		CLEANUP_STR struct str name = { 0 };
		const char *value = vars.v[i].value;
		if (str_eq(value, "=" UNSET_MARK) || !variable_name(vars.v[i].key, &name))
			continue;
		strv_add(&a->names, vars.v[i].key);
		if (value[0])
			add_value(name.text, value + 1, a);
	}
	return 0;
}

static bool is_there(const char *directory, const char *name)
{
	CLEANUP_FREE char *path = path_join(directory, name);
	return access(path, F_OK) == 0;
}

static bool is_installation(const char *directory)
{
	return is_there(directory, "condabin") || is_there(directory, "bin/conda");
}

/* Whose conda it is: BASE of BASE/envs/NAME, or the prefix itself; NULL: it stands alone. An environment may hold a conda of its
 * own, so its place is asked first. */
static char *find_base(const char *prefix)
{
	CLEANUP_FREE char *parent = path_parent(prefix);
	if (parent && str_eq(path_base(parent), "envs")) {
		CLEANUP_FREE char *base = path_parent(parent);
		return base && is_installation(base) ? take_ptr(base) : NULL;
	}
	return is_installation(prefix) ? xstrdup(prefix) : NULL;
}

static void add_conda_vars(const char *prefix, const char *base, struct pairs *env)
{
	CLEANUP_FREE char *parent = path_parent(prefix);
	const char *name = prefix;
	if (str_eq(prefix, base))
		name = "base";
	else if (parent && str_eq(path_base(parent), "envs"))
		name = path_base(prefix);
	CLEANUP_FREE char *prompt = xasprintf("(%s) ", name);
	pairs_set(env, "CONDA_PREFIX", prefix);
	pairs_set(env, "CONDA_SHLVL", "1");
	pairs_set(env, "CONDA_DEFAULT_ENV", name);
	pairs_set(env, "CONDA_PROMPT_MODIFIER", prompt);
}

/* Which conda did it: after the prefix's own variables, which can't replace these. A root of micromamba has no bin/conda. */
static void add_base_vars(const char *base, struct pairs *env)
{
	if (!base || !is_there(base, "bin/conda"))
		return;
	CLEANUP_FREE char *conda = path_join(base, "bin/conda");
	CLEANUP_FREE char *python = path_join(base, "bin/python");
	pairs_set(env, "CONDA_EXE", conda);
	pairs_set(env, "_CONDA_EXE", conda);
	pairs_set(env, "CONDA_PYTHON_EXE", python);
	pairs_set(env, "_CONDA_ROOT", base);
	/* Without a value, so that `set -u` does not fail for them; like null, before all that is exported. */
	static const char *const empty[] = { "_CE_M", "_CE_CONDA" };
	for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
		if (!pairs_get(env, empty[i]))
			pairs_set(env, empty[i], "");
}

static void add_pixi_vars(const char *prefix, struct pairs *env)
{
	CLEANUP_FREE char *envs = path_parent(prefix);
	CLEANUP_FREE char *dot = envs ? path_parent(envs) : NULL;
	CLEANUP_FREE char *project = dot ? path_parent(dot) : NULL;
	if (!project || !str_eq(path_base(envs), "envs") || !str_eq(path_base(dot), ".pixi"))
		return;
	pairs_set(env, "PIXI_PROJECT_ROOT", project);
	pairs_set(env, "PIXI_ENVIRONMENT_NAME", path_base(prefix));
	bool own = is_there(project, "pixi.toml");
	if (own || is_there(project, "pyproject.toml")) {
		CLEANUP_FREE char *manifest =
			path_join(project, own ? "pixi.toml" : "pyproject.toml");
		pairs_set(env, "PIXI_PROJECT_MANIFEST", manifest);
	}
}

/* Only what can be sourced: for anything else the shell would say so and go on, or wait for ever. */
static int list_scripts(const char *prefix, struct strv *ret, struct err *err)
{
	CLEANUP_FREE char *directory = path_join(prefix, "etc/conda/activate.d");
	CLEANUP_STRV struct strv names = { 0 };
	int r = list_names(directory, &names, err);
	for (size_t i = 0; r >= 0 && i < names.n; i++) {
		CLEANUP_FREE char *path = path_join(directory, names.v[i]);
		struct stat st = { 0 };
		if (str_ends(names.v[i], ".sh") && stat(path, &st) == 0 && S_ISREG(st.st_mode))
			strv_take(ret, take_ptr(path));
	}
	return r;
}

static int fill(const char *prefix, const char *base, struct activation *a, struct err *err)
{
	a->path = base && is_there(base, "condabin") ? xasprintf("%s/bin:%s/condabin", prefix, base)
						     : xasprintf("%s/bin", prefix);
	add_conda_vars(prefix, base, &a->env);
	add_pixi_vars(prefix, &a->env);
	int r = add_own_vars(prefix, a, err);
	if (r < 0)
		return r;
	add_base_vars(base, &a->env);
	return list_scripts(prefix, &a->scripts, err);
}

int conda_activation(const char *prefix, struct activation *ret, struct err *err)
{
	struct activation a = { 0 };
	if (!is_there(prefix, "conda-meta"))
		return err_set(err, ERR_CALLER, ENOENT,
			       "%s is no conda environment: it has no conda-meta", prefix);
	CLEANUP_FREE char *base = find_base(prefix);
	int r = fill(prefix, base, &a, err);
	if (r < 0) {
		activation_release(&a);
		return err ? err_wrap(err, "activate %s", prefix) : r;
	}
	*ret = a;
	return 0;
}
