/* What can be shown of a file that a stranger made. Pure. */
#pragma once

#include <stdbool.h>

enum preview { PREVIEW_NONE, PREVIEW_IMAGE, PREVIEW_TABLE, PREVIEW_TEXT };
/* `media_type`: as recorded, or NULL. */
enum preview preview_kind(const char *path, const char *media_type);
const char *preview_kind_name(enum preview kind);
/* For the header: a type that is well-formed, text with its charset; what is unknown is bytes. Static or the argument. */
const char *preview_media_type(const char *path, const char *media_type);
/* Whether a browser may show it as what it is: pictures of the common kinds and plain text, nothing that could be a page. */
bool preview_is_safe(const char *media_type);
