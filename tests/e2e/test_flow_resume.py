"""Pipelines that failed, were cancelled or were killed resume, and no step that succeeded is run again."""

import collections
import json
import os
import pathlib
import random
import signal
import subprocess
import time

import pytest

import cupel as lib
from flows import LIMITS, flow, label, rooted, states_of  # noqa: F401  (fixtures)


def test_resume_goes_on_under_the_same_id(flow):
    flow.write("stop\n", "in/go.txt")
    flow.write(LIMITS + """
steps:
  good: {command: "echo 1 > out/x"}
  picky: {inputs: [in/go.txt, {step: good}], command: "grep -q go data/go.txt && echo 2 > out/y"}
  last: {inputs: [{step: picky}], command: "cat data/picky/out/y > out/z"}
""")
    status, result, _ = flow.run("--id", f"{flow.caller.new_id()}")
    assert status == 1 and result["state"] == "failed"
    flow.write("go\n", "in/go.txt")
    status, again, err = flow.run(result["id"], command="resume")
    assert status == 0 and again["id"] == result["id"], err
    assert {label(task): task["state"] for task in again["steps"]} == {
        "good": "reused", "picky": "ok", "last": "ok"}
    picky = next(task for task in again["steps"] if task["step"] == "picky")
    assert picky["run"].endswith("-picky-2"), "the second attempt at it"
    assert flow.run("--id", result["id"])[0] == 2, "the id is taken"
    flow.write((flow.dir / "p.yaml").read_text() + "name: other\n")
    status, _, err = flow.run(result["id"], command="resume")
    assert status == 2 and "was changed since" in err
    assert flow.run("none", command="resume")[0] == 2


