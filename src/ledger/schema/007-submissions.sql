-- What the service was asked for. A row is there before whoever asked is told so, and says where it is: waiting, running, or how it
-- ended. The run directories do not have it, so a rebuild leaves it. `n` is the order in which they came.

CREATE TABLE submissions (
	home TEXT NOT NULL REFERENCES homes (home) ON DELETE CASCADE,
	id TEXT NOT NULL,
	n BIGINT NOT NULL,
	kind TEXT NOT NULL,             -- run, pipeline
	submitter TEXT NOT NULL,
	uid BIGINT NOT NULL,            -- whose rights on files count
	gid BIGINT NOT NULL,
	priority BIGINT NOT NULL,
	key TEXT,                       -- the submitter's own, once
	body_sha256 TEXT NOT NULL,
	analysis TEXT NOT NULL,         -- JSON
	retries TEXT,                   -- JSON
	not_before TEXT,
	submitted TEXT NOT NULL,
	name TEXT,
	quest TEXT,
	runtime TEXT,
	state TEXT NOT NULL,            -- queued, running, ended, cancelled, refused
	cause TEXT,
	note TEXT,                      -- why it was refused
	started TEXT,                   -- the first attempt
	ended TEXT,
	attempt BIGINT NOT NULL,        -- the one that waits, runs or was the last
	run TEXT NOT NULL,              -- its id
	progress TEXT,                  -- JSON: how often it was tried for which cause, limits that have grown
	PRIMARY KEY (home, id)
);
CREATE UNIQUE INDEX submissions_by_key ON submissions (home, submitter, key);
CREATE INDEX submissions_by_state ON submissions (home, state, n);
CREATE INDEX submissions_by_submitter ON submissions (home, submitter, id COLLATE "binary");

-- Every attempt that was started: whose it was.
CREATE TABLE submission_runs (
	home TEXT NOT NULL,
	run TEXT NOT NULL,
	submission TEXT NOT NULL,
	attempt BIGINT NOT NULL,
	PRIMARY KEY (home, run),
	FOREIGN KEY (home, submission) REFERENCES submissions (home, id) ON DELETE CASCADE
);
CREATE INDEX submission_runs_by_submission ON submission_runs (home, submission, attempt);
