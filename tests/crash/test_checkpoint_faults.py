"""The keeper dies, or the disk fails, while a checkpoint is taken, made, given to the run, closed or dropped: what an
earlier run saved is there, what a success has left is not, and nothing half made is taken for a checkpoint."""

import subprocess

import pytest

import cupel as lib
import faults
import leftovers
from faults import Failures

pytestmark = pytest.mark.not_in_vm

MAKING = ["checkpoint-directory", "checkpoint-taken", "checkpoint-signed", "checkpoint-disk-named",
          "checkpoint-disk-made", "checkpoint-files-made", "checkpoint-owned", "checkpoint-closed"]
DROPPING = ["checkpoint-dropping", "checkpoint-renamed", "checkpoint-dropped"]
ONLY = {"root": {"checkpoint-disk-named", "checkpoint-disk-made"}, "user": {"checkpoint-files-made"}}
# Says how often it was run before, saves that, and succeeds the fourth time.
SCRIPT = """
n=$(cat saved/n || echo 0); echo $n
echo $((n + 1)) > saved/new; sync saved/new; mv saved/new saved/n; sync saved
[ $n = 3 ] || exit 85"""
WORDS = ("--memory", "64M", "--disk", "16M", "--checkpoint", "saved", "--checkpoint-exit-code", "85",
         "--", "sh", "-c", SCRIPT)


@pytest.fixture
def caller(faulty):
    yield faulty.caller
    forget(faulty.caller)


def forget(caller):
    subprocess.run(["rm", "-rf", caller.home / "checkpoints"], check=True)


def run(caller, fault=None):
    return caller.run(*WORDS, env={"CUPEL_FAULT": fault} if fault else None)


def settle(faulty):
    """Nothing of a run that died is left on the host but what it saved."""
    faulty.box_is_gone()
    assert lib.wait_until(lambda: not leftovers.processes(faulty.caller))
    faulty.recover()
    assert lib.wait_until(lambda: not leftovers.leftovers(faulty.caller))


def reached(faulty):
    return [p for p in MAKING if p not in ONLY["root" if faulty.caller.who == "user" else "user"]]


def test_every_phase_is_known():
    if not faults.BINARY.exists():
        pytest.skip(f"faults: {faults.BINARY} was not built (meson -Dfaults=true)")
    found = [phase for phase in faults.phases() if phase.startswith("checkpoint-")]
    assert found == sorted([*MAKING, *DROPPING, "checkpoint-gc"])


def begins_with(result, *numbers):
    assert result.cause == "checkpointed", result.stderr
    assert int(result.stdout) in numbers, (result.stdout, numbers)


def test_the_keeper_dies_at_the_first_run(faulty, caller):
    failures = Failures()
    for phase in reached(faulty):
        forget(caller)
        died = run(caller, f"abort:{phase}")
        failures.case(phase, settle, faulty)
        assert died.status in (125, 137), (phase, died.status)
        failures.case(phase, begins_with, run(caller), *((1,) if phase == MAKING[-1] else (0,)))
    failures.assert_none()


def test_the_keeper_dies_at_a_later_run(faulty, caller):
    failures = Failures()
    for phase in reached(faulty):
        forget(caller)
        assert run(caller).stdout == "0\n"
        died = run(caller, f"abort:{phase}")
        if died.cause == "checkpointed":  # a disk is made once
            assert phase in ONLY["root"], phase
            continue
        failures.case(phase, settle, faulty)
        failures.case(phase, begins_with, run(caller), *((2,) if phase == MAKING[-1] else (1,)))
    failures.assert_none()


def test_the_keeper_dies_after_a_success(faulty, caller):
    failures = Failures()
    for phase in DROPPING:
        forget(caller)
        for number in range(3):
            assert run(caller).stdout == f"{number}\n"
        died = run(caller, f"abort:{phase}")
        assert (died.cause, died.stdout) == ("ok", "3\n"), phase
        failures.case(phase, settle, faulty)
        failures.case(phase, begins_with, run(caller), 0)
    failures.assert_none()


def test_gc_dies_while_it_removes_one(faulty, caller):
    assert run(caller).stdout == "0\n"
    caller.configure("gc: {checkpoint: 1ms}\n")
    status, _, _ = caller.call(caller.binary, "gc", env={"CUPEL_FAULT": "abort:checkpoint-gc"})
    assert status == -9
    assert [p.name[:5] for p in (caller.home / "checkpoints").iterdir() if p.is_dir()] == [".old-"]
    assert caller.call(caller.binary, "gc")[0] == 0
    assert [p.name for p in (caller.home / "checkpoints").iterdir()] == ["lock"]
    caller.configure()
    begins_with(run(caller), 0)


def test_the_disk_fails_while_one_is_made(faulty, caller):
    failures = Failures()
    operations = ["mkdir@checkpoints", "create@lock", "write@lock", "truncate@lock"]
    if caller.who == "root":
        operations += ["create@.new-disk.img", "truncate@.new-disk.img", "write@.new-disk.img",
                       "fsync@.new-disk.img", "rename@disk.img"]
    else:
        operations += ["mkdir@files"]
    for operation in operations:
        forget(caller)
        failed = run(caller, f"fail:{operation}:1:ENOSPC")
        assert failed.status == 125 and "No space left" in failed.stderr, (operation, failed.stderr)
        failures.case(operation, settle, faulty)
        failures.case(operation, begins_with, run(caller), 0)
        failures.case(operation, begins_with, run(caller), 1)
    failures.assert_none()
