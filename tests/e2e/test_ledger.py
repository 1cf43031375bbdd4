"""The ledger over both databases: each run is entered once, whatever happens to the database
meanwhile, and no run is harmed by it."""

import concurrent.futures
import fcntl
import hashlib
import json
import os
import shutil
import subprocess

import pytest

import cupel as lib
import leftovers
import ledgers
from ledgers import Kept


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_all_of_a_run_is_entered(kept):
    """Verdict, attempt, events, outputs and digests of the logs, as the run directory has them."""
    script = "echo one; echo two >&2; echo a,b > out/t.csv; exit 3"
    result = kept.run("--out", "out/*", "--", "sh", "-c", script)
    kept.settle()
    verdict, directory, run = result.verdict, result.run_dir, result.run_dir.name
    row = kept.db.query(
        "SELECT id, cause, exit_status, accepted, started, ended, runtime, notes, wall_usec, "
        "memory_peak_bytes, verdict_sha256, analysis_sha256, chain FROM runs"
    )
    lines = (directory / "events.jsonl").read_bytes().splitlines()
    usage = verdict["usage"]
    assert row == [
        [run, "exit", "3", verdict["accepted"], verdict["started"], verdict["ended"], "base"]
        + [verdict["completion_notes"], str(usage["wall_usec"]), str(usage["memory_peak_bytes"])]
        + [sha256(directory / "verdict.json"), sha256(directory / "analysis.json")]
        + [hashlib.sha256(lines[-1]).hexdigest()]
    ]
    assert kept.db.query("SELECT run, n, executor, cause, exit_code, signal FROM attempts") == [
        [run, "1", "local", "exit", "3", None]
    ]
    events = kept.db.query("SELECT n, time, event, sha256 FROM events ORDER BY n")
    assert events == [
        [str(event["n"]), event["time"], event["event"], hashlib.sha256(line).hexdigest()]
        for event, line in zip(result.events, lines)
    ]
    assert kept.db.query("SELECT path, size, sha256, media_type FROM outputs") == [
        ["out/t.csv", "4", hashlib.sha256(b"a,b\n").hexdigest(), "text/csv"]
    ]
    assert kept.db.query("SELECT name, size, sha256 FROM logs ORDER BY n") == [
        ["stdout.log", "4", hashlib.sha256(b"one\n").hexdigest()],
        ["stderr.log", "4", hashlib.sha256(b"two\n").hexdigest()],
    ]
    chosen = json.loads((directory / "analysis.json").read_text())["runtime"]
    assert kept.db.query("SELECT runtime, identity, rule, why FROM selections") == [
        ["base", chosen["fingerprint"]["identity"], "default", chosen["selection"]["why"]]
    ]
    assert kept.db.query("SELECT name, identity, kind FROM runtimes") == [
        ["base", chosen["fingerprint"]["identity"], "system"]
    ]
    assert kept.db.query("SELECT path FROM homes") == [[str(kept.caller.home)]]
    assert kept.owed() == [] and kept.assert_whole()["runs"] == 1


def test_delivery_is_behind_the_back_of_the_run(kept):
    """Nobody asked for it, and it is done."""
    result = kept.run()
    kept.quiet()
    assert kept.ids() == [result.run_dir.name] and kept.owed() == []


def test_delivered_again_nothing_changes(kept):
    run = kept.run().run_dir.name
    kept.settle()
    before = kept.db.query("SELECT * FROM runs") + kept.db.query("SELECT * FROM events")
    kept.owe(run)
    assert kept.settle()["owed"] == 0
    assert kept.db.query("SELECT * FROM runs") + kept.db.query("SELECT * FROM events") == before


@pytest.mark.parametrize("when", ["start", "middle", "end"])
def test_a_database_that_is_down_harms_no_run(kept, when):
    first = kept.run().run_dir.name
    kept.settle()
    if when == "start":
        kept.db.down()
        result = kept.run()
    elif when == "middle":
        process, run_id = kept.caller.start("--", "sh", "-c", f"{lib.WAITS}; echo on")
        with lib.going_on(process):
            assert lib.wait_until(lambda: kept.caller.has_started(run_id))
            kept.db.down()
            kept.caller.let_go(run_id)
            assert process.wait(60) == 0
        result = lib.Result(0, "", "", kept.caller.run_dir(run_id))
    else:
        with open(kept.caller.home / "ledger.lock", "r+b") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)  # as if somebody were at it: it ends undelivered
            result = kept.run()
        kept.db.down()
        kept.command("gc")
    assert result.status == 0 and result.cause == "ok", result.stderr
    kept.quiet()
    run = result.run_dir.name
    status = kept.status()
    assert kept.owed() == [run] and status["owed"] == 1
    assert status["reachable"] is False and status["error"] and status["last_error"], status
    kept.db.up()
    status = kept.settle()
    assert status["owed"] == 0 and status["last_error"] is None and status["runs"] == 2, status
    assert kept.ids() == sorted([first, run])
    kept.assert_whole()


