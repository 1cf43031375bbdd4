/* Run ids. A generated one is Crockford's base 32 in lower case: time first, then chance. */
#include "spec/id.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/path.h"
#include "base/str.h"
#include "spec/show.h"

#define EPOCH_2020_MS 1577836800000ULL
#define TIME_DIGITS   9
#define CHANCE_DIGITS 4

static bool id_char_ok(char c)
{
	/* not isalnum(): what it accepts depends on the locale */
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
	       c == '.' || c == '_' || c == '-';
}

#define RUN_ID "run id"

static int check(const char *what, const char *id, size_t max, struct err *err)
{
	char shown[SHOW_ROOM];
	size_t length = strlen(id);

	if (length == 0)
		return err_caller(
			err, "the %s is empty; give 1 to %d of A-Z a-z 0-9 . _ -%s", what, ID_MAX,
			str_eq(what, RUN_ID) ? ", or leave it out to have one generated" : "");
	if (length > max)
		return err_caller(err, "the %s '%s' has %zu characters; at most %zu are allowed",
				  what, show_text(id, shown), length, max);
	for (size_t i = 0; i < length; i++) {
		if (!id_char_ok(id[i]))
			return err_caller(err,
					  "the %s '%s' has a character that is not allowed at "
					  "position %zu; use only A-Z a-z 0-9 . _ -",
					  what, show_text(id, shown), i + 1);
	}
	if (strchr("._-", id[0]))
		return err_caller(err, "the %s '%s' must begin with a letter or a digit", what,
				  show_text(id, shown));
	if (strstr(id, ".."))
		return err_caller(err, "the %s '%s' must not contain '..'; use a single dot", what,
				  show_text(id, shown));
	return 0;
}

int id_check(const char *id, struct err *err)
{
	return check(RUN_ID, id, ID_MAX, err);
}

int id_check_runtime(const char *name, struct err *err)
{
	return check("runtime's name", name, ID_MAX, err);
}

int id_check_group(const char *name, struct err *err)
{
	return check(RUN_ID, name, ID_GROUP_MAX, err);
}

static void write_base32(uint64_t value, char *digits, int count)
{
	static const char alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";

	for (int i = count - 1; i >= 0; i--) {
		digits[i] = alphabet[value & 31];
		value >>= 5;
	}
}

void id_generate(char ret[ID_MAX + 1])
{
	uint64_t now_ms = clock_real_ns() / NS_PER_MS;
	uint32_t chance = 0;
	ssize_t got = -1;

	do
		got = getrandom(&chance, sizeof(chance), 0);
	while (got < 0 && errno == EINTR);
	/* A request this small is never cut short, and every kernel with pidfds has the call. */
	assert(got == (ssize_t)sizeof(chance));

	write_base32(now_ms > EPOCH_2020_MS ? now_ms - EPOCH_2020_MS : 0, ret, TIME_DIGITS);
	write_base32(chance, ret + TIME_DIGITS, CHANCE_DIGITS);
	ret[TIME_DIGITS + CHANCE_DIGITS] = '\0';
}

int id_list(const char *home, const char *directory, struct strv *ret, struct err *err)
{
	CLEANUP_FREE char *path = path_join(home, directory);
	CLEANUP_DIR DIR *dir = opendir(path);
	if (!dir)
		return errno == ENOENT ? 0 : err_errno(err, "open %s", path);
	for (struct dirent *entry; (entry = readdir(dir));)
		if (id_check(entry->d_name, NULL) >= 0)
			strv_add(ret, entry->d_name);
	strv_sort(ret);
	return 0;
}

int id_no_run(const char *home, const char *id, struct err *err)
{
	CLEANUP_FREE char *pipeline = xasprintf("%s/pipelines/%s", home, id);
	if (id_check(id, NULL) >= 0 && access(pipeline, F_OK) == 0)
		return err_set(
			err, ERR_CALLER, ENOENT,
			"'%s' is a pipeline; name the run of one of its steps, which `cupel show %s` lists",
			id, id);
	return err_set(err, ERR_CALLER, ENOENT,
		       "there is no run '%s' in %s/runs; `cupel list` shows them", id, home);
}
