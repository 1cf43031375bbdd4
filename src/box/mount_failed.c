/* What the host refuses is said with its remedy; the rest is a fault of the path that is named. */
#include <errno.h>
#include <string.h>

#include "box/mount.h"

int mount_failed(const struct step *s, int code, struct err *err)
{
	bool from = s->source && s->kind != STEP_FILE;
	const char *remedy =
		code == ENOSYS
			? ". Remedy: boot Linux 5.12 or later; in a container, have its seccomp filter pass the mount calls"
		: code != EPERM ? NULL
		: s->kind == STEP_PROC
			? ". Parts of /proc are hidden here, as container engines do, and then the kernel lets no user namespace "
			  "have a /proc of its own. Remedy: start the container with --security-opt unmask=ALL (podman) or "
			  "systempaths=unconfined (docker), or with --privileged, or run cupel on the host"
			: ". Remedy: in a container, have its filter pass the mount calls, or start it with --privileged";
	if (remedy)
		return err_layer(err, "mount", "%s on %s%s%s: %s%s", step_kind_name(s->kind),
				 s->target, from ? " from " : "", from ? s->source : "",
				 strerrordesc_np(code), remedy);
	return err_set(err, ERR_HOST, code, "mount: %s on %s%s%s: %s", step_kind_name(s->kind),
		       s->target, from ? " from " : "", from ? s->source : "",
		       strerrordesc_np(code));
}
