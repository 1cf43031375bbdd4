/* Between the files of the engine executor: engine.c (what it can do, and its life), engine_http.c (questions), engine_info.c (what it says of itself), engine_image.c (root file
 * systems), engine_create.c (a container as JSON), engine_stage.c (what is written for it), engine_receipt.c (what it became),
 * engine_poll.c (how it stands). */
#pragma once

#include "base/curl_api.h"
#include "executor/executor.h"

#define ENGINE_DIR "/run/cupel" /* in the container */
#define ENGINE_API 41           /* 1.41: what we speak, unless the engine's least is a later one */

/* Of a job's stage. */
#define STAGE_STATUS  "status"
#define STAGE_GATE    "gate"
#define STAGE_EXPECT  "expect.json"
#define STAGE_RECEIPT "receipt.json"

#define STATUS_MAX 4096 /* of pid 1's notes, which are some twenty lines */

struct import; /* an image that is on its way to the engine */

struct engine {
	struct curl_api curl;
	CURL *easy;
	char prefix[8];  /* of each path: "/v1.41", or "" for none */
	bool is_settled; /* the prefix is what it will be */
	bool is_asked;   /* what follows is known */
	bool is_podman;
	bool is_cgroup2;
	char api[16], version[40];
	struct import *import; /* owned or NULL */
};

/* engine_http.c */
struct question {
	const char *method;
	const char *path;
	const json_t *body; /* NULL: none */
	long wait_ms;       /* 0: as long as usual */
};
struct answer {
	long status;
	json_t *body;    /* owned; NULL: none, or not JSON */
	bool is_podmans; /* by its headers */
	char api[16];    /* version */
	char server[40]; /* its version */
};
void answer_release(struct answer *a);
#define CLEANUP_ANSWER CLEANUP(answer_release)
/* -EAGAIN if nobody answers; -EACCES if we may not ask. Any status is an answer. */
int engine_ask(struct executor *x, const struct question *q, struct answer *ret, struct err *err);
/* From now on in version 1.`minor` of its API. */
void engine_speak(struct engine *e, unsigned minor);
/* The engine's own words as an error: -ENOENT, -EAGAIN for what may be over soon, otherwise `code`. */
int engine_refused(const struct answer *a, const char *what, int code, struct err *err);
void engine_prepare_easy(struct executor *x, CURL *easy, const char *path);
int engine_unreached(struct executor *x, CURL *easy, CURLcode code, struct err *err);

/* engine_info.c: what it says of itself. Podman takes a second for that, and runs other programs: it is asked once in a process as long
 * as it is the same engine. */
struct engine_info {
	bool has_seccomp, limits_memory, limits_cpus, limits_pids;
	bool maps_users; /* gives them other numbers than the host does */
};
int engine_info(struct executor *x, struct engine_info *ret, struct err *err);

/* engine.c: who it is. */
int engine_know(struct executor *x, struct err *err);
int engine_start_container(struct executor *x, const char *id, struct err *err);
/* The container's inspection, owned by the caller; -ENOENT. */
int engine_inspect(struct executor *x, const char *name, json_t **ret, struct err *err);
int engine_cancel(struct executor *x, const json_t *handle, struct err *err);

/* engine_image.c: the name of the image that this job's root is made of; -EAGAIN while it is on its way. */
int engine_image(struct executor *x, const struct job *job, char **ret_name, struct err *err);
void import_free(struct import *i);
/* engine_root.c: what of a plan is an image, beside the tree (-1: none): a tar archive without its end. */
int root_tar(const struct plan *p, int tree_fd, struct str *ret, struct err *err);
/* The engine has these at places of its own. */
bool root_is_engines(const char *path);
#define ROOT_SHARED_TMP "/var/tmp" /* a link to /tmp in a box; engines mount something there */

/* engine_stage.c: what is written for the container below job->stage. */
int engine_stage(const struct executor *x, const struct job *job, struct err *err);
/* Once pid 1 has opened what it writes, and before the analysis starts: nobody else can any more. Only root can do that; for others
 * Landlock alone does it. */
int engine_seal(int stage_fd, struct err *err);
/* The end of what pid 1 noted, as text. -EBADMSG: there is more than it ever writes, or no text; the buffer has its end all the same. */
ssize_t engine_notes(int stage_fd, char *buffer, size_t room);
/* Where the file of the n-th step is. */
char *stage_file(const char *stage, size_t n);
/* A link to the source of the n-th of engine_binds(), where the engine can't be told its name. */
char *stage_link(const char *stage, size_t n);

/* engine_create.c: the body of the request, owned by the caller. */
json_t *engine_create(const struct executor *x, const struct job *job, const char *image);
/* What is shown of the host: [[source, target, writable]...] */
json_t *engine_binds(const struct job *job);
bool engine_needs_link(const struct engine *e, const char *source);

/* engine_receipt.c: what the container is, compared with what was asked for (STAGE_EXPECT). *ret is for the record. */
int engine_receipt(const struct executor *x, const json_t *inspection, const char *stage,
		   json_t **ret, struct err *err);
/* engine_cgroup.c */
struct group_values {
	bool is_known;
	uint64_t mem_max, swap_max, mem_bytes, mem_peak, oom_kills, pids, pids_max, pids_hits,
		cpu_usec;
	uint64_t quota_usec, period_usec; /* 0: none */
};
/* Of the process's group, as the kernel says. */
void group_read(pid_t pid, struct group_values *ret);

/* engine_poll.c */
int engine_poll(struct executor *x, const json_t *handle, struct job_report *ret, struct err *err);

static inline const char *engine_text(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));
	return text ? text : "";
}
