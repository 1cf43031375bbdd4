/* Texts of a fingerprint: arenas, names made safe for a line, capped reads by descriptor. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/fingerprint_parts.h"

#define BLOCK_SIZE (256 * 1024)

struct arena_block {
	struct arena_block *next; /* owned */
	size_t used, room;
	char bytes[];
};

void arena_release(struct arena *a)
{
	while (a->blocks) {
		struct arena_block *next = a->blocks->next;
		free(a->blocks);
		a->blocks = next;
	}
}

static char *arena_take(struct arena *a, size_t size)
{
	struct arena_block *b = a->blocks;

	if (!b || b->room - b->used < size) {
		size_t room = size > BLOCK_SIZE ? size : BLOCK_SIZE;
		b = xmalloc(sizeof(*b) + room);
		*b = (struct arena_block){ .next = a->blocks, .room = room };
		a->blocks = b;
	}
	b->used += size;
	return b->bytes + b->used - size;
}

char *arena_bytes(struct arena *a, const char *bytes, size_t length)
{
	char *text = arena_take(a, length + 1);

	memcpy(text, bytes, length);
	text[length] = '\0';
	return text;
}

char *arena_text(struct arena *a, const char *directory, const char *name)
{
	size_t above = strlen(directory), length = strlen(name);
	if (above == 0)
		return arena_bytes(a, name, length);

	char *text = arena_take(a, above + 1 + length + 1);
	char *end = mempcpy(text, directory, above);
	*end++ = '/';
	end = mempcpy(end, name, length);
	*end = '\0';
	return text;
}

void arena_join(struct arena *a, struct arena *from)
{
	struct arena_block **end = &a->blocks;

	while (*end)
		end = &(*end)->next;
	*end = take_ptr(from->blocks);
}

/* C0, DEL and C1: what a terminal would act on. */
static bool is_control(const char *text, size_t length)
{
	unsigned char first = (unsigned char)text[0];

	return first < 0x20 || first == 0x7f ||
	       (length == 2 && first == 0xc2 && (unsigned char)text[1] < 0xa0);
}

void text_escape(struct str *out, const char *text)
{
	for (size_t left = strlen(text); left > 0;) {
		size_t n = str_utf8_length(text, left);
		bool plain = n > 0 && !is_control(text, n) && *text != '\\';

		if (n == 0)
			n = 1;
		if (plain)
			str_add_n(out, text, n);
		else if (*text == '\n' || *text == '\t' || *text == '\\')
			str_add(out, *text == '\n' ? "\\n" : *text == '\t' ? "\\t" : "\\\\");
		else
			for (size_t i = 0; i < n; i++)
				str_addf(out, "\\x%02x", (unsigned char)text[i]);
		text += n;
		left -= n;
	}
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool text_unescape(char *text)
{
	char *out = text;

	for (const char *in = text; *in;) {
		if (*in != '\\') {
			*out++ = *in++;
			continue;
		}
		char c = in[1];
		if (c == '\\' || c == 'n' || c == 't') {
			*out++ = (char)(c == 'n' ? '\n' : c == 't' ? '\t' : '\\');
			in += 2;
			continue;
		}
		int high = c == 'x' ? hex_digit(in[2]) : -1, low = high < 0 ? -1 : hex_digit(in[3]);
		if (low < 0 || (high == 0 && low == 0))
			return false;
		*out++ = (char)(high << 4 | low);
		in += 4;
	}
	*out = '\0';
	return true;
}

int text_read(int fd, size_t max, char **ret, size_t *ret_length)
{
	struct stat st = { 0 };

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if ((uint64_t)st.st_size > max)
		return -EFBIG;
	/* Beyond the size that it says it has nothing is read: what grows meanwhile is seen as it was. */
	size_t room = (size_t)st.st_size, length = 0;
	CLEANUP_FREE char *text = xmalloc(room + 1);
	while (length < room) {
		ssize_t n = read(fd, text + length, room - length);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		length += (size_t)n;
	}
	text[length] = '\0';
	*ret = take_ptr(text);
	if (ret_length)
		*ret_length = length;
	return 0;
}

int text_json(const char *file, const char *text, size_t length, json_t **ret, struct err *err)
{
	json_error_t where = { 0 };
	CLEANUP_JSON json_t *value = json_loadb(text, length, JSON_REJECT_DUPLICATES, &where);

	if (!value)
		return err_caller(err, "%s:%d:%d: %s", file, where.line, where.column, where.text);
	if (!json_is_object(value))
		return err_caller(err, "%s: not a JSON object", file);
	*ret = take_ptr(value);
	return 0;
}
