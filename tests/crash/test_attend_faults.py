"""The keeper of a run that is carried out elsewhere dies at each of its steps: whoever comes next takes over, the job is run once,
the run recorded once, and nothing is left here or there."""

import os
import subprocess

import pytest

import cupel as lib
import faults
import leftovers
from crashes import is_dead
from program_executor import EXAMPLE, keeper

pytestmark = pytest.mark.not_in_vm

# Nothing was submitted; and what was is found by its name.
BEFORE = ["attend-placed", "attend-submitting"]
AFTER = ["attend-submitted", "attend-noted", "attend-looked", "attend-recorded", "attend-reaped"]


# Where it is judged here, all that any keeper does at the end.
CONCLUDING = ["box-dead", "end-recorded", "outputs-taken", "outputs-examined", "outputs-listed", "budget-removed", "verdict-announced"]


@pytest.fixture
def here(faulty_root):
    caller = faulty_root.caller
    place = caller.base / "processes"
    place.mkdir(exist_ok=True)
    caller.configure(f"executors: {{here: {{kind: program, command: [{lib.TESTS}/lib/here_executor.py, {place}]}}}}\n")
    yield faulty_root
    caller.configure()


@pytest.fixture
def node(faulty_root):
    caller = faulty_root.caller
    shared = caller.base / "shared"
    shared.mkdir(exist_ok=True)
    plain = caller.base / "plain"  # what runs there has no faults
    if not plain.exists():
        plain.write_bytes(lib.BINARY.read_bytes())
        plain.chmod(0o755)
    command = f"[{EXAMPLE}, --dir, {shared}, --cupel, {plain}]"
    caller.configure(f"executors: {{node: {{kind: program, command: {command}}}}}\n")
    yield faulty_root
    caller.configure()


def test_every_phase_is_known():
    if not faults.BINARY.exists():
        pytest.skip(f"faults: {faults.BINARY} was not built (meson -Dfaults=true)")
    assert [p for p in faults.phases() if p.startswith("attend-")] == sorted(BEFORE + AFTER)


def end_of(caller, executor, phase, act):
    """Its result, once whoever came next has done what was to do."""
    fault = {"CUPEL_FAULT": f"abort:{phase}"} if phase else {}
    follower, run_id = caller.start("-x", executor, "--memory", "64M", "--disk", "16M", "--", "sh", "-c", act, env=fault,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def is_alone():
        """As long as its first keeper lives, to end the follower is to cancel the run."""
        try:
            return is_dead(keeper(caller, run_id))
        except (OSError, IndexError, ValueError):  # not accepted yet
            return follower.poll() is not None

    assert lib.wait_until(is_alone)
    try:
        follower.communicate(timeout=10 * lib.SLOW)
    except subprocess.TimeoutExpired:  # whoever takes over dies there too, as long as somebody with that fault looks
        follower.kill()
        follower.communicate()

    def is_over():
        caller.call(caller.binary, "list")
        return (caller.run_dir(run_id) / "verdict.json").exists() and not (caller.home / "active" / run_id).exists()

    assert lib.wait_until(is_over), sorted(path.name for path in caller.run_dir(run_id).iterdir())
    result = lib.Result(0, "", "", caller.run_dir(run_id))
    assert result.cause == ("lost" if phase in BEFORE else "ok")
    if phase not in BEFORE:
        assert result.log() == b"begun\ndone\n"
        assert (result.run_dir / "outputs/out/x").read_text() == "7\n"
        assert [event["event"] for event in result.events].count("submitted") <= 1
    leftovers.assert_chain(result.run_dir)
    leftovers.assert_nothing_left(caller)
    assert not list((caller.home / "jobs").glob("*"))
    return result


@pytest.mark.parametrize("phase", [None, *BEFORE, *AFTER])
def test_a_death(node, phase):
    end_of(node.caller, "node", phase, "echo begun; sleep 1; echo done; mkdir -p out; echo 7 > out/x")
    assert not list((node.caller.base / "shared").iterdir())


@pytest.mark.parametrize("phase", [None, *BEFORE, *AFTER, *CONCLUDING])
def test_a_death_where_it_is_judged_here(here, phase):
    """Whatever was begun of its record is begun anew; its working directory is there until the verdict is."""
    result = end_of(here.caller, "here", phase, "echo begun; sleep 1; echo done; mkdir -p out; echo 7 > out/x")
    place = here.caller.base / "processes"
    assert [path.name for path in place.iterdir()] in ([], ["begun"])
    begun = (place / "begun").read_text().split() if (place / "begun").exists() else []
    assert begun.count(result.run_dir.name) == (0 if phase in BEFORE else 1)


def test_another_directory_is_not_taken_for_its_own(here):
    """Somebody else made it while nobody attended."""
    caller = here.caller
    follower, run_id = caller.start("-x", "here", "--memory", "64M", "--", "sh", "-c", lib.WAITS, env={"CUPEL_FAULT": "abort:attend-looked"},
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    work = caller.work_dir(run_id)
    assert lib.wait_until(lambda: (caller.run_dir(run_id) / "executor.json").exists())
    follower.kill()
    follower.wait()
    own = os.open(work, os.O_PATH | os.O_DIRECTORY)
    subprocess.run(["umount", "--lazy", work], check=True)
    work.rmdir()
    (work / "out").mkdir(parents=True)
    (work / "out/forged").write_text("1")
    os.close(os.open("go", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=own))  # where it waits, which has no path any more
    os.close(own)

    def verdict():
        caller.call(caller.binary, "list")
        return (caller.run_dir(run_id) / "verdict.json").exists() and not (caller.home / "active" / run_id).exists()

    assert lib.wait_until(verdict)
    result = lib.Result(0, "", "", caller.run_dir(run_id))
    assert result.cause == "lost"
    assert not (result.run_dir / "outputs").exists() and (work / "out/forged").exists()
    subprocess.run(["rm", "-r", work], check=True)
