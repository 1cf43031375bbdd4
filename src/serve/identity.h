/* Who asks. */
#pragma once

#include <sys/types.h>

#include "spec/viewer.h"

#define IDENTITY_NAME_MAX VIEWER_NAME_MAX

/* SCOPE_READ shows what is one's own, SCOPE_READ_ALL everybody's; SCOPE_ADMIN implies the latter. */
enum scope {
	SCOPE_READ = 1 << 0,
	SCOPE_SUBMIT = 1 << 1,
	SCOPE_ADMIN = 1 << 2,
	SCOPE_READ_ALL = 1 << 3,
};

struct identity {
	/* The submitter of what it submits: a user, by the socket or by a token made for that user, or "token:NAME" for a token without. */
	char name[IDENTITY_NAME_MAX + 1];
	char also[IDENTITY_NAME_MAX +
		  1]; /* "token:NAME" of a token with a user, as version 0.1 recorded it; or "" */
	uid_t uid;    /* whose rights on files count for what it submits */
	gid_t gid;
	unsigned scopes;
};

/* What it may see, by its scopes and by service.visibility. */
void identity_viewer(const struct identity *who, const struct config *c, struct viewer *ret);
