"""Delivery to the ledger dies at each of its phases, and each of its operations fails or is its
last: in the end every run is entered once, and nothing is owed. What SQLite itself writes is
SQLite's to test."""

import contextlib
import fcntl
import json
import os
import signal

import pytest

import cupel as lib
import leftovers
from faults import Failures, is_stopped, work

pytestmark = pytest.mark.not_in_vm


@contextlib.contextmanager
def nobody_delivers(faulty):
    """A run leaves its mark, and no process takes it up: another holds the lock."""
    with open(faulty.caller.home / "ledger.lock", "a+b") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        yield


def owed_run(faulty):
    with nobody_delivers(faulty):
        result = faulty.caller.run(*work())
    assert result.cause == "ok", result.stderr
    assert (faulty.caller.home / "undelivered" / result.run_dir.name).exists()
    return result.run_dir.name


def deliver(faulty, fault=None):
    """By the command that does it in its own process."""
    return faulty.caller.call(
        faulty.caller.binary,
        "ledger",
        "check",
        "--json",
        env={"CUPEL_FAULT": fault} if fault else None,
    )


def assert_chained(faulty):
    """Each run once, in one chain, of which the ledger has a copy."""
    status, out, err = faulty.caller.call(faulty.caller.binary, "audit", "verify", "--json")
    assert status == 0, (out, err)
    report = json.loads(out)
    assert report["chained"] == report["runs"] and report["uncompared"] is None, report


def check(faulty, status, err):
    assert status in (0, 1, 125, -9) and (status != 125 or "cupel: " in err), (status, err)
    status, out, err = deliver(faulty)
    assert status == 0, (out, err)
    audit = json.loads(out)
    runs = sum((path / "verdict.json").exists() for path in (faulty.caller.home / "runs").iterdir())
    assert audit["runs"] == runs > 0
    assert list((faulty.caller.home / "undelivered").iterdir()) == []
    assert_chained(faulty)
    leftovers.assert_nothing_left(faulty.caller)


@pytest.fixture
def settled(faulty_root):
    assert deliver(faulty_root)[0] == 0
    return faulty_root


def test_every_phase_of_delivery_is_reached_and_survives_death(settled):
    owed_run(settled)
    phases = settled.trace("ledger", "check", "--json").phases
    assert phases == ["ledger-begun", "ledger-chain-written", "ledger-chain-synced", "ledger-entered",
                      "ledger-committed", "ledger-settled"]
    failures = Failures()
    for phase in phases:
        owed_run(settled)
        status, _, err = deliver(settled, f"abort:{phase}")
        assert status == -9
        failures.case(f"abort:{phase}", check, settled, status, err)
    failures.assert_none()


@pytest.mark.parametrize("kind", ["{}:EIO", "{}+:ENOSPC", "{}:KILL"])
def test_each_operation_of_delivery_fails(settled, kind):
    owed_run(settled)
    operations = settled.trace("ledger", "check", "--json").operations
    assert any(what == "unlink" for what, _ in operations), operations
    failures = Failures()
    for k in range(1, len(operations) + 1):
        owed_run(settled)
        status, _, err = deliver(settled, "fail:any:" + kind.format(k))
        failures.case(f"{kind.format(k)} {operations[k - 1]}", check, settled, status, err)
    failures.assert_none()


def test_a_home_without_a_ledger_gets_one_whatever_fails(settled):
    """The first delivery also makes the home's id and the database."""
    home = settled.caller.home
    failures = Failures()
    for k in range(1, 12):
        owed_run(settled)
        for name in ("ledger.id", "ledger.json", "cupel.db"):
            (home / name).unlink(missing_ok=True)
        status, _, err = deliver(settled, f"fail:any:{k}:KILL")
        failures.case(f"{k}", check, settled, status, err)
    failures.assert_none()


def test_a_run_that_ends_during_a_delivery_is_described_too(settled):
    """Its mark is found by a delivery that has begun before. Its crate is written first, as for any other run."""
    caller = settled.caller
    first = caller.run(*work(), env={"CUPEL_FAULT": "pause:ledger-begun"})
    assert first.cause == "ok", first.stderr
    paused = []

    def is_paused():
        paused[:] = [pid for pid in (int(text.split()[1]) for text in leftovers.processes(caller)) if is_stopped(pid)]
        return paused

    assert lib.wait_until(is_paused)
    second = caller.run(*work())
    assert second.cause == "ok" and (caller.home / "undelivered" / second.run_dir.name).exists()
    for pid in paused:
        os.kill(pid, signal.SIGCONT)
    assert lib.wait_until(lambda: not any((caller.home / "undelivered").iterdir()))
    for run in (first, second):
        assert (run.run_dir / "ro-crate-metadata.json").exists(), run.run_dir
    leftovers.assert_nothing_left(caller)
