/* Who asks. */
#pragma once

#include <sys/types.h>

#define IDENTITY_NAME_MAX 63

enum scope { SCOPE_READ = 1 << 0, SCOPE_SUBMIT = 1 << 1, SCOPE_ADMIN = 1 << 2 };

struct identity {
	char name[IDENTITY_NAME_MAX + 1]; /* the user's, or the token's as "token:NAME" */
	uid_t uid;                        /* whose rights on files count for what it submits */
	gid_t gid;
	unsigned scopes;
};
