#include "view/smartcols.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#define LIBRARY "libsmartcols.so.1"

int smartcols_load(struct smartcols *ret, struct err *err)
{
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!library)
		return err_set(
			err, ERR_HOST, EOPNOTSUPP,
			"tables are printed by " LIBRARY
			", which cannot be loaded (%s). Remedy: apt-get install libsmartcols1; --json needs it not",
			dlerror());
		/* POSIX gives data and function pointers one size; the copy says so to the compiler. */
#define SMARTCOLS_LOAD(name)                                                                       \
	do {                                                                                       \
		void *symbol = dlsym(library, "scols_" #name);                                     \
		if (!symbol)                                                                       \
			return err_set(err, ERR_HOST, EOPNOTSUPP, LIBRARY " has no scols_" #name); \
		memcpy(&ret->name, &symbol, sizeof(symbol));                                       \
	} while (0);
	SMARTCOLS_FUNCTIONS(SMARTCOLS_LOAD)
#undef SMARTCOLS_LOAD
	(void)dlclose(library);
	return 0;
}
