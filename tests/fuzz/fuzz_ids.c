/* Run ids and group names, against a second reading of their rule. */
#include "fuzz.h"

#include "base/path.h"
#include "spec/id.h"

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

static bool id_is_good(const char *id, size_t max)
{
	size_t length = strlen(id);

	return length >= 1 && length <= max && strspn(id, LETTERS "._-") == length &&
	       strspn(id, LETTERS) > 0 && !strstr(id, "..");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP_FREE char *id = fuzz_text(data, size);
	struct err err = { 0 }, group_err = { 0 };

	bool accepted = fuzz_accepted(id_check(id, &err), &err);
	CHECK(accepted == id_is_good(id, ID_MAX));
	bool group = fuzz_accepted(id_check_group(id, &group_err), &group_err);
	CHECK(group == id_is_good(id, ID_GROUP_MAX));
	CHECK(group || !accepted);
	CHECK(!group || path_name_ok(id));
	CHECK((id_check(id, NULL) >= 0) == accepted);
	return 0;
}
