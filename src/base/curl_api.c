#include "base/curl_api.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#define LIBRARY "libcurl.so.4"

int curl_api_load(struct curl_api *ret, struct err *err)
{
	ret->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!ret->library)
		return err_set(err, ERR_HOST, EOPNOTSUPP,
			       "services are asked by " LIBRARY
			       ", which cannot be loaded (%s). Remedy: apt-get install libcurl4",
			       dlerror());
		/* POSIX gives data and function pointers one size; the copy says so to the compiler. */
#define CURL_LOAD(name)                                                                            \
	do {                                                                                       \
		void *symbol = dlsym(ret->library, "curl_" #name);                                 \
		if (!symbol)                                                                       \
			return err_set(err, ERR_HOST, EOPNOTSUPP, LIBRARY " has no curl_" #name);  \
		memcpy(&ret->name, &symbol, sizeof(symbol));                                       \
	} while (0);
	CURL_FUNCTIONS(CURL_LOAD)
#undef CURL_LOAD
	return 0;
}
