/* The file of an analysis: capped, found, and read as a whole. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/fs.h"
#include "base/path.h"
#include "spec/analysis.h"
#include "spec/yaml.h"

/* Relative paths in the file are relative to the file's directory, wherever cupel was called. */
char *analysis_base(const char *path)
{
	CLEANUP_FREE char *cwd = path[0] == '/' ? xstrdup("/") : path_cwd();
	CLEANUP_FREE char *full = cwd ? path_normal(cwd, path) : NULL;

	return full ? path_parent(full) : NULL;
}

int analysis_parse(const char *path, const char *text, size_t length, struct analysis *ret,
		   struct err *err)
{
	CLEANUP_DOCUMENT struct document *d = NULL;
	CLEANUP_FREE char *base = analysis_base(path);

	if (!base)
		return err_caller(err, "%s: not a usable path of a file", path);
	int r = document_parse(path, text, length, &d, err);
	if (r >= 0 && map_get(document_root(d), "steps"))
		return node_error(d, map_get(document_root(d), "steps"), err,
				  "this is a pipeline: it has steps, and is no analysis by itself");
	return r < 0 ? r : analysis_read_map(d, document_root(d), base, ANALYSIS_WHOLE, ret, err);
}

int analysis_text(const char *path, char **ret_text, size_t *ret_length, struct err *err)
{
	/* a link to an analysis is as good as the file; only the reader itself follows none */
	CLEANUP_FREE char *real = path_real(path);

	if (!real)
		return err_set(err, ERR_CALLER, errno, "%s: %s; name an analysis file", path,
			       strerror(errno));
	int r = fs_read_capped(AT_FDCWD, real, ANALYSIS_FILE_MAX, ret_text, ret_length, err);
	if (r == -EFBIG)
		return err_set(err, ERR_CALLER, EFBIG,
			       "%s: larger than %d bytes, which no analysis file is", path,
			       ANALYSIS_FILE_MAX);
	if (r < 0 && err)
		err->kind = ERR_CALLER;
	return r;
}

int analysis_read(const char *path, struct analysis *ret, struct err *err)
{
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;
	int r = analysis_text(path, &text, &length, err);
	return r < 0 ? r : analysis_parse(path, text, length, ret, err);
}
