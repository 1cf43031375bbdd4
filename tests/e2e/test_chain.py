"""The chain over all runs: whatever happens to whole runs, or to the chain itself, `cupel audit verify`
names the first line that does not hold. Over both databases, which keep a copy of it."""

import fcntl
import hashlib
import json
import os
import shutil

import pytest

RUNS = ["r1", "r2", "r3", "r4"]


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def verify(kept):
    status, report, err = kept.command("audit", "verify")
    assert status in (0, 1), err
    assert (status == 1) == (report["broken"] > 0)
    return report


def chain_of(kept):
    return kept.caller.home / "chain.jsonl"


def links(kept):
    return [json.loads(line) for line in chain_of(kept).read_text().splitlines()]


def first_broken(kept):
    """(run, line, reason) of the first link that is named, which is of the chain."""
    report = verify(kept)
    assert report["broken"], report
    link = report["links"][0]
    assert link["file"] == "chain.jsonl", report["links"]
    words = kept.caller.call(kept.caller.binary, "audit", "verify")[1]
    place = f":{link['line']}" if link["line"] else ""
    assert words.startswith(f"broken: chain.jsonl{place}: {link['reason']}")
    return link["run"], link["line"], link["reason"]


def fill(kept):
    for run in RUNS:
        kept.run(id=run)
        kept.quiet()  # so that their order is known
    return kept


@pytest.fixture
def four(kept):
    return fill(kept)


@pytest.fixture
def four_sqlite(kept_sqlite):
    return fill(kept_sqlite)


def made_again(lines):
    """The lines with their numbers and digests as they ought to be: by somebody who knows how."""
    prev, made = "0" * 64, []
    for n, line in enumerate(lines, 1):
        made.append(json.dumps({**json.loads(line), "n": n, "prev": prev}, separators=(",", ":")))
        prev = sha256(made[-1].encode())
    return made


def rewrite(kept, change):
    path = chain_of(kept)
    lines = path.read_text().splitlines()
    path.write_text("".join(f"{line}\n" for line in change(lines)), encoding="utf-8")


def test_each_run_is_a_link(four):
    report = verify(four)
    assert report["broken"] == 0 and report["chained"] == 4 and report["uncompared"] is None
    prev = "0" * 64
    for n, (line, run) in enumerate(zip(chain_of(four).read_bytes().splitlines(), RUNS), 1):
        events = (four.caller.run_dir(run) / "events.jsonl").read_bytes().splitlines()
        link = json.loads(line)
        assert (link["n"], link["event"], link["run"]) == (n, "run", run)
        assert (link["last"], link["prev"]) == (sha256(events[-1]), prev)
        prev = sha256(line)
        assert four.db.query(f"SELECT event, run, sha256 FROM chain WHERE n = {n}") == [
            ["run", run, prev]]
    assert chain_of(four).stat().st_mode & 0o777 == 0o600
    words = four.caller.call(four.caller.binary, "audit", "verify")[1]
    assert words.endswith("4 links of the chain of runs\n")


def replace_run(kept):
    """By a whole one, of the same id, that holds by itself."""
    shutil.rmtree(kept.caller.run_dir("r2"))
    kept.run("--", "false", id="r2")
    kept.settle()


def forge_run(kept):
    """The same, by somebody who also hides that it is owed."""
    with open(kept.caller.home / "ledger.lock", "r+b") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        shutil.rmtree(kept.caller.run_dir("r2"))
        kept.run("--", "false", id="r2")
        (kept.caller.home / "undelivered/r2").unlink()