def test_a_lock_on_the_database_delays_no_run(kept):
    kept.run()
    kept.settle()
    with kept.db.locked():
        result = kept.run()  # comes back while the lock is held
        assert result.status == 0 and kept.owed() == [result.run_dir.name]
        assert result.stderr == ""
    kept.settle()
    assert kept.settle()["owed"] == 0
    assert len(kept.ids()) == 2


def test_a_newer_schema_is_left_alone(kept):
    kept.run()
    kept.settle()
    kept.db.change("INSERT INTO cupel_schema VALUES (999, '999-x.sql', '', '')")
    result = kept.run()
    kept.quiet()
    assert result.status == 0 and result.stderr == "" and kept.owed() == [result.run_dir.name]
    assert "schema 999" in kept.status()["last_error"]
    status, _, err = kept.command("ledger", "check")
    assert status == 125 and f"knows only {ledgers.KNOWN}" in err
    kept.db.change("DELETE FROM cupel_schema WHERE version = 999")
    assert kept.settle()["owed"] == 0
    kept.assert_whole()


def test_an_older_schema_is_migrated_when_asked(kept):
    kept.db.make_old()
    result = kept.run()
    kept.quiet()
    assert result.status == 0 and kept.owed() == [result.run_dir.name]
    assert "cupel ledger migrate" in kept.status()["last_error"]
    assert kept.status()["schema"] == {"found": 1, "known": ledgers.KNOWN}
    status, versions, err = kept.command("ledger", "migrate")
    assert status == 0 and versions == {"found": ledgers.KNOWN, "known": ledgers.KNOWN}, err
    names = [path.name for path in sorted(ledgers.SCHEMA.glob("*.sql"))]
    assert [row[0] for row in kept.db.query("SELECT name FROM cupel_schema ORDER BY version")] == names
    assert kept.settle()["owed"] == 0
    kept.assert_whole()


def test_check_finds_and_rebuild_mends(kept):
    """A value, a row, a run, an event too many: each by hand, each named, each made good."""
    runs = [kept.run("--", "sh", "-c", "echo x > out/x").run_dir.name for _ in range(4)]
    kept.settle()
    home = kept.db.query("SELECT home FROM homes")[0][0]
    kept.db.change(
        f"UPDATE runs SET cause = 'oom' WHERE id = '{runs[0]}';"
        f"DELETE FROM outputs WHERE run = '{runs[1]}';"
        f"DELETE FROM runs WHERE id = '{runs[2]}';"
    )
    shutil.rmtree(kept.caller.run_dir(runs[3]))
    status, audit, err = kept.command("ledger", "check")
    assert status == 1, err
    assert (audit["missing"], audit["different"], audit["extra"]) == (1, 2, 1), audit
    named = {line.split(":")[0] for line in audit["first"]}
    assert named == set(runs)
    status, done, err = kept.command("ledger", "rebuild")
    assert status == 0 and (done["entered"], done["gone"]) == (3, 1), (done, err)
    assert kept.ids() == sorted(runs[:3]) and kept.assert_whole()["runs"] == 3
    assert kept.db.query("SELECT home FROM homes") == [[home]]
    assert kept.command("ledger", "rebuild")[1]["entered"] == 0, "a second time there is nothing to do"


MADE = (
    "SELECT {of}, r.cause, count(*), coalesce(sum(r.wall_usec), 0), coalesce(sum(r.cpu_usec), 0), min(r.accepted), max(r.accepted), "
    "max(coalesce(r.memory_peak_bytes, 0)) FROM runs r LEFT JOIN submission_runs m ON m.home = r.home AND m.run = r.id "
    "LEFT JOIN submissions s ON s.home = m.home AND s.id = m.submission GROUP BY {of}, r.cause"
)


