"""A platform's own database, SQLite or PostgreSQL, and the steps that write it."""

import contextlib
import os
import pathlib
import random
import shutil
import sqlite3
import tempfile
import weakref

import cupel as lib
import ledgers

SCRIPT = lib.TESTS.parent / "examples/post_process/results_to_table.py"
PLATFORM_ID = 12399  # nobody's, as lib.USER_ID: whom root's SQLite platform belongs to
SECRET = "quite:a\\secret word"
QUOTED = "quite%3Aa%5Csecret%20word"

# Writes in one transaction, and then does what its argument says before it would commit.
STEP = """
import os, signal, sys, time
url = os.environ["CUPEL_DATABASE_URL"]
if url.startswith("sqlite:"):
    import sqlite3
    db = sqlite3.connect(url.removeprefix("sqlite:"), timeout=60, isolation_level=None)
    db.execute("PRAGMA cache_size = 5")
    db.execute("BEGIN IMMEDIATE")
    mark = "?"
else:
    import psycopg2
    db = psycopg2.connect(url)
    mark = "%s"
cursor = db.cursor()
for number in range(500):
    cursor.execute(f"INSERT INTO results VALUES ({mark}, {mark})",
                   (os.environ["CUPEL_RUN_ID"], "x" * 500))
print("inserted", flush=True)
what = sys.argv[1]
if what == "exit":
    sys.exit(1)
if what == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
if what == "memory":
    hog = []
    while True:
        hog.append(bytearray(b"x" * (1 << 20)))
if what == "sleep":
    time.sleep(1000)
db.commit()
"""


class Sqlite:
    """A file in a directory with others, of a user of its own if the caller is root."""

    kind = "sqlite"

    def __init__(self, caller):
        self.uid = caller.uid or PLATFORM_ID
        self.folder = caller.base / f"platform-{caller.new_id()}"
        self.folder.mkdir()
        self.path = self.folder / "platform.db"
        (self.folder / "other.txt").write_text("none of the step's business", encoding="utf-8")
        self.url = f"sqlite:{self.path}"
        self.change("CREATE TABLE results (run_id TEXT, value TEXT)")
        self.path.chmod(0o600)
        for path in (self.folder, *self.folder.iterdir()):
            os.chown(path, self.uid, self.uid)

    def change(self, sql):
        with contextlib.closing(sqlite3.connect(self.path, timeout=60)) as db:
            db.executescript(sql)

    def query(self, sql):
        with contextlib.closing(sqlite3.connect(self.path, timeout=60)) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            return [tuple(map(str, row)) for row in db.execute(sql)]


class Postgres:
    """A database of its own on the server, by its socket or, with a password, over TCP."""

    kind = "postgresql"

    def __init__(self, server, by="socket"):
        self.server = server
        server.count += 1
        self.name = f"platform{server.count}"
        server.psql("postgres", f"CREATE DATABASE {self.name}")
        self.url = (
            f"postgresql://app@/{self.name}?host={server.base}"
            if by == "socket"
            else f"postgresql://teller:{QUOTED}@{server.address}:5432/{self.name}"
        )
        self.change("CREATE TABLE results (run_id TEXT, value TEXT)")
        self.change("GRANT ALL ON results TO teller; GRANT ALL ON SCHEMA public TO teller")

    def change(self, sql):
        self.server.psql(self.name, sql)

    def query(self, sql):
        out = self.server.psql(self.name, sql, "-A", "-t")
        return [tuple(line.split("|")) for line in out.splitlines()]


def server():
    """On an address of its own, with a user that has a password wherever it comes from."""
    address = f"127.{random.randint(1, 254)}.{random.randint(1, 254)}.{random.randint(1, 254)}"
    rules = "local all postgres peer\nlocal all teller scram-sha-256\nhost all teller 127.0.0.0/8 scram-sha-256\n"
    made = ledgers.Server("-c", f"listen_addresses={address}", "-c", "fsync=off", rules=rules)
    made.address = address
    made.psql("postgres", f"CREATE ROLE teller LOGIN PASSWORD '{SECRET}'")
    made.psql("postgres", "CREATE ROLE postgres LOGIN")
    return made


def _script_folder(caller):
    """Some homes are in /dev/shm for speed, and nothing below /dev is shown to an analysis."""
    if not caller.base.is_relative_to("/dev"):
        return caller.base
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cupel-step-"))
    folder.chmod(0o755)
    weakref.finalize(caller, shutil.rmtree, folder)
    return folder


def declare(caller, platform, *, script=None, args=(), time="60s"):
    """Configures the caller: one step, `step`."""
    path = _script_folder(caller) / "step.py"
    path.write_text(script if script else SCRIPT.read_text(encoding="utf-8"), encoding="utf-8")
    path.chmod(0o644)
    listed = ", ".join(args)
    caller.configure(
        f"post_processes:\n  step:\n    script: {path}\n    args: [{listed}]\n"
        f"    database: '{platform.url}'\n"
        f"    limits: {{memory: 128M, time: {time}}}\n"
    )
    return path


@contextlib.contextmanager
def killed(process):
    """A process that is gone however the test ends."""
    with process:
        try:
            yield process
        finally:
            process.kill()
