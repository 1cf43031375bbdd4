"""db_snapshot: a consistent read-only copy of an SQLite file that others write meanwhile."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess

import pytest

import cupel as lib
import leftovers
import platforms

pytestmark = pytest.mark.test_all

# Moves amounts between two tables, always both in one transaction, until it is told to end.
WRITER = """
import sqlite3, sys, random
db = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
print("ready", flush=True)
while True:
    amount = random.randint(1, 1000)
    db.execute("BEGIN IMMEDIATE")
    for _ in range(20):
        row = random.randint(1, 4000)
        db.execute("UPDATE debit SET amount = amount - ? WHERE id = ?", (amount, row))
        db.execute("UPDATE credit SET amount = amount + ? WHERE id = ?", (amount, row))
    db.execute("COMMIT")
"""

CHECK = """
import os, sqlite3, sys
db = sqlite3.connect(os.environ["CUPEL_DB_PATH"])
assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
debit, = db.execute("SELECT SUM(amount) FROM debit").fetchone()
credit, = db.execute("SELECT SUM(amount) FROM credit").fetchone()
print(credit)
sys.exit(debit + credit != 0)
"""

READ = """
import os, sqlite3
path = os.environ["CUPEL_DB_PATH"]
db = sqlite3.connect(path)
print(db.execute("SELECT COUNT(*) FROM t").fetchone()[0])
for act in (lambda: db.execute("INSERT INTO t VALUES (1)"), lambda: open(path, "r+b"),
            lambda: os.remove(path), lambda: os.rename(path, path + "x")):
    try:
        act()
        print("done")
    except (OSError, sqlite3.OperationalError):
        pass
"""


@pytest.fixture
def folder(cupel):
    place = cupel.base / f"data-{cupel.new_id()}"
    place.mkdir()
    yield cupel.own(place)
    shutil.rmtree(place)


def script(folder, text, name="script.py"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def make(path, mode="delete", rows=10, uid=None):
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA journal_mode = {mode}")
        db.execute("CREATE TABLE t (n)")
        db.executemany("INSERT INTO t VALUES (?)", ((n,) for n in range(rows)))
        db.commit()
    if uid is not None:
        os.chown(path, uid, uid)
    return path


def recorded(result):
    return json.loads((result.run_dir / "analysis.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_what_holds_over_two_tables_holds_in_every_copy(cupel, folder, mode):
    path = folder / "platform.db"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA journal_mode = {mode}")
        for table in ("debit", "credit"):
            db.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, amount INTEGER, note TEXT)")
            db.executemany(f"INSERT INTO {table} VALUES (?, 0, ?)",
                           ((n, "x" * 900) for n in range(1, 4001)))
        db.commit()
    cupel.own(path)
    check = script(folder, CHECK)
    seen = []
    with platforms.killed(cupel.popen("/usr/bin/python3", "-c", WRITER, path, stdout=subprocess.PIPE)) as writer:
        assert writer.stdout.readline() == b"ready\n"
        for _ in range(4):
            result = cupel.run("--db-snapshot", path, check)
            assert result.cause == "ok", result.stderr
            seen.append(int(result.stdout))
        assert writer.poll() is None, "it went on all the time"
    assert len(set(seen)) > 1, "the copies are of different moments"
    with contextlib.closing(sqlite3.connect(path, timeout=60)) as db:
        db.execute("UPDATE debit SET amount = amount + 1 WHERE id = 1")
        db.commit()
    assert cupel.run("--db-snapshot", path, check).cause == "exit", "the control: it can fail"


def test_it_has_what_is_only_in_the_log_and_nobody_can_write_it(cupel, folder):
    path = make(folder / "platform.db", "wal", uid=cupel.uid)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("INSERT INTO t VALUES (11)")
        db.commit()
        for beside in folder.iterdir():
            cupel.own(beside)
        plain = shutil.copy(path, folder / "plain.db")
        result = cupel.run("--db-snapshot", path, script(folder, READ))
        assert (result.cause, result.stdout) == ("ok", "11\n"), result.stderr
    with contextlib.closing(sqlite3.connect(plain)) as db:
        assert db.execute("SELECT COUNT(*) FROM t").fetchone() == (10,), "the control: a plain copy"
    said = recorded(result)["db_snapshot"]
    assert said["path"] == str(path) and len(said["sha256"]) == 64 and said["bytes"] > 0
    assert not list(result.run_dir.glob(".new-*"))
    assert all(entry.stat().st_uid == cupel.uid for entry in folder.glob("platform.db*"))


def test_root_copies_with_the_rights_of_the_owner(root):
    """Nothing of root's is left beside the file: its owner could not write it any more."""
    folder = root.base / f"data-{root.new_id()}"
    folder.mkdir()
    path = make(folder / "platform.db", "wal", uid=platforms.PLATFORM_ID)
    os.chown(folder, platforms.PLATFORM_ID, platforms.PLATFORM_ID)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("INSERT INTO t VALUES (11)")
        db.commit()
        for beside in folder.iterdir():
            os.chown(beside, platforms.PLATFORM_ID, platforms.PLATFORM_ID)
        result = root.run("--db-snapshot", path, script(folder, READ))
        assert (result.cause, result.stdout) == ("ok", "11\n"), result.stderr
    result = root.run("--db-snapshot", path, folder / "script.py")  # the log is not there now
    assert (result.cause, result.stdout) == ("ok", "11\n"), result.stderr
    owners = {entry.stat().st_uid for entry in folder.glob("platform.db*")}
    assert owners == {platforms.PLATFORM_ID}
    shutil.rmtree(folder)


