/* Loads libarchive. */
#include "runtime/archive.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

int archive_load(struct archive_library *ret, struct err *err)
{
	CLEANUP_ARCHIVE_LIBRARY struct archive_library l = { 0 };
	l.library = dlopen("libarchive.so.13", RTLD_NOW | RTLD_LOCAL);
	if (!l.library)
		return err_set(
			err, ERR_HOST, EOPNOTSUPP,
			"archives are read and written by libarchive.so.13, which cannot be loaded (%s). Remedy: apt-get install libarchive13",
			dlerror());
		/* POSIX gives data and function pointers one size; the copy says so to the compiler. */
#define ARCHIVE_LOAD(name)                                                                         \
	do {                                                                                       \
		void *symbol = dlsym(l.library, "archive_" #name);                                 \
		if (!symbol)                                                                       \
			return err_set(err, ERR_HOST, EOPNOTSUPP,                                  \
				       "libarchive.so.13 has no archive_" #name);                  \
		memcpy(&l.name, &symbol, sizeof(symbol));                                          \
	} while (0);
	ARCHIVE_FUNCTIONS(ARCHIVE_LOAD)
#undef ARCHIVE_LOAD
	*ret = l;
	memset(&l, 0, sizeof(l));
	return 0;
}

void archive_unload(struct archive_library *l)
{
	if (l->library)
		(void)dlclose(l->library);
	*l = (struct archive_library){ 0 };
}