def assert_totals_are_sums(db):
    """What is kept, against what the table of runs adds up to here. Returns how many sums there are."""
    n = 0
    for kind, of in (("quest", "r.quest"), ("runtime", "r.runtime"), ("submitter", "coalesce(r.submitter, s.submitter)")):
        made = sorted([row[0] or "", *row[1:]] for row in db.query(MADE.format(of=of)))
        kept = db.query("SELECT subject, cause, runs, wall_usec, cpu_usec, first, last, memory_peak_bytes FROM run_totals "
                        f"WHERE kind = '{kind}' AND runs <> 0 AND is_stale = 0")
        columns = 5 if kind == "submitter" else 8
        assert sorted(row[:columns] for row in kept) == [row[:columns] for row in made], kind
        n += len(kept)
    for kind, hours, _ in db.query("SELECT k.kind, k.hours, r.hours FROM (SELECT kind, sum(memory_gib_hours) AS hours FROM run_totals GROUP BY "
                                   "kind) k, (SELECT sum(memory_peak_bytes / 1073741824.0 * wall_usec / 3600000000.0) AS hours FROM runs) r "
                                   "WHERE abs(k.hours - r.hours) > 0.000001 * r.hours"):
        raise AssertionError(f"memory of {kind}: {hours}")
    return n


def test_totals_are_the_sums_of_runs(kept):
    """After a mixed load at once, a gc, a run that took another's id, one that was removed, and a rebuild."""
    loads = [("--quest", "a", "--", "true"), ("--quest", "a", "--", "false"), ("--quest", "b", "--", "true"), ("--", "true"),
             ("--quest", "b", "--memory", "32M", "--", "/usr/bin/python3", "-c", "bytearray(300 << 20)")]
    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        runs = [result.run_dir.name for result in pool.map(lambda words: kept.run(*words), loads * 2)]
    kept.run("--quest", "c", "--", "false", id="again")
    kept.settle()
    assert assert_totals_are_sums(kept.db) == 6 + 3 + 3
    assert kept.assert_whole()["totals"] == 0
    shutil.rmtree(kept.caller.run_dir("again"))
    kept.run("--quest", "d", "--", "true", id="again")
    kept.settle()
    assert assert_totals_are_sums(kept.db) == 6 + 3 + 3, "c has gone with its only run"
    shutil.rmtree(kept.caller.run_dir(runs[0]))
    status, done, err = kept.command("ledger", "rebuild")
    assert status == 0 and done["gone"] == 1, (done, err)
    assert_totals_are_sums(kept.db)
    kept.db.change("UPDATE runs SET submitter = 'nobody' WHERE id = 'again'")
    status, audit, err = kept.command("ledger", "check")
    assert status == 1 and audit["different"] == 1, (audit, err)  # its record says nothing of the kind
    assert kept.command("ledger", "rebuild")[0] == 0
    assert kept.assert_whole()["totals"] == 0
    kept.db.change("UPDATE run_totals SET runs = runs + 1 WHERE kind = 'runtime' AND cause = 'ok'")
    status, audit, err = kept.command("ledger", "check")
    assert status == 1 and audit["totals"] == 2, (audit, err)  # the right one is lacking, the wrong one is there
    kept.command("ledger", "rebuild")
    assert kept.assert_whole()["totals"] == 0
    assert_totals_are_sums(kept.db)


def test_totals_of_an_older_ledger_are_made_by_the_migration(kept):
    kept.run("--quest", "a", "--", "true")
    kept.run("--", "false")
    kept.settle()
    kept.db.change("DROP TABLE run_totals; DROP VIEW run_shares; DROP INDEX submissions_never; DROP INDEX submissions_never_by_cause; DROP INDEX runs_by_submitter_and_time; ALTER TABLE runs DROP COLUMN submitter; DELETE FROM cupel_schema WHERE version >= 9")
    status, _, err = kept.command("ledger", "migrate")
    assert status == 0, err
    assert assert_totals_are_sums(kept.db) == 2 + 2 + 2


def test_an_id_that_is_used_again_takes_the_place(kept):
    kept.run("--", "false", id="again")
    kept.settle()
    assert kept.db.query("SELECT cause FROM runs") == [["exit"]]
    shutil.rmtree(kept.caller.run_dir("again"))
    kept.run("--", "true", id="again")
    kept.settle()
    assert kept.db.query("SELECT id, cause FROM runs") == [["again", "ok"]]
    assert kept.db.query("SELECT count(*) FROM attempts") == [["1"]]


