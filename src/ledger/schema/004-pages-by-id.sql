-- Pages in the order of ids, by bytes, whatever the database's own order is: "binary" is SQLite's name for it, and a
-- collation of that name is made in PostgreSQL. Each index has the time too, so that a time alone costs no row.

DROP INDEX runs_by_cause;
DROP INDEX runs_by_runtime;
DROP INDEX runs_by_quest;
CREATE INDEX runs_by_id ON runs (home, id COLLATE "binary", accepted);
CREATE INDEX runs_by_cause ON runs (home, cause, id COLLATE "binary", accepted);
CREATE INDEX runs_by_runtime ON runs (home, runtime, id COLLATE "binary", accepted);
CREATE INDEX runs_by_quest ON runs (home, quest, id COLLATE "binary", accepted);

-- The boot in which all that the home had was found here or owed. A database that was made again does not have it.
ALTER TABLE homes ADD COLUMN reconciled TEXT;