@pytest.mark.parametrize("how", ["file", "link"])
def test_what_takes_the_place_of_the_file_is_not_copied_by_root(root, how):
    """Whoever owns the directory puts a private file of somebody else there, once the name was checked."""
    folder = root.base / f"data-{root.new_id()}"
    folder.mkdir()
    path = make(folder / "platform.db", uid=platforms.PLATFORM_ID)
    secret = make(folder / "secret.db", rows=77, uid=lib.USER_ID)
    secret.chmod(0o600)
    read = script(folder, READ)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        process, run_id = root.start("--db-snapshot", path, read, stderr=subprocess.DEVNULL)
        with platforms.killed(process):
            run_dir = root.run_dir(run_id)
            assert lib.wait_until(lambda: list(run_dir.glob(".new-db-snapshot")))
            if how == "file":
                secret.rename(path)
            else:
                path.unlink()
                path.symlink_to(secret)
            event = (run_dir / "events.jsonl").read_text(encoding="utf-8").splitlines()[0]
            os.kill(json.loads(event)["data"]["keeper_pid"], signal.SIGCHLD)  # it begins anew
            assert process.wait(60 * lib.SLOW) == 125
    verdict = json.loads((run_dir / "verdict.json").read_text(encoding="utf-8"))
    assert verdict["cause"] == "setup" and str(path) in verdict["completion_notes"]
    shutil.rmtree(folder)


def test_it_is_in_an_analysis_file_and_in_the_plan(cupel, folder):
    path = make(folder / "platform.db", uid=cupel.uid)
    script(folder, READ)
    file = script(folder, "code: script.py\ndb_snapshot: platform.db\n", "analysis.yaml")
    result = cupel.run(file)
    assert (result.cause, result.stdout) == ("ok", "10\n"), result.stderr
    plan = cupel.call(cupel.binary, "plan", file)[1]
    assert "CUPEL_DB_PATH=/run/cupel/snapshot.db" in plan
    shown = cupel.call(cupel.binary, "show", result.run_dir.name)[1]
    assert f"snapshot {path}, SHA-256 {recorded(result)['db_snapshot']['sha256'][:12]}" in shown


def refused(cupel, *args):
    result = cupel.run(*args)
    assert result.status == 2 and not result.run_dir.exists(), (result.status, result.stderr)
    assert result.stderr.count("\n") == 1
    return result.stderr


def test_what_is_no_database_or_not_to_be_shown_is_refused_before_anything_runs(cupel, folder):
    path = make(folder / "platform.db", uid=cupel.uid)
    script(folder, "not a database\n", "text.db")
    script(folder, READ)
    cases = [("text.db", "is not an SQLite file"), ("none.db", "No such file"),
             (".", "is not an SQLite file")]
    for name, why in cases:
        file = script(folder, f"code: script.py\ndb_snapshot: {name}\n", "analysis.yaml")
        text = refused(cupel, file)
        assert "analysis.yaml:2:14" in text and why in text
    run = ("--db-snapshot", path, "--", "true")
    with open(path, "r+b") as file:
        file.truncate(8 << 20)
    assert "--db-snapshot" in (text := refused(cupel, "--disk", "4M", *run)) and "--disk" in text
    cupel.configure(f"protect: [{folder}]\n")
    told = refused(cupel, *run)
    assert "protected path" in told and "narrower" not in told
    cupel.configure()
    assert cupel.run("--", "true").cause == "ok"
    assert lib.wait_until((cupel.home / "cupel.db").exists)
    assert "cupel's own records" in refused(cupel, "--db-snapshot", cupel.home / "cupel.db", "--", "true")
    os.chown(path, 0, 0)
    path.chmod(0o600)
    assert "platform.db" in refused(cupel, *run), "what the analysis could not read as an input"


