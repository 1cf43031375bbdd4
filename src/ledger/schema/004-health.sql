-- What doctor, verify and others found, each time they looked. The run directories do not have it, so a rebuild leaves it. `subject` is
-- what was looked at, or empty where the kind alone says it.

CREATE TABLE checks (
	home TEXT NOT NULL REFERENCES homes (home) ON DELETE CASCADE,
	kind TEXT NOT NULL,
	subject TEXT NOT NULL,
	time TEXT NOT NULL,
	status TEXT NOT NULL,
	summary TEXT NOT NULL,
	detail TEXT NOT NULL,           -- JSON
	PRIMARY KEY (home, kind, subject, time)
);
