/* The OpenAPI document, as it was when this was built. */
#pragma once

const char *api_document(void);
