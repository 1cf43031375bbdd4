"""The service is killed at any moment: what it said it has, it has; what ran goes on; nothing runs twice."""

import contextlib
import json
import os
import random
import sqlite3
import time

import pytest

import cupel as lib
import doors
import leftovers
from doors import sleeper
from test_space import SmallHome

pytestmark = pytest.mark.not_in_vm

PHASES = [
    "serve-written",  # of the thread of the ledger: before and after the commit
    "serve-committed",
    "serve-entered",  # before whoever asked is told
    "serve-sent",  # the starter was asked
    "serve-asked",  # the starter itself
    "serve-received",  # what is to become the keeper
    "serve-resolved",
    "serve-heard",  # the keeper's last word
    "serve-ended",
]
COUNT = 3


@pytest.fixture
def made(callers):
    callers("root")
    if not doors.FAULTS.exists():
        pytest.skip(f"faults: {doors.FAULTS} was not built (meson -Dfaults=true)")
    caller = lib.Cupel("root")
    opened = doors.Doors(caller, doors.FAULTS)
    yield opened
    opened.close()
    leftovers.assert_nothing_left(caller)
    caller.close()


def ask_all(door, count, answered):
    """Each under a key of its own; what is answered is noted."""
    for number in range(count):
        try:
            answer = door.submit(sleeper(0.2), key=f"k{number}")
        except EOFError:
            return
        if "error" not in answer:
            answered[number] = answer["id"]


def settle(opened, count, answered):
    """With a service that nobody kills: the same keys again, and all of them to their end."""
    door = opened.ready()
    for number in range(count):
        answer = door.submit(sleeper(0.2), key=f"k{number}")
        assert "error" not in answer, answer
        if number in answered:
            assert (answer["id"], answer["new"]) == (answered[number], False), "it was durable"
        answered[number] = answer["id"]
    home = opened.caller.home
    assert lib.wait_until(lambda: all((home / "runs" / run / "verdict.json").exists() for run in answered.values()))
    assert lib.wait_until(lambda: not door.queue()["waiting"] and not door.question("use", "running")["running"])
    door.drain()
    return assert_once(opened.caller, answered)


def assert_once(caller, answered):
    """One row and one run each, both with the same end."""
    runs = {path.name: path for path in (caller.home / "runs").iterdir()}
    assert sorted(runs) == sorted(answered.values())
    causes = []
    rows = dict(query(caller, "SELECT id, cause FROM submissions WHERE state = 'ended'"))
    assert sorted(rows) == sorted(runs)
    for name, path in runs.items():
        leftovers.assert_chain(path, may_be_torn=True)
        events = [json.loads(line)["event"] for line in (path / "events.jsonl").read_text().splitlines()]
        assert events.count("accepted") <= 1 and events.count("started") <= 1
        causes.append(json.loads((path / "verdict.json").read_text())["cause"])
        assert rows[name] == causes[-1]
    return causes


def query(caller, sql):
    with contextlib.closing(sqlite3.connect(caller.home / "cupel.db")) as db:
        return db.execute(sql).fetchall()


@pytest.mark.parametrize("phase", PHASES)
def test_killed_at(made, phase):
    answered = {}
    door = made.open(f"abort:{phase}")
    try:
        door.ready()
    except EOFError:
        pass
    ask_all(door, COUNT, answered)
    trace = set()
    try:  # until the fault has struck, or everything is over without it
        for run in answered.values():
            door.ended(run)
    except EOFError:
        trace.add("gone")
    if phase not in ("serve-received", "serve-resolved"):
        door.process.wait(timeout=lib.RUN_LIMIT_S)
        assert "gone" in trace or not answered or door.process.returncode != 0, "the fault has struck"
    causes = settle(made, COUNT, answered)
    assert causes == ["ok"] * COUNT


def test_what_looks_at_a_pipeline_is_killed(made):
    """Nothing was promised, and the next one is looked at."""
    pipeline = {"steps": {"s": sleeper(0)}}
    door = made.open("abort:serve-looking").ready()
    answer = door.submit(pipeline)
    assert answer.get("error") == "EIO", answer
    assert not door.queue()["waiting"] and not query(made.caller, "SELECT id FROM submissions")
    door = made.ready()
    assert door.ended(door.accepted(pipeline)) == "ok"


def test_how_a_pipeline_ended_is_known_without_its_result(made):
    """That may be long, and nobody is to wait until it is read."""
    run = made.ready().accepted({"steps": {"s": sleeper(0.5)}})
    made.last.news(run, "started")
    made.last.kill()
    result = made.caller.home / "pipelines" / run / "result.json"
    assert lib.wait_until(result.exists)
    result.write_text("[" * 10000)
    door = made.open()
    assert door.ended(run) == "ok"


