"""The keeper dies while it copies a database or while a step takes the outputs: both runs come to an
end that is recorded, the platform's database has all rows or none, and nothing is left."""

import json
import os
import signal

import pytest

import cupel as lib
import faults
import leftovers
import platforms
from crashes import children, kill
from faults import Failures

pytestmark = pytest.mark.not_in_vm

PHASES = ["after-announced", "after-ended", "after-started", "snapshot-copying", "snapshot-made",
          "snapshot-removed"]
ALL_ROWS = 500


@pytest.fixture
def platform(faulty):
    made = platforms.Sqlite(faulty.caller)
    made.path.chmod(0o644)
    yield made
    faulty.caller.configure()


def command(platform):
    return ("--memory", "64M", "--disk", "16M", "--db-snapshot", platform.path, "--post-process",
            "step", "--", "sh", "-c", "echo x > out/x; exec sleep 0.01")


def cause(faulty, run_id):
    path = faulty.caller.run_dir(run_id) / "verdict.json"
    return json.loads(path.read_text(encoding="utf-8"))["cause"] if path.exists() else None


def rows(platform, run_id):
    return int(platform.query(f"SELECT COUNT(*) FROM results WHERE run_id = '{run_id}'")[0][0])


def check(faulty, platform, run_id):
    """Returns how the two runs ended."""
    faulty.box_is_gone()
    assert lib.wait_until(lambda: not leftovers.processes(faulty.caller))
    faulty.recover()
    leftovers.assert_nothing_left(faulty.caller)
    again = faulty.gc()
    assert (again["lost"], again["failed"]) == (0, 0), again
    ends = cause(faulty, run_id), cause(faulty, f"{run_id}-post")
    for name in (run_id, f"{run_id}-post"):
        assert not list(faulty.caller.run_dir(name).glob(".new-*"))
    assert rows(platform, run_id) in ({ALL_ROWS} if ends[1] == "ok" else {0, ALL_ROWS})
    if ends[1] in (None, "lost"):
        assert rows(platform, run_id) == 0
    assert (faulty.caller.run_dir(run_id) / "outputs").exists() == (ends[0] == "ok")
    return ends


def test_every_phase_is_known():
    if not faults.BINARY.exists():
        pytest.skip(f"faults: {faults.BINARY} was not built (meson -Dfaults=true)")
    found = [phase for phase in faults.phases() if phase.startswith(("after-", "snapshot-"))]
    assert found == PHASES


def test_the_keeper_dies_at_each_phase(faulty, platform):
    failures = Failures()
    platforms.declare(faulty.caller, platform, script=platforms.STEP, args=["commit"])
    for phase in PHASES:
        result = faulty.caller.run(*command(platform), env={"CUPEL_FAULT": f"abort:{phase}"})
        ends = failures.case(phase, check, faulty, platform, result.run_dir.name)
        failures.case(phase, assert_ends, phase, ends, result.status)
    failures.assert_none()
    result = faulty.caller.run(*command(platform))
    assert check(faulty, platform, result.run_dir.name) == ("ok", "ok"), "the control: all goes well"


def assert_ends(phase, ends, status):
    steps = {"after-started": {"ok", "cancelled", "setup", "lost"}, "after-ended": {"ok"},
             "snapshot-removed": {"ok"}}.get(phase, {None})
    assert status == 137 and ends[0] == "lost" and ends[1] in steps, (phase, ends, status)


def test_both_keepers_die_in_the_step(faulty, platform):
    platforms.declare(faulty.caller, platform, script=platforms.STEP, args=["sleep"])
    process, run_id = faulty.caller.start(*command(platform))
    with platforms.killed(process):
        log = faulty.caller.run_dir(f"{run_id}-post") / "stdout.log"
        ready = lib.wait_until(lambda: log.exists() and log.read_bytes() == b"inserted\n")
        keeper, = children(process.pid)
        for pid in (*children(keeper), keeper):
            os.kill(pid, signal.SIGSTOP)  # neither sees the other's end
        for pid in (*children(keeper), keeper):
            kill(pid)
        assert process.wait(60 * lib.SLOW) == 137 and ready
    assert check(faulty, platform, run_id) == ("lost", "lost")
