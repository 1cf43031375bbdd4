-- Whose a run is stands in its record, and the steps of a pipeline have no submission of their own. Runs that were entered before this are
-- their submission's, if they have one.
ALTER TABLE runs ADD COLUMN submitter TEXT;     -- made of the record; NULL: nobody asked a service for it

DROP VIEW run_shares;
CREATE VIEW run_shares AS
	SELECT r.home AS home, r.id AS id, k.kind AS kind,
		CASE k.kind WHEN 'quest' THEN coalesce(r.quest, '') WHEN 'runtime' THEN coalesce(r.runtime, '')
			ELSE coalesce(r.submitter, s.submitter, '') END AS subject,
		r.cause AS cause, coalesce(r.wall_usec, 0) AS wall_usec, coalesce(r.cpu_usec, 0) AS cpu_usec,
		CAST(coalesce(r.memory_peak_bytes, 0) AS DOUBLE PRECISION) / 1073741824.0 * coalesce(r.wall_usec, 0) / 3600000000.0
			AS memory_gib_hours,
		CASE k.kind WHEN 'submitter' THEN 0 ELSE coalesce(r.memory_peak_bytes, 0) END AS memory_peak_bytes,
		CASE k.kind WHEN 'submitter' THEN NULL ELSE r.accepted END AS accepted,
		CASE WHEN k.kind = 'submitter' AND r.submitter IS NULL THEN 1 ELSE 0 END AS is_late -- whose it is, its submission may still say
	FROM runs r
	CROSS JOIN (SELECT 'quest' AS kind UNION ALL SELECT 'runtime' UNION ALL SELECT 'submitter') k
	LEFT JOIN submission_runs m ON m.home = r.home AND m.run = r.id
	LEFT JOIN submissions s ON s.home = m.home AND s.id = m.submission;
