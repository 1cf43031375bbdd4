"""Pipelines: checked as a whole, run side by side, reused by what they depend on, and gone on with after whatever ended them."""

import collections
import fcntl
import json
import os
import pathlib
import pty
import random
import re
import signal
import struct
import subprocess
import termios
import time

import pytest

import cupel as lib

LIMITS = "limits: {memory: %dK, disk: 16M, grace: 1s}\n" % lib.memory_limit_kb(64 << 10)

PIPELINE = LIMITS + """
parameters: {word: hello, other: 3}
steps:
  first:
    command: "echo {{word}} > out/a; echo x > out/b"
    outputs: [{path: out/a, required: true}, out/b]
  each:
    scatter: {sample: [s1, s2, s3]}
    inputs:
      - "in/{{sample}}.txt"
      - {step: first, path: out/a}
    command: "cat data/{{sample}}.txt data/a > out/{{sample}}.joined"
    outputs: [{path: "out/*.joined", required: true}]
  upper:
    scatter: {s: {of: each}}
    inputs: [{step: each, path: "out/{{s}}.joined", name: in.txt}]
    command: "tr a-z A-Z < data/in.txt > out/up"
  merge:
    inputs: [{step: upper, path: out/up}, {step: first, path: out/b}]
    parameters: [other]
    command: 'cat data/upper/*/out/up data/b > out/all; echo "$CUPEL_PARAMETERS" >> out/all'
"""


class Pipelines:
    """A directory of a caller's with a pipeline in it."""

    def __init__(self, caller, path):
        self.caller, self.dir = caller, path
        self.dir.mkdir()
        caller.own(self.dir)

    def write(self, text, name="p.yaml", tag=True):
        """A pipeline's steps are tagged: what another test made is none of its business."""
        path = self.dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name == "p.yaml" and tag and "env:" not in text:
            text += f"\nenv: {{TEST: {self.dir.name}}}\n"
        path.write_text(text, encoding="utf-8")
        path.chmod(0o644)
        return path

    def call(self, command, *words, **options):
        return self.caller.call(self.caller.binary, command, *words, cwd=self.dir, **options)

    def run(self, *words, command="run", name="p.yaml"):
        """(status, result, stderr); the result is None if there is none."""
        operand = (name,) if command == "run" else ()
        status, out, err = self.call(command, "--json", *words, *operand)
        return status, json.loads(out) if out else None, err

    def states(self, *words, **more):
        status, result, err = self.run(*words, **more)
        assert status == 0, err
        return {label(task): task["state"] for task in result["steps"]}

    def output(self, result, step, path):
        task = next(task for task in result["steps"] if label(task) == step)
        return (self.caller.home / "runs" / task["run"] / "outputs" / path).read_text(
            encoding="utf-8")

    def refused(self, text, *words):
        """One line, and nothing was begun."""
        self.write(text, tag=False)
        before = {*self.caller.home.glob("pipelines/*"), *self.caller.home.glob("runs/*")}
        status, out, err = self.call("run", *words, "p.yaml")
        assert (status, out) == (2, "") and err.startswith("cupel: ") and err.count("\n") == 1, err
        assert before == {*self.caller.home.glob("pipelines/*"), *self.caller.home.glob("runs/*")}
        return err[len("cupel: "):]


def label(task):
    return task["step"] + (f"[{task['shard']}]" if task["shard"] is not None else "")


def read_all(master):
    """What was written to the other end until it was closed."""
    text = b""
    try:
        while part := os.read(master, 4096):
            text += part
    except OSError:
        pass
    os.close(master)
    return text.decode()


_numbers = iter(range(1 << 30))


@pytest.fixture
def flow(cupel):
    return Pipelines(cupel, cupel.dir / f"flow{next(_numbers)}")


@pytest.fixture
def rooted(root):
    return Pipelines(root, root.dir / f"flow{next(_numbers)}")


@pytest.fixture
def joined(flow):
    flow.write(PIPELINE)
    for sample in ("s1", "s2", "s3"):
        flow.write(f"{flow.dir.name} {sample}\n", f"in/{sample}.txt")
    return flow


ALL = ["first", "each[s1]", "each[s2]", "each[s3]", "upper[s1]", "upper[s2]", "upper[s3]", "merge"]


