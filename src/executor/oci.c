#include "executor/oci.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/magic.h>

#include "base/cleanup.h"
#include "base/proc.h"
#include "spec/show.h"

#define SAYS_MAX 1000
/* The second tree of a hybrid host, where systemd puts it. */
#define UNIFIED "/sys/fs/cgroup/unified"

static const char *program_of(const struct executor_settings *s)
{
	return pairs_get(&s->options, "program");
}

/* Its first words, or -errno. */
static ssize_t ask_version(const char *program, char *ret, size_t room)
{
	char *const argv[] = { (char *)program, (char *)"--version", NULL };
	CLEANUP_FD int fd = -1;
	pid_t pid = -1;
	size_t length = 0;
	int status = 0;
	int r = proc_start(argv, &pid, &fd);
	if (r < 0)
		return r;
	for (;;) {
		struct pollfd readable = { .fd = fd, .events = POLLIN };
		int n = poll(&readable, 1, EXECUTOR_WAIT_S * 1000);
		ssize_t got = n > 0 && length + 1 < room ? read(fd, ret + length, room - length - 1)
							 : 0;
		if (got <= 0)
			break;
		length += (size_t)got;
	}
	CLEANUP_FD int pid_fd = proc_pidfd_of_child(pid);
	if (pid_fd < 0)
		return pid_fd;
	struct pollfd ended = { .fd = pid_fd, .events = POLLIN };
	if (poll(&ended, 1, EXECUTOR_WAIT_S * 1000) <= 0)
		(void)proc_signal(pid_fd, SIGKILL);
	(void)proc_wait(pid_fd, &status);
	ret[length] = 0;
	return status == 0 && length ? (ssize_t)length : -ENOEXEC;
}

static bool is_hybrid(void)
{
	struct statfs top = { 0 }, unified = { 0 };
	return statfs("/sys/fs/cgroup", &top) == 0 && top.f_type != CGROUP2_SUPER_MAGIC &&
	       statfs(UNIFIED, &unified) == 0 && unified.f_type == CGROUP2_SUPER_MAGIC;
}

int oci_look(const struct executor_settings *s, struct oci_runtime *ret, struct err *err)
{
	struct oci_runtime o = { .settings = s };
	char says[SAYS_MAX] = "", shown[SHOW_ROOM];
	const char *program = program_of(s);
	if (geteuid() != 0)
		return err_set(
			err, ERR_HOST, EPERM,
			"executor %s: an OCI runtime makes its box as root only; run cupel as root, or use the "
			"executor 'local'",
			s->name);
	if (access(program, X_OK) < 0)
		return err_errno(err, "executor %s: %s", s->name, show_text(program, shown));
	ssize_t n = ask_version(program, says, sizeof says);
	if (n < 0)
		return err_set(err, ERR_HOST, (int)-n,
			       "executor %s: %s --version fails: is it an OCI runtime?", s->name,
			       show_text(program, shown));
	if (str_starts(says, "runsc"))
		o.kind = OCI_RUNSC;
	else if (str_starts(says, "crun"))
		o.kind = OCI_CRUN;
	says[strcspn(says, "\n")] = 0;
	(void)snprintf(o.version, sizeof o.version, "%.95s", says);
	o.hides_unified = o.kind == OCI_CRUN && is_hybrid();
	*ret = o;
	return 0;
}

const char *oci_lacks(enum oci_kind kind)
{
	/* A kernel of its own, which has none of the first and whose users the host cannot map. */
	return kind == OCI_RUNSC ? "landlock,user" : "";
}

static bool has_word(const char *list, const char *word)
{
	size_t n = strlen(word);
	for (const char *at = list; (at = strstr(at, word)); at += n)
		if ((at == list || at[-1] == ',') && (at[n] == ',' || at[n] == 0))
			return true;
	return false;
}

int oci_probe(const struct executor_settings *s, struct capability *ret, struct err *err)
{
	struct oci_runtime o = { 0 };
	struct capability c = { .signals = true,
				.checkpoints = true,
				.network_host = true,
				.submitters = true,
				.staging = STAGING_HERE,
				.judging = JUDGING_HERE };
	if (geteuid() != 0)
		return err_set(
			err, ERR_HOST, EPERM,
			"executor %s: an OCI runtime makes its box as root only; run cupel as root, or use the "
			"executor 'local'",
			s->name);
	int r = oci_look(s, &o, err);
	if (r < 0)
		return r;
	for (int i = 0; i < LIMIT_COUNT_; i++)
		c.limits[i] = true;
	for (size_t i = 0; i < layer_count; i++)
		c.layers[i] = !has_word(oci_lacks(o.kind), layer_names[i]);
	(void)snprintf(c.engine, sizeof c.engine, "%.60s%s", o.version,
		       o.hides_unified ? " (cgroup v2 hidden)" : "");
	*ret = c;
	return 0;
}

int oci_suffices(const struct executor_settings *s, const struct plan *plan,
		 struct oci_runtime *ret, struct err *err)
{
	struct oci_runtime o = { 0 };
	CLEANUP_STR struct str lacking = { 0 };
	int r = oci_look(s, &o, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < layer_count; i++)
		if (has_word(oci_lacks(o.kind), layer_names[i]) &&
		    !plan_may_miss(plan, layer_names[i]) &&
		    !strv_has(&s->allow_missing, layer_names[i]))
			str_addf(&lacking, "%s%s", lacking.length ? ", " : "", layer_names[i]);
	if (lacking.length)
		return err_caller(
			err,
			"the executor %s can't give: %s. Remedy: another executor; or do without layers, which the record "
			"will say: --allow-missing, or 'allow_missing: [%s]' of the executor in cupel.yaml",
			s->name, str_text(&lacking), str_text(&lacking));
	uint64_t pids = plan->limits.at[LIMIT_PIDS].value;
	if (o.kind == OCI_RUNSC && pids && pids < OCI_RUNSC_PIDS)
		return err_caller(
			err,
			"the executor %s can't hold the limit pids at %llu: gVisor's own threads are counted in it. Remedy: "
			"--pids %d or more, or another executor",
			s->name, (unsigned long long)pids, OCI_RUNSC_PIDS);
	*ret = o;
	return 0;
}
