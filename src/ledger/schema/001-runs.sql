-- Runs and what belongs to them, a row for each thing in a run directory. One text for SQLite and PostgreSQL.
-- A home has an id of its own (HOME/ledger.id), so that many may share a database. Times are RFC 3339 in UTC, as
-- in the run directory: they sort as text. `n` is the order in which the record has them.

CREATE TABLE homes (
	home TEXT NOT NULL PRIMARY KEY,
	host TEXT NOT NULL,
	path TEXT NOT NULL
);

CREATE TABLE runs (
	home TEXT NOT NULL REFERENCES homes (home) ON DELETE CASCADE,
	id TEXT NOT NULL,
	accepted TEXT NOT NULL,
	started TEXT,
	ended TEXT,
	name TEXT,
	quest TEXT,
	runtime TEXT,
	cause TEXT NOT NULL,
	exit_status BIGINT NOT NULL,
	notes TEXT NOT NULL,
	evidence TEXT NOT NULL,         -- JSON
	missing_layers TEXT NOT NULL,
	labels TEXT NOT NULL,           -- JSON
	wall_usec BIGINT,
	cpu_usec BIGINT,
	memory_peak_bytes BIGINT,
	pids_peak BIGINT,
	disk_peak_bytes BIGINT,
	io_read_bytes BIGINT,
	io_write_bytes BIGINT,
	analysis_sha256 TEXT,
	verdict_sha256 TEXT NOT NULL,
	chain TEXT NOT NULL,            -- sha256 of the last line of events.jsonl
	record TEXT NOT NULL,           -- sha256 of all that was entered of the run
	PRIMARY KEY (home, id)
);

CREATE TABLE attempts (
	home TEXT NOT NULL,
	run TEXT NOT NULL,
	n BIGINT NOT NULL,
	executor TEXT NOT NULL,
	started TEXT,
	ended TEXT,
	cause TEXT NOT NULL,
	exit_code BIGINT,
	signal BIGINT,
	PRIMARY KEY (home, run, n),
	FOREIGN KEY (home, run) REFERENCES runs (home, id) ON DELETE CASCADE
);

CREATE TABLE events (
	home TEXT NOT NULL,
	run TEXT NOT NULL,
	n BIGINT NOT NULL,
	time TEXT,                      -- NULL: a crash tore the line
	event TEXT,
	data TEXT,                      -- JSON
	sha256 TEXT NOT NULL,           -- of the line
	PRIMARY KEY (home, run, n),
	FOREIGN KEY (home, run) REFERENCES runs (home, id) ON DELETE CASCADE
);

CREATE TABLE outputs (
	home TEXT NOT NULL,
	run TEXT NOT NULL,
	n BIGINT NOT NULL,
	path TEXT NOT NULL,
	size BIGINT NOT NULL,
	sha256 TEXT NOT NULL,
	media_type TEXT,
	PRIMARY KEY (home, run, n),
	FOREIGN KEY (home, run) REFERENCES runs (home, id) ON DELETE CASCADE
);

CREATE TABLE logs (
	home TEXT NOT NULL,
	run TEXT NOT NULL,
	n BIGINT NOT NULL,
	name TEXT NOT NULL,
	size BIGINT NOT NULL,
	sha256 TEXT NOT NULL,
	PRIMARY KEY (home, run, n),
	FOREIGN KEY (home, run) REFERENCES runs (home, id) ON DELETE CASCADE
);
