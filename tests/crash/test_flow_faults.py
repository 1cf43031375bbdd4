"""Whoever runs a pipeline dies at each of its phases, at any operation on the disk, or the disk fails: the same command then
finishes it, no step that succeeded is run again, and nothing half made is used."""

import collections
import json
import subprocess

import pytest

import cupel as lib
import faults
import leftovers
from faults import Failures

pytestmark = pytest.mark.not_in_vm

PHASES = ["flow-concluded", "flow-directory", "flow-recorded", "flow-task-begun", "flow-task-ended",
          "flow-task-entered", "flow-task-noted", "flow-task-told"]
PIPELINE = """
limits: {memory: %dK, disk: 16M, grace: 1s}
parameters: {tag: "TAG"}
labels: {tag: "TAG"}
steps:
  a: {scatter: {i: [1, 2]}, command: "echo {{tag}} {{i}} > out/x; echo more >> out/x"}
  b: {inputs: [{step: a, path: out/x}], command: "cat data/a/*/out/x > out/y", retries: {lost: 3}}
""" % lib.memory_limit_kb(64 << 10)
# Of the some 300 operations of these three runs.
STRIDE = 5 if lib.SLOW == 1 else 60


@pytest.fixture
def caller(faulty_root):
    yield faulty_root.caller
    forget(faulty_root.caller)


def forget(caller):
    subprocess.run(["rm", "-rf", caller.home / "pipelines", caller.home / "keys"], check=True)


def write(caller, tag):
    path = caller.dir / "p.yaml"
    path.write_text(PIPELINE.replace("TAG", tag), encoding="utf-8")
    return path


def run(caller, fault=None):
    return caller.call(caller.binary, "run", "--json", "-j", "2", "p.yaml",
                       env={"CUPEL_FAULT": fault} if fault else None)


def successes(caller, tag):
    """How often each step of this pipeline succeeded."""
    found = collections.Counter()
    for verdict in (caller.home / "runs").glob("*/verdict.json"):
        try:
            asked = json.loads((verdict.parent / "analysis.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue
        if "pipeline" in asked and asked["labels"]["tag"] == tag:
            found[asked["pipeline"]["step"]] += (
                json.loads(verdict.read_text(encoding="utf-8"))["cause"] == "ok")
    return found


def check(faulty, tag):
    """The same command, until it is done: nobody fails any more."""
    caller = faulty.caller
    status, out, err = run(caller)
    assert status == 0, err
    result = json.loads(out)
    made = caller.run_dir(next(t["run"] for t in result["steps"] if t["step"] == "b"))
    assert (made / "outputs/out/y").read_text(encoding="utf-8") == (
        f"{tag} 1\nmore\n{tag} 2\nmore\n")
    assert lib.wait_until(lambda: not leftovers.leftovers(caller))


def once_each(caller, tag):
    assert successes(caller, tag) == {"a[1]": 1, "a[2]": 1, "b": 1}


def test_every_phase_is_known():
    if not faults.BINARY.exists():
        pytest.skip(f"faults: {faults.BINARY} was not built (meson -Dfaults=true)")
    assert [phase for phase in faults.phases() if phase.startswith("flow-")] == PHASES


@pytest.mark.parametrize("phase", PHASES)
def test_abort(faulty_root, caller, phase):
    write(caller, phase)
    status, _, _ = run(caller, f"abort:{phase}")
    assert status == -9
    check(faulty_root, phase)
    once_each(caller, phase)


def operations(caller):
    """So many operations that could be failed has a run of the pipeline."""
    write(caller, "count")
    path = caller.dir / "trace"
    path.unlink(missing_ok=True)
    assert run(caller, f"trace:{path}")[0] == 0
    return len(faults.Trace.read(path).operations)


@pytest.mark.limit_s(900)
@pytest.mark.parametrize("error", ["KILL", "ENOSPC"])
def test_any_operation(faulty_root, caller, error):
    failures = Failures()
    total = operations(caller)
    assert total > 50
    for k in range(1 if error == "KILL" else 5, total, STRIDE):
        tag = f"{error}{k}"
        write(caller, tag)
        status, out, err = run(caller, f"fail:any:{k}:{error}")
        case = f"fail:any:{k}:{error}"
        if error == "ENOSPC" and status not in (0, 1):
            failures.case(case, _says, out, err)
        failures.case(case, check, faulty_root, tag)
        if error == "KILL":
            failures.case(case, once_each, caller, tag)
        failures.assert_none()


def _says(out, err):
    """What failed is told, by cupel or as the end of a step."""
    assert "No space left" in err or "failed" in out, (out, err)
