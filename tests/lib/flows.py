"""Pipelines for tests: a directory of a caller's with a pipeline in it, run, resumed and looked at."""

import json
import subprocess

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

    def begin(self, *words, **options):
        """The same without waiting: (process, id). The first attempt at a step is the run ID-STEP-1."""
        pipeline = self.caller.new_id()
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, **options}
        process = self.caller.popen(self.caller.binary, "run", "--json", "--id", pipeline, *words, "p.yaml", cwd=self.dir, **options)
        return process, pipeline

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


def lines_of(flow, pipeline):
    """What its record tells of its steps."""
    log = flow.caller.home / "pipelines" / pipeline / "steps.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines() if line]


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


def states_of(result):
    return {label(task): task["state"] for task in result["steps"]}
