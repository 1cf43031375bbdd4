/* libcurl, loaded when a service or an engine is asked: a command that asks none does not pay for it. The only header that includes curl's. */
#pragma once

#include <curl/curl.h>

#include "base/err.h"

/* The functions used, by their own names without "curl_". */
#define CURL_FUNCTIONS(ROW)                                                                        \
	ROW(easy_init)                                                                             \
	ROW(easy_cleanup)                                                                          \
	ROW(easy_reset)                                                                            \
	ROW(easy_setopt)                                                                           \
	ROW(easy_perform)                                                                          \
	ROW(easy_getinfo)                                                                          \
	ROW(easy_strerror)                                                                         \
	ROW(multi_init)                                                                            \
	ROW(multi_cleanup)                                                                         \
	ROW(multi_add_handle)                                                                      \
	ROW(multi_remove_handle)                                                                   \
	ROW(multi_perform)                                                                         \
	ROW(multi_poll)                                                                            \
	ROW(multi_info_read)                                                                       \
	ROW(slist_append)                                                                          \
	ROW(slist_free_all)

struct curl_api {
	void *library; /* owned; stays loaded: it may have threads of its own */
#define CURL_MEMBER(name) __typeof__(curl_##name) *name;
	CURL_FUNCTIONS(CURL_MEMBER)
#undef CURL_MEMBER
};

int curl_api_load(struct curl_api *ret, struct err *err);
