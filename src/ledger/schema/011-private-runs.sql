-- Runs of one submitter by time: lists and sums of a service show each submitter only their own.
CREATE INDEX runs_by_submitter_and_time ON runs (home, submitter, accepted, id);
