/* Reading the chain of runs. Whoever can write the home can write anything here, so every line is taken for hostile. */
#include "ledger/chain.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "base/path.h"
#include "ledger/chain_parts.h"

#define TAIL_BYTES 65536

void chain_begin(struct chain_at *ret)
{
	*ret = (struct chain_at){ 0 };
	memset(ret->sha256, '0', HASH_HEX - 1);
}

static bool is_digest(const char *text)
{
	return text && strlen(text) == HASH_HEX - 1 &&
	       strspn(text, "0123456789abcdef") == HASH_HEX - 1;
}

static int bad(struct err *err, const char *why)
{
	(void)err_set(err, ERR_HOST, EBADMSG, "%s", why);
	return 1;
}

int chain_parse_alone(const char *line, size_t length, struct chain_link *ret)
{
	const char *time = NULL, *event = NULL, *run = NULL, *last = NULL, *prev = NULL;
	json_int_t n = 0;
	CLEANUP_JSON json_t *o = json_loadb(line, length, JSON_REJECT_DUPLICATES, NULL);
	if (!o || json_unpack(o, "{s:I,s:s,s:s,s:s,s:s,s:s !}", "n", &n, "time", &time, "event",
			      &event, "run", &run, "last", &last, "prev", &prev) < 0)
		return -EBADMSG;
	bool is_removal = str_eq(event, "removed");
	if ((!is_removal && !str_eq(event, "run")) || id_check(run, NULL) < 0 || n < 1 ||
	    !is_digest(last) || !is_digest(prev))
		return -EBADMSG;
	struct chain_link link = { .n = (uint64_t)n, .is_removal = is_removal };
	(void)snprintf(link.run, sizeof link.run, "%s", run);
	memcpy(link.last, last, HASH_HEX);
	memcpy(link.prev, prev, HASH_HEX);
	hash_bytes(line, length, link.sha256);
	*ret = link;
	return 0;
}

/* `line` without its newline. 0, or 1 with the reason. */
static int parse(const struct chain_at *at, const char *line, size_t length, struct chain_link *ret,
		 struct err *err)
{
	if (chain_parse_alone(line, length, ret) < 0)
		return bad(err, "the line is no link");
	if (!str_eq(ret->prev, at->sha256))
		return bad(err, "the link does not carry the SHA-256 of the line before it");
	if (ret->n != at->n + 1)
		return bad(err, "the link has another number than its line");
	ret->end = at->offset + (off_t)length + 1;
	return 0;
}

/* 1: a line, with its newline; 0: there is no further one; 2: it is too long or has a NUL. */
static int next_line(FILE *file, char *line, size_t room)
{
	if (!fgets(line, (int)room, file))
		return 0;
	size_t length = strlen(line);
	if (length && line[length - 1] == '\n')
		return 1;
	return length + 1 < room && feof(file) ? 0 : 2;
}

static int read_lines(FILE *file, struct chain_at *at, chain_row row, void *data, struct err *err)
{
	char line[CHAIN_LINE_MAX];
	int got;
	while ((got = next_line(file, line, sizeof line)) == 1) {
		struct chain_link link;
		int r = parse(at, line, strlen(line) - 1, &link, err);
		if (r == 0 && row)
			r = row(data, &link, err);
		if (r)
			return r;
		at->n = link.n;
		at->offset = link.end;
		memcpy(at->sha256, link.sha256, HASH_HEX);
	}
	if (ferror(file))
		return err_errno(err, "read " CHAIN_FILE);
	return got == 2 ? bad(err, "the line is no link") : 0;
}

static int open_chain(const struct config *c, int flags)
{
	CLEANUP_FD int home_fd = open(c->home, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return home_fd < 0
		       ? -errno
		       : fs_open_beneath(home_fd, CHAIN_FILE, flags | O_NONBLOCK | O_CLOEXEC, 0600);
}

int chain_read(const struct config *c, struct chain_at *at, chain_row row, void *data,
	       struct err *err)
{
	struct stat st = { 0 };
	CLEANUP_FD int fd = open_chain(c, O_RDONLY);
	if (fd == -ENOENT)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(err, ERR_HOST, fd < 0 ? -fd : EINVAL, "open %s/" CHAIN_FILE ": %s",
			       c->home, strerrordesc_np(fd < 0 ? -fd : EINVAL));
	if (st.st_size < at->offset)
		return bad(err, "the chain ends before it");
	FILE *file = fdopen(take_fd(&fd), "re");
	if (!file || fseeko(file, at->offset, SEEK_SET) < 0) {
		int r = err_errno(err, "read %s/" CHAIN_FILE, c->home);
		if (file)
			(void)fclose(file);
		return r;
	}
	int r = read_lines(file, at, row, data, err);
	(void)fclose(file);
	return r;
}

int chain_check_at(const struct config *c, const struct chain_at *at, struct err *err)
{
	char text[CHAIN_LINE_MAX], sha256[HASH_HEX] = "";
	if (at->n == 0)
		return 0;
	CLEANUP_FD int fd = open_chain(c, O_RDONLY);
	off_t from = at->offset > CHAIN_LINE_MAX ? at->offset - CHAIN_LINE_MAX : 0;
	size_t wanted = (size_t)(at->offset - from);
	ssize_t n = fd < 0 ? -1 : pread(fd, text, wanted, from);
	if (n > 0 && (size_t)n == wanted && text[n - 1] == '\n') {
		const char *before = memrchr(text, '\n', (size_t)n - 1);
		const char *line = before ? before + 1 : text;
		hash_bytes(line, (size_t)(text + n - 1 - line), sha256);
	}
	if (str_eq(sha256, at->sha256))
		return 0;
	(void)err_set(err, ERR_HOST, EBADMSG,
		      "line %llu of %s/" CHAIN_FILE
		      " is not the one that the ledger has. Remedy: cupel audit verify",
		      (unsigned long long)at->n, c->home);
	return 1;
}

/* The last line that is whole. */
int chain_last_event(const struct config *c, const char *id, char ret[HASH_HEX], struct err *err)
{
	CLEANUP_FREE char *text = xmalloc(TAIL_BYTES);
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s", c->home, id);
	struct stat st = { 0 };
	CLEANUP_FD int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir_fd < 0)
		return err_errno(err, "open %s", path);
	CLEANUP_FD int fd = fs_open_beneath(dir_fd, "events.jsonl",
					    O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
	memset(ret, '0', HASH_HEX - 1);
	ret[HASH_HEX - 1] = '\0';
	if (fd == -ENOENT)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(err, ERR_HOST, fd < 0 ? -fd : EINVAL, "open %s/events.jsonl: %s",
			       path, strerrordesc_np(fd < 0 ? -fd : EINVAL));
	off_t from = st.st_size > TAIL_BYTES ? st.st_size - TAIL_BYTES : 0;
	ssize_t n = pread(fd, text, TAIL_BYTES, from);
	if (n < 0)
		return err_errno(err, "read %s/events.jsonl", path);
	const char *end = memrchr(text, '\n', (size_t)n);
	if (!end)
		return 0;
	const char *before = memrchr(text, '\n', (size_t)(end - text));
	const char *line = before ? before + 1 : text;
	hash_bytes(line, (size_t)(end - line), ret);
	return 0;
}