ACTS = {
    "removed": (lambda kept: shutil.rmtree(kept.caller.run_dir("r2")), 2, "r2: the run is not there any more"),
    "no verdict": (lambda kept: (kept.caller.run_dir("r2") / "verdict.json").unlink(), 2,
                   "r2: its verdict.json is not there any more"),
    "line removed": (lambda kept: rewrite(kept, lambda lines: lines[:1] + lines[2:]), 2, "does not carry"),
    "lines swapped": (lambda kept: rewrite(kept, lambda lines: [lines[0], lines[2], lines[1], lines[3]]), 2,
                      "does not carry"),
    "line changed": (lambda kept: rewrite(kept, lambda lines: [lines[0], lines[1].replace("r2", "r5"), *lines[2:]]),
                     3, "does not carry"),
    "line added": (lambda kept: rewrite(kept, lambda lines: lines + lines[:1]), 5, "does not carry"),
    "nonsense": (lambda kept: rewrite(kept, lambda lines: [*lines[:2], "{}", *lines[2:]]), 3, "is no link"),
    "long": (lambda kept: rewrite(kept, lambda lines: [lines[0], lines[1] + " " * 2000, *lines[2:]]), 2, "is no link"),
    "NUL": (lambda kept: rewrite(kept, lambda lines: [lines[0], "\0" + lines[1], *lines[2:]]), 2, "is no link"),
    "cut": (lambda kept: rewrite(kept, lambda lines: lines[:3]), 4, "the chain ends before it"),
    "no chain": (lambda kept: chain_of(kept).unlink(), 1, "the chain ends before it"),
    "made again": (lambda kept: rewrite(kept, lambda lines: made_again(lines[:1] + lines[2:])), 2,
                   "the ledger has another link there"),
    "reordered": (lambda kept: rewrite(kept, lambda lines: made_again(lines[1:] + lines[:1])), 1,
                  "the ledger has another link there"),
    "forged": (forge_run, 2, "r2: the run is not the one that was chained"),
}


def test_what_was_done_is_named(four, tmp_path):
    """Each by itself; put back, all holds again."""
    shutil.copytree(four.caller.home / "runs", tmp_path / "runs", symlinks=True)
    shutil.copy2(chain_of(four), tmp_path / "chain.jsonl")
    for name, (act, line, reason) in ACTS.items():
        act(four)
        _, found, why = first_broken(four)
        assert found == line and reason in why, (name, found, why)
        shutil.rmtree(four.caller.home / "runs")
        shutil.copytree(tmp_path / "runs", four.caller.home / "runs", symlinks=True)
        shutil.copy2(tmp_path / "chain.jsonl", chain_of(four))
        assert verify(four)["broken"] == 0, name


def test_runs_that_were_swapped(four_sqlite):
    one, two = four_sqlite.caller.run_dir("r2"), four_sqlite.caller.run_dir("r3")
    one.rename(one.parent / "x"), two.rename(one), (one.parent / "x").rename(two)
    found = verify(four_sqlite)["links"]
    assert [(link["run"], link["file"], link["line"]) for link in found] == [
        ("r2", "events.jsonl", 1), ("r3", "events.jsonl", 1)]


@pytest.mark.parametrize("act, line", [(lambda kept: rewrite(kept, lambda lines: lines[:3]), 4),
                                       (replace_run, 2)], ids=["cut", "replaced"])
def test_a_further_run_does_not_hide_it(four_sqlite, act, line):
    four = four_sqlite
    act(four)
    assert first_broken(four)[1] == line
    four.run(id="later")
    four.settle()
    assert first_broken(four)[1] == line
    if line == 2:
        assert first_broken(four)[2] == "r2: another run of this id was chained since"


def test_both_are_cut(four):
    """The chain's end, and the ledger's copy of it: the run itself tells."""
    rewrite(four, lambda lines: lines[:3])
    four.db.change("DELETE FROM chain WHERE n = 4")
    assert first_broken(four) == ("r4", None, "r4: the chain does not have this run")


def test_without_the_ledger_the_chain_is_followed(four):
    four.db.down()
    try:
        report = verify(four)
        assert report["broken"] == 0 and report["chained"] == 4 and report["uncompared"]
        rewrite(four, lambda lines: lines[:1] + lines[2:])
        assert first_broken(four)[1] == 2
    finally:
        four.db.up()


def test_what_the_ledger_cannot_take_is_chained(four):
    """Chained once, however long it is down; copied when it is there again."""
    four.db.down()
    four.run(id="r5")
    four.quiet()
    assert [link["run"] for link in links(four)] == [*RUNS, "r5"] and four.owed() == ["r5"]
    for _ in range(3):
        four.command("gc")
        four.quiet()
    four.db.up()
    four.settle()
    assert [link["run"] for link in links(four)] == [*RUNS, "r5"] and four.owed() == []
    report = verify(four)
    assert report["broken"] == 0 and report["uncompared"] is None


