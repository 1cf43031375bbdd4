#include "view/create_view.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/num.h"
#include "base/terminal.h"
#include "view/status.h"

void create_line_tell(void *data, const char *phase, const char *line)
{
	struct create_line *l = data;
	if (!l->shown)
		return;
	CLEANUP_FREE char *words = xasprintf("cupel: %s%s%s", phase, *line ? ": " : " ...", line);
	str_clean(words);
	status_show(words);
	l->on_screen = true;
}

void create_line_clear(struct create_line *l)
{
	if (l->on_screen)
		terminal_control(stderr, "\r\033[K");
	l->on_screen = false;
}

static void print_value(json_t *owned)
{
	CLEANUP_JSON json_t *value = owned;
	json_print(value);
}

static uint64_t count_of(const json_t *notes, const char *key)
{
	const json_t *left_out = json_object_get(notes, "left_out");
	return (uint64_t)json_integer_value(json_object_get(left_out, key));
}

/* What a shell can be given as it is. An entry that was put elsewhere has to be copied to where names are looked up. */
static char *next_command(const struct create_request *q, const struct create_result *r)
{
	if (!r->own)
		return xasprintf("cupel runtime check %s", q->name);
	CLEANUP_FREE char *from = str_shell(r->entry);
	CLEANUP_FREE char *to = str_shell(r->own);
	return xasprintf("install -D -m 644 %s %s && cupel runtime check %s", from, to, q->name);
}

void create_print(const struct create_request *q, const struct create_result *r)
{
	uint64_t devices = count_of(r->notes, "devices"), names = count_of(r->notes, "odd_names"),
		 bits = count_of(r->notes, "set_id_bits");
	printf("runtime %s (%s) is made\n  place  %s\n  entry  %s\n  log    %s\n", q->name,
	       runtime_kind_names[q->kind], r->place, r->entry, r->log);
	if (devices || names || bits)
		printf("  left out of the image: %llu device nodes and FIFOs, %llu names with control characters, %llu set-id bits\n",
		       (unsigned long long)devices, (unsigned long long)names,
		       (unsigned long long)bits);
	CLEANUP_FREE char *next = next_command(q, r);
	printf("next: %s\n", next);
}

void create_print_json(const struct create_request *q, const struct create_result *r)
{
	CLEANUP_FREE char *text = next_command(q, r);
	json_t *next = r->own ? json_pack("[s,s,o]", "sh", "-c", json_text(text))
			      : json_pack("[s,s,s,s]", "cupel", "runtime", "check", q->name);
	print_value(json_pack("{s:s,s:s,s:o,s:o,s:o,s:O,s:o}", "name", q->name, "kind",
			      runtime_kind_names[q->kind], "place", json_text(r->place), "entry",
			      json_text(r->entry), "log", json_text(r->log), "notes", r->notes,
			      "next", next));
}

/* As a shell would read it. */
static void print_word(const char *word)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=,:+@%";
	if (*word && !word[strspn(word, plain)]) {
		printf(" %s", word);
		return;
	}
	printf(" '");
	for (; *word; word++)
		if (*word == '\'')
			printf("'\\''");
		else
			printf("%c", *word);
	printf("'");
}

static void print_command(const json_t *said)
{
	for (size_t i = 0; i < json_array_size(said); i++) {
		CLEANUP_FREE char *word = str_visible(json_string_value(json_array_get(said, i)));
		print_word(word);
	}
	printf("\n");
}

static void print_lines(const char *text)
{
	while (*text) {
		size_t length = strcspn(text, "\n");
		CLEANUP_FREE char *line = xstrndup(text, length);
		str_clean(line);
		printf("    %s\n", line);
		text += length + (text[length] == '\n');
	}
}

void remove_print(const char *name, enum remove_how how, const struct remove_result *r)
{
	char size[32];
	const char *verb = how == REMOVE_REALLY ? "removed" : "would remove";
	if (r->entry)
		printf("%s %s\n", verb, r->entry);
	if (r->lock)
		printf("%s %s and its manifest\n", verb, r->lock);
	if (r->place)
		printf("%s %s (%llu file%s, %s)\n", verb, r->place, (unsigned long long)r->files,
		       r->files == 1 ? "" : "s", num_print_size(r->bytes, size, sizeof(size)));
	if (r->remaining)
		printf("there is still a runtime %s: %s\n", name, r->remaining);
	if (r->said) {
		printf("to make %s again:", name);
		print_command(r->said);
	} else if (r->entry) {
		printf("the entry was not made by cupel, and what it names stays as it is; it says:\n");
		print_lines(r->entry_text);
	}
}

void remove_print_json(const char *name, enum remove_how how, const struct remove_result *r)
{
	print_value(json_pack("{s:s,s:b,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:O?}", "name", name, "removed",
			      how == REMOVE_REALLY, "entry", json_text(r->entry), "entry_text",
			      json_text(r->entry_text), "lock", json_text(r->lock), "remaining",
			      json_text(r->remaining), "place", json_text(r->place), "files",
			      json_u64(r->files), "bytes", json_u64(r->bytes), "command", r->said));
}
