"""Each phase that keeper and recording have names for: the process dies there, or stands still
while another one of the run dies or it is sent a signal. The names come from the build itself."""

import itertools
import os
import signal

import pytest

import cupel as lib
import faults
from crashes import children, kill
from faults import Failures

OTHERS = ("ledger-", "snapshot-", "after-", "checkpoint-", "flow-", "oci-", "attend-", "array-", "memory-")
STRIDE = 1 if lib.SLOW == 1 else 7
# A run whose template was never made: each of these has a size of its own.
_sizes = itertools.count(17)


def fresh_disk():
    return f"{next(_sizes)}M"


def disk_for(phase):
    return fresh_disk() if phase.startswith("template-") else "16M"


def own(phases):
    """Without those of the process that delivers to the ledger, which the run is followed by, and
    of what a plain run does not ask for: they have tests of their own (test_ledger_faults.py,
    test_post_faults.py, test_checkpoint_faults.py, test_flow_faults.py, test_oci_faults.py, test_attend_faults.py)."""
    return [phase for phase in phases if not phase.startswith(OTHERS)]


@pytest.fixture(scope="module")
def ways(faulty_callers):
    """The phases of a run and of a recovery, by caller."""
    known = {}

    def get(faulty):
        if faulty.caller.who not in known:
            faulty.lose()
            recovery = own(faulty.trace("gc").phases)
            run = own(faulty.trace().phases + faulty.trace(disk=fresh_disk()).phases)
            known[faulty.caller.who] = list(dict.fromkeys(run)), recovery
        return known[faulty.caller.who]

    return get


def test_every_phase_is_reached(faulty_root, ways):
    run, recovery = ways(faulty_root)
    assert sorted({*run, *recovery}) == own(faults.phases())
    assert len(run) > 30 and len(recovery) > 5


def allowed_after_abort(phase):
    if phase.startswith("init-"):
        return {"setup", "signal"}
    if phase.startswith("run-"):
        return {None, "cancelled", "ok"}  # the keeper lives, and records it
    return {None, "lost", "ok"}


def test_abort(faulty, ways):
    failures = Failures()
    seen = set()
    for phase in ways(faulty)[0][::STRIDE]:
        result = faulty.run(f"abort:{phase}", disk_for(phase))
        checked = (result.run_dir.name, result.status, result.stderr)
        verdict = failures.case(f"abort:{phase}", faulty.check, *checked)
        cause = verdict and verdict["cause"]
        failures.case(phase, assert_among, cause, allowed_after_abort(phase))
        seen.add(cause)
    failures.assert_none()
    assert seen >= {None, "lost"} or STRIDE > 1, "it died before there was a run, and in it"


def test_abort_in_memory(faulty):
    """A working directory in memory has no name on the host: nobody has to remove it."""
    failures = Failures()
    reached = faulty.trace(scratch="memory").phases
    assert {"memory-taken", "memory-dirs-made"} <= set(reached)
    assert "scratch-made" not in reached
    for phase in reached[::STRIDE]:
        if phase.startswith(OTHERS) and not phase.startswith("memory-"):
            continue
        result = faulty.run(f"abort:{phase}", scratch="memory")
        faulty.box_is_gone()
        work_dir = faulty.caller.work_dir(result.run_dir.name)
        failures.case(phase, assert_among, work_dir.exists(), {False})
        checked = (result.run_dir.name, result.status, result.stderr)
        verdict = failures.case(f"abort:{phase}", faulty.check, *checked)
        failures.case(phase, assert_among, verdict and verdict["cause"], allowed_after_abort(phase))
    failures.assert_none()


def assert_among(cause, allowed):
    assert cause in allowed, (cause, allowed)


def test_abort_of_a_recovery(faulty_root, ways):
    failures = Failures()
    for phase in ways(faulty_root)[1][::STRIDE]:
        run_id = faulty_root.lose()
        caller = faulty_root.caller
        status, _, err = caller.call(caller.binary, "gc", env={"CUPEL_FAULT": f"abort:{phase}"})
        verdict = failures.case(phase, faulty_root.check, run_id, status, err)
        failures.case(phase, assert_among, (status, verdict["cause"]), {(-9, "lost")})
    failures.assert_none()


def stop_and(faulty, phase, act):
    """Stops the run at a phase, lets `act` do something to it, and lets it go on."""
    process, run_id = faulty.start(f"pause:{phase}", disk_for(phase))
    with process:
        stopped = faulty.stopped(process)
        if stopped:
            keeper = stopped if stopped != process.pid else (children(stopped) or [None])[0]
            act(process, keeper)
            kill(stopped, signal.SIGCONT)
        err = process.stderr.read().decode(errors="replace")
    return stopped, run_id, process.returncode, err


def at_each_phase(faulty, ways, act, allowed):
    """`act` at each phase; the causes the runs ended with."""
    failures = Failures()
    seen = []
    for number, phase in enumerate(ways(faulty)[0][::STRIDE]):
        if phase.startswith("init-"):
            continue  # nothing in a box can stop its init; it dies at every phase of the keeper
        stopped, *ended = stop_and(faulty, phase, lambda *who, n=number: act(n, *who))
        assert stopped, phase
        verdict = failures.case(phase, faulty.check, *ended)
        failures.case(phase, assert_among, verdict and verdict["cause"], allowed)
        seen.append(verdict and verdict["cause"])
    failures.assert_none()
    return seen


def test_cupel_run_is_killed(faulty, ways):
    """The keeper notices, whenever that is: nobody has to recover anything."""
    seen = at_each_phase(
        faulty, ways, lambda n, run, keeper: run.kill(), {None, "cancelled", "ok"}
    )
    assert seen.count("cancelled") > len(seen) / 4, seen


def test_the_boxes_init_is_killed(faulty_root, ways):
    def act(_, run, keeper):
        for pid in children(keeper) if keeper else []:
            kill(pid)

    seen = at_each_phase(faulty_root, ways, act, {"ok", "setup", "signal"})
    assert {"ok", "setup"} <= set(seen) or STRIDE > 1, seen


SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def test_a_signal_to_the_keeper(faulty, ways):
    """Taken in turn, and a second one as root: it is to hurry. Whatever it comes to is recorded,
    and never `lost`."""
    is_root = faulty.caller.who == "root"

    def act(number, run, keeper):
        if keeper:
            for number in (number, number + 1) if is_root else (number + 2,):
                kill(keeper, SIGNALS[number % len(SIGNALS)])

    seen = at_each_phase(faulty, ways, act, {"cancelled", "ok"})
    assert seen.count("cancelled") > len(seen) / 4, seen


def test_outputs_are_given_out_with_the_verdict(faulty):
    """They are listed before it, and may still be set aside."""
    call = faulty.caller.call
    process, run_id = faulty.start("pause:outputs-listed")
    with process:
        keeper = faulty.stopped(process)
        assert keeper and (faulty.caller.run_dir(run_id) / "outputs.json").exists()
        status, out, err = call(faulty.caller.binary, "outputs", run_id, "out/x")
        assert (status, out) == (2, "") and "has not ended" in err
        os.kill(keeper, signal.SIGCONT)
        process.communicate(timeout=60 * lib.SLOW)
    assert call(faulty.caller.binary, "outputs", run_id, "out/x") == (0, "x\n", "")
