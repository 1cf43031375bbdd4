/* The outputs of two runs, side by side: byte by byte, and where that differs in a table or a JSON document, by cell or key. What is
 * compared was written by analyses: it is read with caps, and what is quoted of it is short and clean. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

/* Numbers a and b count as equal if |a - b| <= absolute, or <= relative * the larger of |a| and |b|. */
struct tolerance {
	bool is_said;
	double relative, absolute;
};
/* "1e-6" or "1e-6,1e-12": relative, absolute. */
int tolerance_parse(const char *text, struct tolerance *ret, struct err *err);
/* Are both texts numbers, and near enough? */
bool tolerance_near(const struct tolerance *t, const char *a, const char *b);
bool tolerance_near_numbers(const struct tolerance *t, double a, double b);

enum compared {
	COMPARED_SAME,    /* every byte */
	COMPARED_NEAR,    /* every value, within the tolerance that was said */
	COMPARED_DIFFERS, /* the detail says where first */
	COMPARED_UNKNOWN, /* not a document of that kind, or too large: only its bytes can be compared */
};

struct compare_files {
	FILE *a, *b; /* borrowed */
	const struct tolerance *tolerance;
	struct str detail; /* owned */
};

/* compare_table.c: cell by cell; quotes as in CSV where the separator is a comma. */
enum compared compare_tables(struct compare_files *f, char separator);
/* compare_json.c: key by key. */
enum compared compare_json(struct compare_files *f);
/* A short quotation, clean for terminals. */
void compare_quote(struct str *to, const char *text);

struct compare_side {
	int dir_fd; /* borrowed; the run directory */
	const char *id;
};

/* {"same":N,"near":N,"differences":[{"path","what","detail"}]}: what is "only in A", "only in B", "differs", "near". 0 unless a manifest
 * or an output could not be read. */
int compare_outputs(const struct compare_side *a, const struct compare_side *b,
		    const struct tolerance *tolerance, json_t **ret, struct err *err);
/* Nothing differs. */
bool compare_is_equal(const json_t *comparison);
void compare_print(const json_t *comparison, const char *a, const char *b);
