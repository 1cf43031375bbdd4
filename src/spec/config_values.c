/* The effective configuration as a list for `cupel config`: every value with its origin. */
#include <stdio.h>

#include "base/num.h"
#include "spec/config_layer.h"
#include "spec/dburl.h"

const char *const cgroup_manager_names[] = {
	[CGROUP_AUTO] = "auto", [CGROUP_V1] = "v1", [CGROUP_V2] = "v2", [CGROUP_SYSTEMD] = "systemd"
};
const char *const disk_mechanism_names[] = {
	[DISK_AUTO] = "auto", [DISK_IMAGE] = "image", [DISK_WATCHED] = "watched"
};

struct listing {
	struct config *config;
	const struct pairs *origins;
};

static void add(struct config *c, const char *key, const char *text, const char *origin)
{
	c->values = xreallocarray(c->values, c->n_values + 1, sizeof(c->values[0]));
	c->values[c->n_values++] =
		(struct config_value){ .key = xstrdup(key),
				       .text = xstrdup(text && text[0] ? text : "none"),
				       .origin = xstrdup(origin ? origin : "built-in") };
}

static void list_text(struct listing *to, const char *key, const char *text)
{
	add(to->config, key, text, pairs_get(to->origins, key));
}

static void list_number(struct listing *to, const char *key, unsigned number)
{
	char text[16];

	(void)snprintf(text, sizeof(text), "%u", number);
	list_text(to, key, text);
}

static void list_words(struct listing *to, const char *key, const struct strv *words)
{
	CLEANUP_STR struct str text = { 0 };

	for (size_t i = 0; i < words->n; i++)
		str_addf(&text, "%s%s", i ? ", " : "", words->v[i]);
	list_text(to, key, str_text(&text));
}

static void list_limits(struct listing *to, const char *prefix, const struct limits *limits)
{
	for (int id = 0; id < LIMIT_COUNT_; id++) {
		CLEANUP_FREE char *key = xasprintf("%s.%s", prefix, limit_infos[id].key);
		char text[32];
		if (limits->at[id].value)
			add(to->config, key,
			    limit_write(id, limits->at[id].value, text, sizeof(text)),
			    limits->at[id].origin);
	}
}

static void list_profile(struct listing *to, const char *name, const struct limits *said)
{
	CLEANUP_FREE char *prefix = xasprintf("profiles.%s", name);
	struct limits limits = { 0 };

	/* as config_limits does it: a new name starts from `default` */
	if (limits_profile(name, &limits) < 0)
		(void)limits_profile("default", &limits);
	if (said)
		limits_merge(&limits, said);
	list_limits(to, prefix, &limits);
}

static void list_profiles(struct listing *to)
{
	static const char *const built_in[] = { "default", "notebook", "tool", "post_process" };
	const size_t count = sizeof(built_in) / sizeof(built_in[0]);
	const struct config *c = to->config;

	for (size_t i = 0; i < count; i++) {
		const struct limits *said = NULL;
		for (size_t k = 0; k < c->n_profiles && !said; k++) {
			if (str_eq(c->profiles[k].name, built_in[i]))
				said = &c->profiles[k].limits;
		}
		list_profile(to, built_in[i], said);
	}
	for (size_t k = 0; k < c->n_profiles; k++) {
		struct limits unused;
		if (limits_profile(c->profiles[k].name, &unused) < 0)
			list_profile(to, c->profiles[k].name, &c->profiles[k].limits);
	}
}

static void list_protect(struct listing *to)
{
	const struct strv *protect = &to->config->protect, *watch = &to->config->watch;
	size_t n = protect->n;

	if (n + watch->n == 0)
		list_text(to, "protect", NULL);
	for (size_t i = 0; i < protect->n; i++) {
		CLEANUP_FREE char *key = xasprintf("protect.%zu", i);
		list_text(to, key, protect->v[i]);
	}
	for (size_t i = 0; i < watch->n; i++) {
		if (watch->v[i][0] == '/')
			continue;
		CLEANUP_FREE char *key = xasprintf("protect.%zu", n++);
		CLEANUP_FREE char *url = dburl_shown(watch->v[i]);
		const char *level = pairs_get(&to->config->watch_levels, watch->v[i]);
		bool is_content = !level || str_eq(level, "content");
		CLEANUP_FREE char *shown = xasprintf(
			"%s%s%s", url, is_content ? "" : ", watch: ", is_content ? "" : level);
		add(to->config, key, shown, pairs_get(to->origins, watch->v[i]));
	}
}

static void list_step(struct listing *to, const struct post_process *p)
{
	CLEANUP_STR struct str command = { 0 };
	CLEANUP_STR struct str submitters = { 0 };
	CLEANUP_FREE char *url = dburl_shown(p->database);
	CLEANUP_FREE char *limits = xasprintf("post_processes.%s.limits", p->name);
	for (size_t i = 0; i < p->command.n; i++)
		str_addf(&command, "%s%s", i ? " " : "", p->command.v[i]);
	for (size_t i = 0; i < p->submitters.n; i++)
		str_addf(&submitters, "%s%s", i ? ", " : "", p->submitters.v[i]);
	const struct {
		const char *key, *text;
	} rows[] = { { p->script ? "script" : "command",
		       p->script ? p->script : str_text(&command) },
		     { "runtime", p->runtime ? p->runtime : "base" },
		     { "database", url },
		     { "user", p->user ? p->user : "the database's" },
		     { "submitters", p->submitters.n ? str_text(&submitters) : "admin" } };
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		CLEANUP_FREE char *key = xasprintf("post_processes.%s.%s", p->name, rows[i].key);
		add(to->config, key, rows[i].text, p->origin);
	}
	list_limits(to, limits, &p->limits);
}

