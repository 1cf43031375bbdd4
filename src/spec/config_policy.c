/* The keys that are the host's policy: ceilings, aggregate, uids, policy, cgroup, disk. */
#include <string.h>

#include "base/num.h"
#include "spec/config_layer.h"
#include "spec/dburl.h"
#include "spec/show.h"

int config_read_ceilings(const struct document *d, const struct node *n, void *target,
			 struct err *err)
{
	struct config_layer *layer = target;
	struct limits *ceilings = &layer->config->ceilings, said = { 0 };
	int r = limits_read(d, n, &said, err);

	if (r < 0)
		return r;
	for (int id = 0; id < LIMIT_COUNT_ && layer->source == CONFIG_PROJECT; id++) {
		/* a project lowers what the host allows, it never raises it */
		if (ceilings->at[id].value && said.at[id].value > ceilings->at[id].value)
			said.at[id].value = 0;
	}
	limits_merge(ceilings, &said);
	return 0;
}

int config_read_aggregate(const struct document *d, const struct node *n, void *target,
			  struct err *err)
{
	struct config_layer *layer = target;
	struct limits said = { 0 };
	int r = limits_read(d, n, &said, err);

	if (r < 0)
		return r;
	for (int id = 0; id < LIMIT_COUNT_; id++) {
		if (said.at[id].value && id != LIMIT_MEMORY && id != LIMIT_CPUS && id != LIMIT_PIDS)
			return node_error(d, n, err,
					  "'%s' cannot be capped for all runs together; only "
					  "memory, cpus and pids can",
					  limit_infos[id].key);
	}
	limits_merge(&layer->config->aggregate, &said);
	return 0;
}

int config_read_cpu_weight(const struct document *d, const struct node *n, void *target,
			   struct err *err)
{
	struct config_layer *layer = target;
	CLEANUP_FREE char *text = NULL;
	char shown[SHOW_ROOM];
	uint64_t weight = 0;
	int r = node_string(d, n, &text, err);

	if (r < 0)
		return r;
	if (num_u64(text, CPU_WEIGHT_MAX, &weight) < 0 || weight < CPU_WEIGHT_MIN)
		return node_error(
			d, n, err,
			"'%s' is not a CPU weight; give a number from %u to %u (other groups of "
			"the host have %u)",
			show_text(text, shown), CPU_WEIGHT_MIN, CPU_WEIGHT_MAX, CPU_WEIGHT_OTHERS);
	layer->config->cpu_weight = (unsigned)weight;
	config_say(layer, d, n, "cpu_weight");
	return 0;
}

static int uid_number(const struct document *d, const struct node *n, uint64_t least, uint64_t *ret,
		      struct err *err)
{
	CLEANUP_FREE char *text = NULL;
	char shown[SHOW_ROOM];
	uint64_t number = 0;
	int r = node_string(d, n, &text, err);

	if (r < 0)
		return r;
	if (num_u64(text, UINT32_MAX - 1, &number) < 0 || number < least)
		return node_error(d, n, err, "'%s' must be a number from %llu to %u",
				  show_text(text, shown), (unsigned long long)least,
				  UINT32_MAX - 1);
	*ret = number;
	return 0;
}

READER(read_uids_first)
{
	struct config_layer *layer = target;
	uint64_t number = 0;
	/* below are the uids of real users and of the system */
	int r = uid_number(d, n, 65536, &number, err);

	if (r < 0)
		return r;
	layer->config->uid_first = (uid_t)number;
	config_say(layer, d, n, "uids.first");
	return 0;
}

READER(read_uids_count)
{
	struct config_layer *layer = target;
	uint64_t number = 0;
	int r = uid_number(d, n, 1, &number, err);

	if (r < 0)
		return r;
	layer->config->uid_count = (uint32_t)number;
	config_say(layer, d, n, "uids.count");
	return 0;
}

int config_read_uids(const struct document *d, const struct node *n, void *target, struct err *err)
{
	static const struct key_row rows[] = { { "first", read_uids_first },
					       { "count", read_uids_count } };
	const struct config *c = ((struct config_layer *)target)->config;
	int r = map_read(d, n, ROWS(rows), target, err);

	if (r < 0)
		return r;
	/* the last number of all means "no uid" */
	if ((uint64_t)c->uid_first + c->uid_count > UINT32_MAX)
		return node_error(d, n, err, "the range of uids from %u, %u of them, ends above %u",
				  c->uid_first, c->uid_count, UINT32_MAX - 1);
	return 0;
}

READER(read_policy_network)
{
	struct config_layer *layer = target;
	bool host = false;

	if (n->kind != NODE_LIST)
		return node_error(d, n, err, "expected a list, such as [none, host]");
	for (size_t i = 0; i < n->n; i++) {
		int word = node_word(d, n->values[i], network_names, NETWORK_HOST + 1, err);
		if (word < 0)
			return word;
		host = host || word == NETWORK_HOST;
	}
	layer->config->network_host_allowed = host;
	config_say(layer, d, n, "policy.network");
	return 0;
}

READER(read_policy_allow_missing)
{
	struct config_layer *layer = target;
	CLEANUP_STRV struct strv layers = { 0 };
	int r = node_strings(d, n, layer_count, &layers, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < layers.n; i++) {
		struct err why = { 0 };
		if (layer_check(layers.v[i], &why) < 0)
			return node_error(d, n->values[i], err, "%s", why.text);
	}
	config_list(layer, d, n, "policy.allow_missing", &layers, &layer->config->allow_missing);
	return 0;
}