def test_steps_run_with_what_others_made(joined):
    status, result, err = joined.run()
    assert (status, result["state"], result["cause"]) == (0, "ok", "ok"), err
    assert [label(task) for task in result["steps"]] == ALL
    assert {task["state"] for task in result["steps"]} == {"ok"}
    name = joined.dir.name.upper()
    text = "".join(f"{name} {sample}\nHELLO\n" for sample in ("S1", "S2", "S3"))
    assert joined.output(result, "merge", "out/all") == text + 'x\n{"other":3}\n'
    assert result["counts"] == {"total": 8, "ok": 8, "reused": 0, "failed": 0, "cancelled": 0,
                                "skipped": 0}
    for task in result["steps"]:
        record = json.loads((joined.caller.run_dir(task["run"]) / "analysis.json").read_text())
        assert record["pipeline"] == {"id": result["id"], "step": label(task), "attempt": 1}
        assert record["key"]["sha256"] == task["key"]
    assert (joined.caller.home / "pipelines" / result["id"] / "result.json").exists()


def test_the_same_again_runs_nothing(joined):
    first = joined.run()[1]
    before = set(joined.caller.home.glob("runs/*"))
    status, again, err = joined.run()
    assert status == 0, err
    assert {task["state"] for task in again["steps"]} == {"reused"}
    assert [task["run"] for task in again["steps"]] == [task["run"] for task in first["steps"]]
    assert set(joined.caller.home.glob("runs/*")) == before


@pytest.mark.parametrize("change, again", [
    (lambda flow: flow.write("other\n", "in/s2.txt"), ["each[s2]", "upper[s2]", "merge"]),
    (lambda flow: flow.write(PIPELINE.replace("word: hello", "word: bye")),
     [step for step in ALL]),
    (lambda flow: flow.write(PIPELINE.replace("other: 3", "other: 4")), ["merge"]),
    (lambda flow: flow.write(PIPELINE.replace("tr a-z A-Z", "tr a-z B-ZA")),
     ["upper[s1]", "upper[s2]", "upper[s3]", "merge"]),
    (lambda flow: flow.write(PIPELINE.replace("s1, s2, s3", "s3, s1")), ["merge"]),
    # What must not matter.
    (lambda flow: flow.write(PIPELINE.replace("disk: 16M", "disk: 17M")), []),
    (lambda flow: os.utime(flow.dir / "in/s1.txt", (1, 1)), []),
    (lambda flow: flow.write(PIPELINE.replace("steps:", "labels: {a: b}\nname: x\nsteps:")), []),
])
def test_what_changed_is_run_again_and_nothing_else(joined, change, again):
    joined.run()
    change(joined)
    states = joined.states()
    assert [step for step, state in states.items() if state == "ok"] == again, states
    assert set(states.values()) <= {"ok", "reused"}


def test_equal_outputs_end_the_wave(joined):
    """A step that is run again and makes the same has nothing to tell the next one."""
    joined.run()
    joined.write(PIPELINE.replace("echo {{word}} > out/a;", "echo {{word}} >  out/a;"))
    states = joined.states()
    assert [step for step, state in states.items() if state == "ok"] == ["first"]


def test_parameters_of_the_caller(joined):
    joined.run()
    states = joined.states("-p", "other=5")
    assert [step for step, state in states.items() if state == "ok"] == ["merge"]
    status, _, err = joined.run("-p", "othr=5")
    assert status == 2 and "--param othr" in err


def test_why_names_the_component(joined):
    joined.run()
    joined.write("changed\n", "in/s2.txt")
    result = joined.run()[1]
    status, out, err = joined.call("why", result["id"], "each[s2]")
    assert status == 0 and "input data/s2.txt changed" in out, err
    status, out, _ = joined.call("why", result["id"], "each")
    assert status == 0 and out.count("\n") == 3 and out.count("reused from") == 2
    run = next(task["run"] for task in result["steps"] if label(task) == "upper[s2]")
    status, out, _ = joined.call("why", run)
    assert status == 0 and out.startswith(f"upper[s2]: run as {run}: input data/in.txt changed")
    told = [json.loads(line) for line in joined.call("why", "--json", result["id"])[1].splitlines()]
    assert [label(task) for task in told if task["event"] == "started"] == [
        "each[s2]", "upper[s2]", "merge"]
    assert joined.call("why", result["id"], "nothing")[0] == 2
    assert joined.call("why", "none")[0] == 2