def test_many_at_once_are_entered_once_each(kept):
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        results = list(pool.map(lambda _: kept.run("--memory", "64M", "--", "true"), range(18)))
    assert [result.status for result in results] == [0] * 18
    assert kept.settle()["owed"] == 0
    assert kept.ids() == sorted(result.run_dir.name for result in results)
    kept.assert_whole()


def test_whoever_delivers_is_killed(kept):
    """In the middle of it, for it waits for a lock; the next one goes on."""
    kept.run()
    kept.settle()
    with kept.db.locked():
        result = kept.run()
        # It takes its name a moment after it began.
        assert lib.wait_until(lambda: any("cupel-ledger" in p for p in leftovers.processes(kept.caller)))
        found = leftovers.processes(kept.caller)
        assert len(found) == 1, found
        os.kill(int(found[0].split()[1]), 9)
        kept.quiet()
        assert kept.owed() == [result.run_dir.name]
    assert kept.settle()["owed"] == 0
    assert len(kept.ids()) == 2
    kept.assert_whole()


def test_marks_that_a_power_cut_took_are_made_again(kept):
    with_lock = kept.caller.home / "ledger.lock"
    kept.run()
    kept.settle()
    with open(with_lock, "r+b") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        lost = kept.run().run_dir.name
    (kept.caller.home / "undelivered" / lost).unlink()
    assert kept.settle()["owed"] == 0
    assert lost not in kept.ids(), "the control: within one boot the marks are believed"
    state = kept.caller.home / "ledger.json"
    known = json.loads(state.read_text())
    state.write_text(json.dumps({**known, "boot": "another"}))
    kept.run()
    kept.settle()
    assert lost in kept.ids()
    kept.assert_whole()


def test_hostile_words_are_only_words(kept):
    name = "'); DROP TABLE runs; -- \"$1\" \\ é ☃"
    analysis = kept.caller.dir / "hostile.yaml"
    analysis.write_text(
        json.dumps(
            {
                "name": name,
                "quest": "$2 ' || id || '",
                "command": ["sh", "-c", "echo x > \"out/it's \\$3; --.csv\""],
                "outputs": ["out/*"],
            }
        ),
        encoding="utf-8",
    )
    result = kept.run(analysis)
    assert result.status == 0, result.stderr
    kept.settle()
    assert kept.db.query("SELECT name, quest FROM runs") == [[name, "$2 ' || id || '"]]
    assert kept.db.query("SELECT path FROM outputs") == [["out/it's $3; --.csv"]]
    kept.assert_whole()


def test_a_record_that_cannot_be_read_holds_up_no_other(kept):
    bad = kept.run().run_dir
    kept.settle()
    (bad / "verdict.json").write_text("{", encoding="utf-8")
    kept.owe(bad.name)
    good = kept.run().run_dir.name
    assert kept.settle()["owed"] == 1
    assert good in kept.ids() and kept.owed() == [bad.name]
    assert bad.name in kept.status()["last_error"]


@pytest.mark.test_all
def test_two_homes_share_a_database(server, callers):
    callers("root")
    one, two = Kept("postgresql", server), Kept("postgresql", server)
    two.configure(one.db.url)
    one.run("--", "true", id="same")
    two.run("--", "false", id="same")
    one.settle(), two.settle()
    rows = one.db.query("SELECT path, cause FROM runs JOIN homes ON homes.home = runs.home ORDER BY cause")
    assert rows == [[str(two.caller.home), "exit"], [str(one.caller.home), "ok"]]
    one.assert_whole(), two.assert_whole()
    one.close(), two.close()


@pytest.mark.test_all
def test_a_new_database_gets_all(server, kept_sqlite):
    """From SQLite to PostgreSQL: what was delivered to the one is owed to the other."""
    runs = [kept_sqlite.run().run_dir.name for _ in range(3)]
    kept_sqlite.settle()
    other = ledgers.PostgresLedger(server)
    kept_sqlite.configure(other.url)
    kept_sqlite.run()
    kept_sqlite.settle()
    assert {row[0] for row in other.query("SELECT id FROM runs")} > set(runs)
    kept_sqlite.assert_whole()


