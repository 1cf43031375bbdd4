#include "view/plan_view.h"

#include <stdio.h>
#include <string.h>

static void print_command(const struct plan *p)
{
	printf("command   ");
	for (size_t i = 0; i < p->argv.n; i++)
		printf(" %s", p->argv.v[i]);
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
	const char *kind = step_kind_name(s->kind);
	if (s->kind == STEP_FILE)
		printf("  %-7s %s (made, %zu bytes)\n", kind, s->target, strlen(s->source));
	else if (s->kind == STEP_TMPFS)
		printf("  %-7s %s (%llu KiB, counted as memory)\n", kind, s->target,
		       (unsigned long long)(s->size_bytes >> 10));
	else if (s->kind == STEP_LINK)
		printf("  %-7s %s -> %s\n", kind, s->target, s->source);
	else if (s->kind == STEP_BIND || s->kind == STEP_WORK)
		printf("  %-7s %s%s%s (%s)\n", kind, s->target,
		       s->source && strcmp(s->source, s->target) != 0 ? " from " : "",
		       s->source && strcmp(s->source, s->target) != 0 ? s->source : "",
		       s->kind == STEP_WORK || s->writable ? "writable" : "read-only");
	else
		printf("  %-7s %s\n", kind, s->target);
}

static void print_list(const char *title, const struct strv *list)
{
	if (list->n)
		printf("\n%s\n", title);
	for (size_t i = 0; i < list->n; i++)
		printf("  %s\n", list->v[i]);
}

void plan_print(const struct analysis *analysis, const struct runtime *runtime,
		const struct plan *plan)
{
	static const char *const accesses[] = {
		[ACCESS_READ] = "read", [ACCESS_WRITE] = "write", [ACCESS_DEVICE] = "device"
	};
	printf("run        %s\nruntime    %s (%s, %s)\n", plan->id, runtime->name, runtime->kind,
	       runtime->version);
	if (analysis->name)
		printf("name       %s\n", analysis->name);
	if (analysis->quest)
		printf("quest      %s\n", analysis->quest);
	print_command(plan);
	printf("directory  %s\nuser       %s (%d:%d inside)\nnetwork    %s\ncpus       %d visible\n",
	       plan->work_dir, BOX_USER, BOX_UID, BOX_GID,
	       plan->own_network ? "none but its own loopback" : "the host's", plan->n_cpus);
	print_limits(plan);
	printf("\nbox\n");
	for (size_t i = 0; i < plan->n_steps; i++)
		print_step(&plan->steps[i]);
	printf("\nlandlock (ABI %d)\n", plan->landlock_abi);
	for (size_t i = 0; i < plan->n_rules; i++)
		printf("  %-7s %s\n", accesses[plan->rules[i].access], plan->rules[i].path);
	printf("\noutputs\n");
	for (size_t i = 0; i < analysis->n_outputs; i++)
		printf("  %s%s\n", analysis->outputs[i].pattern,
		       analysis->outputs[i].required ? " (required)" : "");
	print_list("environment", &plan->env);
	print_list("warnings", &plan->warnings);
}
