-- A copy of each line of chain.jsonl, so that a chain that was cut or made again is noticed.

CREATE TABLE chain (
	home TEXT NOT NULL REFERENCES homes (home) ON DELETE CASCADE,
	n BIGINT NOT NULL,              -- the line
	event TEXT NOT NULL,            -- run, removed
	run TEXT NOT NULL,
	sha256 TEXT NOT NULL,           -- of the line
	until BIGINT NOT NULL,          -- the offset behind it
	PRIMARY KEY (home, n)
);
