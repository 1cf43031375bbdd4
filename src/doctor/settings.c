/* Settings of the kernel that weaken a promise whatever the box does. Those that the filter or the mounts of the box make harmless
 * (bpf, userfaultfd, perf, dmesg, kptr_restrict, ptrace_scope, links in /tmp) are not asked for. */
#include <fcntl.h>
#include <string.h>

#include "base/fs.h"
#include "doctor/parts.h"

static bool is_set(const char *path, const char *value)
{
	char text[64];
	return fs_read_small(AT_FDCWD, path, text, sizeof text) >= 0 && str_eq(text, value);
}

/* With 2 the kernel panics for the limit of one group too (vm.rst): no trial of it then. */
bool oom_is_fatal(void)
{
	return is_set("/proc/sys/vm/panic_on_oom", "2");
}

static bool mitigations_are_off(void)
{
	char text[4096];
	if (fs_read_small(AT_FDCWD, "/proc/cmdline", text, sizeof text) < 0)
		return false;
	for (char *rest = text, *word; (word = strsep(&rest, " "));)
		if (str_eq(word, "mitigations=off"))
			return true;
	return false;
}

void examine_settings(struct examination *x)
{
	if (oom_is_fatal() && !strv_has(&x->allowed, "memory") && x->d->can_run) {
		struct finding *f = finding_add(x->d, "limits", "memory");
		f->promise = "It uses no more memory than it may, and dies as a whole";
		finding_is(
			f, FINDING_MISSING,
			"vm.panic_on_oom is 2: the host would stop when a box meets its memory limit, so it was not tried");
		finding_root_remedy(f, "sysctl -w vm.panic_on_oom=0");
	}
	struct finding *f = finding_add(x->d, "host", "kernel settings");
	f->promise = "Known limits: side channels";
	if (mitigations_are_off()) {
		finding_is(
			f, FINDING_WEAK,
			"booted with mitigations=off: a box may read what other processes have in the caches");
		finding_root_remedy(
			f, "take mitigations=off from the kernel's command line, and boot");
	} else {
		finding_is(f, FINDING_OK, "%s",
			   oom_is_fatal() ? "mitigations are not switched off"
					  : "no panic on OOM, mitigations are not switched off");
	}
}
