/* Prints the table of routes, for test_openapi.py. */
#include <stdio.h>

#include "serve/route.h"
#include "serve/token.h"

int main(void)
{
	CLEANUP_JSON json_t *list = json_array();
	for (size_t i = 0; i < n_routes; i++)
		json_array_append_new(list,
				      json_pack("{s:s,s:s,s:o,s:s,s:s,s:s}", "method",
						method_names[routes[i].method], "pattern",
						routes[i].pattern, "scopes",
						token_scopes_json(routes[i].scope), "operation",
						routes[i].operation, "summary", routes[i].summary,
						"rule", route_rule_names[routes[i].rule]));
	json_print(list);
	return 0;
}