@pytest.mark.parametrize("phase", ["serve-written", "serve-committed", None])
def test_what_is_cancelled_and_said_so_never_begins(made, phase):
    """It is told once it is durable: killed before and after the commit, and right after the answer."""
    run = made.ready().accepted(sleeper(0), not_before=time.time_ns() + 3600 * 10**9)
    door = made.open(phase and f"abort:{phase}").ready()
    try:
        door.question("cancel", "asked", id=run)
        is_told = True
        door.kill()
    except EOFError:
        is_told = False
    assert is_told == (phase is None)
    state = "queued" if phase == "serve-written" else "cancelled"
    assert query(made.caller, f"SELECT state FROM submissions WHERE id = '{run}'") == [(state,)]
    door = made.ready()
    assert [waiting["id"] for waiting in door.queue()["waiting"]] == ([run] if phase == "serve-written" else [])
    assert not list((made.caller.home / "runs").iterdir())


def test_what_is_cancelled_while_it_is_being_started_is_not_started_by_the_next_service(made):
    door = made.open("pause:serve-received").ready()
    before = set(door.alive())
    run = door.accepted(sleeper(0))
    assert lib.wait_until(lambda: set(door.alive()) - before)
    (child,) = set(door.alive()) - before
    door.question("cancel", "asked", id=run)
    door.kill()
    os.kill(child, 9)
    door = made.ready()
    assert lib.wait_until(lambda: query(made.caller, f"SELECT state FROM submissions WHERE id = '{run}'") == [("cancelled",)])
    assert not list((made.caller.home / "runs").iterdir())
    assert door.ended(door.accepted(sleeper(0))) == "ok", "the control: what nobody cancels begins"


def test_a_starter_that_is_killed_ends_the_service_and_no_run(made):
    door = made.ready()
    run = door.accepted(sleeper(0.2), key="k0")
    assert lib.wait_until((made.caller.home / "runs" / run / "receipt.json").exists)
    os.kill(door.starter(), 9)
    assert door.process.wait(timeout=lib.RUN_LIMIT_S) != 0
    assert settle(made, 1, {0: run}) == ["ok"]


@pytest.mark.parametrize("seed", range(2))
def test_killed_at_random_under_load(made, seed):
    """Again and again, whatever it is at."""
    chance = random.Random(seed)
    answered = {}
    count = 30
    for turn in range(8):
        door = made.open()
        if turn == 7:  # however slow this machine is, something is accepted
            run = door.ready().accepted(sleeper(0.2), key="k0")
            assert answered.setdefault(0, run) == run
        until = time.monotonic() + chance.uniform(0.05, 0.8)
        try:
            while time.monotonic() < until:
                number = chance.randrange(count)
                door.ask("submit", tag=f"t{number}", analysis=sleeper(0.2), key=f"k{number}")
                time.sleep(0.01)
        finally:
            door.kill()
        for heard in door.heard:
            if str(heard.get("tag")).startswith("t") and "id" in heard:
                number = int(heard["tag"][1:])
                assert answered.setdefault(number, heard["id"]) == heard["id"]
    assert answered, "the control: something was accepted"
    assert settle(made, count, answered) == ["ok"] * count


def test_a_full_disk_loses_nothing(callers):
    """What can't be written is refused, what was accepted is there when there is room again."""
    callers("root")
    small = SmallHome("size=24m")
    prefix = ("nsenter", "-t", str(small.holder.pid), "-m", "--")
    opened = doors.Doors(small.caller, prefix=prefix)
    door = opened.ready()
    kept = door.accepted(sleeper(0), not_before=time.time_ns() + 3600 * 10**9)
    filler = small.home / "filler"
    with open(filler, "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 65536)
        except OSError:
            pass
        try:
            while True:
                file.write(b"x")
        except OSError:
            pass
    errors = [door.submit(sleeper(0, name="n" * 200), key=f"full{n}").get("error") for n in range(40)]
    assert errors[-1] in ("ENOSPC", "EIO", "EAGAIN"), errors
    filler.unlink()
    assert lib.wait_until(lambda: "error" not in door.submit(sleeper(0), key="after"))
    door.question("cancel", "asked", id=kept)
    last = door.accepted(sleeper(0))
    assert door.ended(last) == "ok"
    door.drain()
    opened.close()
    small.close()