READER(read_policy_allow_drift)
{
	struct config_layer *layer = target;
	int r = node_bool(d, n, &layer->config->drift_allowed, err);

	if (r >= 0)
		config_say(layer, d, n, "policy.allow_drift");
	return r;
}

int config_read_policy(const struct document *d, const struct node *n, void *target,
		       struct err *err)
{
	static const struct key_row rows[] = { { "network", read_policy_network },
					       { "allow_missing", read_policy_allow_missing },
					       { "allow_drift", read_policy_allow_drift } };

	return map_read(d, n, ROWS(rows), target, err);
}

/* The components become directories of the cgroup tree, so only dull names are let through. */
static bool cgroup_parent_ok(const char *parent)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	const char *at = parent;

	if (strstr(parent, ".."))
		return false;
	for (;;) {
		size_t length = strspn(at, allowed);
		if (length == 0 || length > 128 || at[0] == '.')
			return false;
		if (at[length] == '\0')
			return at + length - parent <= 512;
		if (at[length] != '/')
			return false;
		at += length + 1;
	}
}

READER(read_cgroup_parent)
{
	struct config_layer *layer = target;
	CLEANUP_FREE char *text = NULL;
	char shown[SHOW_ROOM];
	int r = node_string(d, n, &text, err);

	if (r < 0)
		return r;
	if (!cgroup_parent_ok(text))
		return node_error(d, n, err,
				  "'%s' is not a usable group; write names of A-Z a-z 0-9 . _ - "
				  "that do not begin with a dot, with '/' between them",
				  show_text(text, shown));
	return config_string(layer, d, n, "cgroup.parent", &layer->config->cgroup_parent);
}

READER(read_cgroup_manager)
{
	struct config_layer *layer = target;
	int word = node_word(d, n, cgroup_manager_names, CGROUP_SYSTEMD + 1, err);

	if (word < 0)
		return word;
	layer->config->cgroup_manager = (enum cgroup_manager)word;
	config_say(layer, d, n, "cgroup.manager");
	return 0;
}

int config_read_cgroup(const struct document *d, const struct node *n, void *target,
		       struct err *err)
{
	static const struct key_row rows[] = { { "parent", read_cgroup_parent },
					       { "manager", read_cgroup_manager } };

	return map_read(d, n, ROWS(rows), target, err);
}

READER(read_disk_mechanism)
{
	struct config_layer *layer = target;
	int word = node_word(d, n, disk_mechanism_names, DISK_WATCHED + 1, err);

	if (word < 0)
		return word;
	layer->config->disk = (enum disk_mechanism)word;
	config_say(layer, d, n, "disk.mechanism");
	return 0;
}

int config_read_disk(const struct document *d, const struct node *n, void *target, struct err *err)
{
	static const struct key_row rows[] = { { "mechanism", read_disk_mechanism } };

	return map_read(d, n, ROWS(rows), target, err);
}

/* An absolute path behind sqlite:, or whatever libpq makes of the rest. */
static bool ledger_url_ok(const char *url)
{
	if (str_starts(url, "sqlite:"))
		return url[strlen("sqlite:")] == '/';
	return str_starts(url, "postgresql://") || str_starts(url, "postgres://");
}

READER(read_ledger_url)
{
	struct config_layer *layer = target;
	CLEANUP_FREE char *text = NULL;
	int r = node_string(d, n, &text, err);

	if (r < 0)
		return r;
	/* Not shown: it may hold a password. */
	if (!ledger_url_ok(text))
		return node_error(
			d, n, err,
			"this is no ledger; write sqlite:/PATH or postgresql://HOST/DATABASE");
	return config_string(layer, d, n, "ledger.url", &layer->config->ledger_url);
}

int config_read_ledger(const struct document *d, const struct node *n, void *target,
		       struct err *err)
{
	static const struct key_row rows[] = { { "url", read_ledger_url } };

	return map_read(d, n, ROWS(rows), target, err);
}

static int read_age(const struct document *d, const struct node *n, struct config_layer *layer,
		    const char *key, uint64_t *ret, struct err *err)
{
	CLEANUP_FREE char *text = NULL;
	struct err why = { 0 };
	uint64_t ns = 0;
	int r = node_string(d, n, &text, err);

	if (r < 0)
		return r;
	if (!str_eq(text, "never") && num_duration(text, &ns, &why) < 0)
		return node_error(d, n, err, "%s; or write never", why.text);
	*ret = ns;
	config_say(layer, d, n, key);
	return 0;
}

READER(read_gc_partial)
{
	struct config_layer *layer = target;
	return read_age(d, n, layer, "gc.partial", &layer->config->partial_age_ns, err);
}

READER(read_gc_checkpoint)
{
	struct config_layer *layer = target;
	return read_age(d, n, layer, "gc.checkpoint", &layer->config->checkpoint_age_ns, err);
}

int config_read_gc(const struct document *d, const struct node *n, void *target, struct err *err)
{
	static const struct key_row rows[] = { { "partial", read_gc_partial },
					       { "checkpoint", read_gc_checkpoint } };

	return map_read(d, n, ROWS(rows), target, err);
}

char *config_ledger_shown(const struct config *c)
{
	return c->ledger_url ? dburl_shown(c->ledger_url)
			     : xasprintf("sqlite:%s/cupel.db", c->home);
}
