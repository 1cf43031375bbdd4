/* What can be said of a quest beside its name: by `quests` in cupel.yaml, or by POST /v1/quests (serve/quests.h). */
#pragma once

#include "base/err.h"
#include "base/str.h"

#define QUESTS_MAX 1000

enum quest_field {
	QUEST_TITLE,
	QUEST_LAYER,
	QUEST_PRIORITY,
	QUEST_STATUS,
	QUEST_LINK,
	QUEST_FIELD_COUNT_
};
extern const char *const quest_field_names[QUEST_FIELD_COUNT_];

struct quest_settings {
	char *name;         /* owned */
	char *origin;       /* owned; "FILE:LINE:COLUMN" */
	struct pairs about; /* quest_field_names -> text */
};
void quest_settings_release(struct quest_settings *q);

/* A text that a field can have, or an error that says which. */
int quest_field_check(enum quest_field field, const char *text, struct err *err);
int quest_name_check(const char *name, struct err *err);
