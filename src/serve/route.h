/* Every way to ask, in one table: the OpenAPI document is held to it by a test. */
#pragma once

#include "serve/request.h"

enum method { METHOD_GET, METHOD_POST, METHOD_COUNT_ };
extern const char *const method_names[];

struct route {
	enum method method;
	const char *
		pattern; /* "/v1/runs/{id}": {id} and {name} are one segment, {path} is all the rest */
	unsigned scope; /* enum scope; 0: anybody */
	void (*handle)(struct request *r);
	const char *operation; /* operationId */
	const char *summary;
};
extern const struct route routes[];
extern const size_t n_routes;

/* Sets route and arguments. False: the request is answered. */
bool route_find(struct request *r, const char *method);
