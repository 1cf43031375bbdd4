"""`cupel list` out of the ledger, over both databases: the answer is that of the run directories,
whatever is asked, however much is delivered, and whatever has become of the database."""

import fcntl
import json
import os
import signal
import subprocess

import pytest

import cupel as lib
import ledgers

ANALYSIS = {"name": "it's \u2603; --", "quest": "a, b", "command": ["true"]}


def ask(kept, *words):
    """(what it printed, stderr)"""
    status, out, err = kept.caller.call(kept.caller.binary, "list", *words)
    assert status == 0, err
    return out, err


def assert_same(kept, *words):
    """The same from the directories, for people and for programs, down to the last byte; the ids."""
    for form in ([], ["--json"]):
        ours, note = ask(kept, *form, *words)
        theirs, _ = ask(kept, *form, "--from-runs", *words)
        assert ours == theirs, words
        assert "directories" not in note
    return [run["id"] for run in json.loads(ours)]


def lose(caller, run_id):
    """A run whose keeper is killed; the next command records it."""
    process, _ = caller.start("--", "sleep", "1000", id=run_id)
    events = caller.run_dir(run_id) / "events.jsonl"
    assert lib.wait_until(lambda: events.exists() and b'"started"' in events.read_bytes())
    keeper = json.loads(events.read_text().splitlines()[0])["data"]["keeper_pid"]
    os.kill(keeper, signal.SIGKILL)
    process.wait(60)


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.test_all)])
def filled(request, callers):
    callers("root")
    kept = ledgers.Kept(request.param, request.getfixturevalue("server") if request.param == "postgresql" else None)
    caller = kept.caller
    kept.run("--quest", "q1", "--", "true", id="b")
    kept.run("--quest", "q2", "--", "false", id="A1")
    kept.run("--quest", "q1", "--", "sh", "-c", "kill -9 $$", id="a.1")
    kept.run("--", "no-such-program", id="a-1")
    runtimes = caller.base / "runtimes.d"
    runtimes.mkdir()
    (runtimes / "other.yaml").write_text("name: other\nkind: system\n", encoding="utf-8")
    (runtimes / "gone.yaml").write_text("name: gone\nkind: venv\nprefix: /no/such\n", encoding="utf-8")
    assert kept.run("-r", "other", "--", "true", id="a_1").status == 0
    kept.run("-r", "gone", "--quest", "q2", "--", "true", id="B-1")
    file = caller.dir / "hostile.yaml"
    file.write_text(json.dumps(ANALYSIS), encoding="utf-8")
    assert kept.run(file, id="c").status == 0
    lose(caller, "lost1")
    assert kept.settle()["owed"] == 0
    yield kept
    kept.close()


FILTERS = [
    [],
    ["--cause", "ok"],
    ["--cause", "ok,ok,exit"],
    ["--cause", "lost"],
    ["--cause", "runtime-broken,signal"],
    ["--cause", "oom"],
    ["--quest", "q1"],
    ["--quest", "q1", "--quest", "q2", "--quest", "none"],
    ["--quest", "a, b"],
    ["-r", "base"],
    ["-r", "base,other,gone"],
    ["--quest", "q2", "--cause", "exit,runtime-broken", "-r", "base,gone"],
    ["--state", "ended"],
    ["--state", "ended,running"],
    ["--state", "running"],
    ["--since", "1h"],
    ["--since", "1h", "--cause", "ok,exit", "--quest", "q1", "--quest", "q2"],
    ["--since", "2100-01-01"],
]


@pytest.mark.parametrize("words", FILTERS, ids=" ".join)
def test_each_filter_finds_what_the_directories_have(filled, words):
    found = assert_same(filled, *words)
    assert found == assert_same(filled, *words, "--reverse")[::-1]
    paged, after = [], []
    while page := assert_same(filled, *words, "-n", "2", *after):
        assert len(page) <= 2
        paged, after = paged + page, ["--after", page[-1]]
    assert paged == found
    if words == []:
        assert found == ["lost1", "c", "B-1", "a_1", "a-1", "a.1", "A1", "b"], "newest first, whatever the ids are"


def test_a_page_goes_on_after_a_run_that_there_is(filled):
    status, out, err = filled.caller.call(filled.caller.binary, "list", "--after", "nosuch")
    assert (status, out) == (2, "") and "--after: there is no run 'nosuch' to go on after" in err


