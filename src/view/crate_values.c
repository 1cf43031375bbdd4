/* Limits, environment, verdict and usage of a run as PropertyValues: the profile has no terms for most of them. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "spec/limits.h"
#include "view/crate_parts.h"

static const char *const units[] = { [LIMIT_UNIT_SIZE] = "BYTE",
				     [LIMIT_UNIT_CPUS] = "NUM",
				     [LIMIT_UNIT_DURATION] = "SEC",
				     [LIMIT_UNIT_COUNT] = "NUM" };

/* In the unit itself: bytes, cpus, seconds. */
static void print_raw(enum limit_unit unit, uint64_t raw, char *ret, size_t room)
{
	if (unit == LIMIT_UNIT_DURATION)
		(void)snprintf(ret, room, "%.9g", (double)raw / (double)NS_PER_SEC);
	else if (unit == LIMIT_UNIT_CPUS)
		(void)snprintf(ret, room, "%.6g", (double)raw / 1000);
	else
		(void)snprintf(ret, room, "%llu", (unsigned long long)raw);
}

static void add_limits(struct crate *c)
{
	const char *key;
	json_t *limit;
	json_object_foreach(json_object_get(c->d->analysis, "limits"), key, limit)
	{
		char text[64];
		int at = limit_find(key);
		if (at < 0)
			continue;
		CLEANUP_FREE char *id = xasprintf("#limit-%s", key);
		CLEANUP_FREE char *term = xasprintf("limit-%s", key);
		print_raw(limit_infos[at].unit, dossier_number(limit, "raw"), text, sizeof text);
		crate_add_value(
			c, c->action, "limit",
			&(struct crate_value){ id, key, term, units[limit_infos[at].unit], text });
	}
}

static void add_environment(struct crate *c)
{
	size_t i;
	json_t *entry;
	json_array_foreach(json_object_get(c->d->plan, "env"), i, entry)
	{
		const char *text = json_string_value(entry);
		const char *equals = text ? strchr(text, '=') : NULL;
		if (!equals)
			continue;
		CLEANUP_FREE char *name = xstrndup(text, (size_t)(equals - text));
		CLEANUP_FREE char *safe = crate_uri(name);
		CLEANUP_FREE char *id = xasprintf("#env-%s", safe);
		crate_add_value(c, c->action, "environment",
				&(struct crate_value){ id, name, NULL, NULL, equals + 1 });
	}
}

/* Their names tell what a run needs; the keyed digests mean nothing outside their home. */
static void add_secrets(struct crate *c)
{
	size_t i;
	json_t *entry;
	json_array_foreach(json_object_get(c->d->plan, "secret_env"), i, entry)
	{
		const char *name = json_string_value(entry);
		if (!name)
			continue;
		CLEANUP_FREE char *safe = crate_uri(name);
		CLEANUP_FREE char *id = xasprintf("#env-%s", safe);
		crate_add_value(
			c, c->action, "environment",
			&(struct crate_value){ id, name, NULL, NULL, "(secret, not recorded)" });
	}
}

static void add_exit(struct crate *c)
{
	static const char *const numbers[] = { "exit_code", "signal", "exit_status" };
	const json_t *v = c->d->verdict;
	crate_add_value(c, c->action, "exitInfo",
			&(struct crate_value){ "#exit-cause", "cause", "exitReason", NULL,
					       dossier_text(v, "cause") });
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		char text[32], id[32];
		if (!json_is_integer(json_object_get(v, numbers[i])))
			continue;
		(void)snprintf(id, sizeof id, "#exit-%s", numbers[i]);
		(void)snprintf(text, sizeof text, "%lld",
			       (long long)json_integer_value(json_object_get(v, numbers[i])));
		crate_add_value(c, c->action, "exitInfo",
				&(struct crate_value){ id, numbers[i], numbers[i], NULL, text });
	}
}

