/* Scripts and notebooks, as selection reads them. The first byte chooses the ending. What is accepted is fit for a record: names
 * without blanks or controls, limits that can be written down, a metadata block whose lines are in the file; what is refused says
 * where. */
#include "fuzz.h"

#include "base/json.h"
#include "base/path.h"
#include "runtime/select_parts.h"

static void check_names(const struct strv *names)
{
	CHECK(names->n <= NEEDS_MAX);
	for (size_t i = 0; i < names->n; i++) {
		fuzz_check_line(names->v[i]);
		CHECK(strlen(names->v[i]) <= NAME_MAX_);
		CHECK(!strpbrk(names->v[i], " /"));
		for (size_t j = 0; j < i; j++)
			CHECK(!str_eq(names->v[i], names->v[j]));
	}
}

static void check_meta(const struct script_meta *m, const char *text, size_t size)
{
	int lines = 1;
	for (size_t i = 0; i < size; i++)
		lines += text[i] == '\n';
	CHECK(m->line >= 0 && m->line <= lines && m->runtime_line <= lines);
	CHECK(!m->runtime == !m->runtime_line);
	CHECK(!m->runtime || path_name_ok(m->runtime));
	if (!m->line)
		CHECK(!m->runtime && !m->requires_python && !m->dependencies.n);
	for (int id = 0; id < LIMIT_COUNT_; id++) {
		char shown[32];
		uint64_t value = m->limits.at[id].value, back = 0;
		if (!value)
			continue;
		CHECK(limit_parse(id, limit_write(id, value, shown, sizeof(shown)), &back, NULL) >=
		      0);
		CHECK(back == value && str_starts(m->limits.at[id].origin, "/d/a."));
	}
}

/* Whatever it says, something is chosen and accounted for. */
static void check_choice(const struct script *s)
{
	char *provides[] = { (char *)"numpy", (char *)"ipykernel", (char *)"samtools", NULL };
	char *argv[] = { (char *)"run", NULL };
	struct interpreter runs = { .extension = (char *)".ipynb", .argv = { argv, 1 } };
	struct runtime entries[] = {
		{ .name = (char *)"base" },
		{ .name = (char *)"full",
		  .interpreters = &runs,
		  .n_interpreters = 1,
		  .provides = { provides, 3 } },
	};
	struct catalog catalog = { .v = entries, .n = 2 };
	struct select_by by = { &catalog, "base", NULL };
	CLEANUP_SELECTION struct selection sel = { 0 };
	struct err err = { 0 };

	if (!fuzz_accepted(select_from(&by, s, &sel, &err), &err)) {
		CHECK(s->meta.runtime);
		return;
	}
	CHECK(str_eq(sel.name, "base") || str_eq(sel.name, "full"));
	CHECK(sel.n_considered == 1);
	fuzz_check_line(sel.why);
	fuzz_check_line(sel.considered[0].why_not);
	CLEANUP_JSON json_t *json = selection_json(&sel);
	CLEANUP_FREE char *text = json_dumps(json, JSON_COMPACT);
	CHECK(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const files[] = { "/d/a.py", "/d/a.R", "/d/a.sh", "/d/a.ipynb", "/d/a" };
	CLEANUP_SCRIPT struct script s = { 0 };
	struct err err = { 0 };

	if (size == 0)
		return 0;
	const char *file = files[data[0] % 5];
	/* Exactly its size and without a NUL behind it, so that a read past its end is seen. */
	CLEANUP_FREE char *text = xmalloc(size - 1);
	memcpy(text, data + 1, size - 1);
	if (!fuzz_accepted(script_read(file, text, size - 1, &(struct strv){ 0 }, &s, &err),
			   &err)) {
		CHECK(str_starts(err.text, file) && err.text[strlen(file)] == ':');
		return 0;
	}
	check_names(&s.needs);
	check_meta(&s.meta, text, size - 1);
	check_choice(&s);
	return 0;
}
