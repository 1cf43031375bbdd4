/* What Slurm is given to run on a node: the job itself, and what tidies up after one that could not. */
#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/path.h"
#include "executor/slurm.h"

struct script {
	const struct job *job;
	struct str env; /* owned; how the node's cupel is started, but for its home */
	char *place;    /* owned; the job's directory, quoted */
	char *from;     /* owned; where it starts, quoted */
	char *cupel;    /* owned; quoted */
};

static void script_release(struct script *t)
{
	str_release(&t->env);
	cleanup_free(&t->place);
	cleanup_free(&t->from);
	cleanup_free(&t->cupel);
}

static void add_variable(struct str *to, const char *name, const char *value)
{
	CLEANUP_FREE char *quoted = value ? str_shell(value) : NULL;
	if (value)
		str_addf(to, " %s=%s", name, quoted);
}

/* The environment of the node's cupel: what it finds its configuration by. */
static void add_environment(struct str *to, const struct slurm_dir *d)
{
	struct passwd entry = { 0 }, *found = NULL;
	char text[4096];
	bool is_self = d->uid == geteuid();
	const char *home = is_self ? getenv("HOME") : NULL;
	if (!home && getpwuid_r(d->uid, &entry, text, sizeof text, &found) == 0 && found)
		home = found->pw_dir;
	str_add(to, "env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin LANG=C.UTF-8");
	add_variable(to, "HOME", home);
	add_variable(to, "CUPEL_CONFIG", getenv("CUPEL_CONFIG"));
	add_variable(to, "XDG_CONFIG_HOME", is_self ? getenv("XDG_CONFIG_HOME") : NULL);
}

/* A sweep of the attempt $i, if it was on this very host: elsewhere there is nothing of it. */
static void add_sweep(struct str *to, const struct script *t)
{
	str_addf(
		to,
		"\t[ \"$(cat host.$i 2>/dev/null)\" != \"$(uname -n)\" ] || %s CUPEL_HOME=%s/home.$i %s gc >/dev/null 2>&1\n",
		str_text(&t->env), t->place, t->cupel);
}

/* `exec`: Slurm's signals to the script are signals to `cupel run`. Each start by Slurm has a home of its own, since an id is used
 * once; what an earlier one left on this host is swept first, since it has the place of the working directory. */
static void write_script(const struct script *t, struct str *ret)
{
	str_addf(
		ret,
		"#!/bin/sh\n# A job of cupel: one run of an analysis, in a box on this node.\numask 077\ncd %s || exit 125\n",
		t->place);
	str_add(ret,
		"me=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}\n"
		"me=\"${me:-$SLURM_JOB_ID} $SLURM_JOB_NAME\"\n"
		"if ! ln -s \"$me\" owner 2>/dev/null && [ \"$(readlink owner)\" != \"$me\" ]; then\n"
		"\texit 0 # another job of this name is the one\nfi\n"
		"n=${SLURM_RESTART_COUNT:-0} i=0\n"
		"while [ \"$i\" -lt \"$n\" ]; do\n");
	add_sweep(ret, t);
	str_add(ret, "\ti=$((i + 1))\ndone\n"
		     "echo \"$SLURMD_NODENAME\" >node.$n && uname -n >host.$n || exit 125\n");
	str_addf(ret, "cd %s || exit 125\n", t->from);
	str_addf(
		ret,
		"exec %s CUPEL_HOME=%s/home.$n %s run --quiet --id %s \\\n"
		"\t${CUDA_VISIBLE_DEVICES:+--env \"CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES\"} %s/request.yaml >/dev/null\n",
		str_text(&t->env), t->place, t->cupel, t->job->id, t->place);
}

/* With nothing left for anybody else to sweep, the directory goes. */
static void write_sweep(const struct script *t, struct str *ret)
{
	str_addf(
		ret,
		"#!/bin/sh\n# A job of cupel: removes what a run left on this node.\ncd %s || exit 0\n",
		t->place);
	str_add(ret, "for at in home.*; do\n\ti=${at#home.}\n");
	add_sweep(ret, t);
	str_addf(ret, "done\nfor at in home.*/active/%s; do\n\t[ ! -e \"$at\" ] || exit 0\ndone\n",
		 t->job->id);
	str_addf(ret, "cd / && rm -rf %s\n", t->place);
}

int slurm_scripts_write(const struct slurm *s, const struct job *job, const struct slurm_dir *d,
			struct err *err)
{
	CLEANUP(script_release) struct script t = { .job = job };
	CLEANUP_STR struct str script = { 0 }, sweep = { 0 };
	const char *set = pairs_get(&s->x->settings->options, "program");
	CLEANUP_FREE char *program = set ? xstrdup(set) : path_real("/proc/self/exe");
	CLEANUP_FREE char *place = xasprintf("%s/%s", s->stage, job->name);
	const char *root = job->config->project_root;
	if (!program)
		return err_errno(err, "find cupel's own program");
	add_environment(&t.env, d);
	t.place = str_shell(place);
	t.from = str_shell(root ? root : place);
	t.cupel = str_shell(program);
	write_script(&t, &script);
	write_sweep(&t, &sweep);
	int r = slurm_dir_write(d, "script", str_text(&script), err);
	return r < 0 ? r : slurm_dir_write(d, "sweep", str_text(&sweep), err);
}
