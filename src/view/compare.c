#include "view/compare.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "collect/fetch.h"
#include "collect/outputs.h"

#define QUOTE_MAX       60
#define DIFFERENCES_MAX 1000 /* that are told one by one */
#define BLOCK           (1 << 16)

struct comparing {
	const struct compare_side *a, *b;
	const struct tolerance *tolerance;
	json_t *differences; /* owned */
	uint64_t same, near, differ;
};

void compare_quote(struct str *to, const char *text)
{
	CLEANUP_FREE char *clean = str_visible(text);
	size_t n = strlen(clean);
	if (n > QUOTE_MAX) {
		n = QUOTE_MAX;
		while (n && ((unsigned char)clean[n] & 0xc0) == 0x80)
			n--;
	}
	str_addf(to, "'%.*s%s'", (int)n, clean, clean[n] ? "..." : "");
}

static void tell(struct comparing *c, const char *path, const char *what, const char *detail)
{
	if (!str_eq(what, "near"))
		c->differ++;
	if (json_array_size(c->differences) >= DIFFERENCES_MAX)
		return;
	json_t *o = json_pack("{s:o,s:s}", "path", json_text(path), "what", what);
	if (detail && *detail)
		json_object_set_new(o, "detail", json_text(detail));
	json_array_append_new(c->differences, o);
}

/* 1: the same, 0: not, with where in the detail. */
static int compare_bytes(struct compare_files *f)
{
	CLEANUP_FREE char *a = xmalloc(BLOCK);
	CLEANUP_FREE char *b = xmalloc(BLOCK);
	uint64_t at = 0, line = 1;
	for (;;) {
		size_t n_a = fread(a, 1, BLOCK, f->a), n_b = fread(b, 1, BLOCK, f->b);
		if (ferror(f->a) || ferror(f->b))
			return -EIO;
		size_t n = n_a < n_b ? n_a : n_b, i = 0;
		for (; i < n && a[i] == b[i]; i++)
			line += a[i] == '\n';
		at += i;
		if (i < n)
			str_addf(&f->detail, "byte %llu, line %llu", (unsigned long long)at + 1,
				 (unsigned long long)line);
		else if (n_a != n_b)
			str_addf(&f->detail, "%s ends after %llu bytes", n_a < n_b ? "A" : "B",
				 (unsigned long long)at);
		else if (n_a < BLOCK)
			return 1;
		else
			continue;
		return 0;
	}
}

static FILE *open_output(const struct compare_side *side, const char *path)
{
	CLEANUP_FREE char *below = xasprintf("outputs/%s", path);
	CLEANUP_FREE char *aside =
		xasprintf("partial/%s", path); /* of a run that did not succeed */
	CLEANUP_FD int fd =
		fs_open_beneath(side->dir_fd, below, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0);
	struct stat st;
	if (fd == -ENOENT)
		fd = fs_open_beneath(side->dir_fd, aside, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return NULL;
	FILE *file = fdopen(fd, "re");
	if (file)
		(void)take_fd(&fd);
	return file;
}

static enum compared compare_by_kind(struct compare_files *f, const char *media_type)
{
	rewind(f->a);
	rewind(f->b);
	if (str_eq(media_type, "text/csv"))
		return compare_tables(f, ',');
	if (str_eq(media_type, "text/tab-separated-values"))
		return compare_tables(f, '\t');
	if (str_eq(media_type, "application/json"))
		return compare_json(f);
	return COMPARED_UNKNOWN;
}

static int compare_one(struct comparing *c, const char *path, const char *media_type,
		       struct err *err)
{
	CLEANUP_FILE FILE *a = open_output(c->a, path);
	CLEANUP_FILE FILE *b = open_output(c->b, path);
	if (!a || !b)
		return err_set(err, ERR_HOST, EIO, "the output '%.200s' of run %s can't be read",
			       path, a ? c->b->id : c->a->id);
	struct compare_files f = { .a = a, .b = b, .tolerance = c->tolerance };
	CLEANUP_STR struct str bytes = { 0 };
	int r = compare_bytes(&f);
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "read the output '%.200s'", path);
	bytes = f.detail;
	f.detail = (struct str){ 0 };
	enum compared kind = r ? COMPARED_SAME : compare_by_kind(&f, media_type);
	if (kind == COMPARED_SAME)
		c->same++;
	else if (kind == COMPARED_NEAR)
		c->near++;
	if (kind == COMPARED_NEAR)
		tell(c, path, "near", str_text(&bytes));
	else if (kind != COMPARED_SAME)
		tell(c, path, "differs", str_text(kind == COMPARED_DIFFERS ? &f.detail : &bytes));
	str_release(&f.detail);
	return 0;
}

