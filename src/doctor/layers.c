/* The layers of the box, one after the other as a person would go on: what the host refuses is allowed to be missing, with its remedy
 * noted, until a box starts or a layer is one that there is no box without. Then that box tries to get out. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "box/landlock.h"
#include "doctor/acts.h"
#include "doctor/parts.h"

#define GROUP "box"

struct judging {
	struct examination *x;
	const struct trial_box *t;
	const json_t *control; /* the same acts outside */
};

static const char *error_text(long error)
{
	const char *text = strerrorname_np((int)error);
	return error == 0 ? "nothing" : text ? text : "?";
}

static bool control_works(const struct judging *j, const char *act)
{
	const json_t *value = json_object_get(j->control, act);
	return json_is_integer(value) && json_integer_value(value) == 0;
}

static bool is_own(const struct judging *j, const char *space)
{
	const json_t *spaces = json_object_get(j->t->receipt, "namespaces");
	return json_is_true(json_object_get(json_object_get(spaces, space), "own"));
}

/* NULL if the host refused it: that was noted then. */
static struct finding *layer(const struct judging *j, const char *name)
{
	return strv_has(&j->x->allowed, name) ? NULL : finding_add(j->x->d, GROUP, name);
}

static void judge_user(const struct judging *j)
{
	struct finding *f = layer(j, "user");
	json_int_t inside = -1, host = -1;
	(void)json_unpack(json_object_get(j->t->receipt, "user"), "{s:I,s:I}", "uid_inside",
			  &inside, "uid_host", &host);
	if (!f)
		return;
	f->promise = "It gains no privilege";
	finding_is(f, is_own(j, "user") && host != 0 ? FINDING_OK : FINDING_MISSING,
		   "uid %lld in the box is %lld on the host, and nothing else is mapped",
		   (long long)inside, (long long)host);
}

static void judge_privileges(const struct judging *j)
{
	struct finding *f = finding_add(j->x->d, GROUP, "privileges");
	long privileges = trial_said(j->t, "privileges", -1),
	     no_new = trial_said(j->t, "no_new_privs", -1);
	f->promise = "It gains no privilege";
	finding_is(f, privileges == 0 && no_new == 1 ? FINDING_OK : FINDING_MISSING,
		   "%ld sets of capabilities with something in them, no_new_privs is %ld",
		   privileges, no_new);
}

static void judge_mount(const struct judging *j)
{
	struct finding *f = layer(j, "mount");
	long home = trial_said(j->t, "home", 0), root = trial_said(j->t, "root", 0),
	     work = trial_said(j->t, "work", -1);
	if (!f)
		return;
	f->promise = "It writes only its working directory, a private /tmp and /dev/shm";
	bool good = is_own(j, "mnt") && control_works(j, "home") && home == ENOENT &&
		    (root == EROFS || root == EACCES) && work == 0;
	finding_is(
		f, good ? FINDING_OK : FINDING_MISSING,
		"a root of its own by fsopen, open_tree, move_mount and mount_setattr: the home is not seen (%s), / is not "
		"written (%s), the working directory is (%s)",
		error_text(home), error_text(root), work ? error_text(work) : "done");
}

static void judge_pid(const struct judging *j)
{
	struct finding *f = layer(j, "pid");
	long seen = trial_said(j->t, "processes", -1);
	if (!f)
		return;
	f->promise = "It sees, signals and traces no process but its own";
	finding_is(f, is_own(j, "pid") && seen == 2 ? FINDING_OK : FINDING_MISSING,
		   "it sees %ld processes, where its init and itself are 2", seen);
}

static void judge_net(const struct judging *j)
{
	struct finding *f = layer(j, "net");
	long own = trial_said(j->t, "loopback", -1), tcp = trial_said(j->t, "tcp", 0),
	     abstract = trial_said(j->t, "abstract", 0);
	if (!f)
		return;
	f->promise = "It reaches no service";
	if (!control_works(j, "tcp") || !control_works(j, "abstract")) {
		finding_is(
			f, FINDING_UNKNOWN,
			"a listener on the host's loopback was not reached from outside the box either");
		return;
	}
	finding_is(f,
		   is_own(j, "net") && own == 0 && tcp && abstract ? FINDING_OK : FINDING_MISSING,
		   "its own loopback %s; a listener on the host's: %s, its abstract socket: %s",
		   own ? error_text(own) : "is up", tcp ? error_text(tcp) : "reached",
		   abstract ? error_text(abstract) : "reached");
}

