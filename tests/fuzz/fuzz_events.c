/* events.jsonl as a crash left it: whoever takes the run over keeps every byte, and its own event
 * is a line by itself that goes on with number and chain. Twice, since the one who recovers may
 * die too. */
#include "fuzz.h"

#include <sys/stat.h>

#include "keeper/record.h"

#define FILE_MAX (1 << 20)

static const char *home_get(void)
{
	static char home[256], run[300];

	if (home[0])
		return home;
	(void)snprintf(home, sizeof(home), "%s/home", fuzz_folder());
	(void)snprintf(run, sizeof(run), "%s/runs/r", home);
	CHECK(record_home(home, NULL) >= 0 && mkdir(run, 0700) == 0);
	return home;
}

/* The last line, and the one before it; both end in a newline, which is not counted. */
static void check_last(const char *text, size_t length, size_t n_lines)
{
	CLEANUP_JSON json_t *event = NULL;
	char chain[HASH_HEX] = "0000000000000000000000000000000000000000000000000000000000000000";
	CHECK(length > 0 && text[length - 1] == '\n');
	const char *newline = memrchr(text, '\n', length - 1);
	const char *last = newline ? newline + 1 : text;

	event = json_loadb(last, (size_t)(text + length - last), JSON_REJECT_DUPLICATES, NULL);
	CHECK(json_is_object(event));
	if (newline) {
		const char *before = memrchr(text, '\n', (size_t)(newline - text));
		before = before ? before + 1 : text;
		hash_bytes(before, (size_t)(newline - before), chain);
	}
	CHECK(str_eq(json_string_value(json_object_get(event, "prev")), chain));
	CHECK((size_t)json_integer_value(json_object_get(event, "n")) == n_lines);
}

static size_t count_lines(const char *text, size_t length)
{
	size_t n = 0;

	for (size_t i = 0; i < length; i++)
		n += text[i] == '\n';
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *home = home_get();
	CLEANUP_FREE char *path = xasprintf("%s/runs/r/events.jsonl", home);

	fuzz_write(path, data, size);
	for (int turn = 0; turn < 2; turn++) {
		CLEANUP(record_release) struct record r = RECORD_INIT;
		CLEANUP_FREE char *text = NULL;
		size_t length = 0;
		struct err err = { 0 };

		CHECK(fuzz_accepted(record_adopt(home, "r", &r, &err), &err));
		CHECK(fuzz_accepted(record_event(&r, "lost", NULL, &err), &err));
		CHECK(fs_read_capped(AT_FDCWD, path, FILE_MAX, &text, &length, NULL) >= 0);
		CHECK(length > size && memcmp(text, data, size) == 0);
		check_last(text, length, count_lines(text, length));
	}
	return 0;
}