def test_why_names_the_package(joined):
    """Which package of a runtime it was, and not only that the runtime changed."""
    prefix = joined.dir / "prefix"

    def package(name, version):
        path = prefix / f"conda-meta/{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"name": name, "version": version, "build": "0"}), encoding="utf-8")

    package("numpy", "1.26")
    package("scipy", "1.0")
    (prefix / "bin").mkdir()
    (prefix / "bin/python").symlink_to("/usr/bin/python3")
    (joined.caller.base / "runtimes.d").mkdir(exist_ok=True)
    (joined.caller.base / "runtimes.d/sc.yaml").write_text(f"name: sc\nkind: conda\nprefix: {prefix}\n", encoding="utf-8")
    joined.write("steps:\n  one: {command: [sh, -c, 'echo x > out/x'], runtime: sc, limits: {disk: 16M}, outputs: [out/x]}\n")
    assert joined.run()[0] == 0
    package("scipy", "1.1")
    package("added", "7")
    status, result, err = joined.run()
    assert status == 0, err
    assert result["steps"][0]["state"] == "ok"
    out = joined.call("why", result["id"])[1]
    assert "runtime sc changed (added 7 0: conda package added, scipy 1.0 0 -> 1.1 0: conda package of another version)" in out, out
    assert joined.states() == {"one": "reused"}


def test_plan_says_what_would_run(joined):
    def plan():
        status, out, err = joined.call("plan", "--json", "p.yaml")
        assert status == 0, err
        return {label(task): task["plan"] for task in json.loads(out)["steps"]}

    before = set(joined.caller.home.glob("runs/*"))
    assert plan() == {step: "run" if step == "first" else "wait" for step in ALL}
    assert set(joined.caller.home.glob("runs/*")) == before, "a plan runs nothing"
    joined.run()
    assert set(plan().values()) == {"reuse"}
    joined.write("changed\n", "in/s2.txt")
    assert plan() == {step: {"each[s2]": "run", "upper[s2]": "wait", "merge": "wait"}.get(
        step, "reuse") for step in ALL}
    status, out, _ = joined.call("plan", "p.yaml")
    assert status == 0 and "run    each[s2]: input data/s2.txt changed" in out


def test_force(joined):
    joined.run()
    states = joined.states("--force", "upper")
    assert [step for step, state in states.items() if state == "ok"] == [
        "upper[s1]", "upper[s2]", "upper[s3]"]
    assert joined.run("--force", "uper")[0] == 2


def test_damaged_outputs_are_made_again(joined):
    """A byte that flipped in the store, with its times put back, is no result."""
    result = joined.run()[1]
    run = next(task["run"] for task in result["steps"] if label(task) == "each[s1]")
    path = joined.caller.run_dir(run) / "outputs/out/s1.joined"
    times = path.stat()
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    status, again, err = joined.run()
    assert status == 0, err
    states = {label(task): task["state"] for task in again["steps"]}
    assert states["each[s1]"] == "ok" and states["each[s2]"] == "reused", states
    assert states["upper[s1]"] == "reused", "what came of the whole file still holds"
    out = joined.call("why", again["id"], "each[s1]")[1]
    assert "its result can't be used" in out and "s1.joined" in out


def test_a_failure_stops_what_needs_it(flow):
    flow.write(LIMITS + """
steps:
  good: {command: "echo 1 > out/x"}
  bad: {needs: [good], command: "sleep 1; echo half > out/x; exit 3"}  # the one beside it has begun by then
  after: {inputs: [{step: bad}], command: "true"}
  apart: {needs: [good], command: "sleep 4; echo 2 > out/y"}
  later: {needs: [apart], command: "true"}
""")
    status, result, _ = flow.run("-j", "2")
    states = {label(task): task["state"] for task in result["steps"]}
    assert status == 3 and result["state"] == "failed" and result["cause"] == "exit"
    assert states == {"good": "ok", "bad": "failed", "after": "skipped", "apart": "ok",
                      "later": "skipped"}
    status, result, _ = flow.run("--keep-going")
    states = {label(task): task["state"] for task in result["steps"]}
    assert status == 3 and states == {"good": "reused", "bad": "failed", "after": "skipped",
                                      "apart": "reused", "later": "ok"}


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


