#include "view/flow_view.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/num.h"
#include "base/terminal.h"
#include "view/state_colour.h"
#include "view/status.h"

#define PLAN_SHARDS_MAX 20   /* of a step that are listed one by one */
#define WORDS_ROOM      2048 /* of what a step that failed wrote last */
#define WORDS_LINES     3
#define WORDS_WIDTH     300

static void clear(struct flow_progress *p)
{
	progress_clear(&p->reading);
	if (p->on_screen)
		terminal_control(stderr, "\r\033[K");
	p->on_screen = false;
}

/* Reused tasks of one step are told in one line. */
static void tell_reused(struct flow_progress *p)
{
	if (p->reused && !p->is_quiet) {
		char shards[48] = "";
		if (p->reused_step->scattered)
			(void)snprintf(shards, sizeof shards, "%zu of its %zu shards ", p->reused,
				       p->reused_step->n_tasks);
		fprintf(stderr, "cupel: %s: %sreused\n", p->reused_step->name, shards);
	}
	p->reused = 0;
}

/* The last lines that it wrote to standard error: mostly they say what is wrong. */
static void tell_words(const struct flow_progress *p, const char *label, const char *run)
{
	char text[WORDS_ROOM + 1];
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s/stderr.log", p->home, run);
	CLEANUP_FD int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st = { 0 };
	if (fd < 0 || fstat(fd, &st) < 0)
		return;
	off_t from = st.st_size > WORDS_ROOM ? st.st_size - WORDS_ROOM : 0;
	ssize_t n = pread(fd, text, WORDS_ROOM, from);
	while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' '))
		n--;
	if (n <= 0)
		return;
	text[n] = 0;
	char *line = text + n;
	for (unsigned lines = 0; line > text && (line[-1] != '\n' || ++lines < WORDS_LINES);)
		line--;
	for (char *next; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		CLEANUP_FREE char *words = str_visible(line);
		if (*words)
			fprintf(stderr, "cupel: %s: | %.*s\n", label, WORDS_WIDTH, words);
	}
}

/* "cupel: STEP: STATE", and what follows. */
__attribute__((format(printf, 3, 4))) static void say_state(const char *label, const char *state,
							    const char *format, ...)
{
	va_list args;
	fprintf(stderr, "cupel: %s: ", label);
	terminal_print(stderr, state_colour(state), "%s", state);
	va_start(args, format);
	(void)vfprintf(stderr, format, args);
	va_end(args);
}

static void tell_end(const struct flow_progress *p, const struct flow_news *n)
{
	char wall[32], memory[32];
	CLEANUP_FREE char *label = str_visible(n->task->label);
	if (n->ok)
		say_state(label, "ok", " in %s, %s\n",
			  num_print_duration(n->wall_ns, wall, sizeof wall),
			  num_print_size(n->memory_bytes, memory, sizeof memory));
	else if (n->run) {
		say_state(label, n->cause, ": %s\n", n->why ? n->why : "");
		if (str_eq(n->cause, "cancelled"))
			return;
		tell_words(p, label, n->run);
		fprintf(stderr, "cupel: %s: all its words: cupel logs %s\n", label, n->run);
	} else
		fprintf(stderr, "cupel: %s: %s\n", label, n->why ? n->why : n->cause);
}

void flow_progress_news(void *data, const struct flow_news *n)
{
	struct flow_progress *p = data;
	const struct flow_step *step = &p->flow->steps[n->task->step];
	CLEANUP_FREE char *label = str_visible(n->task->label);
	clear(p);
	if (n->kind == FLOW_NEWS_REUSED) {
		if (p->reused && p->reused_step != step)
			tell_reused(p);
		p->reused_step = step;
		p->reused++;
		return;
	}
	tell_reused(p);
	if (n->kind == FLOW_NEWS_ENDED && (!p->is_quiet || !n->ok))
		tell_end(p, n);
	if (p->is_quiet)
		return;
	if (n->kind == FLOW_NEWS_STARTED && !p->is_live)
		fprintf(stderr, "cupel: %s: started: %s\n", label, n->why ? n->why : "");
	if (n->kind == FLOW_NEWS_AWAITED)
		fprintf(stderr,
			"cupel: %s: waits for %s, which was begun before and goes on elsewhere\n",
			label, n->run);
	if (n->kind == FLOW_NEWS_AGAIN)
		fprintf(stderr, "cupel: %s: it is tried again: %s\n", label, n->why);
}

void flow_progress_tally(void *data, const struct flow_tally *t)
{
	struct flow_progress *p = data;
	CLEANUP_STR struct str line = { 0 };
	char memory[32], elapsed[32];
	if (!p->is_live || p->is_quiet)
		return;
	str_addf(&line, "cupel: %zu of %zu done", t->n[FLOW_OK] + t->n[FLOW_REUSED], t->total);
	if (t->n[FLOW_FAILED])
		str_addf(&line, ", %zu failed", t->n[FLOW_FAILED]);
	str_addf(&line, ", %s", status_elapsed(t->elapsed_ns, elapsed, sizeof elapsed));
	if (t->n_running)
		str_addf(&line, ", memory %s, %zu running:",
			 num_print_size(t->memory_bytes, memory, sizeof memory),
			 t->n[FLOW_RUNNING]);
	for (size_t i = 0; i < t->n_running && line.length < 300; i++) {
		CLEANUP_FREE char *label = str_visible(t->running[i]->label);
		str_addf(&line, " %.40s", label);
	}
	status_show(str_text(&line));
	p->on_screen = true;
}

