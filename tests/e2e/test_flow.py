"""Pipelines: steps get what others made, run side by side within the budget, are tried again by cause, and say how they end."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios

import cupel as lib
from flows import ALL, LIMITS, flow, joined, label, lines_of, rooted  # noqa: F401  (fixtures)


def read_all(master, awaited, then):
    """What was written to the other end until it was closed; `then` is called as soon as it has what is awaited."""
    text = b""
    try:
        while part := os.read(master, 4096):
            text += part
            if awaited and awaited in text:
                awaited = None
                then()
    except OSError:
        pass
    os.close(master)
    return text.decode()


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


def test_a_failure_stops_what_needs_it(flow):
    flow.write(LIMITS + f"""
steps:
  good: {{command: "echo 1 > out/x"}}
  bad: {{needs: [good], command: "{lib.WAITS}; echo half > out/x; exit 3"}}
  after: {{inputs: [{{step: bad}}], command: "true"}}
  apart: {{needs: [good], command: "{lib.WAITS}; echo 2 > out/y"}}
  later: {{needs: [apart], command: "true"}}
""")
    process, pipeline = flow.begin("-j", "2")
    with lib.going_on(process):
        assert lib.wait_until(lambda: flow.caller.has_started(f"{pipeline}-apart-1")), "it runs beside the one that fails"
        flow.caller.let_go(f"{pipeline}-bad-1")
        assert lib.wait_until(lambda: ("bad", "ended") in [(line["step"], line["event"]) for line in lines_of(flow, pipeline)])
        flow.caller.let_go(f"{pipeline}-apart-1")
        result = json.loads(process.stdout.read())
    status = process.returncode
    states = {label(task): task["state"] for task in result["steps"]}
    assert status == 3 and result["state"] == "failed" and result["cause"] == "exit"
    assert states == {"good": "ok", "bad": "failed", "after": "skipped", "apart": "ok",
                      "later": "skipped"}
    process, pipeline = flow.begin("--keep-going")
    with lib.going_on(process):
        flow.caller.let_go(f"{pipeline}-bad-1")
        result = json.loads(process.stdout.read())
    states = {label(task): task["state"] for task in result["steps"]}
    assert process.returncode == 3 and states == {"good": "reused", "bad": "failed", "after": "skipped",
                                      "apart": "reused", "later": "ok"}


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
    def write(memory, command):
        rooted.write(f"""
limits: {{memory: {memory}, disk: 16M, pids: 16}}
steps:
  a: {{command: "{command}", cache: off}}
  b: {{command: "{command}", cache: off}}
""")

    def are_at_once():
        write("100M", lib.WAITS)
        process, pipeline = rooted.begin("-j", "2")
        both = [f"{pipeline}-{step}-1" for step in ("a", "b")]
        with lib.going_on(process):
            at_once = lib.wait_until(lambda: all(map(rooted.caller.has_started, both)))
            for run in both if at_once else ():
                rooted.caller.let_go(run)
            process.communicate(timeout=lib.RUN_LIMIT_S)
        return at_once and process.returncode == 0

    def overlap():
        write("200M", "sleep 0.4")
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
        assert are_at_once(), "the control: less memory"
        assert not overlap()
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
    name, pipeline = "n" * 32, rooted.caller.new_id()
    rooted.write(LIMITS + f"steps:\n  {name}:\n    scatter: {{x: [{'a' * 40}, {'b' * 40}]}}\n"
                          f"    command: '{lib.WAITS}'\n")

    def let_go():
        def runs():
            return [run.name for run in rooted.caller.home.glob(f"runs/{pipeline}-*")]

        assert lib.wait_until(lambda: len(runs()) == 2), runs()
        for run in runs():
            rooted.caller.let_go(run)

    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    process = rooted.caller.popen(rooted.caller.binary, "run", "-j", "2", "--id", pipeline, "p.yaml", cwd=rooted.dir,
                                  env={"TERM": "xterm"}, stdout=slave, stderr=slave)
    with lib.going_on(process):
        os.close(slave)
        text = read_all(master, b"2 running: nnnnnnnn", let_go)
    assert process.returncode == 0, text
    live = re.findall("\r\033\\[K([^\r\n]+ done, [^\r\n]*)", text)
    assert any(f"2 running: {'n' * 8}" in line for line in live), text
    assert max(len(line) for line in live) < 60
    assert text.rstrip().count("\033[K") > len(live), "it is wiped off at the end"


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


def test_parts_of_empty_values(rooted):
    rooted.write(LIMITS + """
parameters: {empty: "", hidden: .x.y}
steps:
  a: {command: "echo '{{empty.stem}}' '{{empty.name}}' '{{hidden.stem}}' > out/x"}
""")
    assert rooted.output(rooted.run()[1], "a", "out/x") == "  .x\n"


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
