-- What runs ran in, why that was chosen, and what checks of it found.

CREATE TABLE runtimes (
	home TEXT NOT NULL REFERENCES homes (home) ON DELETE CASCADE,
	name TEXT NOT NULL,
	identity TEXT NOT NULL,         -- sha256, runtime/fingerprint.h
	kind TEXT,
	version TEXT,
	PRIMARY KEY (home, name, identity)
);

CREATE TABLE selections (
	home TEXT NOT NULL,
	run TEXT NOT NULL,
	n BIGINT NOT NULL,
	runtime TEXT NOT NULL,
	identity TEXT,
	rule TEXT,
	why TEXT,
	allowed_drift TEXT,
	PRIMARY KEY (home, run, n),
	FOREIGN KEY (home, run) REFERENCES runs (home, id) ON DELETE CASCADE
);

-- Of each check that was seen; the run directories do not have them, so a rebuild leaves them.
CREATE TABLE health (
	home TEXT NOT NULL REFERENCES homes (home) ON DELETE CASCADE,
	runtime TEXT NOT NULL,
	verified TEXT NOT NULL,
	health TEXT NOT NULL,
	reason TEXT,
	state TEXT NOT NULL,            -- JSON
	PRIMARY KEY (home, runtime, verified)
);