/* What became of the step that the outputs were given to. */
static void add_post_process(struct crate *c)
{
	const json_t *step = json_object_get(c->d->verdict, "post_process");
	if (!step)
		return;
	CLEANUP_FREE char *text = xasprintf("%s: %s, in run %s", dossier_text(step, "step"),
					    dossier_text(step, "cause"), dossier_text(step, "run"));
	crate_add_value(c, c->action, "exitInfo",
			&(struct crate_value){ "#post-process", "post_process", "postProcess", NULL,
					       text });
}

static void add_usage(struct crate *c)
{
	static const struct {
		const char *key, *name, *unit;
		bool is_usec;
	} rows[] = {
		{ "wall_usec", "wall time", "SEC", true },
		{ "cpu_usec", "cpu time", "SEC", true },
		{ "memory_peak_bytes", "peak memory", "BYTE", false },
		{ "pids_peak", "most processes at a time", "NUM", false },
		{ "io_read_bytes", "bytes read from disks", "BYTE", false },
		{ "io_write_bytes", "bytes written to disks", "BYTE", false },
		{ "disk_peak_bytes", "peak size of the working directory", "BYTE", false },
	};
	const json_t *usage = json_object_get(c->d->verdict, "usage");
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char text[32], id[64];
		if (!json_object_get(usage, rows[i].key))
			continue;
		uint64_t value = dossier_number(usage, rows[i].key);
		(void)snprintf(id, sizeof id, "#usage-%s", rows[i].key);
		if (rows[i].is_usec)
			(void)snprintf(text, sizeof text, "%.9g", (double)value / 1e6);
		else
			(void)snprintf(text, sizeof text, "%llu", (unsigned long long)value);
		crate_add_value(
			c, c->action, "resourceUsage",
			&(struct crate_value){ id, rows[i].name, id + 1, rows[i].unit, text });
	}
}

void crate_key(struct crate *c, const char *sha256, const json_t *parts)
{
	const char *name;
	json_t *digest;
	if (!sha256[0])
		return;
	crate_add_value(c, c->action, "taskKey",
			&(struct crate_value){ "#key", "key", "taskKey", NULL, sha256 });
	json_object_foreach((json_t *)parts, name, digest)
	{
		CLEANUP_FREE char *safe = crate_uri(name);
		CLEANUP_FREE char *id = xasprintf("#key-part-%s", safe);
		const char *text = json_string_value(digest);
		crate_add_value(
			c, c->action, "taskKey",
			&(struct crate_value){ id, name, "taskKeyPart", NULL, text ? text : "" });
	}
}

void crate_parameters(struct crate *c, json_t *action, const json_t *parameters, const char *slots)
{
	const char *name;
	json_t *value;
	json_object_foreach((json_t *)parameters, name, value)
	{
		CLEANUP_FREE char *safe = crate_uri(name);
		CLEANUP_FREE char *id = xasprintf("#parameter-%s", safe);
		CLEANUP_FREE char *slot = slots ? xasprintf("%s%s", slots, safe) : NULL;
		CLEANUP_FREE char *text =
			json_is_string(value) ? xstrdup(json_string_value(value))
					      : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
		crate_add_value(
			c, action, "object",
			&(struct crate_value){ id, name, NULL, NULL, text ? text : "", slot });
	}
}

static void add_parameters(struct crate *c)
{
	const json_t *parameters = json_object_get(c->d->analysis, "parameters");
	if (!c->step) {
		crate_parameters(c, c->action, parameters, NULL);
		return;
	}
	CLEANUP_FREE char *slots = xasprintf("%s/parameter/", dossier_text(c->step->tool, "@id"));
	crate_parameter_slots(c, c->step->tool, parameters, slots);
	crate_parameters(c, c->action, parameters, slots);
}

void crate_values(struct crate *c)
{
	const json_t *key = json_object_get(c->d->analysis, "key");
	crate_key(c, dossier_text(key, "sha256"), json_object_get(key, "parts"));
	add_parameters(c);
	add_limits(c);
	add_environment(c);
	add_secrets(c);
	add_exit(c);
	add_post_process(c);
	add_usage(c);
	crate_set(c->action, "missingLayers", dossier_text(c->d->verdict, "missing_layers"));
}
