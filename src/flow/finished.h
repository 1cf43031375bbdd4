/* What is finished: the result of an analysis by its key, from the record of the run that made it (collect/keyed.h has the files). A result is
 * reused only by those who may see that run (spec/viewer.h): config.submitter says for whom this process acts. */
#pragma once

#include "base/err.h"
#include "spec/config.h"
#include "spec/contents.h"
#include "spec/id.h"

struct finished_output {
	char *path; /* owned; below HOME/runs/ID/outputs, bytes as they are */
	uint64_t size;
	char sha256[HASH_HEX];
	char *media_type; /* owned or NULL */
};

struct finished {
	char run[ID_MAX + 1];
	char time[40];                   /* when it was put */
	struct finished_output *outputs; /* owned; sorted by path */
	size_t n_outputs;
};
void finished_release(struct finished *f);
#define CLEANUP_FINISHED CLEANUP(finished_release)

/* From now on the run's outputs are the result of that key. -EINVAL, with the reason: its verdict is not ok, it has another key, it
 * was shown something else than what the key was made from, or its runtime has become another one since. */
int finished_put(const struct config *c, const char *key, const char *run_id, struct err *err);

struct finished_reader {
	const struct config *config;     /* borrowed */
	int home_fd, keys_fd;            /* owned */
	struct contents_reader contents; /* owned */
};
#define FINISHED_READER_INIT                                                                       \
	{                                                                                          \
		.home_fd = -1, .keys_fd = -1, .contents = {.cache_fd = -1 }                        \
	}
/* A home that is not there has nothing. */
void finished_reader_open(const struct config *c, struct finished_reader *ret);
void finished_reader_close(struct finished_reader *r);
#define CLEANUP_FINISHED_READER CLEANUP(finished_reader_close)

/* 1: there is one, and its run has exactly those outputs, byte for byte (their digests are known by their stat tuples, or they are read).
 * 0: there is none; if there was an entry, `ret_why` ("" otherwise) says what became of it, and it is dropped. Negative errno: can't say. */
int finished_find(struct finished_reader *r, const char *key, struct finished *ret, char *ret_why,
		  size_t room, struct err *err);
