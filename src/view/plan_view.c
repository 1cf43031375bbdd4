#include "view/plan_view.h"

#include <stdio.h>
#include <string.h>

#include "spec/secret.h"

/* Words of an analysis or a project may hold anything; a terminal is shown what is harmless. */
static void print_word(const char *before, const char *word, const char *after)
{
	CLEANUP_FREE char *visible = str_visible(word);
	printf("%s%s%s", before, visible, after);
}

static void print_command(const struct plan *p)
{
	printf("command   ");
	for (size_t i = 0; i < p->argv.n; i++)
		print_word(" ", p->argv.v[i], "");
	printf("\n");
}

static void print_limits(const struct plan *p)
{
	printf("\nbudget\n");
	for (int i = 0; i < LIMIT_COUNT_; i++) {
		char text[64];
		if (p->limits.at[i].value)
			printf("  %-14s %-12s %s\n", limit_infos[i].key,
			       limit_write(i, p->limits.at[i].value, text, sizeof text),
			       p->limits.at[i].origin);
	}
}

static void print_step(const struct step *s)
{
	CLEANUP_FREE char *target = str_visible(s->target);
	CLEANUP_FREE char *source = str_visible(s->source ? s->source : "");
	const char *kind = step_kind_name(s->kind);
	bool elsewhere = s->source && !str_eq(s->source, s->target);
	if (s->kind == STEP_FILE)
		printf("  %-7s %s (made, %zu bytes)\n", kind, target,
		       s->source ? strlen(s->source) : 0);
	else if (s->kind == STEP_SOCKET)
		printf("  %-7s %s from %s\n", kind, target, source);
	else if (s->kind == STEP_TMPFS)
		printf("  %-7s %s (%llu KiB, counted as memory)\n", kind, target,
		       (unsigned long long)(s->size_bytes >> 10));
	else if (s->kind == STEP_WORK && s->size_bytes)
		printf("  %-7s %s (writable, in memory: %llu KiB, %llu files; counted as memory)\n",
		       kind, target, (unsigned long long)(s->size_bytes >> 10),
		       (unsigned long long)s->inodes);
	else if (s->kind == STEP_LINK)
		printf("  %-7s %s -> %s\n", kind, target, source);
	else if (s->kind == STEP_BIND || s->kind == STEP_WORK)
		printf("  %-7s %s%s%s (%s%s)\n", kind, target, elsewhere ? " from " : "",
		       elsewhere ? source : "",
		       s->kind == STEP_WORK || s->writable ? "writable" : "read-only",
		       s->ids == IDS_RUN        ? ", shown to this run alone"
		       : s->ids == IDS_UNMAPPED ? ", id-mapped"
						: "");
	else
		printf("  %-7s %s%s%s\n", kind, target, s->kind == STEP_IMAGE ? " from " : "",
		       s->kind == STEP_IMAGE ? source : "");
}

static void print_list(const char *title, const struct strv *list)
{
	if (list->n)
		printf("\n%s\n", title);
	for (size_t i = 0; i < list->n; i++)
		print_word("  ", list->v[i], "\n");
}

static void print_environment(const struct strv *env)
{
	CLEANUP_STRV struct strv shown = { 0 };
	for (size_t i = 0; i < env->n; i++)
		if (env_entry_is_secret(env->v[i]))
			strv_addf(&shown, "%.*s (secret: not shown)", (int)strcspn(env->v[i], "="),
				  env->v[i]);
		else
			strv_add(&shown, env->v[i]);
	print_list("environment", &shown);
}

static void print_runtime(const struct runtime *r, const struct chosen *c)
{
	const char *identity = c->fingerprint.hex[DEPTH_IDENTITY];
	printf("runtime    %s (%s", r->name, runtime_kind_names[r->kind]);
	print_word(", ", r->version, ")\n");
	printf("chosen     by %s", select_rule_names[c->selection.rule]);
	print_word(": ", c->selection.why ? c->selection.why : "", "\n");
	printf("identity   %s\n", identity[0] ? identity : "unknown");
}

void plan_print(const struct analysis *analysis, const struct runtime *runtime,
		const struct chosen *chosen, const struct plan *plan)
{
	static const char *const accesses[] = {
		[ACCESS_READ] = "read", [ACCESS_WRITE] = "write", [ACCESS_DEVICE] = "device"
	};
	printf("run        %s\n", plan->id);
	print_runtime(runtime, chosen);
	if (analysis->name)
		printf("name       %s\n", analysis->name);
	if (analysis->quest)
		printf("quest      %s\n", analysis->quest);
	print_command(plan);
	printf("directory  %s\nuser       %s (%d:%d inside)\nnetwork    %s\ncpus       %d visible\n",
	       plan->work_dir, BOX_USER, BOX_UID, BOX_GID,
	       plan->own_network ? "none but its own loopback" : "the host's", plan->n_cpus);
	printf("cpu weight %u for all runs together (any other group of the host: %u)\n",
	       plan->cpu_weight, CPU_WEIGHT_OTHERS);
	print_limits(plan);
	printf("\nbox\n");
	for (size_t i = 0; i < plan->n_steps; i++)
		print_step(&plan->steps[i]);
	printf("\nlandlock (ABI %d)\n", plan->landlock_abi);
	for (size_t i = 0; i < plan->n_rules; i++)
		printf("  %-7s %s\n", accesses[plan->rules[i].access], plan->rules[i].path);
	printf("\noutputs\n");
	for (size_t i = 0; i < analysis->n_outputs; i++)
		print_word("  ", analysis->outputs[i].pattern,
			   analysis->outputs[i].required ? " (required)\n" : "\n");
	print_environment(&plan->env);
	print_list("warnings", &plan->warnings);
}

void plan_print_step(const json_t *step)
{
	static const char *const rows[] = { "run", "origin", "runtime", "database" };
	size_t i;
	json_t *word;
	if (!step)
		return;
	print_word("\npost_process ", json_string_value(json_object_get(step, "step")), "\n");
	for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
		printf("  %-9s", rows[k]);
		print_word("", json_string_value(json_object_get(step, rows[k])), "\n");
	}
	if (json_is_integer(json_object_get(step, "uid")))
		printf("  %-9s%lld\n", "uid",
		       (long long)json_integer_value(json_object_get(step, "uid")));
	printf("  command  ");
	json_array_foreach(json_object_get(json_object_get(step, "plan"), "argv"), i, word)
	{
		print_word(i ? " " : "", json_string_value(word), "");
	}
	printf("\n");
}
