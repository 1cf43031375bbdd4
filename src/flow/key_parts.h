/* What key*.c share. */
#pragma once

#include "flow/key.h"

#include <sys/stat.h>

#include "spec/contents.h"
#include "spec/secret.h"

/* A list of texts, each with its length: the bytes that a part is the digest of. */
void fields_begin(struct str *f, const char *domain);
void fields_add(struct str *f, const char *text); /* NULL differs from "" */
void fields_list(struct str *f, const struct strv *list);
void fields_end(const struct str *f, char ret_hex[HASH_HEX]);

/* What a runtime was when it was looked at. */
struct key_runtime {
	char *name; /* owned */
	char *extension; /* owned; of the script that is run in it, "" for none: its interpreter counts, too */
	uint64_t looked_ns;
	char hex[HASH_HEX];
};

/* Which runtime a script gets, by what it says. */
struct key_choice {
	char *script; /* owned; its path, its digest and the names of all code */
	char *name;   /* owned */
	uint64_t looked_ns;
};

/* Code that was read: many analyses have the same. */
struct key_code {
	char *path; /* owned */
	struct stat st;
	struct contents contents;
};
#define KEY_CODE_MAX 64 /* then the next takes the place of another */

/* A directory of the project, which every analysis is shown. */
struct key_project {
	uint64_t looked_ns; /* 0: never */
	char hex[HASH_HEX]; /* "": not known */
};

struct key_maker {
	const struct config *config;                 /* borrowed */
	const struct fingerprint_progress *progress; /* borrowed or NULL */
	struct contents_reader reader;               /* without bounds */
	struct str fields;                           /* the part that is being made */
	char *arch;                                  /* owned */
	struct secret_key secret; /* read when the first secret variable is met */
	struct key_project data, docs;
	struct key_code code[KEY_CODE_MAX];
	size_t n_code, next_code;
	struct key_runtime *runtimes; /* owned */
	size_t n_runtimes;
	struct key_choice *choices; /* owned */
	size_t n_choices;
};

/* Which one it gets, and its part. `a` has its code_contents; *ret_name is borrowed from the maker or from `a`. */
int key_runtime_part(struct key_maker *m, const struct analysis *a, const char **ret_name,
		     char ret_hex[HASH_HEX], struct err *err);

/* Ends the part that m->fields holds; takes the name. */
void key_end_part(struct key_maker *m, struct pairs *parts, char *name);
void key_text_part(struct key_maker *m, struct pairs *parts, const char *name, const char *text);
/* Code and inputs; what a project shows to each of its analyses. */
int key_shown_parts(struct key_maker *m, struct analysis *a, struct pairs *parts, struct err *err);
int key_project_parts(struct key_maker *m, struct pairs *parts, struct err *err);