def test_a_moment_is_to_the_millisecond(filled):
    times = {run["id"]: run["accepted"] for run in json.loads(ask(filled, "--json")[0])}
    for run, time in times.items():
        assert run in assert_same(filled, "--since", time)
    last = max(times.values())
    assert assert_same(filled, "--since", last) == [run for run in times if times[run] == last]


def test_it_is_the_ledger_that_answers(filled):
    """The control of all of the above: it says what only the ledger says."""
    filled.db.change("UPDATE runs SET name = 'from the ledger' WHERE id = 'b'")
    try:
        assert "from the ledger" in ask(filled)[0]
        assert "from the ledger" not in ask(filled, "--from-runs")[0]
    finally:
        filled.db.change("UPDATE runs SET name = NULL WHERE id = 'b'")
    filled.assert_whole()


def test_what_is_not_delivered_is_among_them(filled):
    """Live, just ended, and ended before: each in its place."""
    with open(filled.caller.home / "ledger.lock", "r+b") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        filled.run("--quest", "q1", "--", "true", id="aa")
        process, _ = filled.caller.start("--quest", "q1", "--", "sh", "-c", "echo up; sleep 1000",
                                         id="Z", stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"up\n"
        assert "aa" in filled.owed()
        for words in FILTERS:
            assert_same(filled, *words)
            assert_same(filled, *words, "-n", "3", "--after", "a.1")
            assert_same(filled, *words, "-n", "3", "--reverse")
        assert assert_same(filled, "--quest", "q1") == ["Z", "aa", "a.1", "b"]
        assert assert_same(filled, "--state", "running") == ["Z"]
        process.terminate()
        process.communicate(timeout=60)
    filled.settle()
    assert assert_same(filled, "--quest", "q1") == ["Z", "aa", "a.1", "b"]


def test_without_the_database_the_directories_answer(filled):
    whole = ask(filled, "--from-runs")[0]
    filled.db.down()
    try:
        out, err = ask(filled)
        assert out == whole
        assert err.startswith("cupel: warning: the run directories are read, not the ledger: ")
        assert err.count("\n") == 1
        assert ask(filled, "--state", "running")[1] == "", "it is not needed for that"
    finally:
        filled.db.up()
    assert ask(filled) == (whole, "")


def test_a_ledger_of_another_schema_is_not_believed(filled):
    filled.db.change("INSERT INTO cupel_schema VALUES (999, '999-x.sql', '', '')")
    try:
        out, err = ask(filled)
        assert "schema 999" in err and out == ask(filled, "--from-runs")[0]
    finally:
        filled.db.change("DELETE FROM cupel_schema WHERE version = 999")


def test_a_ledger_that_has_not_all_is_not_believed(filled):
    """It was made again, or the host was started since: in silence, until all is entered."""
    filled.db.change("UPDATE homes SET reconciled = 'another boot'; UPDATE runs SET name = 'no'")
    out, err = ask(filled)
    assert err == "" and out == ask(filled, "--from-runs")[0]
    filled.command("ledger", "rebuild")
    assert ask(filled) == (out, "")
    filled.assert_whole()
    filled.db.change("UPDATE runs SET name = 'yes' WHERE id = 'b'")
    assert "yes" in ask(filled)[0], "and now it is"
    filled.command("ledger", "rebuild")


def test_a_damaged_file(kept_sqlite):
    kept_sqlite.configure("")
    kept_sqlite.run(id="one")
    kept_sqlite.settle()
    path = kept_sqlite.caller.home / "cupel.db"
    with open(path, "r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 4096))
    out, err = ask(kept_sqlite)
    assert out == ask(kept_sqlite, "--from-runs")[0] and "one" in out
    assert "not the ledger" in err and "Remedy: cupel ledger rebuild" in err


def test_a_database_that_was_made_again_has_all_before_it_is_asked(kept_sqlite):
    kept_sqlite.configure("")
    for run in ("one", "two"):
        kept_sqlite.run(id=run)
    kept_sqlite.settle()
    for path in kept_sqlite.caller.home.glob("cupel.db*"):
        path.unlink()
    kept_sqlite.run(id="three")
    kept_sqlite.quiet()
    kept_sqlite.db.path = kept_sqlite.caller.home / "cupel.db"
    assert assert_same(kept_sqlite) == ["three", "two", "one"]
    assert kept_sqlite.ids() == ["one", "three", "two"]


def test_a_look_makes_nothing(kept_sqlite):
    kept_sqlite.configure("")
    assert ask(kept_sqlite, "--json") == ("[]\n", "")
    assert not (kept_sqlite.caller.home / "cupel.db").exists()
