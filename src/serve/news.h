/* Every change of a run's state, as it happens: the last of them are kept, so that whoever was away for a moment misses nothing. */
#pragma once

#include "serve/request.h"

struct news;

/* Who wants to hear of one run. Its own to keep where it is until it is taken away. */
struct news_ear {
	const char *id; /* borrowed */
	void (*heard)(void *data);
	void *data;
	struct news_ear *next, **before;
};

/* Borrows all of it. Hears of what the service does, and sees runs that others start. */
int news_open(sd_event *event, const struct config *config, struct service *service,
	      struct news **ret, struct err *err);
void news_free(struct news *n);
/* Answers with what happens from now on, or since the id that the client had last. */
void news_follow(struct request *r);
void news_listen(struct news *n, struct news_ear *ear);
void news_unlisten(struct news_ear *ear);
/* How a run ended that the service told of lately, though it may have no record. */
bool news_cause(const struct news *n, const char *id, char *ret_cause, size_t room);
/* The submitter of a run that the service told of lately, borrowed until the next event, "" if it has none; NULL: it told of none. */
const char *news_submitter(const struct news *n, const char *id);
