/* The content of a runtime, as one digest for keys of analyses. To read it takes seconds, so it is remembered in
 * HOME/runtimes/NAME/content-TAG.json, the tag telling places of one name apart, and taken as it was while nothing says otherwise:
 * the identity is looked at each time, the stat depth when it was not for ten minutes. */
#pragma once

#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "runtime/fingerprint.h"
#include "runtime/runtime.h"
#include "spec/config.h"

#define CONTENT_LOOK_NS (600 * NS_PER_SEC)

struct content_request {
	const struct config *config;
	const struct runtime *runtime;               /* unpacked (runtime_unpack) */
	const char *identity;                        /* as it is now (runtime_fit) */
	const struct fingerprint_progress *progress; /* or NULL */
};

/* What a check or a lock has read counts too, as long as identity and stat depth are the same. Of an image the digest by which it was
 * unpacked is what it contains. A file that can't be written costs time, and nothing else. */
int runtime_content(const struct content_request *q, char ret_hex[HASH_HEX], struct err *err);

/* What every box that has the host's /usr finds there whatever its runtime: the C library, the shell, sort, grep, gzip and the like, by
 * content. Remembered in the same way, as that of a runtime CONTENT_HOST. */
#define CONTENT_HOST "_host" /* no name that a runtime can have */
int host_content(const struct config *config, const struct fingerprint_progress *progress,
		 char ret_hex[HASH_HEX], struct err *err);
/* The same of one package of the host and all that it depends on; of a package that is not installed, nothing. */
int package_content(const struct config *config, const char *package,
		    const struct fingerprint_progress *progress, char ret_hex[HASH_HEX],
		    struct err *err);
