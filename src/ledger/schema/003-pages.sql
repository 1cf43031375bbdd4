-- Pages of runs, newest first, each filter with an index that already has the order.

CREATE INDEX runs_by_time ON runs (home, accepted, id);
CREATE INDEX runs_by_cause ON runs (home, cause, accepted, id);
CREATE INDEX runs_by_runtime ON runs (home, runtime, accepted, id);
CREATE INDEX runs_by_quest ON runs (home, quest, accepted, id);
CREATE INDEX outputs_by_digest ON outputs (sha256);
