/* What is written into a run directory: events, files, and last the verdict. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/str.h"
#include "keeper/record.h"

static int write_events(struct record *r)
{
	int e = fs_append(r->events_fd, r->unwritten.text, r->unwritten.length);
	if (e >= 0)
		str_release(&r->unwritten);
	return e;
}

int record_event(struct record *r, const char *event, json_t *data, struct err *err)
{
	char time[40];
	CLEANUP_JSON json_t *line = json_pack("{s:I,s:s,s:s,s:s,s:s}", "n",
					      (json_int_t)r->n_events + 1, "time",
					      clock_write(clock_real_ns(), time, sizeof time),
					      "run", r->id, "event", event, "prev", r->chain);
	if (data)
		json_object_set_new(line, "data", data);
	CLEANUP_FREE char *text = json_dumps(line, JSON_COMPACT);
	if (!text)
		return err_set(err, ERR_HOST, ENOMEM, "write the event '%s'", event);
	size_t before = r->unwritten.length;
	str_addf(&r->unwritten, "%s\n", text);
	/* Where a part of it is written and cannot be cut off again, a later reader closes the line (resume_chain). */
	int e = write_events(r);
	if (e < 0 && err) {
		r->unwritten.length = before;
		return err_set(err, ERR_HOST, -e, "write the event '%s' to events.jsonl: %s", event,
			       strerrordesc_np(-e));
	}
	hash_bytes(text, strlen(text), r->chain);
	r->n_events++;
	return 0;
}

void record_owe_sync(struct record *r, const char *name, int fd)
{
	if (r->n_unsynced == RECORD_FILES_MAX)
		abort(); /* the files of a record are few and known */
	r->unsynced[r->n_unsynced].name = name;
	r->unsynced[r->n_unsynced++].fd = fd;
}

/* What they share, inodes in a block or a transaction of a journal, is then written once. */
void record_begin_sync(const struct record *r)
{
	for (size_t i = 0; i < r->n_unsynced; i++)
		(void)sync_file_range(r->unsynced[i].fd, 0, 0, SYNC_FILE_RANGE_WRITE);
	(void)sync_file_range(r->events_fd, 0, 0, SYNC_FILE_RANGE_WRITE);
}

static int sync_files(struct record *r, struct err *err)
{
	while (r->n_unsynced > 0) {
		CLEANUP_FD int fd = r->unsynced[--r->n_unsynced].fd;
		if (fdatasync(fd) < 0)
			return err_errno(err, "sync %s", r->unsynced[r->n_unsynced].name);
	}
	return 0;
}

int record_sync(struct record *r, struct err *err)
{
	int e = r->unwritten.length ? write_events(r) : 0;
	if (e < 0)
		return err_set(err, ERR_HOST, -e, "write events.jsonl: %s", strerrordesc_np(-e));
	record_begin_sync(r);
	e = sync_files(r, err);
	if (e < 0)
		return e;
	return fdatasync(r->events_fd) < 0 ? err_errno(err, "sync events.jsonl") : 0;
}

static void note_digest(struct record *r, const char *name, const char *hex)
{
	if (!r->digests)
		r->digests = json_object();
	json_object_set_new(r->digests, name, json_string(hex));
}