def test_retries_by_cause(rooted):
    """More memory after oom, up to the cap; another cause is not tried again."""
    rooted.write(f"""
steps:
  hungry:
    command: [/usr/bin/python3, -c, "x = b'x' * (100 << 20); open('out/n', 'w').write(str(len(x)))"]
    limits: {{memory: 40M, disk: 16M}}
    retries: {{oom: {{times: 5, factor: 2, max: 1G}}}}
""")
    status, result, err = rooted.run()
    assert status == 0, err
    task = result["steps"][0]
    assert task["state"] == "ok" and len(task["attempts"]) == 3
    causes, limits = [], []
    for run in task["attempts"]:
        folder = rooted.caller.run_dir(run)
        causes.append(json.loads((folder / "verdict.json").read_text())["cause"])
        limits.append(json.loads((folder / "analysis.json").read_text())["limits"]["memory"]["raw"])
    assert causes == ["oom", "oom", "ok"] and limits == [40 << 20, 80 << 20, 160 << 20]
    why = rooted.call("why", result["id"])[1]
    assert "attempt 1 ended: oom, now with memory 80M" in why and "memory 160M" in why
    rooted.write(f"""
steps:
  hungry:
    command: [/usr/bin/python3, -c, "x = b'x' * (200 << 20)"]
    limits: {{memory: 40M, disk: 16M}}
    retries: {{oom: {{times: 5, factor: 2, max: 60M}}, deadline: 3}}
  odd: {{command: "exit 4", retries: {{exit: 2, oom: 1}}}}
""")
    status, result, _ = rooted.run("--keep-going")
    assert [len(task["attempts"]) for task in result["steps"]] == [2, 3]
    assert [task["cause"] for task in result["steps"]] == ["oom", "exit"]


def test_side_by_side_within_the_budget(rooted):
    """Two that would need more memory together than all runs have are run one after the other."""
    def overlap(memory, seconds):
        rooted.write(f"""
limits: {{memory: {memory}, disk: 16M, pids: 16}}
steps:
  a: {{command: "sleep {seconds}; echo {memory}", cache: off}}
  b: {{command: "sleep {seconds}; echo {memory}", cache: off}}
""")
        status, result, err = rooted.run("-j", "2")
        assert status == 0, err
        spans = []
        for task in result["steps"]:
            events = [json.loads(line) for line in (
                rooted.caller.run_dir(task["run"]) / "events.jsonl").read_text().splitlines()]
            spans.append([event["time"] for event in events
                          if event["event"] in ("started", "verdict")])
        spans.sort()
        return spans[1][0] < spans[0][1]

    rooted.caller.configure("aggregate: {memory: 300M}\n")
    try:
        assert overlap("100M", 3), "they can be run at once"
        assert not overlap("200M", 0.4)
    finally:
        rooted.caller.configure()


def test_memory_grows_by_retries_to_what_the_host_gives(rooted):
    """Not beyond what all runs together may use, which would be refused."""
    rooted.write(LIMITS + """
steps:
  big:
    command: [python3, -c, "x = bytearray(400 << 20)"]
    limits: {memory: 40M}
    retries: {oom: {times: 5, factor: 2}}
""")
    rooted.caller.configure("aggregate: {memory: 100M}\n")
    try:
        status, result, err = rooted.run()
    finally:
        rooted.caller.configure()
    assert status != 0 and result and [task["cause"] for task in result["steps"]] == ["oom"], err
    limits = [json.loads((rooted.caller.run_dir(run) / "analysis.json").read_text())["limits"]["memory"]["raw"]
              for run in result["steps"][0]["attempts"]]
    assert limits == [40 << 20, 80 << 20, 100 << 20]


def test_an_input_that_changes_meanwhile_is_not_reused(rooted):
    path = rooted.write("one\n", "in/x.txt")
    text = LIMITS + """
steps:
  slow: {inputs: [in/x.txt], command: "echo go; while grep -q one data/x.txt; do sleep 0.05; done; cat data/x.txt > out/x"}
"""
    rooted.write(text)
    with rooted.caller.popen(rooted.caller.binary, "run", "--json", "p.yaml", cwd=rooted.dir,
                             stdout=subprocess.PIPE) as process:
        assert lib.wait_until(lambda: any(
            b"go" in log.read_bytes() for log in rooted.caller.home.glob("runs/*-slow-1/stdout.log")
            if process.poll() is None))
        path.write_text("two\n", encoding="utf-8")
        result = json.loads(process.stdout.read())
    assert result["state"] == "failed" and result["cause"] == "input-changed"
    status, result, _ = rooted.run()
    assert status == 0 and result["steps"][0]["state"] == "ok"
    assert rooted.output(result, "slow", "out/x") == "two\n"


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


