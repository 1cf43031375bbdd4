/* From a record back to what was asked for. */
#include "serve/again.h"

#include <stddef.h>

static void copy_list(json_t *to, const json_t *record, const char *list, const char *const *keys)
{
	json_t *copies = json_array(), *value;
	size_t i;
	json_array_foreach(json_object_get(record, list), i, value)
	{
		json_t *copy = json_object();
		for (const char *const *key = keys; *key; key++)
			if (json_object_get(value, *key) &&
			    !json_is_null(json_object_get(value, *key)))
				json_object_set(copy, *key, json_object_get(value, *key));
		json_array_append_new(copies, copy);
	}
	if (json_array_size(copies))
		json_object_set(to, list, copies);
	json_decref(copies);
}

json_t *again_analysis(const json_t *record)
{
	static const char *const same[] = { "name",         "quest",      "profile",
					    "args",         "command",    "env",
					    "labels",       "parameters", "network",
					    "keep",         "scratch",    "allow_missing",
					    "post_process", "checkpoint", "checkpoint_exit_code",
					    "executor" };
	static const char *const of_input[] = { "path", "name", NULL };
	static const char *const of_output[] = { "path", "required", "media_type", "check", NULL };
	json_t *analysis = json_object(), *limits = json_object(), *value;
	const char *name;
	for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
		value = json_object_get(record, same[i]);
		if (value && !json_is_null(value) &&
		    (!json_is_array(value) || json_array_size(value)) &&
		    (!json_is_object(value) || json_object_size(value)))
			json_object_set(analysis, same[i], value);
	}
	value = json_object_get(record, "code");
	if (json_array_size(value) == 1)
		json_object_set(analysis, "code", json_array_get(value, 0));
	else if (json_array_size(value))
		json_object_set(analysis, "code", value);
	copy_list(analysis, record, "inputs", of_input);
	copy_list(analysis, record, "outputs", of_output);
	value = json_object_get(json_object_get(record, "db_snapshot"), "path");
	if (value)
		json_object_set(analysis, "db_snapshot", value);
	value = json_object_get(json_object_get(record, "runtime"), "name");
	if (value)
		json_object_set(analysis, "runtime", value);
	json_object_foreach(json_object_get(record, "limits"), name, value)
	{
		json_object_set(limits, name, json_object_get(value, "value"));
	}
	json_object_set_new(analysis, "limits", limits);
	return analysis;
}
