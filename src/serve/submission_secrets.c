/* The secret variables of submissions, from when they are entered until they are over. The ledger, the answers and the pages have names and
 * digests; the values are in memory, and in HOME/secrets/ID.N.json (0600, the service's) so that the next service finds them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/path.h"
#include "serve/service_parts.h"
#include "spec/secret.h"

#define FOLDER      "secrets"
#define SECRETS_MAX ((size_t)2 << 20)

int submission_hide(const struct config *c, const json_t *analysis, struct submission *s,
		    struct err *err)
{
	CLEANUP_JSON json_t *shown = json_deep_copy(analysis);
	CLEANUP_JSON json_t *secrets = secrets_take(shown, NULL);
	if (secrets) {
		struct secret_key key = { 0 };
		int r = secret_key_open(c->home, &key, err);
		if (r < 0)
			return r;
		json_decref(shown);
		json_decref(secrets);
		shown = json_deep_copy(analysis); /* again, with digests */
		secrets = secrets_take(shown, &key);
		secret_digest(&key, "request", s->body, s->body);
		explicit_bzero(&key, sizeof key);
	}
	s->analysis = json_dumps_short(shown, JSON_COMPACT);
	s->secrets = secrets ? json_dumps_short(secrets, JSON_COMPACT) : NULL;
	return 0;
}

json_t *submission_analysis(const struct submission *s)
{
	json_t *analysis = json_loads(s->analysis, 0, NULL);
	CLEANUP_JSON json_t *secrets = s->secrets ? json_loads(s->secrets, 0, NULL) : NULL;
	if (secrets)
		secrets_give(analysis, secrets);
	return analysis;
}

static char *file_of(const struct submission *s)
{
	return xasprintf("%s.%llu.json", s->id, (unsigned long long)s->job.n);
}

static int open_folder(const struct config *c)
{
	CLEANUP_FREE char *path = path_join(c->home, FOLDER);
	int fd = open(path, O_DIRECTORY | O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int submission_keep_secrets(const struct config *c, const struct submission *s, struct err *err)
{
	CLEANUP_FREE char *path = path_join(c->home, FOLDER);
	CLEANUP_FREE char *name = file_of(s);
	if (!s->secrets)
		return 0;
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_errno(err, "make %s", path);
	CLEANUP_FD int dir_fd = open_folder(c);
	if (dir_fd < 0)
		return err_set(err, ERR_HOST, -dir_fd, "open %s: %s", path,
			       strerrordesc_np(-dir_fd));
	return fs_write_atomic(dir_fd, name, s->secrets, strlen(s->secrets), 0600, err);
}

void submission_find_secrets(const struct config *c, struct submission *s)
{
	CLEANUP_JSON json_t *analysis = json_loads(s->analysis, 0, NULL);
	CLEANUP_FREE char *name = file_of(s);
	size_t length = 0;
	if (!secrets_are_taken(analysis))
		return;
	CLEANUP_FD int dir_fd = open_folder(c);
	if (dir_fd < 0 || fs_read_capped(dir_fd, name, SECRETS_MAX, &s->secrets, &length, NULL) < 0)
		log_warning("submission=%s its secret variables are lost: it can't be started",
			    s->id);
}

void submission_drop_secrets(const struct config *c, const struct submission *s)
{
	CLEANUP_FREE char *name = file_of(s);
	CLEANUP_FD int dir_fd = s->secrets ? open_folder(c) : -1;
	if (dir_fd >= 0)
		(void)unlinkat(dir_fd, name, 0);
}

static bool is_wanted(const struct queue *q, const char *file)
{
	char id[ID_MAX + 1] = "";
	size_t length = strlen(file);
	if (!str_ends(file, ".json"))
		return false; /* a write that was cut */
	length -= strlen(".json");
	while (length && file[length - 1] != '.')
		length--;
	if (length < 2 || length - 1 > ID_MAX)
		return false;
	memcpy(id, file, length - 1);
	const struct submission *s = queue_find(q, id);
	CLEANUP_FREE char *name = s ? file_of(s) : NULL;
	return name && str_eq(name, file);
}

void submission_sweep_secrets(const struct config *c, const struct queue *q)
{
	int fd = open_folder(c);
	CLEANUP_DIR DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	for (struct dirent *entry; dir && (entry = readdir(dir));)
		if (entry->d_type == DT_REG && !is_wanted(q, entry->d_name))
			(void)unlinkat(fd, entry->d_name, 0);
}