@pytest.mark.parametrize("text, place, words", [
    ("steps:\n  a: {command: 'true', inputs: [{step: b}]}\n  b: {command: 'true', needs: [a]}\n",
     "2:3", ["a needs b, b needs a"]),
    ("steps:\n  a:\n    command: cat data/x > out/y\n", "3:14", ["data/x", "inputs"]),
    ("steps:\n  a: {command: 'true', outputs: [out/y]}\n  b:\n    command: 'true'\n"
     "    inputs: [{step: a, path: out/z}]\n", "5:14", ["makes no 'out/z'", "out/y"]),
    ("steps:\n  a:\n    runtime: nix\n    command: 'true'\n", "3:14", ["no runtime 'nix'"]),
    ("runtime: nix\nsteps:\n  a: {command: 'true'}\n", "1:10", ["step a: ", "no runtime 'nix'"]),
    ("steps:\n  aaa: {command: 'true'}\n  b: {command: 'true', needs: [aab]}\n", "3:32",
     ["no step 'aab'", "'aaa'"]),
    ("steps:\n  a:\n    command: echo {{x}}\n", "3:14", ["{{x}}"]),
    ("steps:\n  a:\n    command: 'true'\n    retry: 3\n", "4:5", ["retry", "retries"]),
    ("steps:\n  a: {command: 'true', retries: {oomm: 3}}\n", "2:34", ["oomm", "deadline"]),
    ("steps:\n  a: {command: 'true', inputs: [nofile]}\n", "2:33", ["nofile"]),
    ("steps:\n  a: {command: 'true', scatter: {x: []}}\n", "2:37", ["empty"]),
    ("steps:\n  a: {command: 'true', scatter: {x: [p, p]}}\n", "2:33", ["two shards"]),
    ("steps:\n  a: {command: 'true', scatter: {x: {glob: '*.none'}}}\n", "2:44", ["no file matches"]),
    ("steps:\n  a: {command: 'true', scatter: {x: {range: [1, 999999]}}}\n", "2:45", ["more than"]),
    ("steps:\n  a: {command: 'true', scatter: {x: {of: b}}}\n  b: {command: 'true'}\n", "2:42",
     ["no shards"]),
    ("steps:\n  a/b: {command: 'true'}\n", "2:3", ["name of a step"]),
    ("steps: [a]\n", "1:8", ["map of steps"]),
    ("command: x\nsteps:\n  a: {command: 'true'}\n", "1:1", ["command"]),
    ("steps:\n  a: {command: 'true', limits: {memory: 3Q}}\n", "2:41", ["3Q"]),
    ("steps:\n  a: {command: 'true', cache: maybe}\n", "2:31", ["off, on"]),
    ("steps:\n  a: {command: 'true', parameters: [none]}\n", "2:37", ["no parameter 'none'"]),
    ("steps:\n  a: {command: 'true', scatter: {s: [p, q]}}\n"
     "  b:\n    inputs: [{step: a, path: out/x}]\n    command: cat data/x\n", "5:14",
     ["data/x", "data/a/SHARD/out/x"]),
    ("steps:\n  a: {command: 'true', parameters: none}\n", "2:36", ["map", "[NAME, ...]"]),
    ("steps:\n  a: {command: 'true', inputs: file}\n", "2:32", ["list", "[ENTRY, ...]"]),
    ("steps:\n\ta: {command: 'true'}\n", "2:1", ["spaces, not with tabs"]),
    ("steps:\n  a:\n    command: {{x}}\n", "3:15", ["begins with {{", "quotes"]),
    ("steps:\n  a:\n    command: 'true'\n    outputs: [out/{{x}}]\n", "4:19", ["{{", "quotes"]),
    ("steps:\n  a:\n  command: 'true'\n", "2:5", ["indented below its name"]),
])
def test_mistakes_are_found_before_anything_runs(rooted, text, place, words):
    err = rooted.refused(text)
    assert err.startswith(f"p.yaml:{place}: "), err
    assert all(word in err for word in words), err


def test_a_script_that_nothing_can_run_is_found_before_anything_runs(rooted):
    script = rooted.write("#!/bin/sh\necho hi > out/x\n", "script")
    text = "steps:\n  first: {command: 'true'}\n  a: {code: script}\n"
    err = rooted.refused(text)
    assert err.startswith("p.yaml:3:13: step a: ") and "chmod +x" in err, err
    script.chmod(0o755)
    rooted.write(text)
    assert set(rooted.states().values()) == {"ok"}


