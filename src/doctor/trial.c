/* Boxes of the doctor's: runs like any other, in a home of their own, of this very program, several at a time. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/path.h"
#include "box/host.h"
#include "doctor/parts.h"
#include "run/run.h"

#define VERDICT_MAX (1 << 20)
#define SAID_MAX    16384
#define BOXES_MAX   8

void trial_box_release(struct trial_box *t)
{
	strv_release(&t->args);
	cleanup_free(&t->id);
	json_decref(t->verdict);
	json_decref(t->receipt);
	json_decref(t->said);
	t->verdict = t->receipt = t->said = NULL;
}

static void common_limits(struct limits *ret)
{
	static const struct {
		enum limit_id id;
		uint64_t value;
	} common[] = {
		{ LIMIT_MEMORY, 256ULL << 20 },
		{ LIMIT_CPUS, 1000 },
		{ LIMIT_PIDS, 64 },
		{ LIMIT_TIME, 60 * NS_PER_SEC },
		{ LIMIT_DISK, 8ULL << 20 },
		{ LIMIT_INODES, 1000 },
		{ LIMIT_LOG, 65536 },
		{ LIMIT_GRACE, 100 * NS_PER_MS },
	};
	for (size_t i = 0; i < sizeof common / sizeof *common; i++)
		limits_set(ret, common[i].id, common[i].value, "built-in");
}

/* /proc that is not there has words of its own. */
static int find_self(char **ret, struct err *err)
{
	CLEANUP_HOST struct host host = { 0 };
	*ret = path_real("/proc/self/exe");
	if (*ret)
		return 0;
	int r = host_read(&host, err);
	return r < 0 ? r : err_set(err, ERR_HOST, ENOENT, "this program has no name any more");
}

static int make_analysis(const struct trial_box *t, struct analysis *ret, struct err *err)
{
	struct input probe = { .name = xstrdup("probe"), .origin = xstrdup("doctor") };
	int r = find_self(&probe.path, err);
	analysis_add_input(ret, &probe);
	if (r < 0)
		return r;
	strv_add(&ret->command, "data/probe");
	strv_add(&ret->command, "doctor");
	strv_add(&ret->command, DOCTOR_INSIDE);
	strv_add(&ret->command, t->act);
	strv_copy(&ret->command, &t->args);
	ret->id = xstrdup(t->id);
	ret->name = xasprintf("doctor: %s", t->act);
	ret->runtime = xstrdup("base");
	ret->keep = KEEP_NEVER;
	ret->keep_said = true;
	ret->scratch_said = true; /* on the disk: that is what is tried */
	common_limits(&ret->limits);
	limits_merge(&ret->limits, &t->limits);
	if (t->allowed)
		strv_copy(&ret->allow_missing, t->allowed);
	return 0;
}

static int start(const struct config *trials, struct trial_box *t, struct running *ret)
{
	CLEANUP_ANALYSIS struct analysis analysis = { 0 };
	CLEANUP_RESOLVED struct resolved resolved = { 0 };
	char made[ID_MAX + 1];
	id_generate(made);
	t->id = xasprintf("doctor-%s", made);
	int r = make_analysis(t, &analysis, &t->err);
	if (r >= 0)
		r = run_resolve(trials, &analysis, &resolved, &t->err);
	return r < 0 ? r : run_start(trials, &analysis, &resolved, ret, &t->err);
}

/* KEY=NUMBER lines. */
static json_t *parse_said(char *text)
{
	json_t *said = json_object();
	for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
		char *value = strchr(line, '=');
		if (!value || !str_is_utf8(line, strlen(line)))
			continue;
		*value++ = '\0';
		json_object_set_new(said, line, json_integer(strtol(value, NULL, 10)));
	}
	return said;
}

