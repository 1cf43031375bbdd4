/* What a check of the host, the records or the runtimes found. The last of each kind and subject is a file in HOME/health; every one that
 * reached the ledger is a row of `checks` there. */
#pragma once

#include <jansson.h>

#include "base/err.h"
#include "spec/config.h"

struct health_record {
	const char *kind;     /* "doctor", "verify" ...: lower-case letters and '-' */
	const char *subject;  /* what was looked at; NULL or "": the kind alone says it */
	const char *status;   /* the kind's own word: "ok", "weak", "missing" ... */
	const char *summary;  /* a sentence */
	const json_t *detail; /* borrowed; NULL: none */
};

/* The file alone: for a ledger that is damaged or not there, and for whoever has no time for a database. The next delivery enters it. */
int ledger_health_keep(const struct config *c, const struct health_record *h, struct err *err);
/* Written to HOME/health, then entered. A failure of the first is returned, and nothing was kept. A failure of the second is in
 * *ret_ledger, which may be NULL: the file is there, and the next delivery enters it. */
int ledger_health_put(const struct config *c, const struct health_record *h, struct err *ret_ledger,
		      struct err *err);
/* The last of each kind and subject, by kind and subject, as an array of {"kind","subject","time","status","summary","detail"}; one that
 * can't be read has the status "unreadable" and no time. Without
 * the database. */
int ledger_health_list(const struct config *c, json_t **ret, struct err *err);