static void list_post_processes(struct listing *to)
{
	const struct config *c = to->config;

	if (c->n_post_processes == 0)
		list_text(to, "post_processes", NULL);
	for (size_t i = 0; i < c->n_post_processes; i++)
		list_step(to, &c->post_processes[i]);
}

static void list_executors(struct listing *to)
{
	const struct config *c = to->config;

	list_text(to, "defaults.executor", c->default_executor);
	if (c->n_executors == 0)
		list_text(to, "executors", NULL);
	for (size_t i = 0; i < c->n_executors; i++) {
		const struct executor_settings *s = &c->executors[i];
		CLEANUP_FREE char *key = xasprintf("executors.%s", s->name);
		CLEANUP_STR struct str text = { 0 };
		str_add(&text, executor_kind_names[s->kind]);
		for (size_t o = 0; o < s->options.n; o++)
			str_addf(&text, ", %s %s", s->options.v[o].key, s->options.v[o].value);
		for (size_t w = 0; w < s->words.n; w++)
			str_addf(&text, "%s%s", w ? " " : ", ", s->words.v[w]);
		add(to->config, key, str_text(&text), s->origin);
	}
}

static void list_service(struct listing *to)
{
	const struct service_settings *s = &to->config->service;
	CLEANUP_FREE char *path = config_service_socket(to->config);
	CLEANUP_STR struct str shares = { 0 };
	char every[32];
	list_text(to, "service.socket", path);
	list_text(to, "service.group", s->group);
	list_text(to, "service.listen", s->listen);
	list_number(to, "service.max_running", (unsigned)s->max_running);
	list_number(to, "service.max_queued_per_submitter", (unsigned)s->max_queued_per_submitter);
	list_number(to, "service.max_running_per_submitter",
		    (unsigned)s->max_running_per_submitter);
	for (size_t i = 0; i < s->shares.n; i++)
		str_addf(&shares, "%s%s %s", i ? ", " : "", s->shares.v[i].key,
			 s->shares.v[i].value);
	list_text(to, "service.shares", str_text(&shares));
	list_text(to, "service.visibility", visibility_names[s->visibility]);
	list_text(to, "service.check_runtimes",
		  s->check_runtimes_ns
			  ? num_write_duration(s->check_runtimes_ns, every, sizeof every)
			  : "never");
}

static void list_quests(struct listing *to)
{
	const struct config *c = to->config;

	if (c->n_quests == 0)
		list_text(to, "quests", NULL);
	for (size_t i = 0; i < c->n_quests; i++) {
		const struct quest_settings *q = &c->quests[i];
		for (size_t k = 0; k < q->about.n; k++) {
			CLEANUP_FREE char *key =
				xasprintf("quests.%s.%s", q->name, q->about.v[k].key);
			add(to->config, key, q->about.v[k].value, q->origin);
		}
	}
}

void config_values_fill(struct config *c, const struct pairs *origins)
{
	struct listing to = { .config = c, .origins = origins };

	list_text(&to, "home", c->home);
	list_text(&to, "project.root", c->project_root);
	list_text(&to, "project.data", c->project_data);
	list_text(&to, "project.docs", c->project_docs);
	list_protect(&to);
	list_profiles(&to);
	list_limits(&to, "ceilings", &c->ceilings);
	list_limits(&to, "aggregate", &c->aggregate);
	list_number(&to, "cpu_weight", c->cpu_weight);
	list_text(&to, "work.root", c->work_root);
	list_text(&to, "work.template", c->work_template);
	list_number(&to, "uids.first", c->uid_first);
	list_number(&to, "uids.count", c->uid_count);
	list_text(&to, "defaults.runtime", c->default_runtime);
	list_text(&to, "defaults.profile", c->default_profile);
	list_text(&to, "defaults.keep", keep_names[c->keep]);
	list_text(&to, "defaults.scratch", scratch_names[c->scratch]);
	list_words(&to, "defaults.env_pass", &c->env_pass);
	list_limits(&to, "defaults.limits", &c->defaults);
	list_text(&to, "policy.network", c->network_host_allowed ? "none, host" : "none");
	list_words(&to, "policy.allow_missing", &c->allow_missing);
	list_text(&to, "policy.allow_drift", c->drift_allowed ? "true" : "false");
	list_text(&to, "cgroup.parent", c->cgroup_parent);
	list_text(&to, "cgroup.manager", cgroup_manager_names[c->cgroup_manager]);
	list_text(&to, "disk.mechanism", disk_mechanism_names[c->disk]);
	char age[32];
	list_text(&to, "gc.partial",
		  c->partial_age_ns ? num_write_duration(c->partial_age_ns, age, sizeof(age))
				    : "never");
	list_text(&to, "gc.checkpoint",
		  c->checkpoint_age_ns ? num_write_duration(c->checkpoint_age_ns, age, sizeof(age))
				       : "never");
	CLEANUP_FREE char *url = config_ledger_shown(c);
	list_text(&to, "ledger.url", url);
	list_service(&to);
	list_executors(&to);
	list_post_processes(&to);
	list_quests(&to);
}
