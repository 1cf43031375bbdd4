/* The record of a pipeline whose files are not what cupel wrote: the first byte says which one the others are put into. Whatever they are,
 * the page has no markup but ours, the crate is JSON, and so is what `cupel show` prints. */
#include "fuzz.h"
#include "fuzz_page.h"

#include <sys/stat.h>

#include "view/crate_pipeline.h"
#include "view/pipeline_view.h"
#include "view/report_pipeline.h"

static const struct {
	const char *name, *text;
} files[] = {
	{ "pipelines/p/pipeline.json",
	  "{\"id\":\"p\",\"name\":\"n\",\"file\":\"/a.yaml\",\"file_sha256\":\"00\",\"parameters\":{\"q\":1},\"labels\":{\"a\":\"b\"},"
	  "\"created\":\"2026-01-01T00:00:00.000Z\",\"steps\":[{\"name\":\"a\",\"needs\":[],\"scatter\":null,\"shards\":1},"
	  "{\"name\":\"b\",\"needs\":[\"a\"],\"scatter\":[\"s\"],\"shards\":2},{\"name\":\"c\",\"needs\":[\"a\",\"b\"]}]}" },
	{ "pipelines/p/steps.jsonl",
	  "{\"time\":\"2026-01-01T00:00:00.000Z\",\"step\":\"a\",\"event\":\"started\",\"run\":\"r\",\"key\":\"00\",\"parts\":{\"x\":\"00\"},\"why\":\"w\"}\n"
	  "{\"time\":\"2026-01-01T00:00:02.000Z\",\"step\":\"a\",\"event\":\"ended\",\"run\":\"r\",\"cause\":\"ok\",\"wall_ms\":9}\n"
	  "{\"time\":\"2026-01-01T00:00:03.000Z\",\"step\":\"b\",\"shard\":\"1\",\"event\":\"reused\",\"run\":\"r\"}\n" },
	{ "pipelines/p/result.json",
	  "{\"id\":\"p\",\"state\":\"failed\",\"started\":\"2026-01-01T00:00:00.000Z\",\"ended\":\"2026-01-01T00:00:04.000Z\",\"steps\":["
	  "{\"step\":\"a\",\"state\":\"ok\",\"run\":\"r\",\"attempts\":[\"r\"],\"cause\":\"ok\"},"
	  "{\"step\":\"b\",\"shard\":\"2\",\"state\":\"failed\",\"run\":\"r\",\"attempts\":[\"q\",\"r\"],\"cause\":\"oom\"}]}" },
	{ "runs/r/analysis.json",
	  "{\"limits\":{\"memory\":{\"raw\":1024}},\"inputs\":[{\"path\":\"/a\",\"name\":\"a\"}],\"parameters\":{\"q\":[1]},"
	  "\"key\":{\"sha256\":\"00\",\"parts\":{\"x\":\"00\"}},\"outputs\":[{\"path\":\"*\"}]}" },
	{ "runs/r/verdict.json",
	  "{\"cause\":\"ok\",\"ended\":\"2026-01-01T00:00:01.000Z\",\"completion_notes\":\"n\"}" },
	{ "runs/r/outputs.json",
	  "{\"files\":[{\"path\":\"x.png\",\"size\":1,\"sha256\":\"00\",\"media_type\":\"image/png\"}]}" },
	{ "runs/r/events.jsonl",
	  "{\"n\":1,\"time\":\"2026-01-01T00:00:00.000Z\",\"event\":\"accepted\"}\n" },
	{ "runs/r/stderr.log", "hello\n" },
	{ "runs/r/outputs/x.png", "x" },
};
#define N_FILES (sizeof files / sizeof *files)

static void make_home(void)
{
	static const char *const dirs[] = { "runs", "runs/r", "runs/r/outputs", "pipelines",
					    "pipelines/p" };
	static bool is_made;
	for (size_t i = 0; !is_made && i < sizeof dirs / sizeof *dirs; i++) {
		CLEANUP_FREE char *path = xasprintf("%s/%s", fuzz_folder(), dirs[i]);
		CHECK(mkdir(path, 0700) == 0);
	}
	is_made = true;
}

static void write_files(const uint8_t *data, size_t size)
{
	static bool is_plain[N_FILES];
	size_t chosen = size ? data[0] % N_FILES : 0;
	for (size_t i = 0; i < N_FILES; i++) {
		CLEANUP_FREE char *path = xasprintf("%s/%s", fuzz_folder(), files[i].name);
		if (size && i == chosen)
			fuzz_write(path, data + 1, size - 1);
		else if (!is_plain[i])
			fuzz_write(path, (const uint8_t *)files[i].text, strlen(files[i].text));
		is_plain[i] = !size || i != chosen;
	}
}

static void check_json(const json_t *value)
{
	CLEANUP_FREE char *text = json_dumps(value, 0);
	CLEANUP_JSON json_t *again = json_loads(text ? text : "", JSON_REJECT_DUPLICATES, NULL);
	CHECK(again && json_equal(value, again));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char home[256];
	struct err err = { 0 };
	CLEANUP_PIPELINE_DOSSIER struct pipeline_dossier d = PIPELINE_DOSSIER_INIT;
	CLEANUP_STR struct str page = { 0 };
	CLEANUP_CRATE_FILES struct crate_files found = { 0 };
	CLEANUP_JSON json_t *crate = NULL;
	make_home();
	write_files(data, size);
	(void)snprintf(home, sizeof home, "%s", fuzz_folder());
	struct config config = { .home = home };
	if (!fuzz_accepted(pipeline_dossier_read(&config, "p", &d, &err), &err))
		return 0;
	CLEANUP_JSON json_t *shown = pipeline_json(&config, &d);
	check_json(shown);
	report_pipeline(&config, &d, NULL, &page);
	fuzz_check_page(&page);
	if (crate_pipeline(&config, &d, CRATE_WITH_INPUTS, &found, &crate, &err) >= 0)
		check_json(crate);
	return 0;
}