int record_text(struct record *r, const char *name, char *taken, struct err *err)
{
	CLEANUP_FREE char *text = taken;
	CLEANUP_FD int fd =
		fs_open_beneath(r->dir_fd, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	if (!text || fd < 0)
		return err_set(err, ERR_HOST, fd < 0 ? -fd : ENOMEM, "write %s: %s", name,
			       strerrordesc_np(fd < 0 ? -fd : ENOMEM));
	size_t length = strlen(text);
	text[length] = '\n'; /* in place of the NUL: one write */
	int e = fs_write_all(fd, text, length + 1);
	if (e < 0) {
		(void)unlinkat(r->dir_fd, name, 0); /* half a file is worse than none */
		return err_set(err, ERR_HOST, -e, "write %s: %s", name, strerrordesc_np(-e));
	}
	char hex[HASH_HEX];
	hash_bytes(text, length + 1, hex);
	note_digest(r, name, hex);
	record_owe_sync(r, name, take_fd(&fd));
	return 0;
}

int record_file(struct record *r, const char *name, json_t *value, struct err *err)
{
	CLEANUP_JSON json_t *owned = value;
	return record_text(r, name, json_dumps(owned, JSON_INDENT(2)), err);
}

void record_digest(struct record *r, const char *name)
{
	char hex[HASH_HEX];
	CLEANUP_FD int fd = fs_open_beneath(r->dir_fd, name, O_RDONLY | O_CLOEXEC, 0);
	if (fd >= 0 && hash_file(fd, hex) >= 0)
		note_digest(r, name, hex);
}

void record_verdict_digest(const json_t *verdict, char ret_hex[HASH_HEX])
{
	CLEANUP_JSON json_t *plain = json_copy((json_t *)verdict);
	(void)json_object_del(plain, "events");
	CLEANUP_FREE char *text = json_dumps(plain, JSON_COMPACT);
	hash_bytes(text ? text : "", text ? strlen(text) : 0, ret_hex);
}

void record_seal(struct record *r, const json_t *verdict, json_t *data)
{
	char hex[HASH_HEX];
	record_verdict_digest(verdict, hex);
	json_object_set_new(data, "verdict_sha256", json_string(hex));
	if (r->digests)
		json_object_set(data, "files", r->digests);
}

int record_set_outputs_aside(struct record *r, struct err *err)
{
	struct stat st;
	if (renameat(r->dir_fd, "outputs", r->dir_fd, "partial") == 0)
		return 1;
	if (errno != ENOENT)
		return err_errno(err, "set the outputs of %s aside", r->id);
	/* Perhaps somebody who did not live to say so has done it. */
	return fstatat(r->dir_fd, "partial", &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int events_synced(void *data)
{
	const struct record *r = data;
	return fdatasync(r->events_fd) < 0 ? -errno : 0;
}

/* The last events become durable while verdict.json is written under another name; it gets its own after both. */
static int write_verdict(struct record *r, const json_t *verdict, struct err *err)
{
	CLEANUP_FREE char *text = json_dumps(verdict, JSON_INDENT(2));
	if (!text)
		return err_set(err, ERR_HOST, ENOMEM, "write verdict.json");
	size_t length = strlen(text);
	text[length] = '\n'; /* in place of the NUL */
	return fs_write_atomic_when(r->dir_fd, "verdict.json", text, length + 1, 0644,
				    events_synced, r, err);
}

int record_owe(const struct record *r)
{
	CLEANUP_FREE char *active = xasprintf("active/%s", r->id);
	CLEANUP_FREE char *owed = xasprintf("undelivered/%s", r->id);
	if (renameat(r->home_fd, active, r->home_fd, owed) == 0)
		return 0;
	if (errno != ENOENT)
		return -errno;
	/* A home that was made before there was a ledger. */
	if (mkdirat(r->home_fd, "undelivered", 0700) < 0 && errno != EEXIST)
		return -errno;
	return renameat(r->home_fd, active, r->home_fd, owed) < 0 ? -errno : 0;
}

/* What is left on the host keeps active/ID; the ledger need not wait for that. */
static void owe_besides(const struct record *r)
{
	CLEANUP_FREE char *owed = xasprintf("undelivered/%s", r->id);
	CLEANUP_FD int fd = fs_open_beneath(r->home_fd, owed, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	(void)fd;
}

int record_finish(struct record *r, json_t *verdict, struct err *err)
{
	CLEANUP_JSON json_t *owned = verdict;
	json_object_set_new(
		owned, "events",
		json_pack("{s:I,s:s}", "count", (json_int_t)r->n_events, "head", r->chain));
	int e = r->unwritten.length ? record_sync(r, err) : 0;
	if (e >= 0) {
		record_begin_sync(r);
		e = sync_files(r, err);
	}
	FAULT_PHASE("finish-files-synced");
	if (e >= 0)
		e = write_verdict(r, owned, err);
	if (e < 0) {
		/* Its name may be there all the same: what could not be made sure of must not look as if it were. */
		(void)unlinkat(r->dir_fd, "verdict.json", 0);
		return e;
	}
	FAULT_PHASE("finish-verdict-written");
	if (r->leaves_traces)
		owe_besides(r);
	else
		(void)record_owe(r); /* a leftover entry of a complete run is swept by gc */
	return 0;
}
