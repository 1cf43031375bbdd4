/* The bundle: HOME/bundles/ID, from before the box is there until it is gone. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/fs.h"
#include "budget/group.h"
#include "executor/kept1_program.h"
#include "keeper/oci.h"
#include "keeper/record.h"

#define BUNDLES     "bundles"
#define COMMAND     "command.json" /* how gc calls the runtime */
#define COMMAND_MAX 65536

void oci_box_free(struct oci_box **o)
{
	if (!*o)
		return;
	free((*o)->home);
	free((*o)->id);
	free((*o)->name);
	free((*o)->dir);
	free((*o)->group);
	strv_release(&(*o)->command);
	cleanup_fd(&(*o)->maker_fd);
	free(*o);
	*o = NULL;
}

static void set_command(const struct launch_request *q, struct oci_box *o)
{
	const struct executor_settings *s = o->runtime.settings;
	strv_add(&o->command, pairs_get(&s->options, "program"));
	strv_addf(&o->command, "--root=%s/state", o->dir);
	strv_addf(&o->command, "--log=%s/log", o->dir);
	strv_add(&o->command, "--log-format=json");
	if (o->runtime.kind == OCI_RUNSC)
		strv_add(&o->command, q->plan->own_network ? "--network=none" : "--network=host");
	for (size_t i = 0; i < s->words.n; i++)
		strv_add(&o->command, s->words.v[i]);
}

static int put_json(int dir_fd, const char *name, json_t *taken, struct err *err)
{
	CLEANUP_JSON json_t *value = taken;
	CLEANUP_FREE char *text = value ? json_dumps(value, JSON_INDENT(1)) : NULL;
	CLEANUP_FD int fd =
		openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (!text)
		return err_caller(err,
				  "an argument or a variable is not valid UTF-8, which a bundle's "
				  "%s can't say",
				  name);
	int r = fd < 0 ? -errno : fs_write_all(fd, text, strlen(text));
	return r < 0 ? err_set(err, ERR_HOST, -r, "make %s of the bundle: %s", name,
			       strerrordesc_np(-r))
		     : 0;
}

static int make_directory(const struct launch_request *q, struct oci_box *o, struct err *err)
{
	CLEANUP_FREE char *home = realpath(q->home, NULL);
	if (!home)
		return err_errno(err, "find %s", q->home);
	CLEANUP_FREE char *above = xasprintf("%s/" BUNDLES, home);
	o->dir = xasprintf("%s/%s", above, q->id);
	if (mkdir(above, 0700) < 0 && errno != EEXIST)
		return err_errno(err, "make %s", above);
	return mkdir(o->dir, 0700) < 0 ? err_errno(err, "make %s", o->dir) : 0;
}

int oci_bundle_make(const struct launch_request *q, struct oci_box **ret, struct err *err)
{
	CLEANUP_OCI_BOX struct oci_box *o = xcalloc(1, sizeof *o);
	o->maker_fd = -1;
	o->runtime = *q->oci;
	o->home = xstrdup(q->home);
	o->id = xstrdup(q->id);
	o->name = xstrdup(q->group);
	const char *group = q->budget->ops->path(q->budget);
	o->group = xstrdup(group[0] ? group : o->name);
	int r = make_directory(q, o, err);
	if (r < 0)
		return r;
	set_command(q, o);
	CLEANUP_FD int dir_fd = open(o->dir, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	json_t *words = json_array();
	for (size_t i = 0; i < o->command.n; i++)
		json_array_append_new(words, json_text(o->command.v[i]));
	if (dir_fd < 0 || mkdirat(dir_fd, "rootfs", 0755) < 0 || mkdirat(dir_fd, "state", 0700) < 0)
		r = err_errno(err, "make the bundle %s", o->dir);
	json_t *command = json_pack("{s:o,s:s,s:o,s:b}", "command", words, "name", o->name, "group",
				    json_text(o->group), "hides_unified", o->runtime.hides_unified);
	r = r < 0 ? (json_decref(command), r) : put_json(dir_fd, COMMAND, command, err);
	if (r >= 0)
		r = kept1_put(dir_fd, "init", err);
	*ret = take_ptr(o);
	return r;
}

int oci_bundle_config(const struct launch_request *q, const struct oci_box *o,
		      const struct box_entry *e, struct err *err)
{
	CLEANUP_FD int dir_fd = open(o->dir, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (dir_fd < 0)
		return err_errno(err, "open %s", o->dir);
	return put_json(dir_fd, "config.json", oci_config(q, o, e), err);
}

/* In trees that the budget has no use for: runc and crun remove what they made there, runsc does not. */
static int remove_groups(const struct oci_box *o, struct err *err)
{
	CLEANUP_DIR DIR *trees = opendir("/sys/fs/cgroup");
	int r = 0;
	for (struct dirent *entry; r >= 0 && trees && (entry = readdir(trees));) {
		CLEANUP_FREE char *path = xasprintf("%s/%s", entry->d_name, o->group);
		if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
			r = group_remove(dirfd(trees), path, err);
	}
	return r;
}

int oci_bundle_remove(const struct oci_box *o, struct err *err)
{
	const char *const words[] = { "delete", "--force", o->name, NULL };
	CLEANUP_FREE char *above = xasprintf("%s/" BUNDLES, o->home);
	CLEANUP_FD int fd = open(above, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return errno == ENOENT ? 0 : err_errno(err, "open %s", above);
	/* One that was never made is not to be found, and a torn note is from before it could be. */
	if (o->command.n)
		(void)oci_command(o, words, NULL);
	FAULT_PHASE("oci-deleted");
	int r = o->group ? remove_groups(o, err) : 0;
	return r < 0 ? r : fs_remove_tree(fd, o->id, NULL, err);
}

static int read_command(int dir_fd, struct oci_box *o)
{
	CLEANUP_JSON json_t *all = NULL;
	int r = json_read_file(dir_fd, COMMAND, COMMAND_MAX, &all, NULL);
	if (r < 0)
		return r;
	const json_t *words = json_object_get(all, "command");
	const char *name = json_string_value(json_object_get(all, "name"));
	for (size_t i = 0; i < json_array_size(words); i++)
		if (json_string_value(json_array_get(words, i)))
			strv_add(&o->command, json_string_value(json_array_get(words, i)));
	const char *group = json_string_value(json_object_get(all, "group"));
	o->name = xstrdup(name ? name : "");
	o->group = group && group[0] ? xstrdup(group) : NULL;
	o->runtime.hides_unified = json_is_true(json_object_get(all, "hides_unified"));
	return 0;
}

int oci_box_sweep(const char *home, const char *id, struct err *err)
{
	CLEANUP_OCI_BOX struct oci_box *o = xcalloc(1, sizeof *o);
	o->maker_fd = -1;
	o->dir = xasprintf("%s/" BUNDLES "/%s", home, id);
	CLEANUP_FD int dir_fd = open(o->dir, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (dir_fd < 0)
		return errno == ENOENT ? 0 : err_errno(err, "open %s", o->dir);
	o->home = xstrdup(home);
	o->id = xstrdup(id);
	(void)read_command(dir_fd, o);
	int r = oci_bundle_remove(o, err);
	return r < 0 ? r : 1;
}
