#!/usr/bin/python3
"""Takes a CSV of results into a table of the platform: all rows or none, and once for each run.

    results_to_table.py TABLE FILE [COLUMN]...

FILE is below the run's outputs ($CUPEL_OUTPUTS). The table gets the columns run_id, row_number and
those of the CSV, or of it only the named ones; it is made if it is not there. The database is
$CUPEL_DATABASE_URL, SQLite or PostgreSQL (python3-psycopg2).

The CSV was written by an analysis, so it is taken for hostile: names are checked, values are only
ever parameters, sizes have limits. One transaction removes what the run has there and puts in what
it has now: whatever ends this program before its commit leaves the table as it was, and a second
time for the same run changes nothing.
"""

import csv
import os
import pathlib
import re
import sqlite3
import sys
import urllib.parse

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
OWN = ["run_id", "row_number"]
COLUMNS_MAX = 200
ROWS_MAX = 1_000_000


def fail(text):
    sys.exit(f"results_to_table: {text}")


def checked(names, what):
    for name in names:
        if not NAME.fullmatch(name):
            fail(f"{what} {name[:80]!r} is not made of letters, digits and _")
    if len({name.lower() for name in names}) != len(names):
        fail(f"{what}s are there twice: {', '.join(names)[:200]}")
    return names


def read_header(reader, wanted):
    header = checked(next(reader, None) or fail("the CSV is empty"), "column")
    if len(header) > COLUMNS_MAX:
        fail(f"more than {COLUMNS_MAX} columns")
    missing = [name for name in wanted if name not in header]
    if missing:
        fail(f"the CSV has no column {missing[0]!r}")
    return header, wanted or header


def read_rows(path, wanted):
    """The names of the columns, and the rows one by one, each numbered."""
    file = open(path, encoding="utf-8", newline="")  # closed with the program
    csv.field_size_limit(1 << 20)
    reader = csv.reader(file, strict=True)
    header, columns = read_header(reader, checked(wanted, "column"))
    places = [header.index(name) for name in columns]

    def rows():
        for number, row in enumerate(reader, 1):
            if len(row) != len(header) or number > ROWS_MAX:
                fail(f"row {number} has {len(row)} fields instead of {len(header)}"
                     if number <= ROWS_MAX else f"more than {ROWS_MAX} rows")
            yield [number, *(row[place] for place in places)]

    return columns, rows()


def connect(url):
    """The connection, how it begins a transaction, and what stands for a parameter."""
    if url.startswith("sqlite:"):
        path = urllib.parse.quote(url.removeprefix("sqlite:"))
        db = sqlite3.connect(f"file:{path}?mode=rw", uri=True, timeout=30, isolation_level=None)
        db.execute("BEGIN IMMEDIATE")
        return db, "?"
    import psycopg2  # pylint: disable=import-outside-toplevel

    return psycopg2.connect(url, connect_timeout=30), "%s"  # begins by itself


def main(table, name, *wanted):
    checked([table], "table")
    path = pathlib.Path(os.environ["CUPEL_OUTPUTS"], name)
    if not path.is_file():
        fail(f"the run has no output {name}")
    columns, rows = read_rows(path, list(wanted))
    checked([*OWN, *columns], "column")
    run_id = os.environ["CUPEL_RUN_ID"]
    db, mark = connect(os.environ["CUPEL_DATABASE_URL"])
    names = ", ".join(f'"{column}"' for column in [*OWN, *columns])
    definitions = "".join(f', "{column}" TEXT' for column in columns)
    marks = ", ".join([mark] * (len(columns) + 2))
    cursor = db.cursor()
    cursor.execute(f'CREATE TABLE IF NOT EXISTS "{table}" (run_id TEXT NOT NULL, '
                   f"row_number BIGINT NOT NULL{definitions}, PRIMARY KEY (run_id, row_number))")
    cursor.execute(f'DELETE FROM "{table}" WHERE run_id = {mark}', (run_id,))
    count = 0
    for row in rows:
        cursor.execute(f'INSERT INTO "{table}" ({names}) VALUES ({marks})', [run_id, *row])
        count += 1
    db.commit()
    print(f"{count} rows of {run_id} are in {table}")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        fail("usage: results_to_table.py TABLE FILE [COLUMN]...")
    main(*sys.argv[1:])
