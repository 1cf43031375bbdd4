/* A verdict as it is recorded. */
#include <sys/wait.h>

#include "base/json.h"
#include "keeper/verdict.h"

static json_t *evidence_json(const struct ending *e)
{
	return json_pack("{s:o,s:o,s:o,s:o,s:o,s:b,s:s,s:o,s:o,s:b,s:i,s:i}", "oom_kills",
			 json_u64(e->usage.oom_kills), "memory_limit_hits",
			 json_u64(e->usage.mem_limit_hits), "memory_peak_bytes",
			 json_u64(e->usage.mem_peak_bytes), "memory_limit_bytes",
			 json_u64(ending_limit(e, LIMIT_MEMORY)), "pids_limit_hits",
			 json_u64(e->usage.pids_limit_hits), "disk_full", e->disk_full,
			 "disk_mechanism", e->disk_mechanism, "disk_uncounted",
			 e->disk_uncounted[0] ? json_text(e->disk_uncounted) : json_null(),
			 "throttled_usec", json_u64(e->usage.throttled_usec), "killed_by_force",
			 e->forced, "exec_errno", e->exec_errno, "wait_status",
			 e->exited ? e->wait_status : -1);
}

static json_t *usage_json(const struct ending *e)
{
	const struct usage *u = &e->usage;
	json_t *o = json_object();
	const struct {
		const char *key;
		uint64_t value;
	} rows[] = {
		{ "wall_usec", e->wall_ns / 1000 },
		{ "cpu_usec", u->cpu_usec },
		{ "cpu_user_usec", u->cpu_user_usec },
		{ "cpu_system_usec", u->cpu_system_usec },
		{ "memory_peak_bytes", u->mem_peak_bytes },
		{ "memory_anon_peak_bytes", u->mem_anon_bytes },
		{ "memory_file_peak_bytes", u->mem_file_bytes },
		{ "memory_shmem_peak_bytes", u->mem_shmem_bytes },
		{ "memory_kernel_peak_bytes", u->mem_kernel_bytes },
		{ "pids_peak", u->pids_peak },
		{ "io_read_bytes", u->io_read_bytes },
		{ "io_write_bytes", u->io_write_bytes },
		{ "disk_peak_bytes", e->disk_peak_bytes },
		{ "disk_peak_inodes", e->disk_peak_inodes },
		{ "throttled_periods", u->throttled_periods },
		{ "pressure_memory_usec", u->psi_mem_usec },
		{ "pressure_cpu_usec", u->psi_cpu_usec },
		{ "pressure_io_usec", u->psi_io_usec },
		{ "log_dropped_bytes", e->log_dropped[0] + e->log_dropped[1] },
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		json_object_set_new(o, rows[i].key, json_u64(rows[i].value));
	json_object_set_new(o, "cpu_wait_usec",
			    u->has_cpu_wait ? json_u64(u->cpu_wait_usec) : json_null());
	return o;
}

json_t *verdict_json(const struct verdict *v, const struct ending *e)
{
	return json_pack("{s:s,s:o,s:o,s:i,s:o,s:o,s:o,s:s}", "cause", cause_name(v->cause),
			 "exit_code", v->exit_code >= 0 ? json_integer(v->exit_code) : json_null(),
			 "signal", v->signal ? json_integer(v->signal) : json_null(), "exit_status",
			 v->exit_status, "completion_notes", json_text(v->notes), "evidence",
			 evidence_json(e), "usage", usage_json(e), "missing_layers",
			 e->missing_layers);
}