/* Steps that nothing else needs: what the pipeline was run for. */
static bool is_last(const struct flow *f, size_t step)
{
	for (size_t i = 0; i < f->n_steps; i++)
		for (size_t k = 0; k < f->steps[i].n_needs; k++)
			if (f->steps[i].needs[k].step == step)
				return false;
	return true;
}

static void print_outputs(const struct flow *f, const struct config *c, const json_t *result)
{
	size_t i;
	json_t *task;
	json_array_foreach(json_object_get(result, "steps"), i, task)
	{
		const char *step = json_string_value(json_object_get(task, "step"));
		const char *run = json_string_value(json_object_get(task, "run"));
		ssize_t index = flow_find(f, step);
		if (index < 0 || !is_last(f, (size_t)index) || !run)
			continue;
		if (f->steps[index].n_tasks > 8) {
			if (i == f->steps[index].first)
				fprintf(stderr,
					"cupel: outputs of %s: %zu runs, see `cupel show %s`\n",
					step, f->steps[index].n_tasks,
					json_string_value(json_object_get(result, "id")));
			continue;
		}
		CLEANUP_FREE char *label = str_visible(f->tasks[i].label);
		fprintf(stderr, "cupel: outputs of %s: %s/runs/%s/outputs\n", label, c->home, run);
	}
}

void flow_print_end(struct flow_progress *p, const struct config *c, const struct flow_end *end)
{
	char elapsed[32];
	const size_t *n = end->tally.n;
	clear(p);
	tell_reused(p);
	if (p->is_quiet)
		return;
	fprintf(stderr, "cupel: %s: %zu run, %zu reused", flow_state_names[end->state], n[FLOW_OK],
		n[FLOW_REUSED]);
	if (n[FLOW_FAILED])
		fprintf(stderr, ", %zu failed", n[FLOW_FAILED]);
	if (n[FLOW_CANCELLED])
		fprintf(stderr, ", %zu cancelled", n[FLOW_CANCELLED]);
	if (n[FLOW_SKIPPED])
		fprintf(stderr, ", %zu not run", n[FLOW_SKIPPED]);
	fprintf(stderr, " in %s\ncupel: record: %s/pipelines/%s\n",
		num_print_duration(end->tally.elapsed_ns, elapsed, sizeof elapsed), c->home,
		end->id);
	if (end->state == FLOW_OK)
		print_outputs(p->flow, c, end->result);
	else
		fprintf(stderr,
			"cupel: %s`cupel resume %s` goes on from here; `cupel run %s` after an edit of that file\n",
			end->state == FLOW_FAILED ? "once it is mended, " : "", end->id,
			p->flow->file);
}

static const char *plan_word(const struct flow_foresight *f)
{
	return f->state == FLOW_REUSED ? "reuse" : f->state == FLOW_WAITING ? "wait" : "run";
}

static void print_task(const struct flow_task *t, const struct flow_foresight *f)
{
	CLEANUP_FREE char *label = str_visible(t->label);
	CLEANUP_FREE char *why = str_visible(f->why ? f->why : "");
	printf("%-6s %s%s%s\n", plan_word(f), label,
	       f->state == FLOW_REUSED ? ": "
	       : *why                  ? ": "
				       : "",
	       f->state == FLOW_REUSED ? f->run : why);
}

void flow_print_plan(const struct flow *f, const struct flow_foresight *all)
{
	for (size_t i = 0; i < f->n_steps; i++) {
		const struct flow_step *s = &f->steps[i];
		size_t reused = 0, told = 0;
		for (size_t t = s->first; t < s->first + s->n_tasks; t++)
			reused += all[t].state == FLOW_REUSED;
		if (s->n_tasks > PLAN_SHARDS_MAX)
			printf("%-6s %s: %zu of %zu shards\n", "reuse", s->name, reused,
			       s->n_tasks);
		for (size_t t = s->first; t < s->first + s->n_tasks; t++) {
			if (s->n_tasks > PLAN_SHARDS_MAX &&
			    (all[t].state == FLOW_REUSED || told++ >= PLAN_SHARDS_MAX))
				continue;
			print_task(&f->tasks[t], &all[t]);
		}
		if (told > PLAN_SHARDS_MAX)
			printf("%-6s %s: %zu more\n", "", s->name, told - PLAN_SHARDS_MAX);
	}
}

json_t *flow_plan_json(const struct flow *f, const struct flow_foresight *all)
{
	json_t *tasks = json_array();
	for (size_t t = 0; t < f->n_tasks; t++) {
		const struct flow_task *task = &f->tasks[t];
		json_t *o = json_pack("{s:o,s:o,s:s}", "step", json_text(f->steps[task->step].name),
				      "shard", task->shard ? json_text(task->shard) : json_null(),
				      "plan", plan_word(&all[t]));
		if (all[t].run[0])
			json_object_set_new(o, "run", json_string(all[t].run));
		if (all[t].why)
			json_object_set_new(o, "why", json_text(all[t].why));
		json_array_append_new(tasks, o);
	}
	return json_pack("{s:o,s:o}", "file", json_text(f->real), "steps", tasks);
}
