/* What an executor can do: by asking it, or, for what a keeper on this host carries out, by what the doctor finds. */
#include <errno.h>
#include <string.h>
#include <sys/utsname.h>

#include "conform/conform.h"
#include "doctor/doctor.h"
#include "executor/oci.h"

/* What a run would have to be allowed to miss. */
static void take_diagnosis(const struct diagnosis *d, struct capability *c)
{
	CLEANUP_FREE char *words = xstrdup(d->missing ? d->missing : "");
	for (char *rest = words, *word; (word = strsep(&rest, ","));)
		for (size_t i = 0; i < layer_count; i++)
			if (str_eq(word, layer_names[i]))
				c->layers[i] = false;
}

/* A keeper on this host gives whatever cupel gives; which layers the host has, is not asked here. */
static void tell_here(const struct config *config, struct capability *ret)
{
	struct capability c = { .signals = true,
				.checkpoints = true,
				.network_host = config->network_host_allowed,
				.submitters = true,
				.staging = STAGING_HERE,
				.judging = JUDGING_HERE };
	struct utsname uts = { 0 };
	(void)uname(&uts);
	(void)snprintf(c.engine, sizeof c.engine, "cupel " CUPEL_VERSION " on Linux %.20s",
		       uts.release);
	for (int i = 0; i < LIMIT_COUNT_; i++)
		c.limits[i] = true;
	for (size_t i = 0; i < layer_count; i++)
		c.layers[i] = true;
	*ret = c;
}

/* 1: it was asked itself; 0: a keeper here carries it out, and what the host gives is not known yet. */
static int ask(const struct config *config, const char *name, struct capability *ret,
	       struct err *err)
{
	CLEANUP_EXECUTOR struct executor *x = NULL;
	int r = executor_open(config, name, &x, err);
	if (r < 0)
		return r;
	const struct executor_settings *s = config_executor(config, name);
	if (!x && s && s->kind == EXECUTOR_OCI)
		return oci_probe(s, ret, err);
	if (!x) {
		tell_here(config, ret);
		return 0;
	}
	r = x->ops->probe(x, ret, err);
	return r < 0 ? err_wrap(err, "executor %s", name) : 1;
}

int capability_ask(const struct config *config, const char *name, struct capability *ret,
		   struct err *err)
{
	int r = ask(config, name, ret, err);
	return r < 0 ? r : 0;
}

int capability_find(const struct config *config, const char *name, struct capability *ret,
		    struct err *err)
{
	CLEANUP_DIAGNOSIS struct diagnosis d = { 0 };
	struct capability c = { 0 };
	int r = ask(config, name, &c, err);
	if (r == 0)
		r = doctor_examine(config, NULL, &d, err);
	if (r < 0)
		return r;
	if (d.summary && !d.can_run)
		return err_set(err, ERR_HOST, ENOTSUP, "%s `cupel doctor` says why.", d.summary);
	if (d.summary)
		take_diagnosis(&d, &c);
	*ret = c;
	return 0;
}