static void judge_ipc(const struct judging *j)
{
	struct finding *f = layer(j, "ipc");
	long segment = trial_said(j->t, "segment", -1);
	if (!f)
		return;
	f->promise = "It shares no IPC objects";
	if (!control_works(j, "segment"))
		finding_is(
			f, is_own(j, "ipc") ? FINDING_OK : FINDING_MISSING,
			"a namespace of its own; this host gives no shared memory to try it with");
	else
		finding_is(f, is_own(j, "ipc") && segment > 0 ? FINDING_OK : FINDING_MISSING,
			   "shared memory that anybody on the host may read: %s",
			   segment > 0 ? error_text(segment) : "found");
}

static void judge_names(const struct judging *j)
{
	struct finding *f = layer(j, "uts");
	if (f)
		finding_is(f, is_own(j, "uts") ? FINDING_OK : FINDING_MISSING, "%s",
			   is_own(j, "uts") ? "a host name of its own"
					    : "the host's name is shown");
	f = layer(j, "cgroup");
	long above = trial_said(j->t, "foreign_groups", -1);
	if (f)
		finding_is(f, is_own(j, "cgroup") && above == 0 ? FINDING_OK : FINDING_MISSING,
			   "%ld of its groups show where on the host they are", above);
}

static void judge_landlock(const struct judging *j)
{
	struct finding *f = layer(j, "landlock");
	long denied = trial_said(j->t, "urandom", 0);
	int abi = landlock_abi();
	if (!f)
		return;
	f->promise = "It writes only its working directory, a private /tmp and /dev/shm";
	if (!control_works(j, "urandom")) {
		finding_is(f, FINDING_UNKNOWN,
			   "ABI %d, but /dev/urandom can't be written outside the box either", abi);
		return;
	}
	finding_is(f, denied == EACCES ? FINDING_OK : FINDING_MISSING,
		   "ABI %d; a write that only Landlock forbids: %s", abi,
		   denied ? error_text(denied) : "done");
	if (f->status == FINDING_OK && abi < 6) {
		finding_is(
			f, j->x->config->network_host_allowed ? FINDING_WEAK : FINDING_NOTE,
			"ABI %d; a write that only Landlock forbids: EACCES; with --network host abstract sockets are in "
			"reach, which ABI 6 forbids",
			abi);
		finding_remedy(f, "boot Linux 6.12 or later");
	}
}

static void judge_seccomp(const struct judging *j)
{
	struct finding *f = layer(j, "seccomp");
	CLEANUP_STR struct str passed = { 0 };
	size_t refused = 0, answered = 0;
	const char *key;
	json_t *outside;
	if (!f)
		return;
	f->promise = "It makes no system call that it does not need";
	json_object_foreach((json_t *)j->control, key, outside)
	{
		if (!str_starts(key, "call."))
			continue;
		bool denied = trial_said(j->t, key, 0) == EPERM;
		refused += denied;
		answered += denied && json_integer_value(outside) != EPERM;
		if (!denied)
			str_addf(&passed, "%s%s", passed.length ? ", " : "",
				 key + sizeof "call." - 1);
	}
	if (passed.length)
		finding_is(f, FINDING_MISSING, "not refused: %s", passed.text);
	else
		finding_is(f, answered ? FINDING_OK : FINDING_UNKNOWN,
			   "%zu calls refused with EPERM, %zu of which are answered outside",
			   refused, answered);
}

/* The limit of core files is 1 byte in the box, and with that no handler is started either: core(5). */
static void judge_crash(const struct judging *j)
{
	char pattern[256] = "?";
	struct finding *f = finding_add(j->x->d, GROUP, "crash");
	long core = trial_said(j->t, "core", -1);
	(void)fs_read_small(AT_FDCWD, "/proc/sys/kernel/core_pattern", pattern, sizeof pattern);
	f->promise = "A crash inside does nothing outside";
	finding_is(f,
		   core == 0  ? FINDING_OK
		   : core > 0 ? FINDING_MISSING
			      : FINDING_UNKNOWN,
		   "a crash in the box %s, kernel.core_pattern being %.80s",
		   core == 0  ? "left no core"
		   : core > 0 ? "dumped core"
			      : "could not be tried",
		   pattern);
	if (core > 0)
		finding_root_remedy(f, "sysctl -w kernel.core_pattern=core");
}

