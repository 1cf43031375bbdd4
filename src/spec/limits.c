/* The table of limits and what walks it. */
#include "spec/limits.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "base/str.h"
#include "spec/show.h"
#include "spec/yaml.h"

#define KIB 1024ULL
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define SEC NS_PER_SEC

const struct limit_info limit_infos[LIMIT_COUNT_] = {
	[LIMIT_MEMORY] = { "memory", LIMIT_UNIT_SIZE, 4 * MIB, 2048 * MIB,
			   "memory of the whole box, shared memory and private /tmp included" },
	[LIMIT_CPUS] = { "cpus", LIMIT_UNIT_CPUS, 10, 1000, "processors it may use at once" },
	[LIMIT_PIDS] = { "pids", LIMIT_UNIT_COUNT, 4, 512, "processes and threads at once" },
	[LIMIT_TIME] = { "time", LIMIT_UNIT_DURATION, NS_PER_MS, 1800 * SEC, "wall-clock time" },
	[LIMIT_CPU_TIME] = { "cpu_time", LIMIT_UNIT_DURATION, NS_PER_MS, 0,
			     "processor time of all processes" },
	[LIMIT_DISK] = { "disk", LIMIT_UNIT_SIZE, 4 * MIB, 4 * GIB,
			 "bytes in the working directory" },
	[LIMIT_INODES] = { "inodes", LIMIT_UNIT_COUNT, 64, 200000,
			   "files in the working directory" },
	[LIMIT_LOG] = { "log", LIMIT_UNIT_SIZE, 1, 16 * MIB,
			"bytes kept of standard output and of standard error, each" },
	[LIMIT_OPEN_FILES] = { "open_files", LIMIT_UNIT_COUNT, 32, 1024,
			       "open files of one process" },
	[LIMIT_FILE_SIZE] = { "file_size", LIMIT_UNIT_SIZE, 1, 0, "bytes of one file" },
	[LIMIT_OUTPUT_SIZE] = { "output_size", LIMIT_UNIT_SIZE, 1, 4 * GIB,
				"bytes of all outputs together" },
	[LIMIT_OUTPUT_COUNT] = { "output_count", LIMIT_UNIT_COUNT, 1, 10000, "number of outputs" },
	[LIMIT_GRACE] = { "grace", LIMIT_UNIT_DURATION, NS_PER_MS, 5 * SEC,
			  "time between SIGTERM and the kill" },
	[LIMIT_WARN] = { "warn", LIMIT_UNIT_DURATION, NS_PER_MS, 0,
			 "time before the deadline at which the warning signal is sent" },
};

static int parse_unit(enum limit_unit unit, const char *text, uint64_t *ret, struct err *err)
{
	switch (unit) {
	case LIMIT_UNIT_SIZE:
		return num_size(text, ret, err);
	case LIMIT_UNIT_CPUS:
		return num_cpus(text, ret, err);
	case LIMIT_UNIT_DURATION:
		return num_duration(text, ret, err);
	case LIMIT_UNIT_COUNT:
		return num_count(text, ret, err);
	}
	return -EINVAL;
}

int limit_parse(enum limit_id id, const char *text, uint64_t *ret, struct err *err)
{
	uint64_t value;
	char least[32], shown[SHOW_ROOM];
	int r = parse_unit(limit_infos[id].unit, text, &value, err);
	if (r < 0)
		return r;
	if (value < limit_infos[id].minimum)
		return err_set(err, ERR_CALLER, ERANGE,
			       "'%s' is too little for %s: give at least %s",
			       show_text(text, shown), limit_infos[id].key,
			       limit_write(id, limit_infos[id].minimum, least, sizeof least));
	*ret = value;
	return 0;
}

char *limit_write(enum limit_id id, uint64_t value, char *buffer, size_t room)
{
	switch (limit_infos[id].unit) {
	case LIMIT_UNIT_SIZE:
		return num_write_size(value, buffer, room);
	case LIMIT_UNIT_CPUS:
		return num_write_cpus(value, buffer, room);
	case LIMIT_UNIT_DURATION:
		return num_write_duration(value, buffer, room);
	case LIMIT_UNIT_COUNT:
		break;
	}
	(void)snprintf(buffer, room, "%llu", (unsigned long long)value);
	return buffer;
}

int limit_find(const char *key)
{
	for (int id = 0; id < LIMIT_COUNT_; id++) {
		if (str_eq(limit_infos[id].key, key))
			return id;
	}
	return -1;
}