def test_a_database_whose_writer_died_is_left_as_it_is(cupel, folder):
    """A journal that has to be rolled back is not ours to roll back."""
    path = make(folder / "platform.db", rows=5000, uid=cupel.uid)
    dying = ("import sqlite3, os, sys\ndb = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
             "db.execute('PRAGMA cache_size = 2')\ndb.execute('BEGIN')\n"
             "db.execute('UPDATE t SET n = -1')\nos.kill(os.getpid(), 9)\n")
    assert cupel.call("/usr/bin/python3", "-c", dying, path)[0] == -signal.SIGKILL
    assert (folder / "platform.db-journal").stat().st_size > 0
    before = path.read_bytes()
    result = cupel.run("--db-snapshot", path, "--", "true")
    assert (result.status, result.cause) == (125, "setup")
    assert "left a journal" in result.verdict["completion_notes"]
    assert path.read_bytes() == before and (folder / "platform.db-journal").exists()
    assert not list(result.run_dir.glob(".new-*"))
    with contextlib.closing(sqlite3.connect(path)) as db:  # the remedy
        assert db.execute("SELECT MIN(n) FROM t").fetchone() == (0,)
    assert cupel.run("--db-snapshot", path, "--", "true").cause == "ok"


def test_a_damaged_file_harms_nobody(cupel, folder):
    path = make(folder / "platform.db", rows=5000, uid=cupel.uid)
    data = bytearray(path.read_bytes())
    for at in range(16, 100):  # the header, and then the whole of the first pages
        data[at] = 0xff
    path.write_bytes(data)
    result = cupel.run("--db-snapshot", path, "--", "true")
    assert result.cause == "setup" and "copy the database" in result.verdict["completion_notes"]
    path.write_bytes(bytes(data[:300]))
    assert cupel.run("--db-snapshot", path, "--", "true").cause == "setup"


def test_a_run_again_says_whether_the_copy_is_the_same(cupel, folder):
    path = make(folder / "platform.db", "wal", uid=cupel.uid)
    first = cupel.run("--db-snapshot", path, script(folder, READ)).run_dir.name
    status, _, err = cupel.call(cupel.binary, "rerun", first)
    assert status == 0 and "is the same: SHA-256" in err
    status, out, err = cupel.call(cupel.binary, "rerun", "--verify", "--json", first)
    assert status == 0 and json.loads(out)["db_snapshot"]["same"] is True, err
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("INSERT INTO t VALUES (1)")
        db.commit()
    for beside in folder.iterdir():
        cupel.own(beside)
    status, out, _ = cupel.call(cupel.binary, "rerun", "--json", first)
    again = json.loads(out)
    assert status == 125 and again["verdict"]["cause"] == "input-changed"
    assert "has changed" in again["verdict"]["completion_notes"]
    assert again["db_snapshot"]["same"] is False
    diff = cupel.call(cupel.binary, "diff", first, again["id"])[1]
    assert "db_snapshot" in diff


def test_whoever_copies_has_nothing_open_but_the_two_files(cupel, folder):
    """It parses a file that may be hostile: the keeper's records are not its to reach."""
    path = make(folder / "platform.db", uid=cupel.uid)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        process, run_id = cupel.start("--db-snapshot", path, "--", "true",
                                      stderr=subprocess.DEVNULL)
        with platforms.killed(process):
            def copier():
                for word in leftovers.processes(cupel):
                    _, pid, name = word.split(maxsplit=2)
                    try:
                        names = [os.readlink(fd) for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir()]
                    except OSError:
                        continue  # it ends, or closes one
                    if name == "cupel-snapshot" and str(path) in names:
                        return names
                return []
            assert lib.wait_until(lambda: len(copier()) > 0)
            kept = [name for name in copier() if name.startswith(str(cupel.base))]
            assert sorted(kept) == sorted([str(path), f"{cupel.run_dir(run_id)}/.new-db-snapshot"])
            process.send_signal(signal.SIGTERM)
            process.wait(60 * lib.SLOW)


def test_a_run_is_cancelled_while_its_copy_waits(cupel, folder):
    """Somebody holds the database for himself."""
    path = make(folder / "platform.db", uid=cupel.uid)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        process, run_id = cupel.start("--db-snapshot", path, "--", "true",
                                      stderr=subprocess.DEVNULL)
        with platforms.killed(process):
            run_dir = cupel.run_dir(run_id)
            assert lib.wait_until(lambda: list(run_dir.glob(".new-db-snapshot")))
            process.send_signal(signal.SIGTERM)
            assert process.wait(60 * lib.SLOW) == 128 + signal.SIGTERM
    verdict = json.loads((run_dir / "verdict.json").read_text(encoding="utf-8"))
    assert verdict["cause"] == "cancelled"
    assert not list(run_dir.glob(".new-*"))