def test_a_host_that_crashed(four_sqlite):
    """Marks tell nothing then: some are gone, some of runs that were chained are there again."""
    with open(four_sqlite.caller.home / "ledger.lock", "r+b") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        four_sqlite.run(id="r5")
    (four_sqlite.caller.home / "undelivered/r5").unlink()
    four_sqlite.owe("r1")
    state = four_sqlite.caller.home / "ledger.json"
    state.write_text(json.dumps({**json.loads(state.read_text()), "boot": "x", "chain": "x"}))
    four_sqlite.settle()
    assert [link["run"] for link in links(four_sqlite)] == [*RUNS, "r5"]
    assert verify(four_sqlite)["broken"] == 0 and four_sqlite.owed() == []


def test_a_line_that_was_cut_off_is_no_line(four_sqlite):
    with open(chain_of(four_sqlite), "ab") as chain:
        chain.write(b'{"n":5,"time":"2026')
    assert verify(four_sqlite)["broken"] == 0
    four_sqlite.run(id="r5")
    four_sqlite.settle()
    assert [link["run"] for link in links(four_sqlite)] == [*RUNS, "r5"]
    assert verify(four_sqlite)["broken"] == 0


def test_a_run_that_was_removed_on_purpose(four_sqlite):
    def removed(run):
        return four_sqlite.caller.call(four_sqlite.caller.binary, "audit", "removed", run)

    status, _, err = removed("r2")
    assert status == 2 and "is still there" in err
    shutil.rmtree(four_sqlite.caller.run_dir("r2"))
    assert first_broken(four_sqlite)[1] == 2
    assert removed("r2")[0] == 0
    assert verify(four_sqlite)["broken"] == 0
    assert (links(four_sqlite)[4]["event"], links(four_sqlite)[4]["run"]) == ("removed", "r2")
    for run in ("r2", "never", "../x"):
        assert removed(run)[0] == 2
    four_sqlite.run("--", "false", id="r2")  # the id is free again
    four_sqlite.settle()
    report = verify(four_sqlite)
    assert report["broken"] == 0 and report["chained"] == 6, report


def test_rebuild_makes_the_copy_again(four):
    four.db.change("UPDATE chain SET sha256 = run")
    assert "another link" in first_broken(four)[2]
    assert four.command("ledger", "rebuild")[0] == 0
    assert verify(four)["broken"] == 0
    assert four.db.query("SELECT count(*) FROM chain") == [["4"]]


def test_rebuild_chains_what_no_chain_has(four_sqlite):
    """The one way to begin again: it is said, and by somebody who means it."""
    chain_of(four_sqlite).rename(chain_of(four_sqlite).with_suffix(".aside"))
    assert first_broken(four_sqlite)[1] == 1
    assert four_sqlite.command("ledger", "rebuild")[0] == 0
    assert sorted(link["run"] for link in links(four_sqlite)) == RUNS
    assert verify(four_sqlite)["broken"] == 0


def test_a_home_without_runs(kept_sqlite):
    report = verify(kept_sqlite)
    assert report["broken"] == 0 and report["chained"] == 0


def test_many_at_once_are_chained_once_each(kept_sqlite):
    kept = kept_sqlite
    processes = [kept.caller.start("--memory", "64M", "--", "true", id=f"m{i}")[0] for i in range(8)]
    assert [process.wait(120) for process in processes] == [0] * 8
    kept.settle()
    assert sorted(link["run"] for link in links(kept)) == sorted(f"m{i}" for i in range(8))
    assert verify(kept)["broken"] == 0


def test_the_chain_is_no_link_to_elsewhere(kept_sqlite):
    """A symbolic link in its place is neither read nor written."""
    target = kept_sqlite.caller.base / "elsewhere"
    target.touch()
    kept_sqlite.run(id="one")
    kept_sqlite.settle()
    chain_of(kept_sqlite).unlink()
    os.symlink(target, chain_of(kept_sqlite))
    kept_sqlite.run(id="two")
    kept_sqlite.quiet()
    assert target.read_bytes() == b"" and kept_sqlite.owed() == ["two"]
    assert kept_sqlite.command("audit", "verify")[0] == 125
    assert "chain.jsonl" in kept_sqlite.status()["last_error"]
