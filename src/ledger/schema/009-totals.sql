-- Sums of runs, kept while runs are entered: who governs asks often, and of a million runs adding up takes seconds. A row for each quest,
-- runtime and submitter (`kind`), and each cause; an empty subject is that of runs that have none.

-- What one run adds to each of its three sums. A submitter's have no bounds: a run may find its submitter late, and what was the most
-- can't be taken back.
CREATE VIEW run_shares AS
	SELECT r.home AS home, r.id AS id, k.kind AS kind,
		CASE k.kind WHEN 'quest' THEN coalesce(r.quest, '') WHEN 'runtime' THEN coalesce(r.runtime, '')
			ELSE coalesce(s.submitter, '') END AS subject,
		r.cause AS cause, coalesce(r.wall_usec, 0) AS wall_usec, coalesce(r.cpu_usec, 0) AS cpu_usec,
		CAST(coalesce(r.memory_peak_bytes, 0) AS DOUBLE PRECISION) / 1073741824.0 * coalesce(r.wall_usec, 0) / 3600000000.0
			AS memory_gib_hours,
		CASE k.kind WHEN 'submitter' THEN 0 ELSE coalesce(r.memory_peak_bytes, 0) END AS memory_peak_bytes,
		CASE k.kind WHEN 'submitter' THEN NULL ELSE r.accepted END AS accepted
	FROM runs r
	CROSS JOIN (SELECT 'quest' AS kind UNION ALL SELECT 'runtime' UNION ALL SELECT 'submitter') k
	LEFT JOIN submission_runs m ON m.home = r.home AND m.run = r.id
	LEFT JOIN submissions s ON s.home = m.home AND s.id = m.submission;

CREATE TABLE run_totals (
	home TEXT NOT NULL REFERENCES homes (home) ON DELETE CASCADE,
	kind TEXT NOT NULL,             -- quest, runtime, submitter
	subject TEXT NOT NULL,
	cause TEXT NOT NULL,
	runs BIGINT NOT NULL,
	wall_usec BIGINT NOT NULL,
	cpu_usec BIGINT NOT NULL,
	memory_gib_hours DOUBLE PRECISION NOT NULL,
	memory_peak_bytes BIGINT NOT NULL,
	first TEXT,
	last TEXT,
	is_stale BIGINT NOT NULL,       -- 1: a run was taken out, and this is to be added up again
	PRIMARY KEY (home, kind, subject, cause)
);
CREATE INDEX run_totals_stale ON run_totals (home) WHERE is_stale <> 0;

INSERT INTO run_totals (home, kind, subject, cause, runs, wall_usec, cpu_usec, memory_gib_hours, memory_peak_bytes, first, last, is_stale)
	SELECT home, kind, subject, cause, count(*), sum(wall_usec), sum(cpu_usec), sum(memory_gib_hours), max(memory_peak_bytes),
		min(accepted), max(accepted), 0
	FROM run_shares GROUP BY home, kind, subject, cause;

-- What was asked for and never became a run, by time: a list looks for it each time, and most submissions are not among it.
CREATE INDEX submissions_never ON submissions (home, submitted, id) WHERE state IN ('cancelled', 'refused');
CREATE INDEX submissions_never_by_cause ON submissions (home, cause, submitted, id) WHERE state IN ('cancelled', 'refused');
