/* keyed-run ANALYSIS [FILE]: an analysis by its key, as a pipeline does it: found, or run and put. Between the key and the run FILE, if
 * said, is written over. One line of JSON. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/fs.h"
#include "flow/finished.h"
#include "flow/key.h"
#include "run/run.h"

static int fail(const struct err *err)
{
	(void)fprintf(stderr, "keyed-run: %s\n", err->text);
	return 1;
}

static int run(const struct config *c, struct analysis *a, json_t *said, struct err *err)
{
	CLEANUP_RESOLVED struct resolved resolved = { 0 };
	struct err why = { 0 };
	int status = -1;
	int r = run_resolve(c, a, &resolved, err);
	if (r < 0)
		return r;
	const struct run_request q = {
		.config = c, .analysis = a, .resolved = &resolved, .is_silent = true
	};
	r = run_local(&q, &status, err);
	if (r < 0)
		return r;
	int put = finished_put(c, a->key.sha256, resolved.id, &why);
	json_object_set_new(said, "run", json_string(resolved.id));
	json_object_set_new(said, "status", json_integer(status));
	json_object_set_new(said, "put", json_string(put < 0 ? why.text : "ok"));
	return 0;
}

static int write_over(const char *path, struct err *err)
{
	CLEANUP_FD int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	if (fd < 0 || fs_write_all(fd, "true > out/sorted\n", 18) < 0)
		return err_errno(err, "write %s", path);
	return 0;
}

static int make(const struct config *c, const char *file, struct analysis *a, struct err *err)
{
	CLEANUP_KEY_MAKER struct key_maker *m = NULL;
	int r = analysis_read(file, a, err);
	if (r >= 0)
		r = analysis_check(a, err);
	if (r >= 0)
		r = key_maker_new(c, NULL, &m, err);
	return r < 0 ? r : key_make(m, a, err);
}

int main(int argc, char **argv)
{
	CLEANUP_CONFIG struct config c = { 0 };
	CLEANUP_ANALYSIS struct analysis a = { 0 };
	CLEANUP_FINISHED_READER struct finished_reader reader = FINISHED_READER_INIT;
	CLEANUP_FINISHED struct finished found = { 0 };
	CLEANUP_JSON json_t *said = json_object();
	struct err err = { 0 };
	char why[200] = "";
	int r = argc < 2 ? err_caller(&err, "usage: keyed-run ANALYSIS [FILE]")
			 : config_read(&(struct config_where){ 0 }, &c, &err);
	if (r >= 0)
		r = run_prepare(&c, &err);
	if (r >= 0)
		r = make(&c, argv[1], &a, &err);
	if (r >= 0 && argc > 2)
		r = write_over(argv[2], &err);
	if (r < 0)
		return fail(&err);
	finished_reader_open(&c, &reader);
	int hit = finished_find(&reader, a.key.sha256, &found, why, sizeof why, &err);
	if (hit == 1)
		json_object_set_new(said, "run", json_string(found.run));
	if (hit < 0 || (hit == 0 && run(&c, &a, said, &err) < 0))
		return fail(&err);
	json_object_set_new(said, "reused", json_boolean(hit));
	json_object_set_new(said, "why", json_text(why));
	json_object_set_new(said, "key", json_string(a.key.sha256));
	json_t *parts = json_object();
	for (size_t i = 0; i < a.key.parts.n; i++)
		json_object_set_new(parts, a.key.parts.v[i].key,
				    json_string(a.key.parts.v[i].value));
	json_object_set_new(said, "parts", parts);
	json_print(said);
	return 0;
}