void limits_set(struct limits *limits, enum limit_id id, uint64_t value, const char *origin)
{
	const size_t room = sizeof(limits->at[id].origin);
	size_t length = strlen(origin);

	limits->at[id].value = value;
	/* the end of a long path says more than its beginning, and it has the line */
	if (length >= room)
		(void)snprintf(limits->at[id].origin, room, "...%s", origin + length - (room - 4));
	else
		memcpy(limits->at[id].origin, origin, length + 1);
}

void limits_merge(struct limits *limits, const struct limits *from)
{
	for (int id = 0; id < LIMIT_COUNT_; id++) {
		if (from->at[id].value)
			limits->at[id] = from->at[id];
	}
}

int limits_profile(const char *name, struct limits *ret)
{
	static const struct {
		const char *name;
		uint64_t time_ns;
	} profiles[] = { { "default", 1800 * SEC },
			 { "notebook", 600 * SEC },
			 { "tool", 600 * SEC },
			 { "post_process", 300 * SEC } };

	for (size_t i = 0; i < sizeof(profiles) / sizeof(profiles[0]); i++) {
		if (!str_eq(profiles[i].name, name))
			continue;
		*ret = (struct limits){ 0 };
		for (int id = 0; id < LIMIT_COUNT_; id++) {
			if (limit_infos[id].built_in)
				limits_set(ret, id, limit_infos[id].built_in, "built-in");
		}
		limits_set(ret, LIMIT_TIME, profiles[i].time_ns, "built-in");
		return 0;
	}
	return -ENOENT;
}

int limits_check_ceilings(const struct limits *limits, const struct limits *ceilings,
			  struct err *err)
{
	for (int id = 0; id < LIMIT_COUNT_; id++) {
		uint64_t value = limits->at[id].value, ceiling = ceilings->at[id].value;
		char have[32], most[32];

		if (!ceiling || value <= ceiling)
			continue;
		limit_write(id, value, have, sizeof(have));
		limit_write(id, ceiling, most, sizeof(most));
		return err_set(err, ERR_CALLER, EPERM,
			       "%s %s (%s) is above this host's ceiling of %s (%s); ask for at "
			       "most %s",
			       limit_infos[id].key, have, limits->at[id].origin, most,
			       ceilings->at[id].origin, most);
	}
	return 0;
}

static int limit_unknown(const struct document *d, const struct node *key, struct err *err)
{
	CLEANUP_STR struct str known = { 0 };
	const char *keys[LIMIT_COUNT_];
	char shown[SHOW_ROOM];

	for (int id = 0; id < LIMIT_COUNT_; id++) {
		keys[id] = limit_infos[id].key;
		str_addf(&known, "%s%s", id ? ", " : "", keys[id]);
	}
	show_text(key->text, shown);
	const char *nearest = str_nearest(key->text, keys, LIMIT_COUNT_);
	if (nearest)
		return node_error(d, key, err, "unknown limit '%s'; did you mean '%s'?", shown,
				  nearest);
	return node_error(d, key, err, "unknown limit '%s'; known: %s", shown, str_text(&known));
}

static int limit_read(const struct document *d, const struct node *key, const struct node *value,
		      struct limits *limits, struct err *err)
{
	CLEANUP_FREE char *text = NULL, *origin = node_origin(d, key);
	struct err why = { 0 };
	uint64_t number = 0;
	int id = limit_find(key->text);

	if (id < 0)
		return limit_unknown(d, key, err);
	if (node_is_null(value))
		return node_error(d, key, err, "'%s' is empty; give it a value or remove it",
				  limit_infos[id].key);
	int r = node_string(d, value, &text, err);
	if (r < 0)
		return r;
	r = limit_parse(id, text, &number, &why);
	if (r < 0)
		return node_error(d, value, err, "%s: %s", limit_infos[id].key, why.text);
	limits_set(limits, id, number, origin);
	return 0;
}

int limits_read(const struct document *d, const struct node *map, struct limits *limits,
		struct err *err)
{
	if (map->kind != NODE_MAP)
		return node_error(d, map, err, "expected a map of limits, such as {memory: 2G}");
	for (size_t i = 0; i < map->n; i++) {
		int r = limit_read(d, map->keys[i], map->values[i], limits, err);
		if (r < 0)
			return r;
	}
	return 0;
}
