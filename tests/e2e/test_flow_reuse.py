"""Pipelines reuse results by what they depend on: what changed is run again, what did not is not, and `why` and `plan` say which."""

import json
import os
import subprocess

import pytest

import cupel as lib
from flows import ALL, LIMITS, PIPELINE, flow, joined, label, lines_of, rooted, states_of  # noqa: F401  (fixtures)


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


def test_a_step_can_be_run_again_by_itself(joined):
    """What a step was shown is what other runs made: its record says where that is."""
    result = joined.run()[1]
    run = next(task["run"] for task in result["steps"] if label(task) == "merge")
    status, out, err = joined.call("rerun", "--json", "--verify", run)
    assert status == 0, err
    assert json.loads(out)["equal"]


def test_the_same_thing_is_not_computed_twice_at_once(rooted):
    rooted.write(LIMITS + """
steps:
  a: {command: "sleep 0.3; cat /proc/sys/kernel/random/uuid > out/x", checkpoint: saved}
  b: {command: "sleep 0.3; cat /proc/sys/kernel/random/uuid > out/x", checkpoint: saved}
  c: {command: "sleep 0.3; echo c > out/x"}
""")
    status, result, err = rooted.run("-j", "3")
    assert status == 0, err
    assert states_of(result) == {"a": "ok", "b": "reused", "c": "ok"}
    assert rooted.output(result, "a", "out/x") == rooted.output(result, "b", "out/x")
    forced = rooted.run("-j", "3", "--force", "a", "--force", "b")
    assert forced[0] == 0, "one after the other, since they have one checkpoint: " + forced[2]
    assert states_of(forced[1]) == {"a": "ok", "b": "ok", "c": "reused"}


def test_what_must_run_starts_before_all_else_is_looked_at(rooted):
    text = LIMITS + """
steps:
  a: {command: "echo %d > out/x"}
  b: {scatter: {i: {range: [1, 5]}}, command: "echo {{i}} > out/x"}
"""
    rooted.write(text % 1)
    assert rooted.run()[0] == 0
    rooted.write(text % 2)
    status, result, err = rooted.run()
    assert status == 0 and result["counts"]["reused"] == 5, err
    first = lines_of(rooted, result["id"])[0]
    assert (first["step"], first["event"]) == ("a", "started")


def test_a_result_that_is_not_to_be_reused_is_never(rooted):
    text = LIMITS + "steps:\n  a: {command: 'echo 1 > out/x', cache: %s}\n"
    rooted.write(text % "off")
    assert [rooted.states() for _ in range(2)] == [{"a": "ok"}] * 2
    rooted.write(text % "on")
    assert [rooted.states() for _ in range(2)] == [{"a": "ok"}, {"a": "reused"}]


def test_outputs_of_any_name_are_inputs_and_reused(rooted):
    """Spaces, quotes, what is no UTF-8: shown under their own bytes, and found again."""
    rooted.write(r"""for n in 'a b' "q\"u'o" '$(x);' "$(printf '\377x')" ü; do echo 1 > "out/$n"; done
""", "odd.sh")
    rooted.write(LIMITS + """
steps:
  a: {code: odd.sh}
  each: {inputs: [{step: a, path: "out/*"}], command: "ls data/a/out | od -An -tx1 > out/x"}
  whole: {inputs: [{step: a}], command: "ls data/a/out | od -An -tx1 > out/x"}
""")
    status, result, err = rooted.run()
    assert status == 0, err
    names = bytes.fromhex(rooted.output(result, "each", "out/x")).splitlines()
    assert sorted(names) == sorted([b"a b", b"q\"u'o", b"$(x);", b"\xffx", "ü".encode()])
    assert rooted.output(result, "whole", "out/x") == rooted.output(result, "each", "out/x")
    assert set(rooted.states().values()) == {"reused"}


def test_a_result_that_could_not_be_kept_is_told(rooted):
    rooted.write(LIMITS + 'steps: {only: {command: "echo 1 > out/x"}}\n')
    keys = rooted.caller.home / "keys"
    aside = keys.with_name("keys-aside")
    if keys.exists():
        keys.rename(aside)
    keys.write_text("in the way")
    try:
        status, result, err = rooted.run()
        assert status == 0 and states_of(result) == {"only": "ok"}, err
    finally:
        keys.unlink()
        if aside.exists():
            aside.rename(keys)
    status, result, err = rooted.run()
    assert status == 0 and states_of(result) == {"only": "ok"}, err
    told = rooted.call("why", result["id"], "only")[1]
    assert "its result could not be kept: " in told, told
