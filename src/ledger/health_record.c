/* Health records: the last of each as a file, so that they are seen without the database; all of them as rows. */
#include "ledger/health_record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/path.h"
#include "ledger/parts.h"

#define RECORD_MAX (4 << 20)

static const char *text_of(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

static char *file_name(const struct health_record *h)
{
	char tag[HASH_TAG];
	if (!h->subject || !h->subject[0])
		return xasprintf("%s.json", h->kind);
	hash_tag(h->subject, tag);
	return xasprintf("%s-%s.json", h->kind, tag);
}

static int write_file(const struct config *c, const struct health_record *h, const json_t *record,
		      struct err *err)
{
	CLEANUP_FREE char *path = path_join(c->home, "health");
	CLEANUP_FREE char *name = file_name(h);
	int r = fs_make_dirs(path, 0700, err);
	if (r < 0)
		return r;
	CLEANUP_FD int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	/* While it is held, what a crash left of another's writing may not be swept: health/gc_doctor.c. */
	if (fd < 0 || flock(fd, LOCK_EX) < 0)
		return err_errno(err, "open %s", path);
	return json_write_file(fd, name, record, err);
}

static int put_record(struct ledger *l, const char *home, const json_t *record, struct err *err)
{
	static const struct statement put = {
		STATEMENT_ONCE,
		"INSERT INTO checks (home, kind, subject, time, status, summary, detail) "
		"VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING",
		7
	};
	CLEANUP_FREE char *detail =
		json_dumps(json_object_get(record, "detail"), JSON_COMPACT | JSON_ENCODE_ANY);
	const char *const values[] = { home,
				       text_of(record, "kind"),
				       text_of(record, "subject"),
				       text_of(record, "time"),
				       text_of(record, "status"),
				       text_of(record, "summary"),
				       detail };
	for (size_t i = 0; i < put.n_params; i++)
		if (!values[i])
			return 0; /* somebody's own file */
	return l->ops->run(l, &put, values, NULL, NULL, err);
}

int put_checks(struct ledger *l, const struct config *c, const char *home, struct err *err)
{
	CLEANUP_JSON json_t *records = NULL;
	const json_t *record;
	size_t i;
	int r = ledger_health_list(c, &records, err);
	json_array_foreach(records, i, record)
	{
		if (r >= 0)
			r = put_record(l, home, record, err);
	}
	return r;
}

/* Whoever delivers holds the lock, perhaps for as long as a database far away does not answer: it enters this record too, or the next one does. */
static int enter(const struct config *c, const json_t *record, struct err *err)
{
	CLEANUP_LEDGER struct ledger *l = NULL;
	CLEANUP_FD int lock_fd = -1;
	CLEANUP_TRANSACTION struct transaction t = { 0 };
	char home[HOME_ID];
	int r = home_lock(c, LEDGER_TRY, &lock_fd, err);
	if (r >= 0)
		r = ledger_open(c, &l, err);
	if (r >= 0)
		r = home_id_make(c, home, err);
	if (r >= 0)
		r = transaction_begin(&t, l, LEDGER_SHARED, err);
	if (r >= 0)
		r = put_home(l, c, home, err);
	if (r >= 0)
		r = put_record(l, home, record, err);
	return r < 0 ? r : transaction_commit(&t, err);
}

static json_t *record_of(const struct health_record *h)
{
	char time[40];
	return json_pack("{s:s,s:o,s:s,s:s,s:o,s:O?}", "kind", h->kind, "subject",
			 json_text(h->subject ? h->subject : ""), "time",
			 clock_write(clock_real_ns(), time, sizeof time), "status", h->status,
			 "summary", json_text(h->summary), "detail", h->detail);
}

int ledger_health_keep(const struct config *c, const struct health_record *h, struct err *err)
{
	CLEANUP_JSON json_t *record = record_of(h);
	int r = write_file(c, h, record, err);
	return r < 0 ? err_wrap(err, "keep what %s found", h->kind) : 0;
}

int ledger_health_put(const struct config *c, const struct health_record *h, struct err *ret_ledger,
		      struct err *err)
{
	CLEANUP_JSON json_t *record = record_of(h);
	int r = write_file(c, h, record, err);
	if (r < 0)
		return err_wrap(err, "keep what %s found", h->kind);
	(void)enter(c, record, ret_ledger);
	return 0;
}

/* One that can't be read is shown as that, and holds up nobody. */
static json_t *read_record(int dir_fd, const char *name)
{
	json_t *record = NULL;
	struct err err = { 0 };
	int r = json_read_file(dir_fd, name, RECORD_MAX, &record, &err);
	if (r >= 0 && json_is_object(record))
		return record;
	json_decref(record);
	if (r == -ENOENT)
		return NULL;
	CLEANUP_FREE char *kind = xstrndup(name, strlen(name) - sizeof "json");
	return json_pack("{s:o,s:s,s:n,s:s,s:o,s:n}", "kind", json_text(kind), "subject", "",
			 "time", "status", "unreadable", "summary",
			 json_text(r < 0 ? err.text : "no object"), "detail");
}

int ledger_health_list(const struct config *c, json_t **ret, struct err *err)
{
	CLEANUP_FREE char *path = path_join(c->home, "health");
	CLEANUP_STRV struct strv names = { 0 };
	CLEANUP_JSON json_t *records = json_array();
	CLEANUP_DIR DIR *dir = opendir(path);
	if (!dir && errno != ENOENT)
		return err_errno(err, "read %s", path);
	for (struct dirent *entry; dir && (entry = readdir(dir));)
		if (entry->d_name[0] != '.' && str_ends(entry->d_name, ".json"))
			strv_add(&names, entry->d_name);
	strv_sort(&names);
	for (size_t i = 0; dir && i < names.n; i++) {
		json_t *record = read_record(dirfd(dir), names.v[i]);
		if (record)
			json_array_append_new(records, record);
	}
	*ret = take_ptr(records);
	return 0;
}
