/* Parameters: named values that an analysis is run with, a JSON object in canonical form (sorted, compact), so that equal values are
 * equal texts. The analysis finds it at $CUPEL_PARAMETERS, a notebook as variables. */
#pragma once

#include "base/err.h"
#include "base/json.h"

struct document;
struct node;

#define PARAMETERS_MAX (64 * 1024) /* bytes of the text */

/* A value by YAML's core schema: null, true and false, integers, floats, texts, lists and maps. Infinities and NaN have no JSON. */
int node_json(const struct document *d, const struct node *n, json_t **ret, struct err *err);
/* A map whose keys are names of variables: [A-Za-z_][A-Za-z0-9_]*. */
int parameters_read(const struct document *d, const struct node *map, char **ret, struct err *err);
/* "NAME=VALUE" as in --param, laid over *text (owned, or NULL): the value is JSON, or else a text as it stands. */
int parameters_set(char **text, const char *pair, struct err *err);
/* Lays `over` over *text; either may be NULL. */
void parameters_merge(char **text, const char *over);
/* Owned by the caller; never NULL. */
json_t *parameters_json(const char *text);
char *parameters_text(const json_t *object);
