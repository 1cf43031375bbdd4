"""Pipelines in odd places: ids that look alike, records that lost something, the same thing twice, and what is too much."""

import json
import os
import pathlib
import signal
import subprocess

import pytest

import cupel as lib
from test_flow import LIMITS, flow, label, rooted  # noqa: F401  (fixtures)


def lines_of(rooted, pipeline):
    log = rooted.caller.home / "pipelines" / pipeline / "steps.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines() if line]


def states_of(result):
    return {label(task): task["state"] for task in result["steps"]}


def test_ids_that_look_alike(flow):
    """Shard 1 of a, and the step a-1."""
    flow.write(LIMITS + """
steps:
  a: {scatter: {x: [p, q]}, command: "echo {{x}} > out/x"}
  a-1: {command: "echo r > out/x"}
""")
    for words in (("-j", "3"), ("-j", "1", "--force", "a", "--force", "a-1")):
        status, result, err = flow.run(*words)
        assert status == 0, err
        assert [flow.output(result, step, "out/x") for step in ("a[p]", "a[q]", "a-1")] == [
            "p\n", "q\n", "r\n"]
        assert len({task["run"] for task in result["steps"]}) == 3


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
    record = picky(rooted, "grep -q go data/go.txt && sleep 3 && echo 2 > out/y")
    assert (record / "result.json").exists()
    with rooted.caller.popen(rooted.caller.binary, "resume", "-q", record.name, cwd=rooted.dir,
                             stderr=subprocess.DEVNULL) as process:
        try:
            run = rooted.caller.home / "runs" / f"{record.name}-picky-2"
            assert lib.wait_until(lambda: (run / "analysis.json").exists())
            process.send_signal(signal.SIGSTOP)
            assert lib.wait_until(lambda: (run / "verdict.json").exists())
            assert not (record / "result.json").exists(), "it is not over while it goes on"
        finally:
            process.kill()
    assert json.loads((run / "verdict.json").read_text())["cause"] == "ok"
    assert rooted.states() == {"good": "reused", "picky": "reused"}


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


def test_names_of_inputs_of_every_shard(rooted):
    rooted.write("1\n", "in/s1")
    rooted.write("2\n", "in/s2")
    err = rooted.refused("""
steps:
  a: {command: "echo made > out/s2"}
  b: {scatter: {x: {glob: "in/*"}}, inputs: ["{{x}}", {step: a, path: out/s2}], command: "true"}
""")
    assert err.startswith("p.yaml:4:55: ") and "'s2' is taken" in err


@pytest.mark.parametrize("scatter", ["range: [1, 50000]", "of: s{before}"])
def test_too_many_shards_take_no_memory(rooted, scatter):
    rooted.write("steps:\n  s0: {command: 'true', scatter: {x: {range: [1, 50000]}}}\n" + "".join(
        f"  s{i}: {{command: 'true', scatter: {{x: {{{scatter.format(before=i - 1)}}}}}}}\n"
        for i in range(1, 50)), tag=False)
    # By a process between: what a child has used counts that of its parent before the exec.
    between = "import resource, subprocess, sys; r = subprocess.run(sys.argv[1:]); print(r.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    status, out, err = rooted.call("plan", "p.yaml")
    assert status == 2 and "more than 50000 runs" in err
    _, out, _ = rooted.caller.call("/usr/bin/python3", "-c", between, rooted.caller.binary, "plan", "p.yaml", cwd=rooted.dir)
    status, kib = map(int, out.split())
    assert status == 2 and kib < 400 << 10, f"{kib} KiB"


def test_parts_of_empty_values(rooted):
    rooted.write(LIMITS + """
parameters: {empty: "", hidden: .x.y}
steps:
  a: {command: "echo '{{empty.stem}}' '{{empty.name}}' '{{hidden.stem}}' > out/x"}
""")
    assert rooted.output(rooted.run()[1], "a", "out/x") == "  .x\n"


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


def test_texts_of_many_shards_are_bounded(rooted):
    err = rooted.refused("steps:\n  a: {scatter: {x: {range: [1, 9999]}}, command: 'echo {{x}} "
                         + "y" * 100000 + "'}\n")
    assert err.startswith("p.yaml:2:3: ") and "256 MiB" in err
    assert rooted.call("plan", rooted.write("steps:\n  a: {scatter: {x: {range: [1, 99]}}, "
                                            "command: 'echo {{x}} " + "y" * 100000 + "'}\n",
                                            "few.yaml"))[0] == 0


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


def test_why_tells_of_a_step_that_could_not_start(rooted):
    rooted.write(LIMITS + """
steps:
  first: {command: "echo 1 > out/x"}
  second: {inputs: [{step: first, path: out/none}], command: "true"}
""")
    status, result, _ = rooted.run()
    assert status != 0
    told = rooted.call("why", result["id"], "second")[1]
    assert told.startswith("second: not run: ") and "out/none" in told, told


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