def test_the_last_words_of_a_failure_are_shown(rooted):
    """As words: a step has no say over the terminal."""
    rooted.write(LIMITS + r"""
steps:
  a: {command: "echo one >&2; echo two >&2; printf 'thr\\033[31mee\\nfour\\n\\n' >&2; exit 3"}
""")
    status, _, err = rooted.call("run", "p.yaml")
    words = [line for line in err.splitlines() if line.startswith("cupel: a: | ")]
    assert status == 3 and [line[len("cupel: a: | "):] for line in words][::2] == ["two", "four"]
    assert len(words) == 3 and "\033" not in err and "ee" in words[1], err
    assert "`cupel resume " in err and "`cupel run p.yaml` after an edit" in err


def test_the_live_line_does_not_wrap(rooted):
    """What has wrapped can't be taken back: each line stays on the screen."""
    name = "n" * 32
    rooted.write(LIMITS + f"steps:\n  {name}:\n    scatter: {{x: [{'a' * 40}, {'b' * 40}]}}\n"
                          "    command: 'sleep 3'\n")
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    with rooted.caller.popen(rooted.caller.binary, "run", "-j", "2", "p.yaml", cwd=rooted.dir,
                             env={"TERM": "xterm"}, stdout=slave, stderr=slave) as process:
        os.close(slave)
        text = read_all(master)
    assert process.returncode == 0, text
    live = re.findall("\r\033\\[K([^\r\n]+ done, [^\r\n]*)", text)
    assert any(f"2 running: {'n' * 8}" in line for line in live), text
    assert max(len(line) for line in live) < 60
    assert text.rstrip().count("\033[K") > len(live), "it is wiped off at the end"


def test_options_that_are_a_steps_own(rooted):
    for option in (["-m", "1G"], ["-d", "/etc/hostname"], ["-e", "A=b"], ["--timings"]):
        assert "pipeline" in rooted.refused("steps:\n  a: {command: 'true'}\n", *option)


def test_braces_that_are_none(rooted):
    rooted.write(LIMITS + r"""
parameters: {n: 2, path: dir/file.tar.gz}
steps:
  a:
    command: |
      printf '%s\n' '{{n}}' '\{{n}}' '{{ path.name }}' '{{path.stem}}' '${x}' '{{ }}' '{{1}}' > out/x
""")
    status, result, err = rooted.run()
    assert status == 0, err
    assert rooted.output(result, "a", "out/x") == (
        "2\n{{n}}\nfile.tar.gz\nfile\n${x}\n{{ }}\n{{1}}\n")


def test_scatter_over_files_and_combinations(rooted):
    for name in ("b", "a"):
        rooted.write(name + "\n", f"in/{name}.txt")
    rooted.write(LIMITS + """
parameters: {ks: [1, 2]}
steps:
  count:
    scatter: {file: {glob: "in/*.txt"}, k: {parameter: ks}}
    inputs: ["{{file}}"]
    command: "cat data/{{file.name}} > out/x; echo {{k}} >> out/x"
  all:
    inputs: [{step: count}]
    command: "cd data/count; for d in *; do echo $d $(cat $d/out/x); done > $CUPEL_OUT_DIR/all"
""")
    status, result, err = rooted.run()
    assert status == 0, err
    assert rooted.output(result, "all", "out/all") == (
        "a.txt,1 a 1\na.txt,2 a 2\nb.txt,1 b 1\nb.txt,2 b 2\n")


def test_a_step_can_be_run_again_by_itself(joined):
    """What a step was shown is what other runs made: its record says where that is."""
    result = joined.run()[1]
    run = next(task["run"] for task in result["steps"] if label(task) == "merge")
    status, out, err = joined.call("rerun", "--json", "--verify", run)
    assert status == 0, err
    assert json.loads(out)["equal"]


def test_two_at_once_do_not_disturb_each_other(rooted):
    rooted.write(LIMITS + """
steps:
  a: {scatter: {i: {range: [1, 6]}}, command: "echo {{i}} > out/x"}
  b: {inputs: [{step: a}], command: "cat data/a/*/out/x > out/y"}
""")
    two = [rooted.caller.popen(rooted.caller.binary, "run", "--json", "p.yaml", cwd=rooted.dir,
                               stdout=subprocess.PIPE) for _ in range(2)]
    results = [json.loads(process.communicate(timeout=lib.RUN_LIMIT_S)[0]) for process in two]
    assert [process.returncode for process in two] == [0, 0]
    assert [rooted.output(result, "b", "out/y") for result in results] == ["1\n2\n3\n4\n5\n6\n"] * 2
