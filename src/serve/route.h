/* Every way to ask, in one table: the OpenAPI document is held to it by a test. */
#pragma once

#include "serve/request.h"

enum method { METHOD_GET, METHOD_POST, METHOD_COUNT_ };
extern const char *const method_names[];

/* How a route keeps the runs of others from who asks. Each has one: a test asks every route as everybody. */
enum route_rule {
	ROUTE_UNRULED_, /* a mistake */
	ROUTE_OPEN,     /* tells nothing of any run */
	ROUTE_OF_ID,    /* of the run or pipeline {id}: gate.c */
	ROUTE_SHARE,    /* of many: its handler tells what request.viewer may see */
	ROUTE_SUBMIT,   /* makes a run of who asks */
	ROUTE_ADMIN,    /* for those who see everything */
};
extern const char *const route_rule_names[];

struct route {
	enum method method;
	const char *
		pattern; /* "/v1/runs/{id}": {id} and {name} are one segment, {path} is all the rest */
	unsigned scope; /* enum scope; 0: anybody */
	enum route_rule rule;
	void (*handle)(struct request *r);
	const char *operation; /* operationId */
	const char *summary;
};
extern const struct route routes[];
extern const size_t n_routes;

/* Sets route and arguments. False: the request is answered. */
bool route_find(struct request *r, const char *method);