def test_ctrl_c_cancels_all_and_the_same_command_goes_on(flow):
    flow.write("wait\n", "in/word.txt")
    flow.write(LIMITS + """
steps:
  quick: {command: "echo 1 > out/x"}
  slow:
    scatter: {i: {range: [1, 4]}}
    inputs: [{step: quick}, in/word.txt]
    command: "test -e data/quick/out/x; while grep -q wait data/word.txt; do sleep 0.05; done; echo {{i}} > out/x"
""")
    with flow.caller.popen(flow.caller.binary, "run", "-j", "4", "--json", "p.yaml", cwd=flow.dir,
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert lib.wait_until(lambda: any(
            str(flow.dir) in asked.read_text()
            and (asked.parent / "steps.jsonl").read_text().count('"started"') >= 3
            for asked in flow.caller.home.glob("pipelines/*/pipeline.json")))
        process.send_signal(signal.SIGINT)
        result = json.loads(process.stdout.read())
    assert process.returncode == 130 and result["state"] == "cancelled"
    assert result["counts"]["ok"] == 1 and result["counts"]["cancelled"] >= 2
    flow.write("go\n", "in/word.txt")
    status, result, err = flow.run("-j", "4")
    assert status == 0 and result["steps"][0]["state"] == "reused", err


@pytest.mark.parametrize("victim", ["cupel run", "keepers"])
def test_killed_at_any_moment(rooted, victim):
    """What finished is not run again, and nothing half made is ever used."""
    rooted.write(LIMITS + """
steps:
  a:
    scatter: {i: {range: [1, 4]}}
    command: "for k in 1 2 3 4 5 6 7 8; do echo {{i}} $k >> out/x; sleep 0.01; done"
    outputs: [{path: out/x, required: true}]
    retries: {lost: 20}
  b:
    inputs: [{step: a, path: out/x}]
    retries: {lost: 20}
    command: "cat data/a/*/out/x > out/all; sleep 0.05; wc -l < data/a/3/out/x > out/n"
""")
    chance = random.Random(7)
    finished = False
    for _ in range(40):
        process = rooted.caller.popen(rooted.caller.binary, "run", "-q", "p.yaml", cwd=rooted.dir,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with process:
            time.sleep(chance.random() * 0.25)
            if victim == "cupel run":
                process.kill()
            else:
                children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
                for child in children.read_text().split() if children.exists() else ():
                    try:
                        os.kill(int(child), signal.SIGKILL)
                    except ProcessLookupError:
                        pass
        finished |= process.returncode == 0
        if finished:
            break
    status, result, err = rooted.run()
    assert status == 0, err
    expected = "".join(f"{i} {k}\n" for i in range(1, 5) for k in range(1, 9))
    assert rooted.output(result, "b", "out/all") == expected
    assert rooted.output(result, "b", "out/n") == "8\n"
    succeeded = collections.Counter()
    for verdict in rooted.caller.home.glob("runs/*/verdict.json"):
        place = json.loads((verdict.parent / "analysis.json").read_text()).get("pipeline") if (
            verdict.parent / "analysis.json").exists() else None
        pipeline = place and json.loads((rooted.caller.home / "pipelines" / place["id"] /
                                         "pipeline.json").read_text())
        if pipeline and pipeline["file"] == str((rooted.dir / "p.yaml").resolve()):
            succeeded[place["step"]] += json.loads(verdict.read_text())["cause"] == "ok"
    assert succeeded == {"a[1]": 1, "a[2]": 1, "a[3]": 1, "a[4]": 1, "b": 1}


def picky(rooted, command="grep -q go data/go.txt && echo 2 > out/y"):
    rooted.write("stop\n", "in/go.txt")
    rooted.write(LIMITS + f"""
steps:
  good: {{command: "echo 1 > out/x"}}
  picky: {{inputs: [in/go.txt, {{step: good}}], command: "{command}"}}
""")
    status, result, _ = rooted.run("--id", rooted.caller.new_id())
    assert status == 1 and states_of(result) == {"good": "ok", "picky": "failed"}
    rooted.write("go\n", "in/go.txt")
    return rooted.caller.home / "pipelines" / result["id"]


@pytest.mark.parametrize("left", [b"", b'{"step": "good", "ev', b"\0\xff" * 3000],
                         ids=["empty", "torn", "garbage"])
def test_resume_without_its_log(rooted, left):
    """A power cut may take what was written last; what ran is there all the same."""
    record = picky(rooted)
    (record / "steps.jsonl").write_bytes(left)
    status, result, err = rooted.run(record.name, command="resume")
    assert status == 0, err
    assert states_of(result) == {"good": "reused", "picky": "ok"}


def test_killed_before_it_began(rooted):
    """Its directory is there and nothing in it: the same command begins it."""
    rooted.write(LIMITS + "steps:\n  a: {command: 'echo 1 > out/x'}\n")
    record = rooted.caller.home / "pipelines" / rooted.caller.new_id()
    record.mkdir(parents=True, mode=0o700)
    status, result, err = rooted.run("--id", record.name)
    assert status == 0 and result["id"] == record.name, err
    assert rooted.run("--id", record.name)[0] == 2, "now it is taken"


def test_killed_while_resuming(rooted):
    """What a step finished after the resuming process stood still is not run again."""
    record = picky(rooted, f"grep -q go data/go.txt || exit 1; {lib.WAITS}; echo 2 > out/y")
    assert (record / "result.json").exists()
    with rooted.caller.popen(rooted.caller.binary, "resume", "-q", record.name, cwd=rooted.dir,
                             stderr=subprocess.DEVNULL) as process:
        try:
            run = rooted.caller.home / "runs" / f"{record.name}-picky-2"
            assert lib.wait_until(lambda: (run / "analysis.json").exists())
            process.send_signal(signal.SIGSTOP)
            rooted.caller.let_go(run.name)
            assert lib.wait_until(lambda: (run / "verdict.json").exists())
            assert not (record / "result.json").exists(), "it is not over while it goes on"
        finally:
            process.kill()
    assert json.loads((run / "verdict.json").read_text())["cause"] == "ok"
    assert rooted.states() == {"good": "reused", "picky": "reused"}


def is_blocked(pid, number):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    mask = next(line.split()[1] for line in status.splitlines() if line.startswith("SigBlk"))
    return int(mask, 16) >> (number - 1) & 1


def test_ctrl_c_while_inputs_are_read(rooted):
    """Nothing is begun after it."""
    for i in range(4):
        with open(rooted.dir / f"large{i}", "wb") as file:
            file.truncate(1 << 30)
    rooted.write(LIMITS + """
steps:
  a: {scatter: {x: {glob: "large*"}}, inputs: ["{{x}}"], command: "sleep 5; echo 1 > out/x"}
""")
    with rooted.caller.popen(rooted.caller.binary, "run", "--json", "p.yaml", cwd=rooted.dir,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert lib.wait_until(lambda: is_blocked(process.pid, signal.SIGINT))
        process.send_signal(signal.SIGINT)
        result = json.loads(process.stdout.read())
    assert process.returncode == 130 and result["state"] == "cancelled"
    assert result["counts"]["skipped"] == 4, "none of them was started"


def test_resume_keeps_what_the_first_call_said(rooted):
    rooted.write("stop\n", "in/go.txt")
    rooted.write(LIMITS + """
steps:
  good: {command: "echo 1 > out/x"}
  picky: {inputs: [in/go.txt, {step: good}], command: "grep -q go data/go.txt"}
""")
    status, result, err = rooted.run("--quest", "q1", "--label", "who=me", "--allow-missing",
                                     "landlock")
    assert status == 1, err
    rooted.write("go\n", "in/go.txt")
    status, result, err = rooted.run(result["id"], command="resume")
    assert status == 0 and states_of(result)["picky"] == "ok", err
    run = rooted.caller.run_dir(next(t["run"] for t in result["steps"] if t["step"] == "picky"))
    asked = json.loads((run / "analysis.json").read_text())
    assert (asked["quest"], asked["labels"]) == ("q1", {"who": "me"})
    assert asked["allow_missing"] == ["landlock"]
