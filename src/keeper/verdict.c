/* The rules, strongest evidence first. An exit status alone never decides: 137 is an OOM only if the kernel counted one. */
#include "keeper/verdict.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/num.h"
#include "base/str.h"
#include "keeper/notebook.h"

static void note(struct verdict *v, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(struct verdict *v, const char *format, ...)
{
	size_t used = strlen(v->notes);
	va_list args;
	va_start(args, format);
	(void)vsnprintf(v->notes + used, sizeof v->notes - used, format, args);
	va_end(args);
	str_clean(v->notes +
		  used); /* it quotes names that an analysis chose, and is shown on terminals */
}

static const char *size_text(uint64_t bytes)
{
	static _Thread_local char text[4][32]; /* four in one sentence are enough */
	static _Thread_local unsigned turn;
	return num_print_size(bytes, text[turn++ % 4], sizeof text[0]);
}

static const char *time_text(uint64_t ns)
{
	static _Thread_local char text[2][32];
	static _Thread_local unsigned turn;
	return num_print_duration(ns, text[turn++ % 2], sizeof text[0]);
}

/* Did the kernel kill for the run's own limit, or for that of all runs together? */
static bool own_memory_limit(const struct ending *e)
{
	return e->usage.mem_peak_bytes >= ending_limit(e, LIMIT_MEMORY) / 100 * 95;
}

static void decide_oom(const struct ending *e, struct verdict *v)
{
	bool is_memory = str_eq(e->disk_mechanism, "memory");
	uint64_t memory = ending_limit(e, LIMIT_MEMORY);
	char suggestion[32];
	uint64_t more = memory + memory / 2 + (1 << 20);
	(void)num_write_size(more / (64 << 20) * (64 << 20) + (64 << 20), suggestion,
			     sizeof suggestion);
	v->cause = CAUSE_OOM;
	v->signal = v->exit_code < 0 ? SIGKILL
				     : 0; /* a worker was killed, and the rest ended itself */
	v->exit_status = 137;
	if (own_memory_limit(e)) {
		note(v,
		     "The analysis needed more than its %s of memory and was ended by the kernel (peak %s",
		     size_text(memory), size_text(e->usage.mem_peak_bytes));
		if (e->usage.mem_shmem_bytes >= memory / 8) /* less is not why */
			note(v, ", of it %s in files under %s/tmp and /dev/shm",
			     size_text(e->usage.mem_shmem_bytes),
			     is_memory ? "its working directory, " : "");
		note(v, "). Try --memory %s, or process the data in smaller pieces%s.", suggestion,
		     is_memory ? ", or have its files on the disk: --scratch disk" : "");
	} else
		note(v,
		     "The kernel ended the analysis for memory at a peak of %s, below its own limit of %s: all runs together had reached "
		     "their common limit, or the host had no memory left. Run fewer at a time, or raise 'aggregate: memory' in cupel.yaml.",
		     size_text(e->usage.mem_peak_bytes), size_text(memory));
}

/* Nothing was started, or it could not go on: not for anything that the analysis did. */
static void decide_refused(const struct ending *e, struct verdict *v)
{
	v->cause = e->stop == STOP_RUNTIME ? CAUSE_RUNTIME_BROKEN
		   : e->stop == STOP_INPUT ? CAUSE_INPUT_CHANGED
					   : CAUSE_SETUP;
	v->exit_status = 125;
	if (e->stop == STOP_RECORD)
		note(v, "The run was ended because its record could no longer be written: %s.",
		     e->setup.text);
	else if (e->stop == STOP_INPUT)
		note(v, "Nothing was started: %s.", e->setup.text);
	else if (e->stop == STOP_SETUP)
		note(v, "The box could not be set up, and nothing was started: %s.", e->setup.text);
	else
		note(v, "The runtime can't be relied on, and nothing was started: %s.",
		     e->setup.text);
	if (e->stop == STOP_SETUP && e->setup_optional)
		note(v, " Or do without, which the record will say: --allow-missing %s.",
		     e->setup.layer);
	if (e->stop == STOP_RUNTIME && e->setup.code == ESTALE)
		note(v, " Or run in it as it is, which the record will say: --allow-drift.");
}

static void decide_disk(const struct ending *e, struct verdict *v)
{
	v->cause = CAUSE_DISK;
	v->exit_status = 128 + SIGXFSZ;
	if (e->disk_uncounted[0])
		note(v,
		     "The size of the working directory could not be measured (%s), which counts as over its limit, and the run was ended. "
		     "Keep directories readable by their owner (chmod u+rx) and processes dumpable (prctl(2)), or run as root, where the file "
		     "system itself is limited.",
		     e->disk_uncounted);
	else
		note(v,
		     "The working directory grew beyond its limit (%s in %llu files; allowed %s in %llu) and the run was ended. "
		     "Give it more with --disk or --inodes.",
		     size_text(e->disk_peak_bytes), (unsigned long long)e->disk_peak_inodes,
		     size_text(ending_limit(e, LIMIT_DISK)),
		     (unsigned long long)ending_limit(e, LIMIT_INODES));
}

static void decide_stop(const struct ending *e, struct verdict *v)
{
	switch (e->stop) {
	case STOP_DEADLINE:
		v->cause = CAUSE_DEADLINE;
		v->exit_status = 124;
		note(v,
		     "The analysis did not end within its %s of wall time and was ended%s. Give it more with --time%s.",
		     time_text(ending_limit(e, LIMIT_TIME)),
		     e->forced ? " by force after its grace" : "",
		     e->has_checkpoint ? "" : ", or make it checkpoint and resume (--checkpoint)");
		break;
	case STOP_CPU:
		v->cause = CAUSE_CPU;
		v->exit_status = 128 + SIGXCPU;
		note(v,
		     "The analysis used up its %s of cpu time and was ended. Give it more with --cpu-time.",
		     time_text(ending_limit(e, LIMIT_CPU_TIME)));
		break;
	case STOP_DISK:
		decide_disk(e, v);
		break;
	case STOP_CANCEL:
		v->cause = CAUSE_CANCELLED;
		v->exit_status = 128 + (e->stop_signal ? e->stop_signal : SIGKILL);
		note(v, "The run was cancelled after %s: %s.", time_text(e->wall_ns), e->stop_by);
		break;
	case STOP_SETUP:
	case STOP_RECORD:
	case STOP_RUNTIME:
	case STOP_INPUT:
		decide_refused(e, v);
		break;
	case STOP_LOST:
		v->cause = CAUSE_LOST;
		v->exit_status = 137;
		note(v, "The run was lost: %s.", e->setup.text);
		break;
	case STOP_OOM:
	case STOP_NONE:
	case STOP_COUNT_:
		break;
	}
}

static void decide_exec(const struct ending *e, struct verdict *v)
{
	v->cause = CAUSE_EXIT;
	v->exit_code = v->exit_status = e->exec_errno == ENOENT || e->exec_errno == ENOTDIR ? 127
											    : 126;
	if (v->exit_code == 127)
		note(v,
		     "'%s' was not found in the runtime. Check its name, or show it to the box: code:, inputs:, --data.",
		     e->program);
	else if (e->exec_errno == ENOEXEC)
		note(v,
		     "'%s' could not be executed: it has no '#!' line and is no program for this processor. Begin a script with a line that "
		     "names its interpreter, such as #!/bin/sh, or name the interpreter: cupel run --data SCRIPT -- sh data/SCRIPT.",
		     e->program);
	else
		note(v, "'%s' could not be executed: %s.", e->program,
		     strerrordesc_np(e->exec_errno));
}

/* Without a smaller file_size a single file may take up the whole disk: the kernel then ends its writer, maybe before anybody has
 * looked at the disk. */
static bool is_disk_in_one_file(const struct ending *e)
{
	uint64_t file_size = ending_limit(e, LIMIT_FILE_SIZE);
	return WTERMSIG(e->wait_status) == SIGXFSZ && e->disk_full &&
	       (!file_size || file_size >= ending_limit(e, LIMIT_DISK));
}

static void decide_signal(const struct ending *e, struct verdict *v)
{
	v->signal = WTERMSIG(e->wait_status);
	v->exit_status = 128 + v->signal;
	if (is_disk_in_one_file(e)) {
		decide_disk(e, v);
		return;
	}
	v->cause = v->signal == SIGSYS ? CAUSE_DENIED : CAUSE_SIGNAL;
	if (v->cause == CAUSE_DENIED)
		note(v,
		     "The analysis was ended for a system call that no analysis may make (SIGSYS), such as one of another architecture.");
	else
		note(v, "The analysis was ended by signal %d (%s%s).", v->signal,
		     sigabbrev_np(v->signal) ? "SIG" : "",
		     sigabbrev_np(v->signal) ? sigabbrev_np(v->signal) : "real-time");
	if (v->signal == SIGKILL)
		note(v, " It was not for memory: the kernel counted no OOM kill.");
	if (v->signal == SIGXFSZ)
		note(v, " A file would have grown beyond %s: see --file-size and --disk.",
		     size_text(ending_limit(e, LIMIT_FILE_SIZE) ? ending_limit(e, LIMIT_FILE_SIZE)
								: ending_limit(e, LIMIT_DISK)));
}

/* Nobody is left who could tell how the analysis ended. */
static void decide_box_gone(const struct ending *e, struct verdict *v)
{
	v->signal = SIGKILL;
	v->exit_status = 128 + SIGKILL;
	v->cause = e->own_kernel && e->usage.pids_limit_hits ? CAUSE_PIDS : CAUSE_SIGNAL;
	if (v->cause == CAUSE_PIDS)
		note(v,
		     "The box's own kernel ended, with all in it, when it was refused %llu more threads (allowed %llu). Give it more with --pids, or "
		     "start fewer workers.",
		     (unsigned long long)e->usage.pids_limit_hits,
		     (unsigned long long)ending_limit(e, LIMIT_PIDS));
	else
		note(v,
		     "The box was ended from outside (its init was killed). It was not for memory: the kernel counted no OOM kill.");
}

/* The shell of a text is stricter than /bin/sh -c: what it would have let pass is named where it is known. */
static void remark_shell(const struct ending *e, struct verdict *v)
{
	const char *shell = e->strict_shell == STRICT_BASH ? "bash -euo pipefail -c" : "sh -eu -c";
	if (e->strict_shell == STRICT_NONE || v->cause != CAUSE_EXIT)
		return;
	if (e->unset_variable)
		note(v,
		     " The shell ended it because a variable is not set (option -u): set it, write ${NAME-} in its place, or use 'shell: "
		     "sh', which has no such option.");
	else if (e->strict_shell == STRICT_BASH && v->exit_code == 128 + SIGPIPE)
		note(v,
		     " Status 141 is how the option pipefail reports a command whose reader stopped early, as in 'zcat FILE | head': write "
		     "'{ zcat FILE || true; } | head', or use 'shell: sh', which has no such option.");
	else
		note(v,
		     " '%s' ends at the first command that fails (option -e%s), also if that is grep without a match; 'shell: sh' "
		     "continues.",
		     shell, e->strict_shell == STRICT_BASH ? ", in a pipeline by pipefail" : "");
}

static void decide_failure(const struct ending *e, struct verdict *v)
{
	v->exit_status = v->exit_code;
	if (e->disk_full) {
		v->cause = CAUSE_DISK;
		note(v,
		     "The analysis failed with status %d after its working directory was full (%s in %llu files; allowed %s in %llu). Give it "
		     "more with --disk or --inodes%s.",
		     v->exit_code, size_text(e->disk_peak_bytes),
		     (unsigned long long)e->disk_peak_inodes,
		     size_text(ending_limit(e, LIMIT_DISK)),
		     (unsigned long long)ending_limit(e, LIMIT_INODES),
		     str_eq(e->disk_mechanism, "memory")
			     ? ", and as much more --memory, which its files are part of"
			     : "");
	} else if (e->usage.pids_limit_hits) {
		v->cause = CAUSE_PIDS;
		note(v,
		     "The analysis failed with status %d after it was refused %llu more processes or threads (allowed %llu). Give it more with "
		     "--pids, or start fewer workers.",
		     v->exit_code, (unsigned long long)e->usage.pids_limit_hits,
		     (unsigned long long)ending_limit(e, LIMIT_PIDS));
	} else {
		v->cause = CAUSE_EXIT;
		note(v,
		     "The analysis ended itself with status %d after %s. Its own words are in stderr.log.",
		     v->exit_code, time_text(e->wall_ns));
		CLEANUP_STR struct str help = { 0 };
		symptom_words(&e->symptom, &help);
		note(v, "%s", str_text(&help));
	}
}

static void decide_checkpointed(const struct ending *e, struct verdict *v)
{
	v->cause = CAUSE_CHECKPOINTED;
	v->exit_status = v->exit_code;
	note(v,
	     "The analysis has saved its state after %s and ended itself with status %d: run it again to go on.",
	     time_text(e->wall_ns), v->exit_code);
	if (e->disk_full)
		note(v,
		     " A disk of its was full meanwhile: give it more with --disk or --inodes if it saved less than it "
		     "should.");
}

#define WAIT_WORTH_SAYING_NS NS_PER_SEC

static void remark_wait(const struct ending *e, struct verdict *v)
{
	uint64_t waited_ns = e->usage.cpu_wait_usec * 1000;
	if (!e->usage.has_cpu_wait || waited_ns < WAIT_WORTH_SAYING_NS ||
	    waited_ns <= e->wall_ns / 10)
		return;
	CLEANUP_FREE char *waited = xstrdup(time_text(waited_ns));
	note(v,
	     " It waited for a CPU for %s of %s: the host was busy with other work, or it has more threads than CPUs. Run it at a "
	     "quieter time or with fewer threads, or raise 'cpu_weight' in cupel.yaml.",
	     waited, time_text(e->wall_ns));
}

/* What a run that has to be run again leaves to the next one. */
static void remark_checkpoint(const struct ending *e, struct verdict *v)
{
	if (e->has_checkpoint && e->started && v->cause != CAUSE_OK &&
	    v->cause != CAUSE_CHECKPOINTED)
		note(v, " Its checkpoint is kept: run it again to go on from there.");
	if (e->checkpoint_damaged && v->cause != CAUSE_OK)
		note(v, " The host's disk was full or failing: what it saved may not be whole.");
	if (e->checkpoint_note && e->checkpoint_note[0])
		note(v, " %s.", e->checkpoint_note);
}

static void decide_success(const struct ending *e, struct verdict *v)
{
	if (e->output_damaged) {
		v->cause = CAUSE_DISK;
		v->exit_status = 1;
		note(v,
		     "The analysis ended with status 0, but its output '%.200s' was lost: the host's disk was full or failing while it ran. "
		     "Make room on it and run again.",
		     e->output_damaged);
	} else if (e->output_over_cap) {
		v->cause = CAUSE_OUTPUT_CAP;
		v->exit_status = 1;
		note(v,
		     "The analysis succeeded, but its outputs are more than may be collected (%s in %llu files); only a part was. Raise "
		     "output_size or output_count, or write less, or shorter names, below out/.",
		     size_text(ending_limit(e, LIMIT_OUTPUT_SIZE)),
		     (unsigned long long)ending_limit(e, LIMIT_OUTPUT_COUNT));
	} else if (e->output_missing) {
		v->cause = CAUSE_OUTPUT_MISSING;
		v->exit_status = 1;
		note(v,
		     "The analysis ended with status 0, but the required output '%s' is not there.",
		     e->output_missing);
	} else if (e->input_changed) {
		v->cause = CAUSE_INPUT_CHANGED;
		v->exit_status = 1;
		note(v,
		     "The analysis ended with status 0, but '%.300s' changed while it ran, so nothing says what it read. Run it again when nobody "
		     "writes there, or on a copy.",
		     e->input_changed);
	} else if (e->output_invalid) {
		v->cause = CAUSE_OUTPUT_INVALID;
		v->exit_status = 1;
		note(v,
		     "The analysis ended with status 0, but an output is not sound: %s. If it is as it should be, say check: off for it.",
		     e->output_invalid);
	} else if (e->after && !str_eq(e->after->cause, cause_name(CAUSE_OK))) {
		v->cause = CAUSE_POST_PROCESS;
		v->exit_status = 1;
		note(v,
		     "The analysis ended with status 0, but the step '%.100s' that was to take its outputs did not succeed (%s): %s",
		     e->after->step, e->after->cause, e->after->notes);
		if (e->after->run[0])
			note(v, " Its words: cupel logs %s.", e->after->run);
	} else {
		v->cause = CAUSE_OK;
		note(v, "The analysis succeeded in %s", time_text(e->wall_ns));
		if (e->usage.mem_peak_bytes) /* 0: nothing counted it */
			note(v, ", with a peak of %s of memory",
			     size_text(e->usage.mem_peak_bytes));
		note(v, ".");
		if (e->after)
			note(v, " The step '%.100s' has taken its outputs.", e->after->step);
	}
}

static void add_remarks(const struct ending *e, struct verdict *v)
{
	if (!e->log_errno && (e->log_dropped[0] || e->log_dropped[1]))
		note(v, " Of its log, %s were dropped beyond the limit of %s.",
		     size_text(e->log_dropped[0] + e->log_dropped[1]),
		     size_text(ending_limit(e, LIMIT_LOG)));
	if (e->log_errno)
		note(v, " Its log could not be written to the end: %s.",
		     strerrordesc_np(e->log_errno));
	if (e->usage.pids_limit_hits && v->cause != CAUSE_PIDS)
		note(v, " It was refused %llu more processes (limit %llu).",
		     (unsigned long long)e->usage.pids_limit_hits,
		     (unsigned long long)ending_limit(e, LIMIT_PIDS));
	if (e->outputs_warned)
		note(v, " Remarks on %llu of its outputs: %s.",
		     (unsigned long long)e->outputs_warned, e->output_warning);
	if (e->outputs_refused)
		note(v, " %llu entries below the outputs were refused: see outputs.json.",
		     (unsigned long long)e->outputs_refused);
	if (e->input_changed && v->cause != CAUSE_INPUT_CHANGED)
		note(v, " Its input '%.300s' changed while it ran.", e->input_changed);
	remark_wait(e, v);
	remark_checkpoint(e, v);
	if (e->drift)
		note(v, " It ran in a runtime that can't be relied on, as was allowed: %s.",
		     e->drift);
	if (e->missing_layers[0])
		note(v, " It ran without these layers, as was allowed: %s.", e->missing_layers);
}

/* The cell comes first: it is what a person looks for. */
static void add_cell(const struct notebook_end *n, struct verdict *v)
{
	char notes[sizeof v->notes];
	(void)memcpy(notes, v->notes, sizeof notes);
	notebook_end_words(n, v, v->notes, sizeof v->notes);
	note(v, "%s", notes);
}

void verdict_decide(const struct ending *e, struct verdict *ret)
{
	struct verdict v = { .exit_code = -1 };
	bool had_code = e->exited && WIFEXITED(e->wait_status);
	if (e->given) {
		*ret = *e->given;
		remark_shell(e, ret);
		return;
	}
	if (had_code && !e->exec_errno)
		v.exit_code = WEXITSTATUS(e->wait_status);
	if (e->usage.oom_kills || e->stop == STOP_OOM)
		decide_oom(e, &v);
	else if (e->stop != STOP_NONE)
		decide_stop(e, &v);
	else if (e->exec_errno)
		decide_exec(e, &v);
	else if (!e->exited)
		decide_box_gone(e, &v);
	else if (WIFSIGNALED(e->wait_status))
		decide_signal(e, &v);
	else if (v.exit_code && v.exit_code == e->checkpoint_exit_code)
		decide_checkpointed(e, &v);
	else if (v.exit_code)
		decide_failure(e, &v);
	else
		decide_success(e, &v);
	remark_shell(e, &v);
	if (e->notebook)
		add_cell(e->notebook, &v);
	add_remarks(e, &v);
	*ret = v;
}

json_t *verdict_lost_json(const char *id, const char *found, bool outputs_aside)
{
	struct ending none = { 0 };
	struct verdict v = { .cause = CAUSE_LOST, .exit_code = -1, .exit_status = 128 + SIGKILL };
	note(&v,
	     "The keeper of this run ended without recording how: it was killed, or the host went down. The box died with it. Left over "
	     "and removed: %s.%s Run the analysis again under a new id.",
	     found,
	     outputs_aside
		     ? " Outputs that were collected are in partial/; nothing vouches for them."
		     : "");
	json_t *o = verdict_json(&v, &none);
	json_object_set_new(o, "id", json_string(id));
	return o;
}
