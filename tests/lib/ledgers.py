"""Databases for the ledger, of both kinds, behind one face: a real PostgreSQL of the tests' own, and
SQLite files."""

import contextlib
import csv
import io
import json
import os
import pathlib
import pwd
import shutil
import sqlite3
import subprocess
import tempfile

import cupel as lib
import leftovers

BIN = pathlib.Path("/usr/lib/postgresql/15/bin")
SCHEMA = lib.TESTS.parent / "src/ledger/schema"
KNOWN = len(list(SCHEMA.glob("*.sql")))  # the schema that this cupel writes
HAND_MADE = (
    "CREATE TABLE cupel_schema (version BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL, "
    "sha256 TEXT NOT NULL, applied TEXT NOT NULL); "
    "INSERT INTO cupel_schema VALUES (1, '001-runs.sql', '', '');"
)


class Server:
    """A PostgreSQL cluster in a temporary directory, as the user postgres, gone afterwards."""

    def __init__(self, *options, rules="", durable=False):
        """`options` are the server's, `rules` lines of pg_hba.conf before all others; `durable` is
        for benchmarks: a crash of the server alone loses nothing without."""
        self.options = [*options, "-c", f"fsync={'on' if durable else 'off'}"]
        self.account = pwd.getpwnam("postgres")
        self.base = pathlib.Path(tempfile.mkdtemp(prefix="cupel-ledger-"))
        os.chown(self.base, self.account.pw_uid, self.account.pw_gid)
        self.base.chmod(0o755)
        self.process = None
        self.count = 0
        subprocess.run(
            [BIN / "initdb", "-D", self.base / "data", "-U", "app", "--auth=trust", "--no-sync", "-k"]
            + ["-E", "UTF8", "--locale=C.UTF-8"],
            check=True,
            cwd="/",
            stdout=subprocess.DEVNULL,
            preexec_fn=self._become,
            timeout=300 * lib.SLOW,
        )
        hba = self.base / "data/pg_hba.conf"
        hba.write_text(rules + hba.read_text(encoding="utf-8"), encoding="utf-8")
        self.up()

    def _become(self):
        os.setgroups([])
        os.setresgid(*[self.account.pw_gid] * 3)
        os.setresuid(*[self.account.pw_uid] * 3)

    def up(self):
        if self.process:
            return
        with open(self.base / "log", "ab") as log:
            self.process = subprocess.Popen(
                [BIN / "postgres", "-D", self.base / "data", "-c", "listen_addresses="]
                + ["-c", f"unix_socket_directories={self.base}", "-c", "shared_buffers=16MB"]
                + self.options,
                stdout=log,
                stderr=log,
                cwd="/",
                preexec_fn=self._become,
            )
        up = ["psql", "-h", self.base, "-U", "app", "-d", "postgres", "-c", "select 1"]
        assert lib.wait_until(
            lambda: subprocess.run(up, capture_output=True, check=False).returncode == 0
        ), (self.base / "log").read_text()

    def down(self, number=3):
        """As after a crash: SIGQUIT, no checkpoint."""
        if self.process:
            self.process.send_signal(number)
            self.process.wait()
        self.process = None

    def psql(self, database, sql, *options):
        command = ["psql", "-h", self.base, "-U", "app", "-d", database, "-qX", "-v"]
        done = subprocess.run(
            [*command, "ON_ERROR_STOP=1", *options, "-c", sql], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def close(self):
        self.down()
        shutil.rmtree(self.base)


@contextlib.contextmanager
def running(make=Server):
    """A server where there can be one; the test is skipped elsewhere."""
    import pytest  # benchmarks have no need of it

    if os.geteuid() != 0:
        pytest.skip("root: the tests start PostgreSQL as its own user")
    if not (BIN / "postgres").exists():
        pytest.skip("postgres: PostgreSQL 15 is not installed")
    made = make()
    yield made
    made.close()


class PostgresLedger:
    """A database of its own on the server."""

    kind = "postgresql"

    def __init__(self, server):
        self.server = server
        server.up()
        server.count += 1
        self.name = f"ledger{server.count}"
        # In the order of people, which is not that of bytes.
        how = "TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'"
        server.psql("postgres", f"CREATE DATABASE {self.name} {how}")
        self.url = f"postgresql://app@/{self.name}?host={server.base}"

    def query(self, sql):
        """Rows of text; NULL is None."""
        text = self.server.psql(
            self.name, f"SET search_path TO cupel; {sql}", "--csv", "-P", "null=\1"
        )
        return [
            [None if cell == "\1" else cell for cell in row]
            for row in list(csv.reader(io.StringIO(text)))[1:]
        ]

    def change(self, sql):
        self.server.psql(self.name, f"SET search_path TO cupel; {sql}")

    def make_old(self):
        first = (SCHEMA / "001-runs.sql").read_text(encoding="utf-8")
        self.server.psql(
            self.name, f"CREATE SCHEMA cupel; SET search_path TO cupel; {HAND_MADE} {first}"
        )

    def down(self):
        self.server.down()

    def up(self):
        self.server.up()

    @contextlib.contextmanager
    def locked(self):
        """Somebody holds the table of runs."""
        holder = subprocess.Popen(
            ["psql", "-h", self.server.base, "-U", "app", "-d", self.name, "-qXAt"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        holder.stdin.write("BEGIN; LOCK TABLE cupel.runs; SELECT 'locked';\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == "locked\n"
        yield
        holder.communicate()

    def close(self):
        self.up()


class SqliteLedger:
    """The file in the caller's home, or wherever the URL says."""

    kind = "sqlite"

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.path = folder / "ledger.db"
        self.url = f"sqlite:{self.path}"

    def query(self, sql):
        with contextlib.closing(sqlite3.connect(self.path, timeout=60)) as db:
            return [
                [None if cell is None else str(cell) for cell in row] for row in db.execute(sql)
            ]

    def change(self, sql):
        with contextlib.closing(sqlite3.connect(self.path, timeout=60)) as db:
            db.execute("PRAGMA foreign_keys = ON")
            db.executescript(sql)
            db.commit()

    def make_old(self):
        self.change(HAND_MADE + (SCHEMA / "001-runs.sql").read_text(encoding="utf-8"))

    def down(self):
        """The file system it was on is not there."""
        self.folder.rename(self.folder.with_suffix(".away"))

    def up(self):
        away = self.folder.with_suffix(".away")
        if away.exists():
            away.rename(self.folder)

    @contextlib.contextmanager
    def locked(self):
        with contextlib.closing(sqlite3.connect(self.path, isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            yield
            db.execute("ROLLBACK")

    def close(self):
        self.up()


class Kept:
    """A fresh caller with its database."""

    def __init__(self, kind, server):
        self.caller = lib.Cupel("root", own_work=True)
        self.db = (
            PostgresLedger(server)
            if kind == "postgresql"
            else SqliteLedger(self.caller.base / "db")
        )
        self.configure(self.db.url)

    def configure(self, url):
        self.caller.configure(f"ledger: {{url: '{url}'}}\n" if url else "")

    def run(self, *command, **options):
        return self.caller.run(*(command or ("--", "true")), **options)

    def command(self, *words):
        """(status, what it printed as JSON, stderr)"""
        status, out, err = self.caller.call(self.caller.binary, *words, "--json")
        return status, json.loads(out) if out else None, err

    def status(self):
        status, answer, err = self.command("ledger", "status")
        assert status == 0, err
        return answer

    def quiet(self):
        """Whoever delivers in the background has come to an end."""
        assert lib.wait_until(lambda: not leftovers.processes(self.caller))

    def settle(self):
        """Delivered, as any next command would have it."""
        self.quiet()
        self.command("gc")
        self.quiet()
        return self.status()

    def ids(self):
        return sorted(row[0] for row in self.db.query("SELECT id FROM runs"))

    def owed(self):
        return sorted(path.name for path in (self.caller.home / "undelivered").iterdir())

    def owe(self, run_id):
        (self.caller.home / "undelivered" / run_id).touch()

    def assert_whole(self):
        status, audit, err = self.command("ledger", "check")
        assert status == 0, (audit, err)
        return audit

    def close(self):
        self.db.close()
        leftovers.assert_nothing_left(self.caller)
        self.caller.close()