static int read_manifest(const struct compare_side *side, json_t **ret, struct err *err)
{
	int r = json_read_file(side->dir_fd, "outputs.json", MANIFEST_MAX, ret, err);
	if (r == -ENOENT)
		return err_set(err, ERR_CALLER, ENOENT, "the run %s has no list of outputs",
			       side->id);
	return r;
}

/* Both lists are sorted by their bytes. */
static int compare_lists(struct comparing *c, const json_t *a, const json_t *b, struct err *err)
{
	size_t i = 0, k = 0;
	int r = 0;
	while (r >= 0 && (i < json_array_size(a) || k < json_array_size(b))) {
		const json_t *of_a = json_array_get(a, i), *of_b = json_array_get(b, k);
		CLEANUP_FREE char *path_a = fetch_path(of_a);
		CLEANUP_FREE char *path_b = fetch_path(of_b);
		if ((of_a && !path_a) || (of_b && !path_b))
			return err_set(err, ERR_HOST, EINVAL,
				       "outputs.json has a file without a path");
		int order = !path_a ? 1 : !path_b ? -1 : strcmp(path_a, path_b);
		const char *type = json_string_value(json_object_get(of_a, "media_type"));
		if (order == 0)
			r = compare_one(c, path_a, type ? type : media_type_guess(path_a), err);
		else if (order < 0)
			tell(c, path_a, "only in A", NULL);
		else
			tell(c, path_b, "only in B", NULL);
		i += order <= 0;
		k += order >= 0;
	}
	return r;
}

int compare_outputs(const struct compare_side *a, const struct compare_side *b,
		    const struct tolerance *tolerance, json_t **ret, struct err *err)
{
	CLEANUP_JSON json_t *list_a = NULL;
	CLEANUP_JSON json_t *list_b = NULL;
	CLEANUP_JSON json_t *differences = json_array();
	struct comparing c = { .a = a, .b = b, .tolerance = tolerance, .differences = differences };
	int r = read_manifest(a, &list_a, err);
	if (r >= 0)
		r = read_manifest(b, &list_b, err);
	if (r >= 0)
		r = compare_lists(&c, json_object_get(list_a, "files"),
				  json_object_get(list_b, "files"), err);
	if (r < 0)
		return r;
	*ret = json_pack("{s:o,s:o,s:o,s:O}", "same", json_u64(c.same), "near", json_u64(c.near),
			 "different", json_u64(c.differ), "differences", differences);
	return 0;
}

bool compare_is_equal(const json_t *comparison)
{
	return json_integer_value(json_object_get(comparison, "different")) == 0;
}

void compare_print(const json_t *comparison, const char *a, const char *b)
{
	size_t i;
	json_t *one;
	printf("outputs of %s (A) and %s (B): %lld the same", a, b,
	       (long long)json_integer_value(json_object_get(comparison, "same")));
	if (json_integer_value(json_object_get(comparison, "near")))
		printf(", %lld within the tolerance",
		       (long long)json_integer_value(json_object_get(comparison, "near")));
	printf(", %lld different\n",
	       (long long)json_integer_value(json_object_get(comparison, "different")));
	json_array_foreach(json_object_get(comparison, "differences"), i, one)
	{
		const char *detail = json_string_value(json_object_get(one, "detail"));
		CLEANUP_FREE char *path =
			str_visible(json_string_value(json_object_get(one, "path")));
		printf("  %s: %s%s%s\n", path, json_string_value(json_object_get(one, "what")),
		       detail ? ": " : "", detail ? detail : "");
	}
	json_int_t all = json_integer_value(json_object_get(comparison, "near")) +
			 json_integer_value(json_object_get(comparison, "different"));
	if (all > (json_int_t)i)
		printf("  and %lld more\n", (long long)all - (long long)i);
}
