/* The record of a run whose files are not what cupel wrote: the first byte says which one the others are put into. Whatever they are, the
 * page has no markup but ours, the crate is JSON, and an audit ends; and if a file differs, it says so. */
#include "fuzz.h"
#include "fuzz_page.h"

#include <sys/stat.h>

#include "health/audit.h"
#include "view/crate.h"
#include "view/report.h"

static const struct {
	const char *name, *text;
} files[] = {
	{ "verdict.json",
	  "{\"cause\":\"ok\",\"ended\":\"2026-01-01T00:00:01.000Z\",\"usage\":{\"wall_usec\":1000000}}" },
	{ "analysis.json",
	  "{\"name\":\"n\",\"limits\":{\"memory\":{\"raw\":1024}},\"inputs\":[{\"path\":\"/a\",\"name\":\"a\"}]}" },
	{ "plan.json", "{\"argv\":[\"a\"],\"env\":[\"A=b\"]}" },
	{ "outputs.json",
	  "{\"files\":[{\"path\":\"x.csv\",\"size\":1,\"sha256\":\"00\",\"media_type\":\"text/csv\"},"
	  "{\"path\":\"x.json\",\"size\":1,\"sha256\":\"00\",\"media_type\":\"application/json\"},"
	  "{\"path\":\"x.png\",\"size\":1,\"sha256\":\"00\",\"media_type\":\"image/png\"}]}" },
	{ "events.jsonl",
	  "{\"n\":1,\"time\":\"2026-01-01T00:00:00.000Z\",\"event\":\"accepted\"}\n" },
	{ "usage.jsonl",
	  "{\"t_ms\":20,\"mem\":1,\"cpu_usec\":1}\n{\"t_ms\":90,\"mem\":9,\"cpu_usec\":70000}\n" },
	{ "stdout.log", "hello\n" },
	{ "outputs/x.csv", "a,b\n1,2\n" },
	{ "outputs/x.json", "{}" },
	{ "outputs/x.png", "" },
};
#define N_FILES (sizeof files / sizeof *files)

static const char *run_dir(void)
{
	static char path[300];
	if (path[0])
		return path;
	CLEANUP_FREE char *runs = xasprintf("%s/runs", fuzz_folder());
	(void)snprintf(path, sizeof path, "%s/r", runs);
	CLEANUP_FREE char *outputs = xasprintf("%s/outputs", path);
	CHECK(mkdir(runs, 0700) == 0 && mkdir(path, 0700) == 0 && mkdir(outputs, 0700) == 0);
	return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool is_plain[N_FILES];
	char home[256];
	const char *dir = run_dir();
	size_t chosen = size ? data[0] % N_FILES : 0;
	struct err err = { 0 };
	for (size_t i = 0; i < N_FILES;
	     i++) { /* what the last input changed, and what this one does */
		CLEANUP_FREE char *path = xasprintf("%s/%s", dir, files[i].name);
		if (size && i == chosen)
			fuzz_write(path, data + 1, size - 1);
		else if (!is_plain[i])
			fuzz_write(path, (const uint8_t *)files[i].text, strlen(files[i].text));
		is_plain[i] = !size || i != chosen;
	}
	(void)snprintf(home, sizeof home, "%s", fuzz_folder());
	struct config config = { .home = home };
	CLEANUP_AUDIT_REPORT struct audit_report report = { 0 };
	CHECK(audit_verify(&config, "r", AUDIT_OUTPUTS, &report, &err) >= 0);
	CHECK(report.runs == 1 && report.broken == 1); /* nothing here is chained */

	CLEANUP_DOSSIER struct dossier d = DOSSIER_INIT;
	if (!fuzz_accepted(dossier_read(&config, "r", &d, &err), &err))
		return 0;
	CLEANUP_STR struct str page = { 0 };
	report_html(&d, NULL, &page);
	fuzz_check_page(&page);
	CLEANUP_CRATE_FILES struct crate_files found = { 0 };
	CHECK(crate_gather(&d, CRATE_WITH_INPUTS, &found, &err) >= 0);
	CLEANUP_JSON json_t *crate = crate_json(&d, &found);
	CLEANUP_FREE char *text = json_dumps(crate, 0);
	CLEANUP_JSON json_t *again = json_loads(text ? text : "", JSON_REJECT_DUPLICATES, NULL);
	CHECK(again && json_equal(crate, again));
	return 0;
}
