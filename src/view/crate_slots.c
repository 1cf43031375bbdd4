/* What a workflow and its tools can be given and give, as FormalParameters: files and parameters that fill them refer to them. */
#include <string.h>

#include "base/hash.h"
#include "collect/outputs.h"
#include "view/crate_parts.h"

static const char *const kinds[] = { [SLOT_INPUT] = "input", [SLOT_OUTPUT] = "output" };

char *crate_slot_id(const json_t *owner, enum crate_slot kind, const char *slot)
{
	const char *id = dossier_text(owner, "@id");
	CLEANUP_FREE char *safe = crate_uri(slot);
	return xasprintf("%s/%s/%s", id[0] == '#' ? id : "#workflow", kinds[kind], safe);
}

static json_t *add_slot(struct crate *c, json_t *owner, const char *key, const char *id)
{
	crate_add_ref(owner, key, id);
	return crate_entity(c, id, "FormalParameter");
}

void crate_fill_slot(struct crate *c, json_t *owner, enum crate_slot kind, const char *slot,
		     json_t *with)
{
	CLEANUP_FREE char *id = crate_slot_id(owner, kind, slot);
	if (!crate_find(c, id)) {
		bool is_dir = str_eq(dossier_text(with, "@type"), "Dataset");
		json_t *e = add_slot(c, owner, kinds[kind], id);
		crate_set(e, "additionalType", is_dir ? "Dataset" : "File");
		crate_set(e, "name", slot);
	}
	crate_add_once(with, "exampleOfWork", id);
}

void crate_connect(struct crate *c, json_t *how_to, const char *slot, const json_t *with)
{
	size_t i;
	json_t *source;
	CLEANUP_FREE char *target = crate_slot_id(c->step->tool, SLOT_INPUT, slot);
	json_array_foreach(json_object_get(with, "exampleOfWork"), i, source)
	{
		char hex[HASH_HEX];
		const char *from = dossier_text(source, "@id");
		CLEANUP_FREE char *both = xasprintf("%s\n%s", from, target);
		if (!str_starts(from, "#tool/") || !strstr(from, "/output/"))
			continue;
		hash_bytes(both, strlen(both), hex);
		CLEANUP_FREE char *id = xasprintf("#connection/%.16s", hex);
		if (crate_find(c, id))
			continue;
		json_t *e = crate_entity(c, id, "ParameterConnection");
		json_object_set_new(e, "sourceParameter", crate_ref(from));
		json_object_set_new(e, "targetParameter", crate_ref(target));
		crate_add_ref(how_to, "connection", id);
	}
}

static const char *type_of(const json_t *value)
{
	switch (json_typeof(value)) {
	case JSON_INTEGER:
		return "Integer";
	case JSON_REAL:
		return "Float";
	case JSON_TRUE:
	case JSON_FALSE:
		return "Boolean";
	case JSON_OBJECT:
		return "PropertyValue";
	default: /* a list is given as the text of JSON */
		return "Text";
	}
}

void crate_parameter_slots(struct crate *c, json_t *owner, const json_t *parameters,
			   const char *slots)
{
	const char *name;
	json_t *value;
	json_object_foreach((json_t *)parameters, name, value)
	{
		CLEANUP_FREE char *safe = crate_uri(name);
		CLEANUP_FREE char *id = xasprintf("%s%s", slots, safe);
		if (crate_find(c, id))
			continue;
		json_t *e = add_slot(c, owner, "input", id);
		crate_set(e, "additionalType", type_of(value));
		crate_set(e, "name", name);
	}
}

const char *crate_output_slot(const struct crate *c, const char *path)
{
	size_t i;
	json_t *output;
	const char *slot = "outputs";
	json_array_foreach(json_object_get(c->d->analysis, "outputs"), i, output)
	{
		if (c->step->is_scattered || !outputs_match(dossier_text(output, "path"), path))
			continue;
		slot = dossier_text(output, "path");
		break;
	}
	return slot;
}
