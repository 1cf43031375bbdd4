/* Tar archives written byte by byte, so that a test can say things in them that no tool would. */
#pragma once

#include <stdio.h>
#include <string.h>

#include "base/str.h"

struct tar_entry {
	const char *name;
	char type; /* '0' file, '1' hard link, '2' symbolic link, '3' character device, '5' directory, '6' FIFO */
	const char *text; /* of a file */
	const char *link;
	unsigned mode;             /* 0: 0644 */
	unsigned long long claims; /* the size said, if it is not the text's */
};

static inline void tar_add(struct str *tar, const struct tar_entry *e)
{
	unsigned char head[512] = { 0 };
	size_t length = e->text ? strlen(e->text) : 0;
	unsigned sum = 0;

	(void)snprintf((char *)head, 100, "%s", e->name);
	(void)snprintf((char *)head + 100, 8, "%07o", e->mode ? e->mode & 07777 : 0644);
	(void)snprintf((char *)head + 108, 8, "%07o", 12345);
	(void)snprintf((char *)head + 116, 8, "%07o", 12345);
	(void)snprintf((char *)head + 124, 12, "%011llo", e->claims ? e->claims : length);
	(void)snprintf((char *)head + 136, 12, "%011llo", 1000000000ULL);
	memset(head + 148, ' ', 8);
	head[156] = (unsigned char)e->type;
	if (e->link)
		(void)snprintf((char *)head + 157, 100, "%s", e->link);
	memcpy(head + 257,
	       "ustar\0"
	       "00",
	       8);
	for (size_t i = 0; i < sizeof(head); i++)
		sum += head[i];
	(void)snprintf((char *)head + 148, 8, "%06o", sum);
	str_add_n(tar, head, sizeof(head));
	str_add_n(tar, e->text ? e->text : "", length);
	for (; length % 512; length++)
		str_add_n(tar, "", 1);
}

static inline void tar_end(struct str *tar)
{
	static const char zeros[1024];

	str_add_n(tar, zeros, sizeof(zeros));
}

/* Entries up to one without a name. */
static inline void tar_make(struct str *tar, const struct tar_entry *entries)
{
	for (; entries->name; entries++)
		tar_add(tar, entries);
	tar_end(tar);
}
