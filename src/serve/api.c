/* openapi.json, embedded. */
#include "serve/api.h"

#include <stddef.h>

static const struct {
	const char *name, *text;
}
#include "serve/openapi.inc"

const char *
api_document(void)
{
	return documents[0].text;
}