def test_the_default_is_in_the_home(kept_sqlite):
    kept_sqlite.configure("")
    kept_sqlite.run()
    assert kept_sqlite.settle()["url"] == f"sqlite:{kept_sqlite.caller.home}/cupel.db"
    path = kept_sqlite.caller.home / "cupel.db"
    assert path.stat().st_mode & 0o777 == 0o600, "records are not for everybody"
    assert ledgers.sqlite3.connect(path).execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_damaged_file_is_set_aside_by_rebuild(kept_sqlite):
    kept_sqlite.configure("")
    run = kept_sqlite.run().run_dir.name
    kept_sqlite.settle()
    path = kept_sqlite.caller.home / "cupel.db"
    with open(path, "r+b") as file:
        file.seek(4096)
        file.write(os.urandom(20000))
    status, _, err = kept_sqlite.command("ledger", "check")
    assert status == 125 and "Remedy: cupel ledger rebuild" in err
    next_run = kept_sqlite.run()
    assert next_run.status == 0 and next_run.stderr == ""
    kept_sqlite.quiet()
    status, done, err = kept_sqlite.command("ledger", "rebuild")
    assert status == 0 and done["set_aside"] and done["entered"] == 2, (done, err)
    assert path.with_suffix(".db.broken").exists()
    kept_sqlite.assert_whole()
    rows = ledgers.sqlite3.connect(path).execute("SELECT id FROM runs").fetchall()
    assert sorted(rows) == sorted([(run,), (next_run.run_dir.name,)])


def test_a_full_disk_below_the_ledger(kept_sqlite):
    """A file system of its own that has no room; with room again all is delivered."""
    kept_sqlite.run()
    kept_sqlite.settle()
    small = kept_sqlite.caller.base / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small], check=True)
    try:
        kept_sqlite.db.path = small / "ledger.db"
        kept_sqlite.configure(f"sqlite:{small}/ledger.db")
        kept_sqlite.run()
        assert kept_sqlite.settle()["owed"] == 0
        with open(small / "filler", "wb", buffering=0) as filler:
            with pytest.raises(OSError):
                while True:
                    filler.write(bytes(4096))
        result = kept_sqlite.run()
        assert result.status == 0 and result.stderr == ""
        kept_sqlite.quiet()
        assert kept_sqlite.owed() == [result.run_dir.name]
        error = kept_sqlite.status()["last_error"]
        assert "full" in error or "disk I/O" in error, error  # of the file, or of its index
        (small / "filler").unlink()
        assert kept_sqlite.settle()["owed"] == 0
        kept_sqlite.assert_whole()
        kept_sqlite.quiet()
    finally:
        subprocess.run(["umount", small], check=True)


def test_an_ordinary_user_has_his_own(user):
    result = user.run("--", "true")
    assert result.status == 0, result.stderr
    assert lib.wait_until(lambda: not leftovers.processes(user))
    with ledgers.contextlib.closing(ledgers.sqlite3.connect(user.home / "cupel.db")) as db:
        assert db.execute("SELECT count(*) FROM runs").fetchone()[0] >= 1
    assert (user.home / "cupel.db").stat().st_uid == user.uid
    assert result.run_dir.parent == user.home / "runs"


def test_the_password_is_shown_to_nobody(kept_sqlite):
    kept_sqlite.configure("postgresql://me:tops3cret@127.0.0.1:1/x?password=als0s3cret&sslmode=disable")
    for command in (("config",), ("ledger", "status")):
        status, out, err = kept_sqlite.caller.call(kept_sqlite.caller.binary, *command)
        assert status == 0 and "s3cret" not in out + err and "127.0.0.1:1/x" in out, out
        assert "sslmode=disable" in out
    result = kept_sqlite.run()
    kept_sqlite.quiet()
    kept_sqlite.configure("")
    for path in [*result.run_dir.rglob("*"), *kept_sqlite.caller.home.glob("ledger*")]:
        assert not path.is_file() or b"s3cret" not in path.read_bytes(), path


@pytest.mark.parametrize("url", ["mysql://x/y", "sqlite:relative.db", "/just/a/path", ""])
def test_a_url_of_no_ledger_is_refused(kept_sqlite, url):
    kept_sqlite.caller.configure(f"ledger: {{url: '{url}'}}\n")
    result = kept_sqlite.run()
    assert result.status == 2 and "sqlite:/PATH" in result.stderr
    kept_sqlite.configure("")


def test_a_project_may_not_say_where_the_ledger_is(kept_sqlite):
    project = kept_sqlite.caller.dir / "cupel.yaml"
    mine = kept_sqlite.caller.base / "mine.db"
    project.write_text(f"ledger: {{url: 'sqlite:{mine}'}}\n", encoding="utf-8")
    result = kept_sqlite.run()
    project.unlink()
    assert result.status == 2 and "the host's to say" in result.stderr
    assert not mine.exists()
