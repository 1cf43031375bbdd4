/* Lists of packages, as said on the command line or in a file. */
#include <fcntl.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/path.h"
#include "run/create_parts.h"

#define FILE_BYTES_MAX (1 << 20)
#define PACKAGES_MAX   10000

static int add(struct strv *list, const char *where, const char *word, size_t length,
	       struct err *err)
{
	CLEANUP_FREE char *name = xstrndup(word, length);
	/* What begins with a dash would be an option of the tool. */
	if (name[0] == '-' || !path_name_ok(name))
		return err_caller(err, "%s: '%s' is not a package's name", where, name);
	if (list->n >= PACKAGES_MAX)
		return err_caller(err, "%s: more than %d packages", where, PACKAGES_MAX);
	if (!strv_has(list, name))
		strv_add(list, name);
	return 0;
}

static int add_all(struct strv *list, const char *where, const char *text, struct err *err)
{
	static const char between[] = ", \t\r\n";
	while (*(text += strspn(text, between))) {
		size_t length = *text == '#' ? 0 : strcspn(text, between);
		int r = length ? add(list, where, text, length, err) : 0;
		if (r < 0)
			return r;
		text += length ? length : strcspn(text, "\n");
	}
	return 0;
}

int create_add_packages(struct create_request *q, const char *list, struct err *err)
{
	return add_all(&q->packages, "--packages", list, err);
}

int create_read_packages(struct create_request *q, const char *file, struct err *err)
{
	CLEANUP_FREE char *text = NULL;
	int r = fs_read_capped(AT_FDCWD, file, FILE_BYTES_MAX, &text, NULL, err);
	return r < 0 ? r : add_all(&q->packages, file, text, err);
}
