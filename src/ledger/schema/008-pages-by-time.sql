-- Pages of runs by time, newest or oldest first, each filter with an index that already has the order.

CREATE INDEX runs_by_cause_and_time ON runs (home, cause, accepted, id);
CREATE INDEX runs_by_runtime_and_time ON runs (home, runtime, accepted, id);
CREATE INDEX runs_by_quest_and_time ON runs (home, quest, accepted, id);