/* "...nothing was started: LAYER,LAYER: WHAT", as the verdict puts it. */
static void take_refusal(struct trial_box *t)
{
	static const char before[] = "nothing was started: ";
	const char *notes = json_string_value(json_object_get(t->verdict, "completion_notes"));
	const char *what = notes ? strstr(notes, before) : NULL;
	if (!what) {
		t->result = err_set(&t->err, ERR_HOST, EIO, "%s", notes ? notes : "no verdict");
		return;
	}
	what += sizeof before - 1;
	const char *colon = strstr(what, ": "), *end = strstr(what, " Or do without,");
	CLEANUP_FREE char *layers = xstrndup(what, colon ? (size_t)(colon - what) : 0);
	CLEANUP_FREE char *text = xstrndup(what, end ? (size_t)(end - what) : strlen(what));
	size_t length = strlen(text);
	if (length && text[length - 1] == '.')
		text[length - 1] = '\0';
	bool is_layer = layers[0];
	CLEANUP_FREE char *words = xstrdup(layers);
	for (char *rest = words, *word; is_layer && (word = strsep(&rest, ","));) {
		bool known = false;
		for (size_t i = 0; i < layer_count; i++)
			known = known || str_eq(word, layer_names[i]);
		is_layer = known;
	}
	t->result = err_set(&t->err, ERR_HOST, EOPNOTSUPP, "%s", text);
	if (is_layer)
		(void)snprintf(t->err.layer, sizeof t->err.layer, "%s", layers);
}

static void take_end(struct trial_box *t, struct running *run)
{
	int status = 0;
	t->result = run_finish(run, &status, &t->err);
	int fd = t->result < 0 ? -1 : run_dir(run);
	if (fd < 0)
		return;
	char *text = NULL;
	size_t length = 0;
	t->result = json_read_file(fd, "verdict.json", VERDICT_MAX, &t->verdict, &t->err);
	(void)json_read_file(fd, "receipt.json", VERDICT_MAX, &t->receipt, NULL);
	if (fs_read_capped(fd, "stdout.log", SAID_MAX, &text, &length, NULL) >= 0)
		t->said = parse_said(text);
	free(text);
	const char *cause = trial_cause(t);
	if (t->result >= 0 && (str_eq(cause, "setup") || str_eq(cause, "runtime-broken")))
		take_refusal(t);
}

static int wait_for_all(struct running *runs, size_t n, struct err *err)
{
	for (;;) {
		struct pollfd fds[BOXES_MAX];
		struct keeper_msg msg;
		size_t going = 0;
		for (size_t i = 0; i < n; i++) {
			fds[i] = (struct pollfd){ .fd = runs[i].ended ? -1 : runs[i].fd,
						  .events = POLLIN };
			going += fds[i].fd >= 0;
		}
		if (going == 0)
			return 0;
		if (poll(fds, n, -1) < 0 && errno != EINTR)
			return err_errno(err, "wait for the keepers");
		for (size_t i = 0; i < n; i++)
			if (fds[i].fd >= 0 && fds[i].revents)
				(void)run_hear(&runs[i], &msg);
	}
}

int trial_run(const struct config *trials, struct trial_box *boxes, size_t n, struct err *err)
{
	struct running runs[BOXES_MAX];
	for (size_t i = 0; i < n; i++) {
		runs[i] = (struct running)RUNNING_INIT;
		boxes[i].err = (struct err){ 0 };
		boxes[i].result = start(trials, &boxes[i], &runs[i]);
	}
	int r = wait_for_all(runs, n, err);
	for (size_t i = 0; i < n; i++) {
		if (r >= 0 && boxes[i].result >= 0)
			take_end(&boxes[i], &runs[i]);
		running_release(&runs[i]);
	}
	return r;
}

uint64_t trial_evidence(const struct trial_box *t, const char *key)
{
	const json_t *value = json_object_get(json_object_get(t->verdict, "evidence"), key);
	if (!value)
		value = json_object_get(json_object_get(t->verdict, "usage"), key);
	return json_is_integer(value) ? (uint64_t)json_integer_value(value) : 0;
}

const char *trial_cause(const struct trial_box *t)
{
	const char *cause = json_string_value(json_object_get(t->verdict, "cause"));
	return cause ? cause : "";
}

long trial_said(const struct trial_box *t, const char *key, long otherwise)
{
	const json_t *value = json_object_get(t->said, key);
	return json_is_integer(value) ? (long)json_integer_value(value) : otherwise;
}