/* A setting that keeps ordinary users from namespaces is the remedy, if one is set. */
static void name_setting(struct finding *f)
{
	static const struct {
		const char *path, *refuses, *remedy;
	} settings[] = {
		{ "/proc/sys/kernel/unprivileged_userns_clone", "0",
		  "sysctl -w kernel.unprivileged_userns_clone=1" },
		{ "/proc/sys/user/max_user_namespaces", "0",
		  "sysctl -w user.max_user_namespaces=10000" },
		{ "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
		  "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0" },
	};
	char value[32];
	for (size_t i = 0; geteuid() != 0 && i < sizeof settings / sizeof *settings; i++)
		if (fs_read_small(AT_FDCWD, settings[i].path, value, sizeof value) >= 0 &&
		    str_eq(value, settings[i].refuses)) {
			CLEANUP_FREE char *seen = take_ptr(f->evidence);
			finding_is(f, FINDING_MISSING, "%s (%s is %s)", seen, settings[i].path,
				   value);
			finding_root_remedy(f, "%s", settings[i].remedy);
			return;
		}
}

static bool is_limiter(const char *name)
{
	return str_eq(name, "memory") || str_eq(name, "cpu") || str_eq(name, "pids") ||
	       str_eq(name, "disk");
}

/* Several layers may share a refusal. True if a box can do without them all; not if that was allowed before, and is refused all the
 * same. */
static bool note_refusal(struct examination *x, const struct err *err)
{
	CLEANUP_FREE char *words = xstrdup(err->layer);
	const char *text = strstr(err->text, ": ");
	bool can_do_without = true;
	for (char *rest = words, *word; (word = strsep(&rest, ","));)
		for (size_t i = 0; i < layer_count; i++) {
			if (!str_eq(word, layer_names[i]))
				continue;
			if (strv_has(&x->allowed, word))
				return false;
			struct finding *f = finding_add(x->d, is_limiter(word) ? "limits" : GROUP,
							layer_names[i]);
			finding_refused(f, text ? text + 2 : err->text);
			if (str_eq(word, "user") || str_eq(word, "mount") || str_eq(word, "pid"))
				name_setting(f);
			can_do_without = can_do_without && layer_check(word, NULL) >= 0 &&
					 !(str_eq(word, "user") && geteuid() != 0);
			strv_add(&x->allowed, word);
		}
	return can_do_without;
}

static void judge(const struct judging *j)
{
	j->x->d->can_run = true;
	judge_user(j);
	judge_privileges(j);
	judge_mount(j);
	judge_pid(j);
	judge_net(j);
	judge_ipc(j);
	judge_names(j);
	judge_landlock(j);
	judge_seccomp(j);
	judge_crash(j);
}

static void not_tried(struct examination *x, const char *why)
{
	for (size_t i = 0; i < layer_count; i++)
		if (!strv_has(&x->allowed, layer_names[i])) {
			struct finding *f =
				finding_add(x->d, is_limiter(layer_names[i]) ? "limits" : GROUP,
					    layer_names[i]);
			finding_is(f, FINDING_UNKNOWN, "not tried: %s", why);
		}
}

/* No box: why is known, the rest is not. */
static void no_box(struct examination *x, const struct err *why)
{
	if (!why->layer[0])
		finding_refused(finding_add(x->d, GROUP, "box"), why->text);
	not_tried(x, "no box can be made here");
}

void layers_judge(struct examination *x, const struct trial_box *t, const json_t *control)
{
	if (str_eq(trial_cause(t), "ok")) {
		judge(&(struct judging){ x, t, control });
		return;
	}
	CLEANUP_FREE char *why = xasprintf("the box ended as '%s'", trial_cause(t));
	not_tried(x, why);
}

void examine_layers(struct examination *x)
{
	CLEANUP_OUTSIDE struct outside o = OUTSIDE_INIT;
	struct err err = { 0 };
	bool go_on = true;
	outside_open(&o, x->config->home);
	CLEANUP_JSON json_t *control = acts_outside(&o);
	for (size_t i = 0; go_on && i <= layer_count; i++) {
		CLEANUP(trial_box_release)
		struct trial_box t = { .act = "layers", .allowed = &x->allowed };
		outside_args(&o, &t.args);
		examine_step(x, "the layers of the box");
		int r = trial_run(&x->trials, &t, 1, &err);
		if (r >= 0 && t.result >= 0) {
			layers_judge(x, &t, control);
			return;
		}
		if (r >= 0)
			err = t.err;
		go_on = r >= 0 && err.layer[0] && note_refusal(x, &err);
	}
	no_box(x, &err);
}
